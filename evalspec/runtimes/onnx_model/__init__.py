"""Insides of an ONNX file, and what onnxruntime does with it."""

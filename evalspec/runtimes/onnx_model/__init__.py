"""What is inside an ONNX file, and what onnxruntime does with it."""

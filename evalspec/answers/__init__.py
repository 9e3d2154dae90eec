"""Answers of a model to every row, beside the truth: arrays by task, files between processes."""

"""Logs of harnesses: what their samples say a model answered, row by row; their scores are not read."""

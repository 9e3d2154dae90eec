"""What a model said of every row, and what is true of it: arrays by task, files between processes."""

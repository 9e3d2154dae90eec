"""What the checks of data share: comparable cells, categories, derived columns, names of rows."""

"""Tables for the checks of data: comparable cells, categories, derived columns, names of rows."""

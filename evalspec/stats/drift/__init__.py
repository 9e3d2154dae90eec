"""How far two samples of rows are apart, and where."""

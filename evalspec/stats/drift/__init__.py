"""Distances between two samples of rows: how far they are apart, and where."""

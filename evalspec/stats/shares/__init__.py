"""Shares of rows, and differences and ratios of them."""

"""Screens of the data: each a file with a function `look`."""

"""Screens of the model: each a file with a function `look`."""

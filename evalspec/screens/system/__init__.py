"""Screens of the system: each a file with a function `look`."""

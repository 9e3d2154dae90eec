"""Checks of the data that a model was judged on."""

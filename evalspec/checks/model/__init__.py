"""Checks of the model itself."""

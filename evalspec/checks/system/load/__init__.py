"""The check `load`."""

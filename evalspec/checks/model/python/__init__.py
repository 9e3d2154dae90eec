"""The check `python`."""

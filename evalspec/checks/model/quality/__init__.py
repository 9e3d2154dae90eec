"""The check `quality`."""

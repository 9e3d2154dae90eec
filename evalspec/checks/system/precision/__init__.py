"""The check `precision`."""

"""The check `coverage`."""

"""The check `contention`."""

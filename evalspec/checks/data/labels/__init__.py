"""The check `labels`."""

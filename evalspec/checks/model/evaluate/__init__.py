"""The check `evaluate`."""

"""The check `stages`."""

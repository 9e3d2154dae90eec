"""The check `energy`."""

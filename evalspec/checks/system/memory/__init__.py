"""The check `memory`."""

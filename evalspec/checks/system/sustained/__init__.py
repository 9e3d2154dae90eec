"""The check `sustained`."""

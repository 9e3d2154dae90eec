"""The check `compression`."""

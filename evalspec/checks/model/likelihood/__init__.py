"""The check `likelihood`."""

"""The check `recovery`."""

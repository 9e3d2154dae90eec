"""The check `shift`."""

"""The check `integrity`."""

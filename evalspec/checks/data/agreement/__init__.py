"""The check `agreement`."""

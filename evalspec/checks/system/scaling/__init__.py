"""The check `scaling`."""

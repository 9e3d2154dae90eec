"""The check `recorded_load`."""

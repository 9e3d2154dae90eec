"""The check `cold_start`."""

"""The check `robustness`."""

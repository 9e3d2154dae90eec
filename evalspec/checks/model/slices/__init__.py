"""The check `slices`."""

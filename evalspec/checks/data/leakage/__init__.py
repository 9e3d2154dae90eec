"""The check `leakage`."""

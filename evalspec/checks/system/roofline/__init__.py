"""The check `roofline`."""

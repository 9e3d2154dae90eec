"""The check `latency`."""

"""The check `throughput`."""

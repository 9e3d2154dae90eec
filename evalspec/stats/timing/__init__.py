"""Latencies, rates and courses of queries and processes that depend on each other."""

"""Lineage of numbers and records: comparability, settings, changes of a spec, history."""

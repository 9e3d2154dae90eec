"""Ranked lists against relevant items."""

"""Screens of timings."""

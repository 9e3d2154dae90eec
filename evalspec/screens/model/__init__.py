"""Screens of answers."""

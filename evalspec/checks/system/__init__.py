"""Checks of the system that serves a model."""

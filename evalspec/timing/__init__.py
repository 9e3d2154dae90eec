"""Timing for the checks of systems: samples, budgets, surroundings, drift, invalidation."""

"""Calibration errors of a population, their bounds, and maps that mend them."""

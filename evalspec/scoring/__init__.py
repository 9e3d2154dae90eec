"""Scoring for the checks of models: metrics by task, scored rows, slices."""

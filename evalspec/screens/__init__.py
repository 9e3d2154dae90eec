"""Screens: what looks wrong though no requirement asks about it; a file of `data`, `model` or `system` each."""

"""Kinds of training log, one file each: the runs of a recipe, as rows of evaluations."""

"""Answers of a model to a large dataset, part by part: each in whatever process, on disk as soon as it is whole."""

"""Masks of pictures: counts, overlap, what the report shows."""

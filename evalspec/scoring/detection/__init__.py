"""Boxes in pictures: matching, average precision, intervals."""

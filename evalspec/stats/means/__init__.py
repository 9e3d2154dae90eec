"""Means of bounded, skewed and paired numbers; areas under curves."""

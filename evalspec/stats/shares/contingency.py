"""Association of two columns of categories."""

from __future__ import annotations

import math

import numpy as np

from evalspec.stats.types import FloatArray, IntArray


def association(table: IntArray | FloatArray) -> float | None:
    """Cramer's V of two columns of categories, corrected for bias: it stays near 0 where they are independent.

    Args:
        table: shape (r, c), rows of the data in each combination.

    Returns:
        0..1; None where fewer than two rows or two columns of the table hold anything.

    References:
        Bergsma (2013), A bias-correction for Cramer's V and Tschuprow's T, J. Korean Statistical Society 42.
    """
    counts = np.asarray(table, dtype=np.float64)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    total = float(counts.sum())
    if min(counts.shape) < 2 or total < 2:
        return None
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    r, c = counts.shape
    squared = max(0.0, chi_squared / total - (r - 1) * (c - 1) / (total - 1))
    smaller = min(size - (size - 1) ** 2 / (total - 1) for size in (r, c)) - 1.0
    return min(1.0, math.sqrt(squared / smaller)) if smaller > 0 else None

"""Ranks from 1 on, where equal values share the middle of theirs: `scipy.stats.rankdata` without its long import."""

from __future__ import annotations

import numpy as np

from evalspec.stats.types import FloatArray


def midranks(values: FloatArray) -> FloatArray:
    """Ranks of finite values.

    Args:
        values: shape (n,).

    Returns:
        shape (n,), from 1 to n.
    """
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middles: FloatArray = ends - (counts - 1) / 2.0
    return middles[codes]

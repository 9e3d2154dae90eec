"""Distances by chance: those of samples whose rows were shuffled between the two sides."""

from __future__ import annotations

import math

import numpy as np

from evalspec.stats.types import BoolArray, FloatArray, IntArray

EXACT_ROWS = 2000
"""Rows of both sides together beyond which the permutation distribution is replaced by its limit."""
_CELLS = 1000
_CHUNK = 4_000_000
_MOST_PERMUTED = 10**9
"""Rows from which on numpy draws no permutation."""


def variation_null(pooled: IntArray, n: int, m: int, rng: np.random.Generator, count: int) -> FloatArray:
    """Total variation of permuted samples; of very many rows that of the normal deviations that they tend to."""
    null = np.empty(count)
    step = max(1, _CHUNK // len(pooled))
    shares = pooled / (n + m)
    for start in range(0, count, step):
        size = min(step, count - start)
        if n + m < _MOST_PERMUTED:
            draws = rng.multivariate_hypergeometric(pooled, n, size=size, method="marginals")
            apart = draws / n - (pooled - draws) / m
        else:
            normal = rng.standard_normal((size, len(pooled))) * np.sqrt(shares)
            apart = (normal - normal.sum(axis=1, keepdims=True) * shares) * math.sqrt(1.0 / n + 1.0 / m)
        null[start : start + size] = np.abs(apart).sum(axis=1) / 2.0
    return null


def heights(from_x: BoolArray, n: int, m: int) -> FloatArray:
    """Distance of the distribution functions over each gap, for each labelling of the sorted pool, shape (B, gaps)."""
    first = np.cumsum(from_x[:, :-1], axis=1, dtype=np.float32)
    second = np.arange(1, n + m, dtype=np.float32) - first
    return np.abs(first / n - second / m).astype(np.float64)


def wasserstein_null(gaps: FloatArray, n: int, m: int, rng: np.random.Generator, count: int) -> FloatArray:
    """Areas of permuted samples; beyond 2,000 rows those of the Brownian bridge that permutations tend to."""
    total = n + m
    if total > EXACT_ROWS:
        return bridge_null(np.arange(1.0, total), gaps, n, m, rng, count)
    null = np.empty(count)
    step = max(1, _CHUNK // total)
    labels = np.arange(total) < n
    for start in range(0, count, step):
        size = min(step, count - start)
        shuffled = rng.permuted(np.broadcast_to(labels, (size, total)), axis=1)
        null[start : start + size] = heights(shuffled, n, m) @ gaps
    return null


def bridge_null(ends: FloatArray, gaps: FloatArray, n: int, m: int, rng: np.random.Generator, count: int) -> FloatArray:
    """Areas under the absolute Brownian bridge, on cells of equal mass.

    Args:
        ends: shape (g,), rows of both samples up to the beginning of each gap.
        gaps: shape (g,), how wide they are.
        n: Rows of the reference.
        m: Rows of the current data.
        rng: The source of randomness.
        count: Areas to draw.

    Returns:
        shape (count,).
    """
    total = n + m
    places = np.unique(np.linspace(0, total, _CELLS + 1).round().astype(np.int64))
    masses = np.diff(places) / total
    # Each gap belongs to the cell at whose end the bridge is read.
    cell = np.searchsorted(places[1:], ends, side="left")
    widths = np.bincount(np.minimum(cell, len(masses) - 1), weights=gaps, minlength=len(masses))
    reached = np.cumsum(masses)
    null = np.empty(count)
    step = max(1, _CHUNK // len(masses))
    for start in range(0, count, step):
        size = min(step, count - start)
        walk = np.cumsum(rng.standard_normal((size, len(masses))) * np.sqrt(masses), axis=1)
        null[start : start + size] = np.abs(walk - walk[:, -1:] * reached) @ widths
    scaled: FloatArray = null * math.sqrt(1.0 / n + 1.0 / m)
    return scaled

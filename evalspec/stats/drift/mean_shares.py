"""Distance of two collections in what their rows consist of: words, characters.

Each row is what shares of it fall on each of a set of cells; a population is the mean over its rows, so that long rows
count no more than short ones and rows, not words, are what was drawn.
"""

from __future__ import annotations

import math

import numpy as np

from evalspec.errors import InputError
from evalspec.stats.drift.distances import Distance
from evalspec.stats.types import FloatArray

PERMUTATIONS = 999
MOST_ROWS = 5_000
"""Rows of both sides that the permutations go over."""
_CHUNK = 200


def mean_shares_distance(
    first: FloatArray, second: FloatArray, sizes: tuple[int, int], sample: FloatArray, rng: np.random.Generator
) -> Distance:
    """Total variation of two mean rows of shares.

    It is the largest difference in the mean share of any set of cells. A row's share lies in 0..1, so its variance is
    at most 1/4 and the upper bound is that of a total variation of rows. The lower bound is the permutation quantile
    over rows (of a part of them scaled to their number), beyond the last permutation by McDiarmid's inequality.

    Args:
        first: shape (C,), mean shares of the reference's rows.
        second: shape (C,), of the current rows.
        sizes: Rows of either side.
        sample: shape (k, C), shares of rows of both sides: all of them, or a random part.
        rng: Of the permutations.

    Raises:
        InputError: The cells differ in number.

    References:
        McDiarmid (1989), On the method of bounded differences, Surveys in Combinatorics.
    """
    if not (first.shape == second.shape and sample.ndim == 2 and sample.shape[1] == len(first)):
        raise InputError(f"{len(first)} cells beside {len(second)}")
    n, m = sizes
    what = "total variation of mean shares"
    if min(n, m) == 0 or len(sample) < 2:
        return Distance(None, n + m, 0, (0.0, 0.0), 1.0, what, 0.0)
    scale = math.sqrt(1.0 / n + 1.0 / m)
    return Distance(
        value=float(np.abs(first - second).sum() / 2.0),
        n=n + m,
        smaller=min(n, m),
        variances=(0.25 / n, 0.25 / m),
        largest=1.0,
        what=what,
        null_scale=scale,
        null=np.sort(_null(sample, n / (n + m), scale, rng)),
    )


def _null(sample: FloatArray, share: float, scale: float, rng: np.random.Generator) -> FloatArray:
    """Distances of permuted samples, as far as ``scale`` says that samples of the wanted size spread."""
    k = len(sample)
    ours = min(max(1, round(share * k)), k - 1)
    rows = sample.astype(np.float32) - sample.mean(axis=0).astype(np.float32)
    signs = np.where(np.arange(k) < ours, 1.0 / ours, -1.0 / (k - ours)).astype(np.float32)
    null = np.empty(PERMUTATIONS)
    for start in range(0, PERMUTATIONS, _CHUNK):
        count = min(_CHUNK, PERMUTATIONS - start)
        shuffled = rng.permuted(np.broadcast_to(signs, (count, k)), axis=1)
        null[start : start + count] = np.abs(shuffled @ rows).sum(axis=1) / 2.0
    here = math.sqrt(1.0 / ours + 1.0 / (k - ours))
    distances: FloatArray = null * (scale / here)
    return distances

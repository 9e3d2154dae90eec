"""Rows that belong together: sums by cluster, design effects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.stats.types import FloatArray, IntArray

UNSEEN = 0.25
"""Part that one cluster which carries the variance may have hidden, of clusters whose sizes differ without limit.

With it 95 % bounds of a share err in at most 4 % of samples with lognormal sizes (sigma 1 or 1.5, 15 to 60 clusters of
5 to 50 rows on average, correlations of .05 to .3), and with 3 to 10 large clusters among 50 to 300 small ones; with
.15 in up to 8 % where the small ones are single rows.
"""


@dataclass(frozen=True, slots=True)
class ClusterDesign:
    """Effect of clustering on a mean.

    Args:
        clusters: How many there are.
        effect: Variance of the mean over that of independent rows, at least 1.
        degrees: Of freedom of that variance: clusters' worth of deviations that carry it, at most clusters - 1. With
            few wrong rows in few clusters these are far fewer, and t with clusters - 1 errs in up to 15 % of samples
            at 95 %.
        largest: Rows of the largest cluster.
    """

    clusters: int
    effect: float
    degrees: float
    largest: int


def cluster_codes(clusters: IntArray, n: int) -> tuple[IntArray, int]:
    """Cluster of each row as 0..G-1.

    Args:
        clusters: shape (n,), any integers.
        n: Rows that they must belong to.

    Returns:
        Codes, shape (n,), and G.

    Raises:
        InputError: There is not one cluster for each row.
    """
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise InputError(f"{labels.shape[0] if labels.ndim else 0} cluster values for {n} rows")
    return coded(labels)


def coded(values: NDArray[Any]) -> tuple[IntArray, int]:
    """Values as 0..K-1 in rising order; integers are sorted only where they lie far apart.

    Args:
        values: shape (n,).

    Returns:
        Codes, shape (n,), and K.
    """
    places, span = from_zero(values)
    seen = np.bincount(places, minlength=span) > 0
    if seen.all():
        return places, span
    return (np.cumsum(seen) - 1)[places], int(np.count_nonzero(seen))


def from_zero(values: NDArray[Any]) -> tuple[IntArray, int]:
    """Values as numbers from 0 on in the same order: integers less their smallest, unless they lie far apart.

    Args:
        values: shape (n,).

    Returns:
        The numbers, shape (n,), and one more than the largest.
    """
    few = len(values) > 0 and values.dtype.kind in "iub"
    low, high = (int(values.min()), int(values.max())) if few else (0, 0)
    if not few or high - low > len(values) or high > np.iinfo(np.int64).max:
        names, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int64), len(names)
    return values.astype(np.int64) - low, high - low + 1


def cluster_sums(values: FloatArray, codes: IntArray, groups: int) -> FloatArray:
    """Sum of the values in each cluster, shape (G,)."""
    return np.bincount(codes, weights=values, minlength=groups).astype(np.float64)


def design_effect(values: FloatArray, codes: IntArray, groups: int) -> ClusterDesign:
    """Design effect of the mean of ``values``, by linearisation.

    Where the values don't vary it can't be seen, and rows of a cluster are taken for copies of each other. Where sizes
    differ it is seen in part: a sample whose large clusters happen to be right shows little of what they might do.
    Three things are known of that, and none of them changes anything where all clusters are of one size:

    - It is at least what the correlation of rows does to clusters of these sizes, where each cluster counts for that
      correlation by its rows but one, so that small clusters tell what the large ones can do.
    - Where the clusters of several rows are all alike, and only rows that stand alone vary, nothing is known of it.
    - It lies part of the way to that of copies, further the more the sizes differ and the fewer clusters carry what is
      seen of the variance or of the correlation.

    Args:
        values: shape (n,).
        codes: shape (n,), 0..G-1.
        groups: G.

    Returns:
        Number of clusters, the design effect, and what belongs to it.

    References:
        Kish (1965), Survey Sampling; Korn and Graubard (1998), Confidence intervals for proportions with small
        expected number of positive counts, Survey Methodology 24; Donner and Koval (1980), Biometrics 36 (correlation
        in groups of unequal size).
    """
    effects, degrees = _designs(values[None, :], codes, groups)
    return ClusterDesign(groups, float(effects[0]), float(degrees[0]), int(np.bincount(codes).max()))


def design_effects(values: FloatArray, codes: IntArray, groups: int) -> FloatArray:
    """Design effects of several means of the same rows, as `design_effect`, shape (k,).

    Args:
        values: shape (k, n).
        codes: shape (n,), 0..G-1.
        groups: G.
    """
    return _designs(values, codes, groups)[0]


def _designs(values: FloatArray, codes: IntArray, groups: int) -> tuple[FloatArray, FloatArray]:
    """Design effects and their degrees of freedom, each of shape (k,), of values of shape (k, n)."""
    k, n = values.shape
    sizes = np.bincount(codes, minlength=groups).astype(np.float64)
    most = max(1.0, float(np.sum(sizes**2) / n))
    residuals = values - values.mean(axis=1, keepdims=True)
    squared = residuals**2
    total = squared.sum(axis=1)
    varies = total > 0.0
    if groups < 2:
        return np.full(k, most), np.full(k, math.inf)
    places = (np.arange(k)[:, None] * groups + codes).ravel()
    sums, squares = (cluster_sums(each.ravel(), places, k * groups).reshape(k, groups) for each in (residuals, squared))
    few = (groups / (groups - 1)) * ((n - 1) / n)
    seen = few * np.sum(sums**2, axis=1) / np.where(varies, total, 1.0)
    alike, telling = _alike(sums, squares, sizes)
    told = few * (1.0 + (most - 1.0) * alike * n / np.where(varies, total, 1.0))
    told = np.where(telling > 0.0, np.minimum(told, most), most)
    carried = _carried(sums)
    unlike = max(0.0, 1.0 - n / (groups * most))
    hidden = np.minimum(1.0, UNSEEN * unlike / np.maximum(np.minimum(carried, telling), 1.0))
    effects = np.maximum(seen + hidden * np.maximum(0.0, most - seen), told)
    degrees = np.clip(carried, 1.0, groups - 1.0)
    return np.where(varies, np.maximum(1.0, effects), most), np.where(varies, degrees, math.inf)


def _alike(sums: FloatArray, squares: FloatArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Likeness of the rows of a cluster, and the number of clusters that show it.

    Each cluster counts by its rows but one; deviations are from the mean that is weighted in the same way, so that rows
    that stand alone say nothing.

    Args:
        sums: shape (k, G), of the deviations in each cluster.
        squares: shape (k, G), of their squares.
        sizes: shape (G,).

    Returns:
        Covariance of two rows of a cluster, shape (k,), and clusters' worth of deviations that tell it, shape (k,); 0
        where there are none.
    """
    more = sizes - 1.0
    if not more.any():
        return np.zeros(len(sums)), np.ones(len(sums))
    centre = (sums @ (more / sizes) / more.sum())[:, None]
    own = sums - centre * sizes
    spread = squares - 2.0 * centre * sums + centre**2 * sizes
    covariance = np.sum((own**2 - spread) / sizes, axis=1) / more.sum()
    # Of rows that are all alike rounding leaves a spread of 1e-16 or so.
    varies = spread @ (more > 0.0) > 1e-12 * np.sum(squares, axis=1)
    return covariance, np.where(varies, np.maximum(1.0, _carried(own * (more / sizes))), 0.0)


def _carried(sums: FloatArray) -> FloatArray:
    """`carrying` of each row, shape (k,)."""
    squares = sums**2
    # A fourth power takes twenty times as long as a square.
    fourth = (squares**2).sum(axis=1)
    return np.asarray(squares.sum(axis=1) ** 2 / np.where(fourth > 0.0, fourth, 1.0))


def degrees_of(sums: FloatArray) -> float:
    """Degrees of freedom of a variance over clusters: how many carry it, at least 1 and at most clusters - 1.

    Args:
        sums: shape (G,), what each cluster adds to the deviation.

    References:
        Satterthwaite (1946), Biometrics Bulletin 2, with the kurtosis at its cautious end.
    """
    return max(1.0, min(len(sums) - 1.0, float(_carried(sums[None, :])[0])))

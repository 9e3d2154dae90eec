"""Rows that belong together: sums by cluster, design effects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.stats._invert import carrying
from evalspec.stats._types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Design:
    """What clustering does to a mean.

    Args:
        clusters: How many there are.
        effect: Variance of the mean over that of independent rows, at least 1.
        degrees: Of freedom of that variance: clusters' worth of deviations that carry it, at most clusters - 1. With
            few wrong rows in few clusters these are far fewer, and t with clusters - 1 errs in up to 15 % of samples
            at 95 %.
    """

    clusters: int
    effect: float
    degrees: float


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


def design_effect(values: FloatArray, codes: IntArray, groups: int) -> Design:
    """Design effect of the mean of ``values``, by linearisation.

    Where the values don't vary it can't be seen, and rows of a cluster are taken for copies of each other.

    Args:
        values: shape (n,).
        codes: shape (n,), 0..G-1.
        groups: G.

    Returns:
        Number of clusters and the design effect.

    References:
        Kish (1965), Survey Sampling; Korn and Graubard (1998), Confidence intervals for proportions with small
        expected number of positive counts, Survey Methodology 24.
    """
    n = values.shape[0]
    sizes = np.bincount(codes, minlength=groups).astype(np.float64)
    most = float(np.sum(sizes**2) / n)
    residuals = values - values.mean()
    independent = float(np.sum(residuals**2)) * n / max(n - 1, 1)
    if independent <= 0.0 or groups < 2:
        return Design(groups, max(1.0, most), math.inf)
    sums = cluster_sums(residuals, codes, groups)
    clustered = float(np.sum(sums**2)) * groups / (groups - 1)
    return Design(groups, max(1.0, clustered / independent), degrees_of(sums))


def design_effects(values: FloatArray, codes: IntArray, groups: int) -> FloatArray:
    """Design effects of several means of the same rows, as `design_effect`, shape (k,).

    Args:
        values: shape (k, n).
        codes: shape (n,), 0..G-1.
        groups: G.
    """
    k, n = values.shape
    sizes = np.bincount(codes, minlength=groups).astype(np.float64)
    most = max(1.0, float(np.sum(sizes**2) / n))
    residuals = values - values.mean(axis=1, keepdims=True)
    independent = np.sum(residuals**2, axis=1) * n / max(n - 1, 1)
    if groups < 2:
        return np.full(k, most)
    places = (np.arange(k)[:, None] * groups + codes).ravel()
    sums = np.bincount(places, weights=residuals.ravel(), minlength=k * groups).reshape(k, groups)
    clustered = np.sum(sums**2, axis=1) * groups / (groups - 1)
    seen = independent > 0.0
    effects: FloatArray = np.where(seen, np.maximum(1.0, clustered / np.where(seen, independent, 1.0)), most)
    return effects


def degrees_of(sums: FloatArray) -> float:
    """Degrees of freedom of a variance over clusters: how many carry it, at least 1 and at most clusters - 1.

    Args:
        sums: shape (G,), what each cluster adds to the deviation.

    References:
        Satterthwaite (1946), Biometrics Bulletin 2, with the kurtosis at its cautious end.
    """
    return max(1.0, min(len(sums) - 1.0, carrying(sums)))

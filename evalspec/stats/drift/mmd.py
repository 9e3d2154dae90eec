"""Maximum mean discrepancy: a permutation test of whether two samples come from one population.

It says how likely chance alone would tell the two apart as well, not how far apart they are: the discrepancy hangs on
the kernel's width, so no tolerance of it could be stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.stats.clusters import cluster_codes
from evalspec.stats.types import FloatArray, IntArray

PERMUTATIONS = 999
MOST_ROWS = 2_000
"""Rows a side; more are drawn down to it, and the test is one of these rows."""
WIDTH_ROWS = 1_000
"""Pooled rows whose distances the kernel's width is the median of."""
_BLOCK = 512
_TIES = 1e-6

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Maximum mean discrepancy of two samples, with its permutation test.

    Args:
        squared: Squared discrepancy, unbiased, so that chance may put it below 0.
        p_value: (1 + permutations that are as far) / (1 + permutations).
        permutations: How many.
        rows: Of either side, as used.
        width: Of the Gaussian kernel exp(-d^2 / (2 width^2)).
    """

    squared: float
    p_value: float
    permutations: int
    rows: tuple[int, int]
    width: float

    @property
    def method(self) -> str:
        """Method of the test."""
        return (
            f"Gaussian kernel as wide as the median distance, {self.permutations:,} permutations of "
            f"{self.rows[0]:,} and {self.rows[1]:,} rows"
        )


def mmd_test(
    reference: NDArray[np.floating],
    current: NDArray[np.floating],
    *,
    rng: np.random.Generator,
    permutations: int = PERMUTATIONS,
    most_rows: int = MOST_ROWS,
    clusters: tuple[IntArray | None, IntArray | None] = (None, None),
) -> Discrepancy | None:
    """Test whether two samples come from one population.

    Sides with more than ``most_rows`` rows are drawn down to so many, without replacement; of these rows the test is
    exact: under the null labels can be exchanged, the width is fixed by the pooled rows without their labels, and the
    p-value counts the sample itself. All permutations go through the kernel together, in blocks that are never kept.

    Args:
        reference: shape (n, d), finite.
        current: shape (m, d), finite.
        rng: Draws rows and permutations.
        permutations: B; the smallest p-value is 1 / (1 + B).
        most_rows: Rows a side.
        clusters: Of either side's rows, shape (n,) and (m,): whole clusters are permuted, then.

    Returns:
        The result; None where a side has fewer than two rows or clusters.

    Raises:
        InputError: Rows differ in width, or a value isn't finite.

    References:
        Gretton et al. (2012), A kernel two-sample test, JMLR 13. Phipson and Smyth (2010), Permutation p-values should
        never be zero, Statistical Applications in Genetics and Molecular Biology 9.
    """
    sides = [_drawn(rows, ids, most_rows, rng) for rows, ids in zip((reference, current), clusters, strict=True)]
    (x, first), (y, second) = sides
    if x.shape[1] != y.shape[1]:
        raise InputError(f"rows of {x.shape[1]} numbers beside rows of {y.shape[1]}")
    units = np.concatenate((first, second + int(first.max(initial=-1)) + 1))
    of_reference = int(first.max(initial=-1)) + 1
    count = int(units.max(initial=-1)) + 1
    if min(of_reference, count - of_reference) < 2:
        return None
    pooled = np.concatenate((x, y))
    pooled -= pooled.mean(axis=0, dtype=np.float64).astype(np.float32)
    sizes = (len(x), len(y))
    width = _median_distance(pooled, rng)
    if width <= 0:
        return Discrepancy(0.0, 1.0, permutations, sizes, 0.0)
    labels = _labels(units, of_reference, count, permutations, rng)
    unbiased = _discrepancies(pooled / np.float32(width * math.sqrt(2.0)), labels)
    # Rounding must not make a permutation that is the sample itself look less far.
    far = unbiased[1:] >= unbiased[0] - _TIES * max(float(np.abs(unbiased).max()), 1e-12)
    p_value = (1 + int(np.count_nonzero(far))) / (1 + permutations)
    return Discrepancy(float(unbiased[0]), p_value, permutations, sizes, width)


def _drawn(
    rows: NDArray[np.floating], clusters: IntArray | None, most: int, rng: np.random.Generator
) -> tuple[Floats32, IntArray]:
    """At most so many rows, and their units as 0..G-1."""
    array = np.asarray(rows, dtype=np.float32)
    if array.ndim != 2 or not np.isfinite(array).all():
        raise InputError("the rows are not finite numbers of one width")
    chosen = np.arange(len(array))
    if len(array) > most:
        chosen = np.sort(rng.choice(len(array), most, replace=False))
    codes = np.arange(len(chosen)) if clusters is None else cluster_codes(clusters[chosen], len(chosen))[0]
    return array[chosen], codes.astype(np.int64)


def _median_distance(pooled: Floats32, rng: np.random.Generator) -> float:
    """Median distance of pairs of pooled rows; where most are 0, the mean of the others."""
    some = pooled if len(pooled) <= WIDTH_ROWS else pooled[rng.choice(len(pooled), WIDTH_ROWS, replace=False)]
    squares = _squared_distances(some, some)[np.triu_indices(len(some), 1)]
    middle = float(np.median(squares))
    if middle > 0:
        return math.sqrt(middle)
    positive = squares[squares > 0]
    return math.sqrt(float(positive.mean())) if len(positive) else 0.0


def _squared_distances(first: Floats32, second: Floats32) -> Floats32:
    norms = np.einsum("ij,ij->i", first, first)[:, None] + np.einsum("ij,ij->i", second, second)[None, :]
    distances: Floats32 = np.maximum(norms - 2.0 * (first @ second.T), np.float32(0.0))
    return distances


def _labels(
    units: IntArray, of_reference: int, count: int, permutations: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Rows of the reference, shape (N, 1 + B); the first column is the sample itself."""
    ours = np.broadcast_to(np.arange(count) < of_reference, (permutations, count))
    shuffled = rng.permuted(ours, axis=1)
    every = np.concatenate((np.arange(count)[None, :] < of_reference, shuffled))
    return np.ascontiguousarray(every.T)[units]


def _discrepancies(scaled: Floats32, labels: NDArray[np.bool_]) -> FloatArray:
    """Unbiased squared discrepancy of each labelling, shape (1 + B,).

    With s of 1/n for rows of the reference and -1/m for others, s'Ks holds small numbers only, which is kind to single
    precision; what the rows of each side add up to among themselves follows from it and from K's row sums.
    """
    n = np.maximum(labels.sum(axis=0), 1).astype(np.float64)
    m = np.maximum((~labels).sum(axis=0), 1).astype(np.float64)
    signs = np.where(labels, (1.0 / n).astype(np.float32), (-1.0 / m).astype(np.float32))
    form, row_sums = np.zeros(labels.shape[1]), np.zeros(len(scaled))
    for start in range(0, len(scaled), _BLOCK):
        rows, later = slice(start, start + _BLOCK), slice(start + _BLOCK, None)
        kernel = np.exp(-_squared_distances(scaled[rows], scaled[rows]))
        row_sums[rows] += kernel.sum(axis=1)
        here = kernel @ signs[rows]
        if start + _BLOCK < len(scaled):
            # The kernel is symmetric: what lies right of the diagonal's blocks counts twice.
            kernel = np.exp(-_squared_distances(scaled[rows], scaled[later]))
            row_sums[rows] += kernel.sum(axis=1)
            row_sums[later] += kernel.sum(axis=0)
            here += np.float32(2.0) * (kernel @ signs[later])
        form += np.einsum("ij,ij->j", signs[rows], here).astype(np.float64)
    whole, ours = float(row_sums.sum()), labels.T.astype(np.float32) @ row_sums
    between = (ours / n**2 + (whole - ours) / m**2 - form) / (1.0 / n + 1.0 / m) ** 2
    within = [(ours - between - n) / np.maximum(n * (n - 1.0), 1.0)]
    within.append((whole - ours - between - m) / np.maximum(m * (m - 1.0), 1.0))
    discrepancies: FloatArray = within[0] + within[1] - 2.0 * between / (n * m)
    return discrepancies

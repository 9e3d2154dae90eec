"""Observed and expected disagreement of weighted units, for all resamples at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalspec.stats.resampling.bootstrap import Arrays
from evalspec.stats.types import FloatArray, IntArray

Disagreement = tuple[FloatArray, FloatArray]
"""Observed and expected, shape (r,) each."""


def beyond_chance(parts: Disagreement) -> FloatArray:
    """1 - observed / expected, shape (r,); NaN where nothing could disagree."""
    observed, expected = parts
    there = expected > 0.0
    return np.asarray(np.where(there, 1.0 - observed / np.where(there, expected, 1.0), np.nan))


def category_counts(codes: IntArray, categories: int) -> FloatArray:
    """Ratings of each category that a unit has, shape (n, K).

    Args:
        codes: shape (n, R), -1 where there is none.
        categories: K.
    """
    n = len(codes)
    places = np.where(codes >= 0, codes, categories) + np.arange(n)[:, None] * (categories + 1)
    counts = np.bincount(places.ravel(), minlength=n * (categories + 1)).reshape(n, categories + 1)
    return counts[:, :categories].astype(np.float64)


def distinct_units(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Units with the same ratings, whoever gave them, are one kind.

    Args:
        codes: shape (n, R), -1 where there is none.

    Returns:
        Ratings of each kind in rising order, shape (k, R), and the kind of each unit, shape (n,).
    """
    ordered = np.sort(codes, axis=1)
    many = int(ordered.max(initial=-1)) + 2
    if many ** ordered.shape[1] < 2**62:
        # As one number, which sorts faster than a row.
        numbers = (ordered + 1) @ (many ** np.arange(ordered.shape[1], dtype=np.int64))
        _, first, kinds = np.unique(numbers, return_index=True, return_inverse=True)
        return ordered[first], kinds.reshape(-1).astype(np.int64)
    distinct, kinds = np.unique(ordered, axis=0, return_inverse=True)
    return distinct, kinds.reshape(-1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class RatingTable:
    """Units by how many ratings of each category they have; units with equal counts are one kind.

    Args:
        kinds: shape (n,), kind of each unit.
        counts: shape (k, K), ratings of each category in a unit of each kind.
        sizes: shape (k,), ratings of such a unit.
    """

    kinds: IntArray
    counts: FloatArray
    sizes: FloatArray

    @classmethod
    def of(cls, codes: IntArray, categories: int) -> RatingTable:
        """Count the ratings, shape (n, R), -1 where there is none."""
        distinct, kinds = distinct_units(codes)
        counts = category_counts(distinct, categories)
        return cls(kinds, counts, counts.sum(axis=1))

    def disagreement(self, distance: FloatArray) -> FloatArray:
        """Sum over the ratings of a unit of their mean distance from its other ratings, shape (k,)."""
        together = np.sum((self.counts @ distance) * self.counts, axis=1)
        return np.asarray(together / np.maximum(self.sizes - 1.0, 1.0))


@dataclass(frozen=True, eq=False)
class OfTwo:
    """Cohen's kappa of rows (first, second) of categories.

    Args:
        distance: shape (K, K).
    """

    distance: FloatArray

    def parts(self, arrays: Arrays, weights: FloatArray) -> Disagreement:
        """Disagreement of weighted units."""
        first, second = arrays
        names = np.eye(len(self.distance))
        total = weights.sum(axis=1)
        ours, theirs = weights @ names[first], weights @ names[second]
        observed = weights @ self.distance[first, second] / total
        return observed, np.sum((ours @ self.distance) * theirs, axis=1) / total**2

    def __call__(self, arrays: Arrays, weights: FloatArray) -> FloatArray:
        """The coefficient in each resample."""
        return beyond_chance(self.parts(arrays, weights))


@dataclass(frozen=True, eq=False)
class OfTable:
    """Fleiss' kappa, or alpha with fixed distances, of rows (kind,).

    Args:
        table: What the kinds are.
        distance: shape (K, K).
        unbiased: Two ratings are put together without putting one back (alpha), or with it (kappa).
    """

    table: RatingTable
    distance: FloatArray
    unbiased: bool

    def parts(self, arrays: Arrays, weights: FloatArray) -> Disagreement:
        """Disagreement of weighted units."""
        (kinds,) = arrays
        margins = weights @ self.table.counts[kinds]
        total = margins.sum(axis=1)
        observed = weights @ self.table.disagreement(self.distance)[kinds] / total
        pairs = total * (total - 1.0) if self.unbiased else total**2
        return observed, np.sum((margins @ self.distance) * margins, axis=1) / pairs

    def __call__(self, arrays: Arrays, weights: FloatArray) -> FloatArray:
        """The coefficient in each resample."""
        return beyond_chance(self.parts(arrays, weights))


@dataclass(frozen=True, eq=False)
class OfRanks:
    """Alpha of ordered categories, whose distances are those of the mean ranks in the resample, of rows (kind,).

    Krippendorff's sum of the frequencies from one category to another, less half of those at the ends, is the
    difference of their mean ranks.

    Args:
        table: What the kinds are.
    """

    table: RatingTable

    def parts(self, arrays: Arrays, weights: FloatArray) -> Disagreement:
        """Disagreement of weighted units."""
        counts, sizes = self.table.counts[arrays[0]], self.table.sizes[arrays[0]]
        margins = weights @ counts
        total = margins.sum(axis=1)
        # Of a total of 1, so that squares of ranks stay small.
        ranks = (np.cumsum(margins, axis=1) - 0.5 * margins) / total[:, None]
        first, second = ranks @ counts.T, ranks**2 @ counts.T
        within = 2.0 * (sizes * second - first**2) / (sizes - 1.0)
        observed = np.sum(weights * within, axis=1) / total
        spread = total * np.sum(margins * ranks**2, axis=1) - np.sum(margins * ranks, axis=1) ** 2
        return _tiny_is_none(observed), _tiny_is_none(2.0 * spread / (total * (total - 1.0)))

    def __call__(self, arrays: Arrays, weights: FloatArray) -> FloatArray:
        """The coefficient in each resample."""
        return beyond_chance(self.parts(arrays, weights))


@dataclass(frozen=True, eq=False)
class OfMoments:
    """Alpha of numbers, by their squared distances, of rows (kind,).

    Args:
        kinds: shape (n,), kind of each unit.
        sizes: shape (k,), ratings of such a unit.
        sums: shape (k,), of its ratings.
        squares: shape (k,), of its ratings.
    """

    kinds: IntArray
    sizes: FloatArray
    sums: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, codes: IntArray, values: FloatArray) -> OfMoments:
        """Build from ratings, shape (n, R), -1 where there is none, and the numbers that categories stand for."""
        middle = float(values.mean()) if len(values) else 0.0
        scale = float(np.abs(values - middle).max()) if len(values) else 0.0
        plain = np.append((values - middle) / (scale or 1.0), 0.0)
        distinct, kinds = distinct_units(codes)
        rated = plain[distinct]
        return cls(
            kinds, np.count_nonzero(distinct >= 0, axis=1) * 1.0, rated.sum(axis=1),
            np.sum(rated**2, axis=1),
        )  # fmt: skip

    def parts(self, arrays: Arrays, weights: FloatArray) -> Disagreement:
        """Disagreement of weighted units."""
        (kinds,) = arrays
        sizes, sums, squares = self.sizes[kinds], self.sums[kinds], self.squares[kinds]
        within = 2.0 * (sizes * squares - sums**2) / (sizes - 1.0)
        total = weights @ sizes
        spread = total * (weights @ squares) - (weights @ sums) ** 2
        return _tiny_is_none(weights @ within / total), _tiny_is_none(2.0 * spread / (total * (total - 1.0)))

    def __call__(self, arrays: Arrays, weights: FloatArray) -> FloatArray:
        """The coefficient in each resample."""
        return beyond_chance(self.parts(arrays, weights))


def _tiny_is_none(values: FloatArray) -> FloatArray:
    """Differences of large numbers leave rests of rounding where there is nothing."""
    return np.asarray(np.where(np.abs(values) < 1e-12, 0.0, values))

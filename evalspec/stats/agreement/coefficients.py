"""Agreement of raters beyond chance: kappa of two (Cohen) or more (Fleiss), Krippendorff's alpha."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate
from evalspec.stats.agreement.disagreement import OfMoments, OfRanks, OfTable, OfTwo, RatingTable, category_counts
from evalspec.stats.agreement.rare_disagreement import FewAgree, FewDisagree
from evalspec.stats.resampling.bootstrap import Arrays, bca
from evalspec.stats.types import FloatArray, IntArray

Weights = Literal["none", "linear", "quadratic"]
Level = Literal["nominal", "ordinal", "interval", "ratio"]
Bounded = Callable[[float, float, float], Estimate]
"""Value, observed and expected disagreement to bounds that need no variance."""

MOST_CATEGORIES = 200
"""Beyond, every category is rare, and tables of all of them get large; ``interval`` needs none."""
FEWEST_AGREEING = 10
"""Units that must agree on another category than the most frequent one, or a resampled upper bound is too low."""
MOST_AGREED = 20
"""More different numbers are hardly ever the same: that they aren't says nothing."""
GUIDE: tuple[tuple[float, str], ...] = (
    (0.81, "almost perfect"), (0.61, "substantial"), (0.41, "moderate"), (0.21, "fair"), (0.0, "slight"),
)  # fmt: skip
"""Least value of each word of Landis and Koch (1977), Biometrics 33, for an agreement; a convention, no more."""


@dataclass(frozen=True, eq=False)
class Coefficient:
    """A coefficient with what it rests on.

    Args:
        estimate: The coefficient; no value where nothing could disagree.
        units: Rows that it is made of.
        observed: Disagreement seen between ratings of one unit, in the distance's unit; None without a value.
        expected: Disagreement between ratings put together at random; None without a value.
    """

    estimate: Estimate
    units: int
    observed: float | None = None
    expected: float | None = None


def guide(value: float) -> str:
    """Landis and Koch's word for an agreement of this size."""
    return next((word for least, word in GUIDE if round(value, 2) >= least), "poor")


def kappa_distance(categories: int, weights: Weights) -> FloatArray:
    """Distances of categories, by their places, shape (K, K); 0 on the diagonal, 1 at most.

    Args:
        categories: K.
        weights: ``none``: equal or not; ``linear`` and ``quadratic``: by the distance of their places.
    """
    places = np.arange(categories, dtype=np.float64)
    apart = np.abs(places[:, None] - places[None, :])
    if weights == "none":
        return np.asarray(apart > 0, dtype=np.float64)
    return np.asarray((apart / max(categories - 1, 1)) ** (1 if weights == "linear" else 2))


def kappa(
    codes: IntArray,
    categories: int,
    *,
    rng: np.random.Generator,
    alpha: float,
    weights: Weights = "none",
    clusters: IntArray | None = None,
) -> Coefficient:
    """Agreement of raters beyond chance: Cohen's kappa of two, Fleiss' of more, of the units that all have judged.

    1 - observed / expected disagreement. Cohen expects each rater's own shares of categories, Fleiss those of all
    raters together.

    Args:
        codes: shape (n, R), category of each rating in 0..K-1, or -1 where there is none.
        categories: K.
        rng: Of the resamples.
        alpha: The strictest level that will be asked for.
        weights: How far apart categories are, by their places.
        clusters: shape (n,): whole clusters are drawn.

    Returns:
        The coefficient, at most 1, with BCa bounds over units; where too few units disagree for these, bounds that
        hold for any sample (see `FewDisagree`).

    Raises:
        InputError: There is only one rater, or there are too many categories.

    References:
        Cohen (1960), Educational and Psychological Measurement 20; Cohen (1968), Psychological Bulletin 70 (weights);
        Fleiss (1971), Psychological Bulletin 76; Efron (1987), JASA 82.
    """
    _check(codes, categories)
    whole = np.all(codes >= 0, axis=1)
    rated, distance = codes[whole], kappa_distance(categories, weights)
    within = None if clusters is None else clusters[whole]
    n, raters = rated.shape
    name = "Cohen's kappa" if raters == 2 else "Fleiss' kappa"

    def bounded(value: float, observed: float, expected: float) -> Estimate:
        # Without pairs of ratings of one unit, which Cohen's products hold once for each unit and Fleiss' by chance.
        own = observed if raters == 2 else observed * (raters - 1) / raters
        between = (n * expected - own) / max(n - 1, 1)
        return FewDisagree(value, n, name, observed, raters == 2 and weights == "none", between)

    agreeing = _agreeing(rated, categories, within)
    if raters == 2:
        return _judged(OfTwo(distance), (rated[:, 0], rated[:, 1]), name, bounded, within, rng, alpha, agreeing)
    table = RatingTable.of(rated, categories)
    statistic = OfTable(table, distance, unbiased=False)
    return _judged(statistic, (table.kinds,), name, bounded, within, rng, alpha, agreeing)


def krippendorff_alpha(
    codes: IntArray,
    values: FloatArray,
    *,
    rng: np.random.Generator,
    alpha: float,
    level: Level = "nominal",
    clusters: IntArray | None = None,
) -> Coefficient:
    """Krippendorff's alpha: agreement beyond chance of any number of raters, ratings missing or not.

    1 - observed / expected disagreement, of pairs of ratings of one unit and of any two units. Units with fewer than
    two ratings have no pair and don't count.

    Args:
        codes: shape (n, R), category of each rating in 0..K-1, or -1 where there is none.
        values: shape (K,), rising: the number that each category stands for; only their order counts for ``ordinal``,
            and not even that for ``nominal``.
        rng: Of the resamples.
        alpha: The strictest level that will be asked for.
        level: Of measurement: which differences count for how much.
        clusters: shape (n,): whole clusters are drawn.

    Returns:
        The coefficient, at most 1, with BCa bounds over units; other or no upper bounds where hardly any unit agrees on
        another category than the most frequent one (see `FewAgree`).

    Raises:
        InputError: There is only one rater, there are too many categories, or a ratio is asked of negative numbers.

    References:
        Krippendorff (2011), Computing Krippendorff's Alpha-Reliability; Hayes and Krippendorff (2007), Communication
        Methods and Measures 1; Efron (1987), JASA 82.
    """
    _check(codes, 0 if level == "interval" else len(values))
    paired = np.count_nonzero(codes >= 0, axis=1) >= 2
    rated, within = codes[paired], None if clusters is None else clusters[paired]
    name = f"Krippendorff's alpha ({level})"
    if level == "interval":
        moments = OfMoments.of(rated, values)
        counted = _agreeing(rated, len(values), within) if len(values) <= MOST_AGREED else FEWEST_AGREEING
        return _judged(moments, (moments.kinds,), name, None, within, rng, alpha, counted)
    table, agreeing = RatingTable.of(rated, len(values)), _agreeing(rated, len(values), within)
    if level == "ordinal":
        return _judged(OfRanks(table), (table.kinds,), name, None, within, rng, alpha, agreeing)
    distance = kappa_distance(len(values), "none") if level == "nominal" else _ratios(values)
    n, sizes = len(rated), table.sizes

    def bounded(value: float, observed: float, expected: float) -> Estimate:
        ratings, each = n * float(sizes[0]), float(sizes[0])
        own = n * each * (each - 1.0) * observed
        between = (ratings * (ratings - 1.0) * expected - own) / max(n * (n - 1) * each**2, 1.0)
        return FewDisagree(value, n, name, observed, each == 2.0, between)

    alike = level == "nominal" and len(sizes) > 0 and bool((sizes == sizes[0]).all())
    statistic = OfTable(table, distance, unbiased=True)
    return _judged(statistic, (table.kinds,), name, bounded if alike else None, within, rng, alpha, agreeing)


def _judged(
    statistic: OfTwo | OfTable | OfMoments | OfRanks,
    arrays: Arrays,
    name: str,
    bounded: Bounded | None,
    clusters: IntArray | None,
    rng: np.random.Generator,
    alpha: float,
    agreeing: int,
) -> Coefficient:
    n = len(arrays[0])
    estimate = bca(statistic, arrays, rng=rng, alpha=alpha, clusters=clusters, method=f"{name}, BCa")
    value = estimate.value
    if value is None:
        return Coefficient(estimate, n)
    observed, expected = (float(part[0]) for part in statistic.parts(arrays, np.ones((1, n))))
    if bounded is not None and clusters is None and estimate.bound(1.0 - alpha, "lower") is None:
        estimate = bounded(value, observed, expected)
    elif agreeing < FEWEST_AGREEING:
        other = bounded(value, observed, expected) if bounded is not None and clusters is None else None
        estimate = FewAgree(estimate, other, agreeing)
    return Coefficient(estimate, n, observed, expected)


def _agreeing(codes: IntArray, categories: int, clusters: IntArray | None) -> int:
    """Units (or clusters with one) in which two raters agree on another category than the most frequent one."""
    counts = category_counts(codes, categories)
    counts[:, counts.sum(axis=0).argmax()] = 0.0
    there = (counts >= 2.0).any(axis=1)
    return int(there.sum()) if clusters is None else len(np.unique(clusters[there]))


def _ratios(values: FloatArray) -> FloatArray:
    if len(values) and values.min() < 0:
        raise InputError(
            f"`level: ratio` is for numbers of at least 0, but there is a rating of {values.min():g}",
            remedy="take `level: interval`",
        )
    total = values[:, None] + values[None, :]
    apart = values[:, None] - values[None, :]
    return np.asarray((apart / np.where(total > 0, total, 1.0)) ** 2)


def _check(codes: IntArray, categories: int) -> None:
    if codes.ndim != 2 or codes.shape[1] < 2:
        raise InputError("agreement is between two raters at least, and there is one")
    if categories > MOST_CATEGORIES:
        raise InputError(
            f"there are {categories} different ratings, more than {MOST_CATEGORIES}",
            remedy="group them, or take `level: interval` for numbers",
        )


__all__ = ["GUIDE", "Coefficient", "Level", "Weights", "guide", "kappa", "kappa_distance", "krippendorff_alpha"]

"""Distances of two populations, as effect sizes with bounds: never a p-value of "are they the same".

For Kolmogorov-Smirnov, total variation and Wasserstein the upper bound needs only the event (or function) on which the
two populations differ most: on it the samples differ by a normal amount around the true distance, and the sample's own
distance is at least that. A lower bound has to allow for noise everywhere. A bootstrap of a distance would do neither:
two equal populations never give replicates near 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.clusters import cluster_codes, design_effects
from evalspec.stats.conjunction import AbsoluteDifference
from evalspec.stats.drift.nulls import heights, variation_null, wasserstein_null
from evalspec.stats.invert import n_by_scaling
from evalspec.stats.shares.macro import mover_difference
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.types import FloatArray, IntArray

PERMUTATIONS_BEYOND = 20
"""Permutations that must lie beyond the strictest level that will be asked for."""
SMALLEST_N = 50
"""Rows a side below which there is no bound."""
WASSERSTEIN = "Wasserstein distance in standard deviations of these reference rows"
_EVENTS = 9


@dataclass(frozen=True)
class Distance(Estimate):
    """A distance between two populations.

    Args:
        value: The distance of the samples; None where a side is empty.
        n: Rows of both sides.
        smaller: Rows of the smaller side.
        variances: Of either side's share (or mean) at the event (or function) where the populations differ most.
        largest: Largest value that the distance can take; infinite where there is none.
        null: shape (B,), distances of the permuted samples, sorted; None: the Kolmogorov limit serves.
        null_scale: sqrt(1/n + 1/m).
        what: Name of the distance.
        slack: How much less, and how much more, the distance of the samples may be than ``value``: where only a summary
            of the rows is known.
        why: Why there is none, where it isn't for want of rows.
    """

    value: float | None
    n: int
    smaller: int
    variances: tuple[float, float]
    largest: float
    what: str
    null_scale: float
    null: FloatArray | None = field(default=None, repr=False)
    slack: tuple[float, float] = (0.0, 0.0)
    why: str = ""

    @property
    def upper_error(self) -> float:
        """Standard error at the event where the populations differ most."""
        return math.sqrt(sum(self.variances))

    @property
    def reason(self) -> str | None:
        """Reason why there is no bound, or None."""
        if self.why:
            return self.why
        if self.smaller < SMALLEST_N:
            return f"{self.smaller} rows on one side are too few, {SMALLEST_N} are needed"
        return None

    @property
    def method(self) -> str:
        """The distance and how its bounds are made."""
        if self.reason:
            return f"{self.what}; no bound: {self.reason}"
        low = "Kolmogorov's limit" if self.null is None else f"{len(self.null):,} permutations"
        known = f"; of a summary, itself known to {max(self.slack):.2g}" if max(self.slack) > 0 else ""
        return f"{self.what}; upper bound at the point of largest difference, lower by {low}{known}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound; the lower one is never below 0."""
        if self.value is None or self.reason:
            return None
        if side == "upper":
            from scipy.special import ndtri

            return min(self.largest, self.value + self.slack[1] + float(ndtri(confidence)) * self.upper_error)
        return max(0.0, self.value - self.slack[0] - self._noise(1.0 - confidence))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Normal on the PASS side; on the FAIL side the chance of noise as large as value - threshold."""
        from scipy.special import ndtr

        if self.value is None or self.reason:
            return None
        if side == "upper":
            if threshold >= self.largest:
                return 0.0
            above = self.value + self.slack[1] - threshold
            return float(ndtr(above / self.upper_error)) if self.upper_error > 0 else 1.0
        if threshold < 0:
            return 0.0
        return self._chance(self.value - self.slack[0] - threshold)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows of both sides, from the width of the present bound."""
        return n_by_scaling(self.value, self.n, self._raw_bound, threshold, alpha)

    def told_from_zero(self, confidence: float) -> float | None:
        """The distance of samples of this size from which on the lower bound lies above 0; None without bounds."""
        return None if self.value is None or self.reason else self.slack[0] + self._noise(1.0 - confidence)

    def below_by(self, confidence: float) -> float | None:
        """Distance below a limit at which the samples must lie to be shown below it; None without bounds."""
        from scipy.special import ndtri

        if self.value is None or self.reason:
            return None
        return self.slack[1] + float(ndtri(confidence)) * self.upper_error

    def _raw_bound(self, confidence: float, side: Side) -> float | None:
        if self.value is None or self.reason:
            return None
        if side == "upper":
            return self.bound(confidence, "upper")
        return self.value - self.slack[0] - self._noise(1.0 - confidence)

    def _noise(self, level: float) -> float:
        """Distance that noise alone exceeds with this chance."""
        if self.null is None:
            return math.sqrt(-0.5 * math.log(level / 2.0)) * self.null_scale
        # (1 + k) / (1 + B) <= level: at most so many permutations may be as far.
        k = math.floor(level * (1 + len(self.null)) + 1e-9) - 1
        if k >= 0:
            return float(self.null[len(self.null) - 1 - k])
        if not math.isfinite(self.largest):
            return math.inf
        beyond = float(self.null.mean()) + math.sqrt(-0.5 * math.log(level)) * self.null_scale
        return max(beyond, float(np.nextafter(self.null[-1], math.inf)))

    def _chance(self, noise: float) -> float:
        if noise <= 0:
            return 1.0
        if self.null is None:
            return min(1.0, 2.0 * math.exp(-2.0 * (noise / self.null_scale) ** 2))
        as_far = len(self.null) - int(np.searchsorted(self.null, noise, side="left"))
        seen = (1 + as_far) / (1 + len(self.null))
        if as_far or not math.isfinite(self.largest):
            return seen
        # One row moves a distance in 0..1 by at most 1/n: McDiarmid's inequality reaches where no permutation does.
        return min(seen, math.exp(-2.0 * ((noise - float(self.null.mean())) / self.null_scale) ** 2))


def permutations_for(alpha_fail: float) -> int:
    """Permutations that reach beyond a level."""
    return max(9_999, math.ceil(PERMUTATIONS_BEYOND / alpha_fail))


def ks_distance(reference: FloatArray, current: FloatArray) -> Distance:
    """Largest difference of the two distribution functions.

    Upper bound D + z/2 sqrt(1/n + 1/m), lower bound D - sqrt(-ln(a/2)/2) sqrt(1/n + 1/m) (1.358 at 5 %).

    Args:
        reference: shape (n,), finite.
        current: shape (m,), finite.

    References:
        Massart (1990), The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, Annals of Probability 18(3).
    """
    x, y = np.sort(reference), np.sort(current)
    if not len(x) or not len(y):
        return empty_distance(len(x) + len(y), "Kolmogorov-Smirnov distance", 1.0)
    pooled = np.concatenate((x, y))
    # Two rising rows, which a stable sort merges.
    order = np.argsort(pooled, kind="stable")
    rising = pooled[order]
    last = np.append(rising[1:] != rising[:-1], True)
    to_here, from_x = np.flatnonzero(last) + 1, np.cumsum(order < len(x))[last]
    difference = from_x / len(x) - (to_here - from_x) / len(y)
    scale = math.sqrt(1.0 / len(x) + 1.0 / len(y))
    return Distance(
        value=float(np.abs(difference).max()),
        n=len(pooled),
        smaller=min(len(x), len(y)),
        variances=(0.25 / len(x), 0.25 / len(y)),
        largest=1.0,
        what="Kolmogorov-Smirnov distance",
        null_scale=scale,
    )


def total_variation(
    reference: IntArray, current: IntArray, *, rng: np.random.Generator, alpha: float = 0.002
) -> Distance:
    """Half the sum of differences between the shares of categories.

    Upper bound TV + z/2 sqrt(1/n + 1/m); lower bound TV - the permutation quantile at the level, beyond the last
    permutation by McDiarmid's inequality about their mean: a violation of many columns is corrected for their number,
    and needs stronger evidence than 10,000 permutations can give.

    Args:
        reference: shape (C,), rows of each category.
        current: shape (C,), rows of each category.
        rng: The source of randomness.
        alpha: Strictest level that will be asked for.

    Raises:
        InputError: The two name different numbers of categories.

    References:
        McDiarmid (1989), On the method of bounded differences, Surveys in Combinatorics.
    """
    a, b = np.asarray(reference, dtype=np.int64), np.asarray(current, dtype=np.int64)
    if a.shape != b.shape:
        raise InputError(f"{len(a)} categories beside {len(b)}")
    n, m = int(a.sum()), int(b.sum())
    if not n or not m:
        return empty_distance(n + m, "total variation", 1.0)
    pooled = a + b
    null = variation_null(pooled, n, m, rng, permutations_for(alpha))
    scale = math.sqrt(1.0 / n + 1.0 / m)
    return Distance(
        value=float(np.abs(a / n - b / m).sum() / 2.0),
        n=n + m,
        smaller=min(n, m),
        variances=(0.25 / n, 0.25 / m),
        largest=1.0,
        what="total variation",
        null_scale=scale,
        null=np.sort(null),
    )


def wasserstein(
    reference: FloatArray, current: FloatArray, *, rng: np.random.Generator, alpha: float = 0.002
) -> Distance:
    """Wasserstein distance (area between the distribution functions) in standard deviations of the reference rows.

    The unit is a fact of these rows and no estimate: the bounds are about the distance of the populations, told in it.
    Of a reference with far outliers the population's standard deviation is not known from a sample that has few of
    them (FAIL at 99.8 % would err in 14 to 59 % of samples, and with the variance of a standard deviation added in up
    to 33 %).

    Upper bound W + z sqrt(s_x^2/n + s_y^2/m); lower bound W - the permutation quantile at the level. A reference that
    does not vary has nothing to measure with: the distance is 0 where all current rows have its value, with the bound
    of a share of rows that have another, and else there is none.

    Args:
        reference: shape (n,), finite.
        current: shape (m,), finite.
        rng: The source of randomness.
        alpha: Strictest level that will be asked for.
    """
    x, y = np.asarray(reference, dtype=np.float64), np.asarray(current, dtype=np.float64)
    what = WASSERSTEIN
    if len(x) < 2 or len(y) < 2:
        return empty_distance(len(x) + len(y), what, math.inf)
    variance = float(x.var(ddof=1))
    unit = math.sqrt(variance)
    if unit <= 0 or x.min() == x.max():
        return from_a_constant(len(x), len(y), equal=bool((y == x[0]).all()))
    pooled = np.concatenate((x, y)) / unit
    order = np.argsort(pooled, kind="stable")
    gaps = np.diff(pooled[order])
    from_x = order < len(x)
    null = wasserstein_null(gaps, len(x), len(y), rng, permutations_for(alpha))
    return Distance(
        value=float((heights(from_x[None, :], len(x), len(y)) @ gaps)[0]),
        n=len(pooled),
        smaller=min(len(x), len(y)),
        variances=(variance / unit**2 / len(x), float(y.var(ddof=1)) / unit**2 / len(y)),
        largest=math.inf,
        what=what,
        null_scale=math.sqrt(1.0 / len(x) + 1.0 / len(y)),
        null=np.sort(null),
    )


def from_a_constant(n: int, m: int, *, equal: bool) -> Distance:
    """Wasserstein distance from a reference that does not vary.

    Args:
        n: Rows of the reference.
        m: Rows of the current data.
        equal: All of these have the reference's value.
    """
    if not equal:
        why = "the reference does not vary, so a distance in its standard deviations is not defined"
        return replace(empty_distance(n + m, WASSERSTEIN, math.inf), why=why)
    return Distance(
        value=0.0,
        n=n + m,
        smaller=min(n, m),
        variances=(0.25 / n, 0.25 / m),
        largest=math.inf,
        what=f"{WASSERSTEIN}, both of one value",
        null_scale=math.sqrt(1.0 / n + 1.0 / m),
    )


def missingness_difference(reference: Proportion, current: Proportion) -> AbsoluteDifference:
    """Difference of the shares of missing cells, in either direction, as a number in 0..1.

    Args:
        reference: Share of missing cells.
        current: The same.

    References:
        Zou and Donner (2008), Construction of confidence limits about effect measures, Statistics in Medicine 27.
    """
    return AbsoluteDifference(mover_difference(current, reference))


def clustered(distance: Distance, n: int, m: int, first: float, second: float) -> Distance:
    """The same distance with wider bounds, for rows that share clusters.

    Args:
        distance: As if rows were independent.
        n: Rows of the reference.
        m: Rows of the current data.
        first: Design effect of the reference.
        second: Design effect of the current data.
    """
    if distance.value is None:
        return distance
    factor = math.sqrt((first / n + second / m) / (1.0 / n + 1.0 / m))
    return replace(
        distance,
        smaller=math.floor(min(n / first, m / second)),
        variances=(distance.variances[0] * first, distance.variances[1] * second),
        null_scale=distance.null_scale * factor,
        null=None if distance.null is None else distance.null * factor,
    )


def indicators(
    reference: FloatArray | NDArray[np.str_], current: FloatArray | NDArray[np.str_], *, means: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Events that a distance may hang on: below a decile of both sides together, or a frequent category.

    Args:
        reference: shape (n,), numbers or categories.
        current: shape (m,), of the same kind.
        means: Numbers are functions that the distance may hang on too, as Wasserstein's does: rows of a cluster are
            more alike in them than in any event, and without them its bounds err in 7 % of samples at 95 %.

    Returns:
        0 or 1, shape (events, n) and (events, m); with ``means`` the numbers come last.
    """
    pooled = np.concatenate((reference, current))
    if pooled.dtype.kind == "U":
        names, counts = np.unique(pooled, return_counts=True)
        frequent = names[np.argsort(-counts, kind="stable")[:_EVENTS]]
        first, second = reference[None, :] == frequent[:, None], current[None, :] == frequent[:, None]
    else:
        x, y = reference.astype(np.float64), current.astype(np.float64)
        levels = np.quantile(np.concatenate((x, y)), np.linspace(0.1, 0.9, _EVENTS)) if len(pooled) else np.empty(0)
        first, second = x[None, :] <= levels[:, None], y[None, :] <= levels[:, None]
        if means:
            return np.concatenate((first, x[None, :])), np.concatenate((second, y[None, :]))
    return first.astype(np.float64), second.astype(np.float64)


def largest_design_effect(events: FloatArray, clusters: IntArray | None) -> float:
    """The largest design effect of any event's share, at least 1.

    Args:
        events: shape (events, n), 0 or 1 (or numbers, of their mean).
        clusters: shape (n,), or None where rows are independent.
    """
    if clusters is None or not events.size:
        return 1.0
    codes, groups = cluster_codes(clusters, events.shape[1])
    return float(design_effects(events, codes, groups).max())


def category_counts(
    reference: Sequence[object] | NDArray[Any], current: Sequence[object] | NDArray[Any]
) -> tuple[list[str], IntArray, IntArray]:
    """Rows of each category on both sides, most frequent first.

    Args:
        reference: Values without missing ones.
        current: Values without missing ones.

    Returns:
        Names of the categories, shape (C,), and counts of both sides, shape (C,).
    """
    first, second = np.asarray(reference, dtype=np.str_), np.asarray(current, dtype=np.str_)
    names, codes = np.unique(np.concatenate((first, second)), return_inverse=True)
    a = np.bincount(codes[: len(first)], minlength=len(names))
    b = np.bincount(codes[len(first) :], minlength=len(names))
    order = np.argsort(-(a + b), kind="stable")
    return [str(name) for name in names[order]], a[order].astype(np.int64), b[order].astype(np.int64)


def matched_counts(reference: Mapping[str, int], current: Mapping[str, int]) -> tuple[list[str], IntArray, IntArray]:
    """Rows of each category on both sides, most frequent first.

    Args:
        reference: Category: its rows.
        current: The same.

    Returns:
        Names of the categories, shape (C,), and counts of both sides, shape (C,).
    """
    names = list({**reference, **current})
    a = np.array([reference.get(name, 0) for name in names], dtype=np.int64)
    b = np.array([current.get(name, 0) for name in names], dtype=np.int64)
    order = np.lexsort((np.array(names, dtype=np.str_), -(a + b)))
    return [names[index] for index in order], a[order], b[order]


def empty_distance(n: int, what: str, largest: float) -> Distance:
    """Distance where a side has no rows.

    Args:
        n: Rows of the other side.
        what: Name of the distance.
        largest: Its largest value.
    """
    return Distance(None, n, 0, (0.0, 0.0), largest, what, 0.0)

"""Bounds of a coefficient of agreement that hold for any sample, for raters that hardly ever disagree."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.invert import NByScaling, p_from_bounds

FEWEST_UNITS = 20
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class FewDisagree(NByScaling):
    """1 - observed / expected disagreement, from bounds of the two at half the level each.

    Where hardly any unit disagrees, resamples say nothing of the disagreements that were not drawn. The disagreement
    inside units is a mean of numbers in 0..1, or a share of units (Clopper-Pearson); that between units is a mean over
    pairs of units, and n // 2 pairs of them share none. Both bounds hold for every n and every distribution.

    Args:
        value: The coefficient of the sample.
        n: Units.
        name: Of the coefficient.
        observed: Mean disagreement inside units, in 0..1.
        whole: That of each unit is 0 or 1.
        expected: Mean disagreement between different units, in 0..1.

    References:
        Hoeffding (1963), JASA 58 (theorem 1 and section 5, U-statistics); Clopper and Pearson (1934), Biometrika 26.
    """

    value: float
    n: int
    name: str
    observed: float
    whole: bool
    expected: float

    @property
    def method(self) -> str:
        """Method of the bounds."""
        inside = "Clopper-Pearson" if self.whole else "Hoeffding"
        return f"{self.name}, few units disagree: {inside} within units, Hoeffding between them, at half the level each"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound; None where the disagreement between units might be nothing, or there are few units."""
        if self.n < FEWEST_UNITS:
            return None
        alpha = (1.0 - confidence) / 2.0
        within = self._within(alpha, "upper" if side == "lower" else "lower")
        between = mean_bound(self.expected, self.n // 2, alpha, side)
        return None if between <= 0.0 else 1.0 - within / between

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The level at which the bound reaches the threshold."""
        return None if self.n < FEWEST_UNITS else p_from_bounds(self.bound, threshold, side)

    def _within(self, alpha: float, side: Side) -> float:
        from evalspec.stats.shares.proportion import Proportion

        if not self.whole:
            return mean_bound(self.observed, self.n, alpha, side)
        share = Proportion.of_counts(round(self.observed * self.n), self.n).bound(1.0 - alpha, side)
        return self.observed if share is None else share


@dataclass(frozen=True, slots=True)
class FewAgree(Estimate):
    """A coefficient of units that hardly ever agree beyond the most frequent category.

    No resample can agree more often there than the sample did, so that the upper bound is another one's.

    Args:
        resampled: Gives the value and the lower bound.
        other: Gives the upper bound; None: there is none.
        agreeing: Units that agree on another category than the most frequent one.
    """

    resampled: Estimate
    other: Estimate | None
    agreeing: int

    @property
    def value(self) -> float | None:
        """The coefficient of the sample."""
        return self.resampled.value

    @property
    def n(self) -> int:
        """Units."""
        return self.resampled.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        upper = "none" if self.other is None else self.other.method
        return f"{self.resampled.method}; upper bound, with {self.agreeing} units agreeing on a rarer category: {upper}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound."""
        source = self.resampled if side == "lower" else self.other
        return None if source is None else source.bound(confidence, side)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The level at which the bound reaches the threshold."""
        source = self.resampled if side == "lower" else self.other
        return None if source is None else source.p_value(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Units that decide with 80 % power."""
        below = self.value is not None and self.value < threshold
        source = self.other if below else self.resampled
        return None if source is None else source.n_to_decide(threshold, alpha)


def mean_bound(mean: float, n: int, alpha: float, side: Side) -> float:
    """One-sided bound of the mean of independent numbers in 0..1, by Hoeffding's inequality in its sharp form.

    Args:
        mean: Of the sample.
        n: Numbers, or disjoint pairs that a mean over all pairs is made of.
        alpha: Chance that the bound is missed, at most.
        side: ``lower`` or ``upper``.

    References:
        Hoeffding (1963), JASA 58, theorem 1.
    """
    if n < 1:
        return 0.0 if side == "lower" else 1.0
    reach = -math.log(alpha) / n
    mean = min(max(mean, 0.0), 1.0)
    shown = 0.0 if side == "lower" else 1.0
    return _crossing(lambda at: _divergence(mean, at) >= reach, shown, mean)


def _crossing(beyond: Callable[[float], bool], shown: float, hidden: float) -> float:
    """The value nearest to ``hidden`` that is beyond, from the side of ``shown``."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (shown + hidden)
        shown, hidden = (middle, hidden) if beyond(middle) else (shown, middle)
    return shown


def _divergence(mean: float, at: float) -> float:
    """Divergence of a coin of this mean from one of another, in nats."""
    if (at <= 0.0 and mean > 0.0) or (at >= 1.0 and mean < 1.0):
        return math.inf
    first = mean * math.log(mean / at) if mean > 0.0 else 0.0
    second = (1.0 - mean) * math.log((1.0 - mean) / (1.0 - at)) if mean < 1.0 else 0.0
    return first + second

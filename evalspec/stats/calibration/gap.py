"""Gaps between what a model said and what came true, and how clusters widen their bounds.

A bound is about the population, of which the confidences were drawn too. Where accuracy follows the confidence, the
difference of the two varies no more than the answers do, and binomial tails at the mean confidence are right. Where it
doesn't (forests and nearest neighbours that are nearly always right), the differences vary with what happened to be
said: then Gaffke's bound of their mean is asked beside the binomial one, and the one that says less counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evalspec.stats.calibration.bins import Bins
from evalspec.stats.clusters import cluster_codes, cluster_sums, degrees_of, design_effect
from evalspec.stats.exponential_sum import sum_z
from evalspec.stats.types import BoolArray, FloatArray, IntArray

CLUSTERS = 20
"""Clusters below which there is no bound."""
FEWEST_DEGREES = 5.0
"""Degrees of freedom below which an estimated design effect is not used.

In 1,500 samples each of 20 to 100 clusters with lognormal sizes (standard deviation of the logarithm up to 1.0) and
correlations of 0.3 to 0.7 the gap then errs in at most 4.9 % at 95 % for PASS and in 0.13 % at 99.8 % for FAIL; with a
normal tail in 14 % and 8 %. Of 200 clusters with a standard deviation of 1.4 PASS errs in 7 %.
"""
UNSEEN = 0.5
"""The largest difference that a row may have though none has it: a confidence of one half that is right."""
ROW_CELLS = 256
"""To either side of 0."""
EFFECTS = 6
"""Tried between those of independent rows and of copies where the estimated one is not used."""


@dataclass(frozen=True, slots=True)
class GapDesign:
    """Effect of clusters on the gap between what was said and what came true.

    Args:
        effect: Variance of the gap over that of independent rows, at least 1.
        clusters: How many there are; None: rows are independent.
        degrees: Of freedom of the effect: clusters' worth of deviations that carry it; infinite: it is not an estimate.
        largest: Rows of the largest cluster. No effect is larger: that is the one of rows that are copies.
    """

    effect: float = 1.0
    clusters: int | None = None
    degrees: float = math.inf
    largest: float = 1.0

    @property
    def believed(self) -> bool:
        """Enough clusters carry the effect."""
        return self.degrees >= FEWEST_DEGREES

    @property
    def believable(self) -> GapDesign:
        """The same, or that of copies where the effect is not believed."""
        return self if self.believed else GapDesign(self.largest, self.clusters, math.inf, self.largest)

    @property
    def times(self) -> tuple[float, ...]:
        """Factors that the effect is multiplied by where noise is taken off; the worst of them counts.

        Too large an effect takes off too much, so that no single one is safe where it is not believed.
        """
        if self.believed:
            return (1.0,)
        return tuple(np.geomspace(1.0 / self.effect, max(1.0, self.largest / self.effect), EFFECTS).tolist())

    @property
    def words(self) -> str:
        """For a method; empty without clusters."""
        if self.clusters is None:
            return ""
        if not self.believed:
            return f", at the worst design effect up to {self.largest:g}: few clusters carry it"
        with_t = "" if math.isinf(self.degrees) else f" with {self.degrees:.0f} degrees"
        return f", design effect {self.effect:.2f}{with_t}"

    def widened(self, tail: FloatArray | float) -> FloatArray:
        """The tail of t at the score at which a normal has this one, shape as ``tail`` (of an estimated effect)."""
        from scipy.special import ndtri, stdtr

        tails = np.asarray(tail, dtype=np.float64)
        if math.isinf(self.degrees) or not self.believed:
            return tails
        wider: FloatArray = np.asarray(stdtr(self.degrees, ndtri(tails)), dtype=np.float64)
        return wider

    def level(self, alpha: float, times: float) -> float:
        """Level that a tail must reach for its `widened` one to reach alpha, with so many times the clusters."""
        from scipy.special import ndtr, stdtrit

        degrees = max(1.0, self.degrees * times)
        return alpha if math.isinf(degrees) else float(ndtr(stdtrit(degrees, alpha)))

    def tail(self, exact: Tail, right: FloatArray | float, count: FloatArray | float, share: FloatArray) -> FloatArray:
        """A binomial tail of rows in clusters: the smaller of that of t and that of copies, shape as ``right``.

        Args:
            exact: `at_least` or `at_most`.
            right: Times that it came true.
            count: Rows.
            share: Of the binomial.

        References:
            Korn and Graubard (1998), Survey Methodology 24; Hoeffding (1963), JASA 58 (clusters as copies).
        """
        if self.clusters is None:
            return exact(right, count, share)
        copies = exact(right / self.largest, count / self.largest, share)
        if not self.believed:
            return copies
        return np.minimum(copies, self.widened(exact(right / self.effect, count / self.effect, share)))


INDEPENDENT = GapDesign()


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences of what came true, 0 or 1, and what was said; rows of one cell count as one value.

    Args:
        values: shape (m,), in -1..1.
        counts: shape (m,), rows with each, positive.
        largest: The largest difference that a row can have.
    """

    values: FloatArray
    counts: FloatArray
    largest: float = 1.0

    @cached_property
    def n(self) -> float:
        """Rows."""
        return float(self.counts.sum())

    @cached_property
    def mean(self) -> float:
        """Mean over all rows."""
        return float(self.counts @ self.values) / self.n

    @cached_property
    def variance(self) -> float:
        """Variance of a row."""
        return max(0.0, float(self.counts @ self.values**2) / self.n - self.mean**2)

    @property
    def skewness(self) -> float:
        """Skewness of a row; 0 where rows don't vary."""
        apart = self.values - self.mean
        third = float(self.counts @ (apart * apart * apart)) / self.n
        return third / self.variance**1.5 if self.variance > 1e-12 else 0.0

    def below(self, point: float, design: GapDesign = INDEPENDENT) -> float:
        """p-value that the mean lies below a point: rows with random weights, and one as bad as can be.

        Args:
            point: The point.
            design: What clusters do.

        References:
            Gaffke (2005), Mathematical Methods of Statistics 14; Learned-Miller and Thomas (2020), arXiv 1905.06208.
        """
        from scipy.special import ndtr

        weights = np.append(self.values, self.largest) - point

        def tail(effect: float) -> float:
            return float(ndtr(-sum_z(weights, np.append(self.counts / effect, 1.0))))

        if design.clusters is None:
            return tail(1.0)
        copies = tail(design.largest)
        return min(copies, float(design.widened(tail(design.effect)))) if design.believed else copies

    def negated(self) -> Differences:
        """Differences of the opposite sign; what was said stays in the range that was seen."""
        return Differences(-self.values, self.counts, float(-self.values.min()))


def differences_of(cells: Bins, factors: FloatArray | IntArray | None = None) -> Differences:
    """Differences of all rows, from the cells that they were dealt to.

    Args:
        cells: Bins so narrow that their rows were told much the same.
        factors: What those of each are multiplied by, shape (K,); None: by nothing.
    """
    values, counts, some = cells.outcomes
    if factors is not None:
        values = np.concatenate((factors, factors), dtype=np.float64)[some] * values
    return Differences(values, counts, max(UNSEEN, 1.0 - float(cells.confidence.min(initial=1.0))))


def differences_by_row(values: FloatArray) -> Differences:
    """Differences of rows with many different values, dealt to cells.

    Args:
        values: shape (n,), in -1..1, n > 0.
    """
    place = np.floor((values + 1.0) * ROW_CELLS).astype(np.int64)
    counts = np.bincount(place).astype(np.float64)
    sums = np.bincount(place, weights=values)[counts > 0]
    return Differences(sums / counts[counts > 0], counts[counts > 0])


@dataclass(frozen=True, slots=True)
class ConfidenceGap:
    """Gap between how often something came true and how often it was said to.

    Args:
        right: Times that it came true.
        n: Rows.
        said: Mean of what was said, in 0..1.
        design: What clusters do.
        differences: Of the rows.
    """

    right: float
    n: float
    said: float
    design: GapDesign
    differences: Differences

    def beyond(self, threshold: float) -> float:
        """p-value that both are further apart than the threshold: twice the smaller of two tails."""
        low, high = self.said - threshold, self.said + threshold
        over = self._tail(at_most, low) if low > 0 else 1.0
        under = self._tail(at_least, high) if high < 1 else 1.0
        if self.varies:
            over = max(over, self.differences.below(-threshold, self.design))
            under = max(under, self.differences.negated().below(-threshold, self.design))
        return min(1.0, 2.0 * min(over, under))

    def within(self, threshold: float) -> float:
        """p-value that both are no further apart than the threshold: the largest of the tails."""
        low, high = self.said - threshold, self.said + threshold
        tails = [
            # What was said has a population too: a share that can't leave 0..1 needs no evidence, its mean does.
            self.differences.below(threshold, self.design),
            self._tail(at_least, low) if low > 0 else 0.0,
            self._tail(at_most, high) if high < 1 else 0.0,
        ]
        if self.varies:
            tails.append(self.differences.negated().below(threshold, self.design))
        return max(tails)

    @property
    def varies(self) -> bool:
        """The differences vary more than the answers do."""
        share = self.right / self.n
        return self.differences.variance > share * (1.0 - share) * (1.0 + 1e-9)

    def _tail(self, exact: Tail, share: float) -> float:
        return float(self.design.tail(exact, self.right, self.n, np.asarray(share)))


def overall_gap(bins: Bins, cells: Bins, design: GapDesign) -> ConfidenceGap:
    """Gap over all rows of some bins.

    Args:
        bins: The bins.
        cells: What they are made of.
        design: What clusters do.
    """
    said = float(np.sum(bins.weight * bins.confidence))
    return ConfidenceGap(float(bins.right.sum()), bins.n, said, design, differences_of(cells))


def at_least(right: FloatArray | float, count: FloatArray | float, share: FloatArray | float) -> FloatArray:
    """P(X >= right) for a binomial X of count at share; counts need not be whole."""
    from scipy.special import betainc

    k, n = np.asarray(right, dtype=np.float64), np.asarray(count, dtype=np.float64)
    tail: FloatArray = np.where(k <= 0, 1.0, betainc(np.maximum(k, 1e-9), n - k + 1.0, share))
    return tail


def at_most(right: FloatArray | float, count: FloatArray | float, share: FloatArray | float) -> FloatArray:
    """P(X <= right) for a binomial X of count at share; counts need not be whole."""
    from scipy.special import betaincc

    k, n = np.asarray(right, dtype=np.float64), np.asarray(count, dtype=np.float64)
    tail: FloatArray = np.where(k >= n, 1.0, betaincc(k + 1.0, np.maximum(n - k, 1e-9), share))
    return tail


Tail = Callable[[FloatArray | float, FloatArray | float, FloatArray | float], FloatArray]


def design_of_gap(c: FloatArray, y: BoolArray, clusters: IntArray | None) -> GapDesign:
    """Effect of clusters on the gap.

    Args:
        c: shape (n,), what was said.
        y: shape (n,), whether it came true.
        clusters: shape (n,), or None where rows are independent.
    """
    if clusters is None or not len(c):
        return INDEPENDENT
    codes, groups = cluster_codes(clusters, len(c))
    if groups == len(c):
        return INDEPENDENT
    right, sizes = y.astype(np.float64), np.bincount(codes)
    largest, average = float(sizes.max()), float(right.mean())
    if not 0.0 < average < 1.0:
        # What was said may vary inside of clusters where answers don't, and says nothing of how these hang together.
        return GapDesign(float(np.sum(sizes.astype(np.float64) ** 2)) / len(c), groups, math.inf, largest)
    design = design_effect(right - c, codes, groups)
    # Neither does it where few answers are wrong.
    degrees = min(design.degrees, degrees_of(cluster_sums(right - average, codes, groups)))
    return GapDesign(design.effect, groups, degrees, largest)


def why_unbounded(n: int, design: GapDesign) -> str | None:
    """Reason why there is no bound, or None."""
    if not n:
        return "there are no rows"
    if design.clusters is not None and design.clusters < CLUSTERS:
        return f"{design.clusters} clusters are too few, {CLUSTERS} are needed"
    return None

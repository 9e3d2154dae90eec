"""Proportions: Clopper-Pearson, both sides one-sided; with clusters after Korn and Graubard."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.binomial import above, rarely_above
from evalspec.stats.clusters import cluster_codes, design_effect
from evalspec.stats.invert import POWER, far_side, p_from_bounds
from evalspec.stats.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Proportion(Estimate):
    """A share of rows.

    Args:
        successes: Rows that count (a whole number unless it was scaled).
        n: Rows.
        design_effect: Variance over that of independent rows; 1 without clusters.
        clusters: How many there are; None: rows are independent.
        degrees: Of freedom of the design effect.
        largest: Rows of the largest cluster; None without clusters.

    With clusters there are two bounds, and the better one holds. Korn and Graubard's pays for not knowing the design
    effect, and few wrong rows say little about it: of 300 rows in pairs one wrong would give a worse bound than
    twelve. The other one takes the rows of a cluster for copies of each other, which is the worst that they can be,
    and needs no design effect: n / largest rows.

    References:
        Clopper and Pearson (1934), Biometrika 26. Korn and Graubard (1998), Survey Methodology 24.
    """

    successes: float
    n: int
    design_effect: float = 1.0
    clusters: int | None = None
    degrees: float = math.inf
    largest: int | None = None

    @classmethod
    def of_counts(cls, successes: float, n: int) -> Proportion:
        """Build from counts of independent rows.

        Raises:
            InputError: The counts can't be those of a share.
        """
        if n < 0 or not 0 <= successes <= n:
            raise InputError(f"{successes} of {n} rows is not a share")
        return cls(successes=float(successes), n=int(n))

    @property
    def value(self) -> float | None:
        """The share, in 0..1; None without rows."""
        return self.successes / self.n if self.n else None

    @property
    def effective_n(self) -> float:
        """Independent rows that would say as much."""
        return self.n / self.design_effect

    @property
    def method(self) -> str:
        """Method of the bounds."""
        if self.clusters is None:
            return "Clopper-Pearson"
        if self.clusters < 2:
            return "no bound: all rows are one cluster; needs at least 2"
        return f"Clopper-Pearson over {self.clusters} clusters (Korn-Graubard, design effect {self.design_effect:.2f})"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, in 0..1."""
        from scipy.special import betaincinv

        if self.value is None or self.clusters == 1:
            return None
        sizes = [self._n_at(confidence)] + ([self.n / self.largest] if self.largest else [])
        if side == "lower":
            return max(
                0.0 if self.successes <= 0 else float(betaincinv(k, n - k + 1.0, 1.0 - confidence))
                for n, k in ((n, self.value * n) for n in sizes)
            )
        return min(
            1.0 if self.successes >= self.n else float(betaincinv(k + 1.0, n - k, confidence))
            for n, k in ((n, self.value * n) for n in sizes)
        )

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The binomial tail at the threshold (with clusters: by inversion of the bound)."""
        from scipy.special import betainc, betaincc

        if self.value is None or self.clusters == 1:
            return None
        if self.clusters is not None:
            return p_from_bounds(self.bound, threshold, side)
        at = min(max(threshold, 0.0), 1.0)
        n, successes = float(self.n), self.successes
        if side == "lower":
            if threshold <= 0.0:
                return 0.0
            return 1.0 if successes <= 0 else float(betainc(successes, n - successes + 1.0, at))
        if threshold >= 1.0:
            return 0.0
        return 1.0 if successes >= n else float(betaincc(successes + 1.0, n - successes, at))

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows at which the binomial test has 80 % power if ``value`` is true; more than 20 times n is given too."""
        side = far_side(self.value, threshold)
        if side is None or self.value is None or not 0.0 < threshold < 1.0:
            return None
        return math.ceil(rows_for_power(self.value, threshold, alpha) * self.design_effect)

    def _n_at(self, confidence: float) -> float:
        """Effective n at this confidence: the t quantile of the clusters takes the place of that of the rows."""
        if self.clusters is None:
            return float(self.n)
        from scipy.special import stdtrit

        # At one half both quantiles are 0; the ratio has a limit there.
        level = confidence if abs(confidence - 0.5) > 1e-4 else 0.5001
        ratio = float(stdtrit(max(self.n - 1, 1), level) / stdtrit(self.degrees, level))
        return max(1.0, self.effective_n * min(1.0, ratio**2))


def proportion(hits: BoolArray, clusters: IntArray | None = None) -> Proportion:
    """The share of rows that are True.

    Args:
        hits: shape (n,).
        clusters: shape (n,), cluster of each row, or None if rows are independent.

    Returns:
        The estimate, in 0..1.

    Raises:
        InputError: There is not one cluster for each row.

    References:
        Clopper and Pearson (1934), Biometrika 26. Korn and Graubard (1998), Survey Methodology 24.
        Hoeffding (1963), JASA 58 (theorem 4 and section 6: means of clusters spread less than rows that are copies).
    """
    rows = np.asarray(hits, dtype=np.bool_)
    n, successes = int(rows.shape[0]), int(np.count_nonzero(rows))
    if clusters is None or n == 0:
        return Proportion(successes=float(successes), n=n)
    codes, groups = cluster_codes(clusters, n)
    if groups == n:
        return Proportion(successes=float(successes), n=n)
    design = design_effect(rows.astype(np.float64), codes, groups)
    return Proportion(float(successes), n, design.effect, groups, design.degrees, design.largest)


def binomial_power(n: FloatArray, truth: float, threshold: float, alpha: float) -> FloatArray:
    """Chance that the one-sided binomial test of ``threshold`` is significant towards ``truth``.

    Args:
        n: shape (k,), rows.
        truth: The true share.
        threshold: What it is tested against; the side is the one on which ``truth`` lies.
        alpha: One-sided level.

    Returns:
        shape (k,).
    """
    if truth > threshold:
        # The test is significant from k + 1 on.
        return above(rarely_above(alpha, n, threshold), n, truth)
    return above(rarely_above(alpha, n, 1.0 - threshold), n, 1.0 - truth)


def rows_for_power(truth: float, threshold: float, alpha: float, power: float = POWER) -> int:
    """Independent rows at which, and from which on, the binomial test has the wanted power.

    Args:
        truth: The true share.
        threshold: What it is tested against, in the open interval 0..1.
        alpha: One-sided level.
        power: Wanted chance of significance.

    Returns:
        Rows.
    """
    from scipy.special import ndtri

    reach = -float(ndtri(alpha)) * math.sqrt(threshold * (1 - threshold))
    reach += float(ndtri(power)) * math.sqrt(truth * (1 - truth))
    about = (reach / abs(truth - threshold)) ** 2
    if about > 1e6:
        return math.ceil(about)
    low, high = max(1.0, 0.5 * about - 10.0), 2.0 * about + 10.0 / min(threshold, 1.0 - threshold)
    sizes = np.unique(np.ceil(np.linspace(low, high, 600)))
    short = np.flatnonzero(binomial_power(sizes, truth, threshold, alpha) < power)
    if len(short) == 0:
        return int(sizes[0])
    return int(sizes[min(short[-1] + 1, len(sizes) - 1)])

"""Two recipes compared by how soon their runs get there: exact permutation of log-rank scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.evidence.words import plural

EXACT = 184_756
"""Arrangements of 10 and 10 runs: up to so many all of them are gone through."""
DRAWN = 99_999
TINY = 1e-9
HAIR = 1e-4


def scores(times: NDArray[np.float64], cut: float) -> NDArray[np.float64]:
    """Log-rank scores: an event less the cumulative hazard at it; what ends at the cut has the hazard alone.

    Args:
        times: shape (n,); what lies beyond the cut was not seen.
        cut: The end of observation; infinite: only infinite times are not seen.

    References:
        Peto and Peto (1972), Asymptotically efficient rank invariant test procedures, JRSS A 135.
    """
    seen = np.isfinite(times) & (times <= cut)
    held = np.where(seen, times, np.inf)
    unique, inverse, counts = np.unique(held, return_inverse=True, return_counts=True)
    at_risk = len(times) - np.concatenate([[0], np.cumsum(counts)[:-1]])
    hazard = np.cumsum(np.where(np.isfinite(unique), counts / at_risk, 0.0))
    return np.asarray(seen - hazard[inverse], dtype=np.float64)


@dataclass(frozen=True)
class RunRatio(Estimate):
    """The factor by which the runs of a candidate take longer than those of a baseline.

    The baseline's times are multiplied by a factor; that the candidate is sooner than this, or later, is shown by
    permuting log-rank scores. Bounds are the factors that are not refuted.

    Args:
        candidate: shape (n,), infinite where a run never got there.
        baseline: shape (m,), likewise.
        limits: Ends of observation of both; infinite: none.
        arrangements: shape (k, n), which of the n + m runs are the candidate's, the observed one left out of those
            that were drawn.
        drawn: Arrangements were drawn, and are not all.
    """

    candidate: NDArray[np.float64]
    baseline: NDArray[np.float64]
    limits: tuple[float, float]
    arrangements: NDArray[np.int32]
    drawn: bool

    @property
    def n(self) -> int:
        """Runs of both."""
        return len(self.candidate) + len(self.baseline)

    @property
    def method(self) -> str:
        """Method of the bounds."""
        how = f"{len(self.arrangements):,} drawn" if self.drawn else f"all {len(self.arrangements):,}"
        return (
            f"exact permutation of log-rank scores, {how} arrangements of {len(self.candidate)} and "
            f"{plural(len(self.baseline), 'run')}; bounds by inversion over the factor"
        )

    @cached_property
    def value(self) -> float | None:
        """Median of all ratios of a run to a run; None where half of them are not known."""
        if not len(self.candidate) or not len(self.baseline):
            return None
        with np.errstate(invalid="ignore"):
            ratios = (self.candidate[:, None] / self.baseline[None, :]).ravel()
        # Of two runs that never got there nothing is known; it takes the middle.
        middle = float(np.median(np.where(np.isnan(ratios), 1.0, ratios)))
        return middle if math.isfinite(middle) and middle > 0.0 else self._edge(middle)

    def _edge(self, middle: float) -> float | None:
        finite = [one for one in self._steps if 0.0 < one < math.inf]
        if not finite:
            return None
        return finite[-1] if middle > 0.0 else finite[0]

    @cached_property
    def _steps(self) -> list[float]:
        """Factors at which the order of runs changes."""
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = (self.candidate[:, None] / self.baseline[None, :]).ravel()
        return sorted({float(one) for one in ratios if math.isfinite(one) and one > 0.0})

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Share of arrangements that are as extreme as what was seen; ``upper``: the candidate is sooner."""
        if not len(self.candidate) or not len(self.baseline) or threshold <= 0.0:
            return None
        cut = min(self.limits[0], self.limits[1] * threshold)
        times = np.concatenate([self.candidate, self.baseline * threshold])
        found = scores(times, cut)
        own = float(found[: len(self.candidate)].sum())
        sums = found[self.arrangements].sum(axis=1)
        # Sooner events have larger scores.
        extreme = int((sums >= own - TINY).sum() if side == "upper" else (sums <= own + TINY).sum())
        return (extreme + self.drawn) / (len(sums) + self.drawn)

    def bound(self, confidence: float, side: Side) -> float | None:
        """The factor from which on it is shown that the candidate is sooner, or up to which that it is later."""
        steps = self._steps
        if not steps:
            return None
        alpha = 1.0 - confidence
        # Between two steps nothing changes; the edges stand a hair outside.
        places = [steps[0] * (1.0 - TINY), *(one * (1.0 + TINY) for one in steps)]
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            p = self.p_value(places[middle], side)
            shown = p is not None and p <= alpha
            goes_left = shown if side == "upper" else not shown
            low, high = (low, middle) if goes_left else (middle + 1, high)
        if side == "upper":
            # Runs that stop at the same evaluations have ties at whole steps: the bound lies beyond one, visibly.
            return None if low >= len(places) else places[low] if not low else steps[low - 1] * (1.0 + HAIR)
        return None if low == 0 else steps[min(low, len(steps)) - 1] if low <= len(steps) else steps[-1]


@dataclass(frozen=True)
class _Difference(Estimate):
    """Candidate less a factor times the baseline, shown by the ratio."""

    of: RunRatio
    factor: float
    baseline: float

    @property
    def n(self) -> int:
        return self.of.n

    @property
    def method(self) -> str:
        return self.of.method

    @property
    def value(self) -> float | None:
        return None if self.of.value is None else (self.of.value - self.factor) * self.baseline

    def bound(self, confidence: float, side: Side) -> float | None:
        found = self.of.bound(confidence, side)
        return None if found is None else (found - self.factor) * self.baseline

    def p_value(self, threshold: float, side: Side) -> float | None:
        return self.of.p_value(self.factor + threshold / self.baseline, side)


@dataclass(frozen=True)
class RecipeComparison(Comparison):
    """Runs of a candidate beside those of a baseline.

    Args:
        of: Their ratio.
        baseline_value: What is printed of the baseline.
        candidate_value: What is printed of the candidate.
    """

    of: RunRatio
    baseline_value: float | None = None
    candidate_value: float | None = None

    def difference(self, factor: float, margin: float) -> Estimate:
        return _Difference(self.of, factor, self.baseline_value or 1.0)

    def ratio(self) -> Estimate | None:
        return self.of


def run_ratio(
    candidate: ArrayLike,
    baseline: ArrayLike,
    rng: np.random.Generator,
    limits: tuple[float, float] = (math.inf, math.inf),
) -> RunRatio:
    """The factor by which runs of a candidate take longer than those of a baseline.

    Args:
        candidate: shape (n,), what each run took; infinite where it never got there.
        baseline: shape (m,), likewise.
        rng: Draws arrangements where there are too many to go through.
        limits: Ends of observation of both.
    """
    a, b = np.asarray(candidate, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    total = len(a) + len(b)
    if math.comb(total, len(a)) <= EXACT:
        every = np.array(list(combinations(range(total), len(a))), dtype=np.int32).reshape(-1, len(a))
        return RunRatio(a, b, limits, every, drawn=False)
    drawn = np.argsort(rng.random((DRAWN, total)), axis=1)[:, : len(a)].astype(np.int32)
    return RunRatio(a, b, limits, drawn, drawn=True)

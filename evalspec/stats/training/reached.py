"""Quantiles over runs of what a run takes to reach a target, by the exact binomial."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalspec.evidence.estimate import Estimate, Needed, Side
from evalspec.evidence.methods import NO_BOUND
from evalspec.evidence.words import plural
from evalspec.stats.binomial import above, at_most
from evalspec.stats.shares.proportion import Proportion, rows_for_power

DECIDABLE = 0.99
"""Share that is planned with where all runs, or none, lie within: 1 needs no power at all."""
MOST_RUNS = 10_000
_METHOD = "exact binomial on {runs}: order statistics"


@dataclass(frozen=True)
class RunQuantile(Estimate):
    """The q-quantile over runs of a quantity that each run shows up to an interval.

    The truth of a run lies in (``least``, ``most``]: it was not reached at one evaluation, and at the next it was. PASS
    counts ``most``, FAIL counts ``least``. Of a run that never got there both are infinite; of one whose log stops
    before its end ``most`` alone.

    Args:
        least: shape (n,), the last evaluation before the target.
        most: shape (n,), the evaluation that reached it.
        q: The quantile, in the open interval 0..1.
        seen: shape (n,), as far as each run went, for a value where most runs never got there.

    References:
        Conover (1999), Practical Nonparametric Statistics, 3.2 (the quantile test).
    """

    least: NDArray[np.float64]
    most: NDArray[np.float64]
    q: float
    seen: NDArray[np.float64]

    @property
    def n(self) -> int:
        """Runs."""
        return len(self.most)

    @property
    def value(self) -> float | None:
        """The sample's own quantile; the furthest that a run went where it falls among those that never got there."""
        if math.isfinite(self._own):
            return self._own
        known = [*self.seen[np.isfinite(self.seen)], *self.most[np.isfinite(self.most)]]
        return float(max(known)) if known else None

    @cached_property
    def _own(self) -> float:
        """The sample's own quantile; infinite where it falls among runs that never got there, or there is none."""
        if not self.n:
            return math.inf
        ordered = np.sort(self.most)
        place = self.q * self.n
        upper = float(ordered[min(self.n - 1, math.floor(place + 1e-9))])
        lower = float(ordered[max(0, math.ceil(place - 1e-9) - 1)])
        return lower if lower == upper else (lower + upper) / 2.0

    @property
    def method(self) -> str:
        """Method of the bounds, and why there is none where the value is only as far as runs went."""
        by = _METHOD.format(runs=plural(self.n, "run"))
        return f"{by}; {NO_BOUND}{self._lost}" if self._lost and not math.isfinite(self._own) else by

    @property
    def _lost(self) -> str:
        lost = int(np.isinf(self.most).sum())
        return f"{lost} of {plural(self.n, 'run')} did not get there" if lost else ""

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Sentence on runs that never got there."""
        return (f"{self._lost}, and count as later than any limit.",) if self._lost else ()

    def within(self, threshold: float, side: Side) -> int:
        """Runs within the threshold: those that surely are for ``upper``, those that may be for ``lower``."""
        if side == "upper":
            return int((self.most <= threshold).sum())
        # A truth above `least` may still be the threshold or less where `least` is less.
        return int((self.least < threshold).sum())

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Binomial tail of the runs within."""
        if not self.n:
            return None
        k = self.within(threshold, side)
        return float(above(k - 1, self.n, self.q) if side == "upper" else at_most(k, self.n, self.q))

    def bound(self, confidence: float, side: Side) -> float | None:
        """The order statistic beyond which the binomial allows no more; None: a run that never got there."""
        if not self.n:
            return None
        alpha = 1.0 - confidence
        counts = np.arange(self.n + 1)
        if side == "upper":
            enough = np.flatnonzero(above(counts - 1, self.n, self.q) <= alpha)
            bound = np.sort(self.most)[enough[0] - 1] if len(enough) and enough[0] > 0 else math.inf
        else:
            few = np.flatnonzero(at_most(counts, self.n, self.q) <= alpha)
            bound = np.sort(self.least)[few[-1]] if len(few) and few[-1] < self.n else math.inf
        return float(bound) if math.isfinite(bound) else None

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Runs with which the side on which the share within lies is shown in 80 % of samples."""
        if not self.n or not math.isfinite(threshold):
            return None
        share = min(DECIDABLE, max(1.0 - DECIDABLE, self.within(threshold, "upper") / self.n))
        if abs(share - self.q) < 1e-9:
            return None
        return Needed(min(MOST_RUNS, rows_for_power(share, self.q, alpha)), "runs", self.n)


@dataclass(frozen=True)
class HigherQuantile(Estimate):
    """The q-quantile over runs of what is better when it is higher, so that 1 - q of the runs are at it or above.

    Args:
        values: shape (n,), of each run; minus infinity where a run has none.
        q: The quantile, in the open interval 0..1.
        open: shape (n,), the run had not ended: it counts as below for ``lower``, as above for ``upper``.
    """

    values: NDArray[np.float64]
    q: float
    open: NDArray[np.bool_]

    @cached_property
    def _turned(self) -> RunQuantile:
        least, most = np.where(self.open, -np.inf, -self.values), np.where(self.open, np.inf, -self.values)
        return RunQuantile(least, most, 1.0 - self.q, -self.values)

    @property
    def n(self) -> int:
        """Runs."""
        return len(self.values)

    @property
    def value(self) -> float | None:
        """The sample's own quantile, by the nearest rank below."""
        found = self._turned.value
        return None if found is None else -found

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return _METHOD.format(runs=plural(self.n, "run"))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Binomial tail of the runs that are at the threshold or above."""
        if not self.n:
            return None
        if side == "lower":
            return self._turned.p_value(-threshold, "upper")
        # What lies on the threshold meets it.
        at_or_above = int(((self.values >= threshold) | self.open).sum())
        return float(at_most(at_or_above, self.n, 1.0 - self.q))

    def bound(self, confidence: float, side: Side) -> float | None:
        """The order statistic beyond which the binomial allows no more."""
        found = self._turned.bound(confidence, "upper" if side == "lower" else "lower")
        return None if found is None else -found

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Runs, as of `RunQuantile`."""
        return self._turned.n_to_decide(-threshold, alpha)


def runs_to_pass(q: float, confidence: float, missed: int = 0) -> int:
    """The fewest runs that show a quantile where so many of them are not within.

    Args:
        q: The quantile, in the open interval 0..1.
        confidence: Of the decision.
        missed: Runs that are not within.
    """
    return next(
        n for n in range(missed + 1, MOST_RUNS) if float(above(n - missed - 1, n, q)) <= 1.0 - confidence + 1e-12
    )


def run_quantile(least: ArrayLike, most: ArrayLike, q: float, seen: ArrayLike | None = None) -> RunQuantile:
    """The q-quantile over runs.

    Args:
        least: shape (n,), the last evaluation of each run before the target; infinite where it never got there.
        most: shape (n,), the evaluation that reached it; infinite likewise.
        q: In the open interval 0..1.
        seen: shape (n,), as far as each run went; None: not known.

    Raises:
        ValueError: Shapes differ, ``q`` is none, or an interval ends before it begins.
    """
    first, last = np.asarray(least, dtype=np.float64), np.asarray(most, dtype=np.float64)
    gone = np.full(len(last), np.nan) if seen is None else np.asarray(seen, dtype=np.float64)
    if not 0.0 < q < 1.0 or first.shape != last.shape or gone.shape != last.shape or (first > last).any():
        raise ValueError(f"not intervals of runs, or no quantile: {first.shape}, {last.shape}, {q}")
    return RunQuantile(first, last, q, gone)


@dataclass(frozen=True)
class OpenShare(Estimate):
    """A share of runs some of which are open: they do not count for PASS, and count for FAIL.

    Args:
        sure: Share of those that surely count.
        possible: Share of those that may.
    """

    sure: Proportion
    possible: Proportion

    @property
    def value(self) -> float | None:
        """The share of those that surely count."""
        return self.sure.value

    @property
    def n(self) -> int:
        """Runs."""
        return self.sure.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return self.sure.method

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound of the side's own share."""
        return (self.sure if side == "lower" else self.possible).bound(confidence, side)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """P-value of the side's own share."""
        return (self.sure if side == "lower" else self.possible).p_value(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """As of the sure share."""
        return self.sure.n_to_decide(threshold, alpha)

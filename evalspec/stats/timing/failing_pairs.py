"""Percentiles of two models in pairs of processes, also where queries failed or slow ones came in few episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.estimate import Comparison, Estimate, Needed, Side
from evalspec.stats.timing.levels import median_unbiased
from evalspec.stats.timing.percentile import Percentile, percentile
from evalspec.stats.timing.processes import OverUnits, PairedTiming, paired_log_ratio
from evalspec.stats.timing.share_over import share_over

FEW_FAILED = 0.001
"""Share of queries that may fail where a number is made of answers alone (mean, jitter) and is to be compared."""


@dataclass(frozen=True)
class FailedShare(Estimate):
    """Claim that a candidate's percentile lies among its failed queries, and the baseline's does not.

    Its quantile is then infinite, and so is its ratio to any finite one. That is a claim on the share of queries that
    fail, more than 1 - p, and is decided as such (binomial with a design effect, t where processes differ). Nothing
    here shows that a requirement holds.

    Args:
        candidate_failed: One array per pair, shape (q,).
        p: The percentile as a fraction; None: a number that is made of answers alone.
        finite_baseline: The baseline's percentile lies among its answers in every pair.
        notes: Why nothing passes.
    """

    candidate_failed: tuple[NDArray[np.bool_], ...]
    p: float | None
    finite_baseline: bool
    notes: tuple[str, ...] = field()

    @property
    def value(self) -> float | None:
        """Infinite where more of the candidate's queries failed than the percentile allows, else None."""
        failed = np.concatenate(self.candidate_failed)
        violated = self.p is not None and self.finite_baseline and float(failed.mean()) > 1.0 - self.p
        return math.inf if violated else None

    @property
    def n(self) -> int:
        """Pairs."""
        return len(self.candidate_failed)

    @property
    def method(self) -> str:
        """Method by which a violation is shown."""
        if self.p is None:
            return "queries failed, and what is computed from answers alone is not compared"
        return f"share of failed queries over {1.0 - self.p:.4g} (binomial with a design effect)"

    def bound(self, confidence: float, side: Side) -> float | None:
        """No bound: there is no finite number."""
        return None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Evidence for more failed queries than the percentile allows, whatever the threshold; none that it holds."""
        if side == "upper" or self.p is None or not self.finite_baseline:
            return None
        failed = [np.where(one, np.inf, 0.0) for one in self.candidate_failed]
        return share_over(failed, 1.0).p_value(1.0 - self.p, "lower")


class _OfPairs(Comparison):
    """Comparison whose values are those of the pairs."""

    timing: PairedTiming

    @property
    def baseline_value(self) -> float | None:
        return self.timing.baseline_value

    @property
    def candidate_value(self) -> float | None:
        return self.timing.candidate_value


@dataclass(frozen=True)
class FailingPairs(_OfPairs):
    """Two models in pairs of fresh processes, where too many queries failed.

    Args:
        timing: The pairs' numbers, infinite where a quantile lies among failed queries.
        failed: What failure says in their place.
    """

    timing: PairedTiming
    failed: FailedShare

    def difference(self, factor: float, margin: float) -> FailedShare:
        """Estimate from failed queries, for any factor and margin."""
        return self.failed

    def ratio(self) -> FailedShare:
        """Estimate from failed queries."""
        return self.failed


@dataclass(frozen=True)
class FewEpisodes(Estimate):
    """A comparison of percentiles that shows no PASS: too few separate episodes lie over one.

    Args:
        over_pairs: What t over the pairs says; a violation may be shown by it.
        reason: Why there is no upper bound.
        queries: With which they could be counted.
        now: Queries that there were.
    """

    over_pairs: OverUnits
    reason: str = field()
    queries: int
    now: int

    @property
    def value(self) -> float | None:
        """Value over the pairs."""
        return self.over_pairs.value

    @property
    def n(self) -> int:
        """Pairs."""
        return self.over_pairs.n

    @property
    def method(self) -> str:
        """Method by which a violation is shown, and the reason why nothing passes."""
        return f"{self.over_pairs.method}; no upper bound: {self.reason}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound of t from below; none from above."""
        return self.over_pairs.bound(confidence, side) if side == "lower" else None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value of t for a violation; none for the other side."""
        return self.over_pairs.p_value(threshold, side) if side == "lower" else None

    def n_to_decide(self, threshold: float, alpha: float) -> Needed | None:
        """Queries of one model."""
        return Needed(self.queries, "queries", self.now)


@dataclass(frozen=True)
class RarelySlow(_OfPairs):
    """Two models in pairs of fresh processes, with few episodes over a percentile.

    Args:
        timing: The pairs' numbers.
        looked_at: The model whose slow queries came in few episodes: its percentile of all pairs together.
        whose: What it is called.
    """

    timing: PairedTiming
    looked_at: Percentile
    whose: str

    def difference(self, factor: float, margin: float) -> FewEpisodes:
        """Difference as `PairedTiming.difference`, from below."""
        return self._few(self.timing.difference(factor, margin))

    def ratio(self) -> FewEpisodes | None:
        """Ratio as `PairedTiming.ratio`, from below."""
        ratio = self.timing.ratio()
        return None if ratio is None else self._few(ratio)

    def _few(self, estimate: OverUnits) -> FewEpisodes:
        seen = self.looked_at
        return FewEpisodes(estimate, f"{seen.too_few} of {self.whose}", seen.to_count, seen.n)


Pairs = PairedTiming | FailingPairs | RarelySlow


def paired_quantiles(
    candidate: Sequence[NDArray[np.float64]], baseline: Sequence[NDArray[np.float64]], p: float
) -> Pairs:
    """The p-quantiles of two models timed in pairs of fresh processes; a failed query is slower than any.

    Up to 1 - p of the queries of a process may fail: its quantile is then still that of an answer. Where more failed,
    on either side, nothing passes; and a candidate of which more fail is slower than any baseline that answers. Nor
    does anything pass where all pairs together have fewer than 10 separate episodes over a model's quantile.

    The quantiles are median-unbiased: nearest ranks are too low by half a query, by more where the tail is heavier. Of
    a candidate with the heavier tail and a p99 just at the limit those pass in 17 % with 200 queries a side.

    Args:
        candidate: One array per pair, shape (q,), ms, infinite where a query failed.
        baseline: Of the same pairs.
        p: The percentile as a fraction.
    """
    ours, theirs = (np.array([_quantile(one, p) for one in side]) for side in (candidate, baseline))
    timing = paired_log_ratio(ours, theirs)
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return FailingPairs(timing, _failed(candidate, baseline, p, finite_baseline=bool(np.isfinite(theirs).all())))
    for side, whose in ((candidate, "the candidate's"), (baseline, "the baseline's")):
        together = percentile(side, p)
        if together.few_episodes:
            return RarelySlow(timing, together, whose)
    return timing


def _quantile(series: NDArray[np.float64], p: float) -> float:
    """Quantile of a series; finite where there is an answer at its rank."""
    ordered = np.sort(series)
    quantile = median_unbiased(ordered, p)
    if math.isfinite(quantile):
        return quantile
    own = percentile([series], p).own
    return math.inf if own is None else own


def of_answers(
    timing: PairedTiming, candidate: Sequence[NDArray[np.float64]], baseline: Sequence[NDArray[np.float64]]
) -> PairedTiming | FailingPairs:
    """A number that is made of answers alone: compared while hardly any query failed on either side.

    Args:
        timing: The pairs' numbers.
        candidate: As in `paired_quantiles`.
        baseline: As in `paired_quantiles`.
    """
    if max(_share(candidate), _share(baseline)) <= FEW_FAILED:
        return timing
    return FailingPairs(timing, _failed(candidate, baseline, None, finite_baseline=False))


def _failed(
    candidate: Sequence[NDArray[np.float64]],
    baseline: Sequence[NDArray[np.float64]],
    p: float | None,
    *,
    finite_baseline: bool,
) -> FailedShare:
    allowed = FEW_FAILED if p is None else 1.0 - p
    note = (
        f"In the pairs {100 * _share(candidate):.2f} % of the candidate's queries failed and "
        f"{100 * _share(baseline):.2f} % of the "
        f"baseline's, in a process more than the {allowed * 100:.4g} % with which this could hold."
    )
    return FailedShare(tuple(~np.isfinite(one) for one in candidate), p, finite_baseline, (note,))


def _share(side: Sequence[NDArray[np.float64]]) -> float:
    return float(np.mean(~np.isfinite(np.concatenate(side)))) if side else 0.0

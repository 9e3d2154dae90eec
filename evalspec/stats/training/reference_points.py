"""Reference convergence points of MLPerf Training: samples that a reference took, by batch size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Form = Literal["rules", "code"]
"""The rules leave the fastest and the slowest point out of the standard deviation; `rcp_checker` does not, and looks at
pruned points alone."""
ALPHA = 0.05
MANY_RUNS = 40
"""From so many runs on four are dropped on each side, and else one."""


@dataclass(frozen=True)
class PointGroup:
    """Points of one batch size.

    Args:
        batch: Samples of a step.
        samples: shape (n,), what each run of the reference took.
        between: Batch sizes that it was interpolated from; None: it was measured.
    """

    batch: int
    samples: NDArray[np.float64]
    between: tuple[int, int] | None = None


@dataclass(frozen=True)
class ConvergenceTest:
    """Test of MLPerf: the mean of a submission against the least that a reference allows.

    Args:
        mean: Of the submission, without the dropped runs; infinite: too many did not converge.
        reference: Mean of the reference.
        deviation: Of the reference.
        least: Least mean that passes.
        between: Batch sizes that the reference was interpolated from; None: it was measured.
        smallest: The submission's batch is smaller than any: it is held against the smallest, which only a pass shows.
    """

    mean: float
    reference: float
    deviation: float
    least: float
    between: tuple[int, int] | None
    smallest: bool = False

    @property
    def passed(self) -> bool:
        """True if the submission is not too fast, and converged."""
        return math.isfinite(self.mean) and self.mean >= self.least

    @property
    def speedup(self) -> float:
        """Factor by which a submission may be faster."""
        return self.reference / self.least if self.least > 0.0 else math.inf

    @property
    def factor(self) -> float:
        """Factor by which the score of a submission that was faster by chance is normalised; else 1."""
        return max(1.0, self.reference / self.mean)

    @property
    def known(self) -> bool:
        """False where points are missing: a smaller batch than any, which needs fewer samples than the smallest."""
        return self.passed or not self.smallest


def dropped(runs: int) -> int:
    """Runs that a score of MLPerf drops on each side, and of which the slowest need not converge."""
    return 4 if runs >= MANY_RUNS else 1


def olympic_mean(values: ArrayLike, drop: int = 1) -> float:
    """Mean without the least and the largest; infinite where more did not converge than are dropped; NaN of none."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    kept = ordered[drop : len(ordered) - drop]
    return float(kept.mean()) if len(kept) else math.nan


def group_at(groups: Iterable[PointGroup], batch: int) -> PointGroup | None:
    """Points at a batch size: as measured, or interpolated between its neighbours; None: it lies outside.

    Of two groups the points are interpolated in their order, so that mean and standard deviation are so, too. Both
    groups draw their own chance, so that the points of an interpolated one spread a little more than they need.

    Args:
        groups: In any order, a batch size each.
        batch: Of the runs that are compared.
    """
    ordered = sorted(groups, key=lambda one: one.batch)
    same = next((one for one in ordered if one.batch == batch), None)
    if same is not None:
        return same
    below = [one for one in ordered if one.batch < batch]
    above = [one for one in ordered if one.batch > batch]
    if not below or not above:
        return None
    low, high = below[-1], above[0]
    share = (batch - low.batch) / (high.batch - low.batch)
    n = min(len(low.samples), len(high.samples))
    points = (1.0 - share) * _in_order(low.samples, n) + share * _in_order(high.samples, n)
    return PointGroup(batch, points, (low.batch, high.batch))


def _in_order(samples: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """So many quantiles of the points, evenly spaced; all of them where there are so many."""
    ordered = np.sort(samples)
    if len(ordered) == n:
        return ordered
    places = (np.arange(n) + 0.5) / n * len(ordered) - 0.5
    return np.interp(places, np.arange(len(ordered)), ordered)


def pruned(groups: Iterable[PointGroup], drop: int = 1) -> list[PointGroup]:
    """Groups without those that converge slower than their neighbours allow, as `rcp_checker` leaves them out.

    Args:
        groups: In any order, a batch size each.
        drop: Points that means leave out on each side.
    """
    ordered = sorted(groups, key=lambda one: one.batch)
    means = {one.batch: olympic_mean(one.samples, drop) for one in ordered}
    fastest = min(ordered, key=lambda one: means[one.batch])
    kept = [one for one in ordered if one.batch >= fastest.batch]
    place = 1
    while place < len(kept) - 1:
        low, here, high = (one.batch for one in kept[place - 1 : place + 2])
        if means[here] > float(np.interp(here, [low, high], [means[low], means[high]])):
            del kept[place]
            place -= 1
        # Where the first was removed its follower is looked at, as the checker does, and not the first again.
        place += 1
    return kept


def convergence_test(
    samples: ArrayLike, groups: Sequence[PointGroup], batch: int, form: Form = "rules"
) -> ConvergenceTest | None:
    """The test of MLPerf: one-sided, two groups of one variance, at 5 %; None: the batch is larger than of any point.

    Args:
        samples: shape (n,), what each run of the submission took; infinite where it did not converge.
        groups: Of the reference, a batch size each.
        batch: Of the submission.
        form: Of the rules, or of `rcp_checker`.

    References:
        MLPerf Training rules, 'Reference Convergence Points' and appendix; mlperf-logging, `rcp_checker.py`.
    """
    from scipy.special import stdtrit

    own = np.asarray(samples, dtype=np.float64)
    drop = dropped(len(own))
    usable = [one for one in groups if len(one.samples) > 2 * drop]
    if not usable or len(own) <= 2 * drop:
        return None
    usable = pruned(usable, drop) if form == "code" else usable
    found = _moments(usable, batch, drop, form, 2 * len(own))
    if found is None:
        return None
    mean, deviation, count, between = found
    # Both the rules and the checker count the submission's runs without the fastest and the slowest.
    runs = len(own) - 2
    reach = float(stdtrit(count + runs - 2, 1.0 - ALPHA)) * deviation * math.sqrt(1.0 / count + 1.0 / runs)
    smallest = batch < min(one.batch for one in usable)
    return ConvergenceTest(olympic_mean(own, drop), mean, deviation, mean - reach, between, smallest)


def _moments(
    groups: Sequence[PointGroup], batch: int, drop: int, form: Form, interpolated: int
) -> tuple[float, float, int, tuple[int, int] | None] | None:
    """Mean, standard deviation and number of points at a batch size, and what it was interpolated from."""
    ordered = sorted(groups, key=lambda one: one.batch)
    moments = {}
    for one in ordered:
        points = np.sort(one.samples)
        inner = points[drop : len(points) - drop]
        moments[one.batch] = (float(inner.mean()), float((inner if form == "rules" else points).std()), len(inner))
    if batch in moments:
        return (*moments[batch], None)
    below, above = [one for one in moments if one < batch], [one for one in moments if one > batch]
    if not above:
        return None
    if not below:
        return (*moments[above[0]], None)
    ends = (below[-1], above[0])
    mean, deviation = (float(np.interp(batch, ends, [moments[one][which] for one in ends])) for which in (0, 1))
    return mean, deviation, interpolated, ends

"""Designs from one value and its bounds in an earlier record, allowing for what these bounds themselves don't know."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.evidence.estimate import Side
from evalspec.stats.means.lognormal import variances
from evalspec.stats.power import ProportionDesign
from evalspec.stats.recorded import recorded_proportion

PER_DEGREE = 4
"""Units that tell of a variance what one degree of freedom does: the square of an exponential loss is that uneven."""
MOST_DEGREES = 5000
"""Degrees of freedom from which on the variance is as good as known."""

WIDER, DIFFERING = 1.4, 2.0
"""Times the standard error of a percentile to pass, and of one whose processes differed: its upper bound grows
faster than they do, and 5 tell little of how much that is. Evidence read at the threshold has grown already."""
UNLIKE = 5.0
"""Times the variance of a share of timed queries to pass: alike processes seem to differ in two runs of five, and then
t over them decides."""
_NEARLY_NONE = 1e-12
_LEAST_P = 1e-12

Growth = Callable[[float], float]
"""Times the error at the recorded value that it is at a truth."""
Limits = tuple[float, float]


@dataclass(frozen=True, slots=True)
class WaldDesign:
    """An estimate whose error is roughly normal, its standard error known from one record.

    Args:
        passing: Standard error on the side that a PASS shows, at the recorded value.
        failing: On the other side: skewed losses have unlike ones.
        passes: The side that a PASS shows.
        degrees: Of freedom of either.
        growth: Times by which it is larger at a truth than at the recorded value.
        limits: What the parameter may be.
    """

    passing: float
    failing: float
    passes: Side
    degrees: int
    growth: Growth
    limits: Limits

    @property
    def assumed(self) -> str:
        """Standard error, and where it comes from."""
        return f"standard error {self.passing:.3g} (from the last record)"

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that Wald's test is significant, over what the standard error may be."""
        from scipy.special import ndtr, ndtri

        error = (self.passing if side == self.passes else self.failing) * self.growth(truth)
        if error <= 0.0:
            return 0.0
        chances, times = variances(self.degrees + 1)
        effect = _beyond(truth, threshold, side) / error / np.sqrt(times)
        return float(chances @ ndtr(effect + float(ndtri(alpha))))


@dataclass(frozen=True, slots=True)
class StudentDesign:
    """A mean over a few processes or pairs, by t, its standard error known from as few.

    Args:
        passing: Standard error on the side that a PASS shows; of the logarithm where ``log``.
        failing: On the other side.
        passes: The side that a PASS shows.
        processes: How many.
        log: The quantity is positive, and its error in proportion to it.
        limits: What the parameter may be.
    """

    passing: float
    failing: float
    passes: Side
    processes: int
    log: bool
    limits: Limits

    @property
    def assumed(self) -> str:
        """Standard error, and where it comes from."""
        error = f"{100.0 * self.passing:.3g} %" if self.log else f"{self.passing:.3g}"
        return f"standard error {error}, known from {self.processes} processes (from the last record)"

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that the t test is significant, over what the standard error may be.

        References:
            Krishnamoorthy and Mathew (2009), Statistical Tolerance Regions, 1.4 (noncentral t).
        """
        from scipy.special import nctdtr, ndtr, stdtrit

        error = self.passing if side == self.passes else self.failing
        if error <= 0.0 or (self.log and threshold <= 0.0):
            return 0.0
        if self.log:
            truth, threshold = math.log(max(truth, 1e-300)), math.log(threshold)
        chances, times = variances(self.processes)
        # Beyond a noncentrality of 35 nctdtr loses its digits; the normal distribution is exact enough there.
        effect = np.clip(_beyond(truth, threshold, side) / error / np.sqrt(times), -35.0, 35.0)
        critical = float(stdtrit(self.processes - 1.0, 1.0 - alpha))
        below: NDArray[np.float64] = nctdtr(self.processes - 1.0, effect, critical)
        return float(chances @ np.where(np.isfinite(below), 1.0 - below, ndtr(effect - critical)))


@dataclass(frozen=True, slots=True)
class DistanceDesign:
    """A distance of two populations: its upper bound is normal at one event, its noise that of the largest of many.

    The distance of the samples exceeds the true one by x standard errors with a chance of at most 2 exp(-x^2/2), which
    is Kolmogorov's limit for the largest difference of two distribution functions.

    Args:
        error: Standard error at the event where the populations differ most.
        noise: The same for what noise adds to the distance anywhere.
        most: The largest distance.

    References:
        Massart (1990), The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, Annals of Probability 18(3).
    """

    error: float
    noise: float
    most: float

    @property
    def assumed(self) -> str:
        """Standard error, and where it comes from."""
        return f"standard error {self.error:.3g} at the point of largest difference (from the last record)"

    @property
    def limits(self) -> tuple[float, float]:
        """0 to the largest distance."""
        return (0.0, self.most)

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that the distance of the samples is far enough on this side."""
        from scipy.special import ndtr, ndtri

        if side == "lower":
            least = threshold + _largest_noise(alpha) * self.noise
            return float(ndtr((truth - least) / self.error))
        room = (threshold - truth + float(ndtri(alpha)) * self.error) / self.noise
        return max(0.0, 1.0 - 2.0 * math.exp(-0.5 * max(0.0, room) ** 2))


@dataclass(frozen=True, slots=True)
class ShareDesign:
    """A share of which either bound tells by how many independent rows it is known.

    Args:
        passing: What the bound of a PASS tells.
        failing: What the other one does: the worst of many parts is held to stricter levels there.
        passes: The side that a PASS shows.
    """

    passing: ProportionDesign
    failing: ProportionDesign
    passes: Side

    @property
    def assumed(self) -> str:
        """The design effect of a PASS."""
        return self.passing.assumed

    @property
    def limits(self) -> tuple[float, float]:
        """0..1."""
        return (0.0, 1.0)

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Power as of a share of so many rows."""
        return (self.passing if side == self.passes else self.failing).power(truth, threshold, side, alpha)


def recorded_distance(
    value: float, lower: float | None, upper: float, confidence: float, most: float
) -> DistanceDesign:
    """A design of a distance.

    Args:
        value: The recorded distance.
        lower: Its lower bound; one at 0 tells only that noise may be as large as the value.
        upper: Its upper bound.
        confidence: Of either.
        most: The largest distance.
    """
    error = standard_error(value, upper, confidence)
    seen = value - max(0.0, lower or 0.0)
    return DistanceDesign(error, max(error, seen / _largest_noise(1.0 - confidence)), most)


def recorded_wald(
    value: float,
    bounds: tuple[float, float],
    confidence: float,
    passes: Side,
    units: int,
    growth: Growth,
    limits: Limits,
) -> WaldDesign:
    """A design of an estimate whose error is roughly normal.

    Args:
        value: The recorded value.
        bounds: Its bound on the side of a PASS, and the other one.
        confidence: Of either.
        passes: The side that a PASS shows.
        units: Rows, clusters or groups that it rests on, whose losses may be skewed.
        growth: How the error changes with the truth.
        limits: What the parameter may be.
    """
    passing, failing = _errors(value, bounds, confidence, None)
    degrees = min(MOST_DEGREES, max(1, units // PER_DEGREE))
    return WaldDesign(passing, failing, passes, degrees, growth, limits)


def recorded_student(
    value: float,
    bounds: tuple[float, float],
    confidence: float,
    passes: Side,
    processes: int,
    limits: Limits,
    *,
    log: bool,
    counted: bool = False,
) -> StudentDesign:
    """A design of what is held to Student's t over processes: by the record, or maybe by a later run.

    Args:
        value: The recorded value.
        bounds: As of `recorded_wald`.
        confidence: Of either.
        passes: The side that a PASS shows.
        processes: How many.
        limits: What the parameter may be.
        log: Errors are in proportion to the quantity, where it and its bounds are positive.
        counted: The bounds are those of counted queries, since processes did not seem to differ.
    """
    log = log and min(value, *bounds) > 0.0
    if log:
        value, bounds = math.log(value), (math.log(bounds[0]), math.log(bounds[1]))
    passing, failing = _errors(value, bounds, confidence, None if counted else processes)
    return StudentDesign(passing, failing, passes, processes, log, limits)


def recorded_percentile(
    design: StudentDesign, value: float, *, counted: bool, shown: tuple[float, float] | None = None
) -> StudentDesign:
    """A design of a percentile over processes, which a later run holds to t where they seem to differ.

    Args:
        design: The `recorded_student` of the same bounds.
        value: The recorded value.
        counted: The bounds are those of counted queries, since processes did not seem to differ.
        shown: The threshold that the record was held against, and the p-value of its PASS there; None: not known.
    """
    passing = design.passing * (WIDER if counted else DIFFERING)
    if shown is None or counted or shown[1] >= 0.5 or (design.log and shown[0] <= 0.0):
        return replace(design, passing=passing)
    at, p_pass = shown
    value, at = (math.log(value), math.log(at)) if design.log else (value, at)
    there = standard_error(value, at, 1.0 - max(p_pass, _LEAST_P), processes=design.processes)
    return replace(design, passing=min(passing, WIDER * there))


def recorded_share(
    value: float,
    bounds: tuple[float, float],
    confidence: float,
    n: int,
    passes: Side,
    *,
    timed: bool = False,
    clusters: int | None = None,
) -> ShareDesign:
    """A design of a share, whose design effect on either side is what makes the bound.

    Args:
        value: The recorded share.
        bounds: Its bound on the side of a PASS, and the other one; one at an end of the range tells nothing.
        confidence: Of either.
        n: Rows or queries.
        passes: The side that a PASS shows.
        timed: It is of queries that were timed in several processes.
        clusters: Clusters that told how much rows of one are alike; None: rows are independent.
    """
    near, far = bounds
    told = near if far in (value, 0.0, 1.0) else far
    passing, failing = (recorded_proportion(value, bound, confidence, n) for bound in (near, told))
    # How much rows of a cluster are alike is known from the clusters alone: one standard error more of it.
    unsure = 1.0 if clusters is None else 1.0 + math.sqrt(2.0 / max(1, clusters - 1))
    times = unsure * (UNLIKE if timed else 1.0)
    passing = replace(passing, design_effect=passing.design_effect * times)
    return ShareDesign(passing, replace(failing, design_effect=failing.design_effect * unsure), passes)


def _errors(value: float, bounds: tuple[float, float], confidence: float, processes: int | None) -> tuple[float, float]:
    """Standard errors behind two bounds; a bound that is missing takes the error of the other."""
    near, far = (standard_error(value, bound, confidence, processes=processes) for bound in bounds)
    return near, far or near


def standard_error(value: float, bound: float, confidence: float, *, processes: int | None = None) -> float:
    """Standard error behind a one-sided bound, by the normal distribution or by Student's t over processes.

    Args:
        value: The estimate.
        bound: Its bound.
        confidence: Of the bound, above one half.
        processes: So many; None: normal.

    Raises:
        InputError: The confidence can't be.
    """
    from scipy.special import ndtri, stdtrit

    if not 0.5 < confidence < 1.0:
        raise InputError(f"no design from a bound at {confidence:g}")
    return abs(bound - value) / float(ndtri(confidence) if processes is None else stdtrit(processes - 1.0, confidence))


def even(truth: float) -> float:
    """An error that is the same everywhere."""
    del truth
    return 1.0


def of_losses(value: float, error: float, most: float | None, n: int) -> Growth:
    """Growth of a mean of losses from 0 on: in proportion to it, as uneven as losses can be, at least as recorded.

    Args:
        value: Recorded, positive.
        error: Its standard error.
        most: The largest loss; None: there is none.
        n: Losses.
    """

    def growth(truth: float) -> float:
        largest = math.inf if most is None else math.sqrt(max(0.0, truth * (most - truth)) / n) / error
        return max(1.0, min(truth / value, largest))

    return growth


def of_range(value: float, least: float, most: float) -> Growth:
    """Growth of a quantity between two ends, as of a share.

    Args:
        value: Recorded, between them.
        least: The lower end.
        most: The upper end.
    """
    here = max(_NEARLY_NONE, (value - least) * (most - value))
    return lambda truth: math.sqrt(max(_NEARLY_NONE, (truth - least) * (most - truth) / here))


def _beyond(truth: float, threshold: float, side: Side) -> float:
    return (truth - threshold) * (1.0 if side == "lower" else -1.0)


def _largest_noise(alpha: float) -> float:
    """Standard errors that the largest of many differences exceeds with this chance at most."""
    return math.sqrt(-2.0 * math.log(alpha / 2.0))

"""What happens in the course of a run: steps from one level to another, and slow spells that come round again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalspec.stats.timing import DRIFT_FLOOR, block_medians

STEP_BLOCKS = 40
STEP_LEVEL = 0.001
PERIOD_LEVEL = 0.001
FEWEST_EPISODES = 8
FEWEST_ROUNDS = 5
"""Periods that a run must be long: what came round four times may be chance."""
_CELLS = 1 << 15
_AROUND = 81
"""Neighbouring frequencies, four to a round: ten rounds on either side."""
_SLOWEST = (0.01, 0.003, 0.001)
_GAP = 0.002
"""Of the run: slow queries closer than this are one spell."""


@dataclass(frozen=True)
class Step:
    """A lasting change of level.

    Args:
        at_s: When, from the start of the run.
        change: As a share of the level before; 0.5 is half as slow again.
        p_value: Two-sided, against no change.
    """

    at_s: float
    change: float
    p_value: float


def step(latencies_ms: ArrayLike, when_s: ArrayLike) -> Step | None:
    """The largest step between two levels of a run (Pettitt's test on 40 block medians).

    Args:
        latencies_ms: shape (q,), in order.
        when_s: shape (q,), seconds.

    Returns:
        None where nothing is shown at level 0.001, or the change is below 10 %.

    References:
        Pettitt (1979), A non-parametric approach to the change-point problem, Applied Statistics 28(2).
    """
    medians = block_medians(latencies_ms, STEP_BLOCKS)
    n = len(medians)
    if n < STEP_BLOCKS:
        return None
    signs = np.sign(medians[:, None] - medians[None, :])
    scores = np.array([signs[:t, t:].sum() for t in range(1, n)])
    split = int(np.argmax(np.abs(scores))) + 1
    p = min(1.0, 2.0 * math.exp(-6.0 * float(scores[split - 1]) ** 2 / (n**3 + n**2)))
    before, after = float(np.median(medians[:split])), float(np.median(medians[split:]))
    if p > STEP_LEVEL or before <= 0 or abs(after / before - 1.0) < DRIFT_FLOOR:
        return None
    seconds = np.asarray(when_s, dtype=np.float64)
    length = len(seconds) // n
    return Step(float(seconds[split * length] - seconds[0]), after / before - 1.0, p)


def settled(latencies_ms: ArrayLike) -> NDArray[np.float64]:
    """What followed the largest step of a run, where it is one; else the run as it is.

    A climb has two levels as well, its lower and its upper half. It is a step only where two levels fit the 40 block
    medians better (least squares) than a straight line, so that a climb is not cut in two before a trend is looked for.

    Args:
        latencies_ms: shape (q,), in order.

    Returns:
        shape (k,), k <= q.
    """
    spent = np.asarray(latencies_ms, dtype=np.float64)
    medians = block_medians(spent, STEP_BLOCKS)
    n = len(medians)
    if n < STEP_BLOCKS:
        return spent
    at = np.arange(n)
    two = [float(((medians[:t] - medians[:t].mean()) ** 2).sum() + ((medians[t:] - medians[t:].mean()) ** 2).sum())
           for t in range(1, n)]  # fmt: skip
    split = int(np.argmin(two)) + 1
    line = float(((medians - np.polyval(np.polyfit(at, medians, 1), at)) ** 2).sum())
    if two[split - 1] >= line or step(spent, np.arange(len(spent))) is None:
        return spent
    return spent[split * (len(spent) // n) :]


@dataclass(frozen=True)
class Period:
    """Slow spells that come round again.

    Args:
        every_s: Seconds from one to the next.
        episodes: Slow spells in the run.
        p_value: That spells at random times fall into step so well, at any period that was looked at.
    """

    every_s: float
    episodes: int
    p_value: float


def period(slow: NDArray[np.bool_], when_s: ArrayLike) -> Period | None:
    """A period in which slow spells come: garbage collection, a timer, a checkpoint.

    The power spectrum of the spells' starts is held against that of starts at random times (exponential, the largest
    of all frequencies looked at); power that is spread over many frequencies, as where spells come in clusters, is
    divided out. A train of pulses has as much power at every multiple of its frequency, so the
    lowest frequency with half of the largest power is the one.

    Args:
        slow: shape (q,), the query was slow, in order of time.
        when_s: shape (q,), seconds.

    Returns:
        None where nothing is shown at level 0.001, with fewer than 8 spells, or where it came round fewer than 5 times.

    References:
        Lewis (1970), Remarks on the theory, computation and application of the spectral analysis of series of
        events, Journal of Sound and Vibration 12(3).
    """
    seconds = np.asarray(when_s, dtype=np.float64)
    starts = _starts(seconds[slow])
    count = len(starts)
    span = float(seconds[-1] - seconds[0]) if len(seconds) else 0.0
    if count < FEWEST_EPISODES or span <= 0:
        return None
    cells = np.bincount(((starts - seconds[0]) / span * (_CELLS - 1)).astype(np.int64), minlength=_CELLS)
    # A period shorter than two mean gaps would leave most of its rounds without a spell.
    highest = min(_CELLS // 4, 2 * count)
    power = _whitened(np.abs(np.fft.rfft(cells, 4 * _CELLS)[: 4 * highest + 1]) ** 2 / count)
    frequencies = np.arange(len(power)) / (4.0 * span)
    looked = frequencies >= FEWEST_ROUNDS / span
    power = np.where(looked, power, 0.0)
    best = float(power.max())
    p = -math.expm1(highest * math.log1p(-math.exp(-best))) if best > 0 else 1.0
    if p > PERIOD_LEVEL:
        return None
    first = int(np.flatnonzero(power >= 0.5 * best)[0])
    peak = first + int(np.argmax(power[first : first + 5]))
    return Period(float(1.0 / frequencies[peak]), count, p)


def slow_period(latencies_ms: ArrayLike, when_s: ArrayLike) -> Period | None:
    """A period among the slowest 1 %, 0.3 % or 0.1 % of queries: collections that are rarer drown among more.

    Args:
        latencies_ms: shape (q,), infinite where a query failed.
        when_s: shape (q,), seconds, rising.

    Returns:
        The most certain of those shown at level 0.001, all looks together; else None.
    """
    spent = np.asarray(latencies_ms, dtype=np.float64)
    ranked = np.sort(spent)
    found = []
    for share in _SLOWEST:
        count = int(share * len(spent))
        if count >= FEWEST_EPISODES:
            level = ranked[-count - 1]
            found.append(period(spent > level, when_s) if np.isfinite(level) else None)
    known = [one for one in found if one is not None and len(_SLOWEST) * one.p_value <= PERIOD_LEVEL]
    return min(known, key=lambda one: one.p_value, default=None)


def _whitened(power: NDArray[np.float64]) -> NDArray[np.float64]:
    """Power by that of its surroundings (the median of an exponential is ln 2), at least that of random times."""
    from scipy.ndimage import median_filter

    around = median_filter(power, size=_AROUND, mode="nearest") / math.log(2.0)
    whitened: NDArray[np.float64] = power / np.maximum(around, 1.0)
    return whitened


def _starts(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first of each group of slow queries."""
    if not len(times):
        return times
    gap = _GAP * float(times[-1] - times[0])
    first = np.concatenate(([True], np.diff(times) > gap))
    return times[first]

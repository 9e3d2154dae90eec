"""Changes in the course of a run: steps from one level to another, and slow spells that come round again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalspec.stats.timing.processes import DRIFT_FLOOR, block_medians

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
"""Share of the run: slow queries closer than this are one spell."""


@dataclass(frozen=True)
class LevelStep:
    """A lasting change of level.

    Args:
        at_s: When, from the start of the run.
        change: As a share of the level before; 0.5 is half as slow again.
        p_value: Two-sided, against no change.
    """

    at_s: float
    change: float
    p_value: float


def step(latencies_ms: ArrayLike, when_s: ArrayLike) -> LevelStep | None:
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
    p = min(1.0, 2.0 * math.exp(-6.0 * float(np.abs(scores).max()) ** 2 / (n**3 + n**2)))
    # The test says that there is a step; where it is, two levels by least squares tell more sharply.
    split = int(np.argmin(_two_levels(medians))) + 1
    before, after = float(np.median(medians[:split])), float(np.median(medians[split:]))
    if p > STEP_LEVEL or before <= 0 or abs(after / before - 1.0) < DRIFT_FLOOR:
        return None
    seconds = np.asarray(when_s, dtype=np.float64)
    length = len(seconds) // n
    return LevelStep(float(seconds[split * length] - seconds[0]), after / before - 1.0, p)


def settled(latencies_ms: ArrayLike) -> NDArray[np.float64]:
    """Latencies after the largest step of a run, where there is one; else the run as it is.

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
    at, two = np.arange(n), _two_levels(medians)
    split = int(np.argmin(two)) + 1
    medians = np.clip(medians, *np.quantile(medians, [0.05, 0.95]))
    line = float(((medians - np.polyval(np.polyfit(at, medians, 1), at)) ** 2).sum())
    if two[split - 1] >= line or step(spent, np.arange(len(spent))) is None:
        return spent
    return spent[split * (len(spent) // n) :]


def _two_levels(medians: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of squares that two levels leave, for each place of the step; shape (n - 1,).

    A single block that stands out is no level, so medians are held within their own 5 % and 95 % quantiles.
    """
    n = len(medians)
    medians = np.clip(medians, *np.quantile(medians, [0.05, 0.95]))
    before, total = np.cumsum(medians)[:-1], float(medians.sum())
    count = np.arange(1, n)
    explained = before**2 / count + (total - before) ** 2 / (n - count)
    return np.asarray(float((medians**2).sum()) - explained)


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
    return _period([slow], [np.asarray(when_s, dtype=np.float64)])


def _period(slow: Sequence[NDArray[np.bool_]], when_s: Sequence[NDArray[np.float64]]) -> Period | None:
    """The same over several processes, whose spectra are added up: each begins at another point of its period."""
    spans = [float(seconds[-1] - seconds[0]) if len(seconds) else 0.0 for seconds in when_s]
    starts = [_starts(seconds[mask]) - seconds[:1] for seconds, mask in zip(when_s, slow, strict=True)]
    count, span = sum(len(one) for one in starts), max(spans, default=0.0)
    if count < FEWEST_EPISODES or span <= 0:
        return None
    # A period shorter than two mean gaps would leave most of its rounds without a spell.
    highest = min(_CELLS // 4, 2 * max(len(one) for one in starts))
    some = [one for one in starts if len(one)]
    frequencies = np.arange(4 * highest + 1) / (4.0 * span)
    looked = frequencies >= FEWEST_ROUNDS / span
    added = sum((_power(one, span, highest) for one in some), np.zeros(len(frequencies)))
    power = np.where(looked, _whitened(added, len(some), int((~looked).sum())), 0.0)
    best = float(power.max())
    p = -math.expm1(highest * math.log1p(-_tail(best, len(some)))) if best > 0 else 1.0
    if p > PERIOD_LEVEL:
        return None
    first = int(np.flatnonzero(power >= 0.5 * best)[0])
    peak = first + int(np.argmax(power[first : first + 5]))
    return Period(float(1.0 / frequencies[peak]), count, p)


def _power(starts: NDArray[np.float64], span: float, highest: int) -> NDArray[np.float64]:
    """Power spectrum of one process; exponential with mean 1 at each frequency where starts come at random."""
    cells = np.bincount((starts / span * (_CELLS - 1)).astype(np.int64), minlength=_CELLS)
    power: NDArray[np.float64] = np.abs(np.fft.rfft(cells, 4 * _CELLS)[: 4 * highest + 1]) ** 2 / len(starts)
    return power


def _tail(power: float, processes: int) -> float:
    """Chance of as much power of so many processes."""
    from scipy.special import gammaincc

    return min(float(gammaincc(processes, power)), 1.0 - 1e-16)


def slow_period(latencies_ms: ArrayLike, when_s: ArrayLike) -> Period | None:
    """Period as `slow_periods` finds it in one process."""
    return slow_periods([np.asarray(latencies_ms, dtype=np.float64)], [np.asarray(when_s, dtype=np.float64)])


def slow_periods(latencies_ms: Sequence[NDArray[np.float64]], when_s: Sequence[NDArray[np.float64]]) -> Period | None:
    """A period among the slowest 1 %, 0.3 % or 0.1 % of queries: collections that are rarer drown among more.

    Args:
        latencies_ms: One array per process, shape (q,), infinite where a query failed.
        when_s: Of the same queries, seconds, rising.

    Returns:
        The most certain of those shown at level 0.001, all looks together; else None.
    """
    ranked = np.sort(np.concatenate([np.asarray(one, dtype=np.float64) for one in latencies_ms] or [np.empty(0)]))
    periods = []
    for share in _SLOWEST:
        count = int(share * len(ranked))
        if count >= FEWEST_EPISODES:
            level = ranked[-count - 1]
            periods.append(_period([one > level for one in latencies_ms], when_s) if np.isfinite(level) else None)
    known = [one for one in periods if one is not None and len(_SLOWEST) * one.p_value <= PERIOD_LEVEL]
    return min(known, key=lambda one: one.p_value, default=None)


def _whitened(power: NDArray[np.float64], processes: int, lowest: int) -> NDArray[np.float64]:
    """Power by that of its surroundings (by the median of a gamma variable), at least that of random times.

    Args:
        power: shape (f,).
        processes: Whose power was added up.
        lowest: The first frequency that is looked at; what lies below holds the mean, and no period.
    """
    from scipy.ndimage import median_filter
    from scipy.special import gammaincinv

    level = float(gammaincinv(processes, 0.5))
    if len(power) - lowest < _AROUND:
        around = np.median(power[lowest:]) if len(power) > lowest else np.ones(1)
    else:
        around = median_filter(power, size=_AROUND, mode="nearest")
    whitened: NDArray[np.float64] = power / np.maximum(around / level, 1.0)
    return whitened


def _starts(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first of each group of slow queries."""
    if not len(times):
        return times
    gap = _GAP * float(times[-1] - times[0])
    first = np.concatenate(([True], np.diff(times) > gap))
    return times[first]

"""How much queries that follow each other depend on each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLOCKS = 20
"""Equal blocks that the second estimate of the design effect is made from."""
FIRST_LAGS = 64
"""Lags of a long run that are counted one by one before all of them are transformed."""
LONG = 2048
"""Queries of a process from which on that is worth while."""
SPARSE = 8
"""Where fewer than one query in so many is over, the products are looked up from those."""


def design_effect(over: Sequence[NDArray[np.bool_]]) -> float:
    """How many dependent queries say as much as one independent query.

    The larger of two estimates of (variance of the share) / (variance were they independent), at least 1: summed
    autocorrelation by the initial positive sequence, and the spread of 20 equal blocks. Both are taken about the
    share over all processes, so that differences between processes count.

    Args:
        over: One array per process, shape (q,): the query was over the level, in the order in which they were made.

    Returns:
        At least 1; 1 where no query or every query is over.

    References:
        Geyer (1992), Practical Markov chain Monte Carlo, Statistical Science 7(4).
    """
    share = float(np.concatenate(over).mean()) if over else 0.0
    if not 0.0 < share < 1.0:
        return 1.0
    made = [series for series in over if len(series)]
    centred = [series.astype(np.float64) - share for series in made]
    return max(1.0, _initial_positive_sequence(made, [share] * len(made)), _blocks(centred, share))


def _initial_positive_sequence(over: Sequence[NDArray[np.bool_]], about: Sequence[float]) -> float:
    """1 + 2 x sum of autocorrelations, as long as sums of neighbouring pairs stay positive; pooled over processes.

    Args:
        over: One array per process, shape (q,), not empty.
        about: What each is centred about.
    """
    found = _first_lags(over, about) if max(map(len, over), default=0) > LONG else None
    return (
        _all_lags([s.astype(np.float64) - own for s, own in zip(over, about, strict=True)]) if found is None else found
    )


def _first_lags(over: Sequence[NDArray[np.bool_]], about: Sequence[float]) -> float | None:
    """The sum, where it ends within the first lags, which are counted one by one; else None.

    Most runs forget themselves within some tens of queries, and a transform of all lags of a long one takes a hundred
    times as long.
    """
    lagged = [_Lagged(series, own) for series, own in zip(over, about, strict=True)]
    variance = sum(one.covariance(0) for one in lagged)
    if variance <= 0:
        return 1.0
    total = 0.0
    for lag in range(0, FIRST_LAGS, 2):
        pair = sum(one.covariance(lag) + one.covariance(lag + 1) for one in lagged) / variance
        if pair <= 0:
            return 2.0 * total - 1.0
        total += pair
    return None


class _Lagged:
    """Sums of products of a series of yes and no with itself, so many queries later."""

    def __init__(self, series: NDArray[np.bool_], about: float) -> None:
        self._series = series
        self._about = about
        self._at = np.flatnonzero(series)

    def covariance(self, lag: int) -> float:
        """Sum over all pairs so far apart; 0 beyond the end."""
        n, at = len(self._series), self._at
        if lag >= n:
            return 0.0
        heads, tails = int(np.searchsorted(at, n - lag)), len(at) - int(np.searchsorted(at, lag))
        if SPARSE * len(at) < n:
            both = int(np.count_nonzero(self._series[at[:heads] + lag]))
        else:
            both = int(np.count_nonzero(self._series[lag:] & self._series[: n - lag]))
        return both - self._about * (heads + tails) + self._about**2 * (n - lag)


def _all_lags(centred: Sequence[NDArray[np.float64]]) -> float:
    longest = max(len(series) for series in centred)
    size = 1 << (2 * longest - 1).bit_length()
    # One transform back serves all processes: the transform of a sum is the sum of transforms.
    power = np.zeros(size // 2 + 1)
    for series in centred:
        spectrum = np.fft.rfft(series, size)
        power += spectrum.real**2 + spectrum.imag**2
    covariance = np.fft.irfft(power, size)[:longest]
    if covariance[0] <= 0:
        return 1.0
    rho = covariance / covariance[0]
    pairs = rho[: longest // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    return float(2.0 * pairs[: negative[0] if len(negative) else None].sum() - 1.0)


def _blocks(centred: Sequence[NDArray[np.float64]], share: float) -> float:
    """Variance of the means of 20 equal blocks against that of independent queries."""
    per_process = max(1, round(BLOCKS / len(centred)))
    length = min(len(series) for series in centred) // per_process
    if length < 1 or per_process * len(centred) < 2:
        return 1.0
    means = np.concatenate([s[: per_process * length].reshape(per_process, length).mean(axis=1) for s in centred])
    return float(length * means.var(ddof=1) / (share * (1.0 - share)))


def processes_differ(over: Sequence[NDArray[np.bool_]]) -> bool:
    """Whether processes differ more than dependence inside them explains.

    The variance of the processes' shares is held against what it would be on average were all processes alike. So two
    runs in five of alike processes say yes too: a stricter test would miss differences that five processes don't show.

    Args:
        over: One array per process, shape (q,): the query was over the level.

    Returns:
        False for fewer than 2 processes, and where no query or every query is over.
    """
    count = len(over)
    share = float(np.concatenate(over).mean()) if count else 0.0
    if count < 2 or not 0.0 < share < 1.0:
        return False
    shares = np.array([series.mean() for series in over])
    seen = float(shares.var(ddof=1))
    independent = share * (1.0 - share) * float(np.mean([1.0 / len(series) for series in over]))
    # Dependence only adds to it, so it need not be known where the processes differ by less.
    return seen > independent and seen > independent * _initial_positive_sequence(over, shares.tolist())


def separate_episodes(over: Sequence[NDArray[np.bool_]], gap: float) -> int:
    """Groups of queries over the level that lie more than ``gap`` queries apart.

    A group that lasts longer than ``gap`` counts once per ``gap``: at the median, and where every query is over, one
    group runs through the whole series and still says more than one query does.

    Args:
        over: One array per process, shape (q,).
        gap: Queries between separate episodes.
    """
    count = 0
    for series in over:
        at = np.flatnonzero(series)
        if not len(at):
            continue
        first = np.concatenate(([True], np.diff(at) > gap))
        starts = np.flatnonzero(first)
        ends = np.append(starts[1:], len(at)) - 1
        count += len(starts) + int(((at[ends] - at[starts]) // gap).sum())
    return count

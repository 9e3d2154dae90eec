"""Dependence of queries that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

BLOCKS = 20
"""Equal blocks that the second estimate of the design effect is made from."""
FIRST_LAGS = 64
"""Lags that are counted one by one before all of them are transformed."""
LONG = 2048
"""Queries of a process up to which all processes are transformed at once."""


def design_effect(over: Sequence[NDArray[np.bool_]], *, inside: bool = False) -> float:
    """Number of dependent queries that say as much as one independent query.

    The larger of two estimates of (variance of the share) / (variance were they independent), at least 1: summed
    autocorrelation by the initial positive sequence, and the spread of 20 equal blocks. Both are taken about the
    share over all processes, so that differences between processes count.

    Args:
        over: One array per process, shape (q,): the query was over the level, in the order in which they were made.
        inside: Taken about the share of each process, so that they do not.

    Returns:
        At least 1; 1 where no query or every query is over.

    References:
        Geyer (1992), Practical Markov chain Monte Carlo, Statistical Science 7(4).
    """
    made = [series for series in over if len(series)]
    shares, share = _shares(made)
    if not 0.0 < share < 1.0:
        return 1.0
    about = shares if inside else np.full(len(made), share)
    known = len(made) if inside else 1
    return max(1.0, _initial_positive_sequence(made, about.tolist()), _blocks(made, about, share, known))


def _shares(over: Sequence[NDArray[np.bool_]]) -> tuple[NDArray[np.float64], float]:
    """Share of each process, shape (processes,), none of them empty, and of all together; 0 without any."""
    counts = np.array([np.count_nonzero(series) for series in over])
    queries = np.array([len(series) for series in over])
    return counts / queries, float(counts.sum() / queries.sum()) if len(over) else 0.0


def _initial_positive_sequence(over: Sequence[NDArray[np.bool_]], about: Sequence[float]) -> float:
    """1 + 2 x sum of autocorrelations, as long as sums of neighbouring pairs stay positive; pooled over processes.

    Args:
        over: One array per process, shape (q,), not empty.
        about: What each is centred about.
    """
    effect = _first_lags(over, about)
    return _all_lags(over, about) if effect is None else effect


def _first_lags(over: Sequence[NDArray[np.bool_]], about: Sequence[float]) -> float | None:
    """The sum, where it ends within the first lags, which are counted one by one; else None.

    Most runs forget themselves within some tens of queries, and a transform of all lags of a long one takes a hundred
    times as long.
    """
    longest = max(len(series) for series in over)
    # No process is paired with its neighbour, which begins after the last of these lags.
    series, starts = _apart(over)
    queries, centre = np.array([len(one) for one in over]), np.array(about)
    lags = np.arange(FIRST_LAGS)
    # Queries over among the first and the last of each process, as many as the lag.
    places = np.concatenate([(starts - 1)[:, None] + lags, (starts + queries)[:, None] - lags])
    first, last = np.cumsum(series[places], axis=1).reshape(2, len(over), FIRST_LAGS)
    total = np.array([np.count_nonzero(one) for one in over])[:, None]
    single = (centre @ (2 * total - first - last)).tolist()
    none = (centre**2 @ np.maximum(queries[:, None] - lags, 0)).tolist()
    # As the bits of one number, which is shifted and counted in a fifth of the time that an array takes.
    bits = int.from_bytes(np.packbits(series, bitorder="little").tobytes(), "little")

    def covariance(lag: int) -> float:
        """Sum over all pairs so far apart."""
        return float((bits & bits >> lag).bit_count() - single[lag] + none[lag])

    variance = covariance(0)
    if variance <= 0:
        return 1.0
    total_rho = 0.0
    for lag in range(0, min(FIRST_LAGS, longest // 2 * 2), 2):
        pair = (covariance(lag) + covariance(lag + 1)) / variance
        if pair <= 0:
            return 2.0 * total_rho - 1.0
        total_rho += pair
    return 2.0 * total_rho - 1.0 if longest <= FIRST_LAGS else None


def _apart(over: Sequence[NDArray[np.bool_]]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """All processes in a row with no query over in between, and where each begins."""
    gap = np.zeros(FIRST_LAGS, dtype=np.bool_)
    row = np.concatenate([gap, *(one for series in over for one in (series, gap))])
    return row, np.array([0, *accumulate(len(series) + FIRST_LAGS for series in over[:-1])]) + FIRST_LAGS


def _all_lags(over: Sequence[NDArray[np.bool_]], about: Sequence[float]) -> float:
    from scipy.fft import next_fast_len

    longest = max(len(series) for series in over)
    size = next_fast_len(2 * longest, real=True)
    # One transform back serves all processes: the transform of a sum is the sum of transforms.
    power = np.zeros(size // 2 + 1)
    # Short ones are transformed together, long ones would fill the memory.
    together = len(over) if longest <= LONG else 1
    for start in range(0, len(over), together):
        centred = np.zeros((together, longest))
        for row in range(together):
            series = over[start + row]
            np.subtract(series, about[start + row], out=centred[row, : len(series)])
        spectrum = np.fft.rfft(centred, size, axis=1)
        power += (spectrum.real**2 + spectrum.imag**2).sum(axis=0)
    covariance = np.fft.irfft(power, size)[:longest]
    if covariance[0] <= 0:
        return 1.0
    rho = covariance / covariance[0]
    pairs = rho[: longest // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    return float(2.0 * pairs[: negative[0] if len(negative) else None].sum() - 1.0)


def _blocks(over: Sequence[NDArray[np.bool_]], about: NDArray[np.float64], share: float, known: int) -> float:
    """Variance of the means of 20 equal blocks, of whose centres so many are known, against independent queries."""
    per_process = max(1, round(BLOCKS / len(over)))
    length = min(len(series) for series in over) // per_process
    if length < 1 or per_process * len(over) <= known:
        return 1.0
    blocks = np.concatenate([series[: per_process * length] for series in over]).reshape(-1, length)
    means = blocks.sum(axis=1) / length - np.repeat(about, per_process)
    return float(length * means.var(ddof=known) / (share * (1.0 - share)))


def processes_differ(over: Sequence[NDArray[np.bool_]]) -> bool:
    """True if processes differ more than dependence inside them explains.

    The variance of the processes' shares is held against what it would be on average were all processes alike. So two
    runs in five of alike processes say yes too: a stricter test would miss differences that five processes don't show.

    Args:
        over: One array per process, shape (q,): the query was over the level.

    Returns:
        False for fewer than 2 processes, and where no query or every query is over.
    """
    shares, share = _shares(over)
    if len(over) < 2 or not 0.0 < share < 1.0:
        return False
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
    at = np.flatnonzero(np.concatenate(over)) if over else np.empty(0, dtype=np.int64)
    if not len(at):
        return 0
    # Where the next one begins, and behind the last of all.
    begins = np.ones(len(at) + 1, dtype=np.bool_)
    np.greater(at[1:] - at[:-1], gap, out=begins[1:-1])
    begins[np.searchsorted(at, np.cumsum([len(series) for series in over]))] = True
    edges = np.flatnonzero(begins)
    return len(edges) - 1 + int(((at[edges[1:] - 1] - at[edges[:-1]]) // gap).sum())

"""How much queries that follow each other depend on each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLOCKS = 20
"""Equal blocks that the second estimate of the design effect is made from."""


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
    centred = [series.astype(np.float64) - share for series in over if len(series)]
    return max(1.0, _initial_positive_sequence(centred), _blocks(centred, share))


def _initial_positive_sequence(centred: Sequence[NDArray[np.float64]]) -> float:
    """1 + 2 x sum of autocorrelations, as long as sums of neighbouring pairs stay positive; pooled over processes."""
    longest = max(len(series) for series in centred)
    covariance = np.zeros(longest)
    for series in centred:
        size = 1 << (2 * len(series) - 1).bit_length()
        spectrum = np.fft.rfft(series, size)
        covariance[: len(series)] += np.fft.irfft(spectrum * spectrum.conj(), size)[: len(series)]
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
    inside = max(1.0, _initial_positive_sequence([series - own for series, own in zip(over, shares, strict=True)]))
    alike = share * (1.0 - share) * inside * float(np.mean([1.0 / len(series) for series in over]))
    return bool(shares.var(ddof=1) > alike)


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

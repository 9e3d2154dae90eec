"""What simulations of bounds share: how often bounds claim too much, and how often they may."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import betaincinv, xlogy

from evalspec.evidence.estimate import Estimate, Side

SIDES: tuple[Side, Side] = ("lower", "upper")
REPEATS = 4000
ALLOWED = np.array([0.065, 0.065, 0.006, 0.006])
"""Shares of wrong claims: lower and upper bound at 95 % (PASS), lower and upper at 99.8 % (FAIL)."""
RESAMPLED = np.array([0.08, 0.08, 0.006, 0.006])
"""The same where bounds are resampled."""

MISSED = 1e-3
"""Chance that a simulation ends early on a rate that all of its samples would show to be too high."""

Sample = TypeVar("Sample")
Pair = tuple[float | None, float | None]


def p_values(estimate: Estimate, truth: float) -> Pair:
    """Evidence that the parameter lies above the truth, and below it."""
    return estimate.p_value(truth, "lower"), estimate.p_value(truth, "upper")


def until_settled(
    samples: Iterable[Sample], errs: Callable[[Sample], ArrayLike], most: ArrayLike, repeats: int, least: int = 1
) -> list[Sample]:
    """The first samples, as many as it takes to know that all would err no more often than they may.

    A sequential probability ratio test for each error: the largest rate that all samples show to be too high in 1 of
    1,000 cases at most, against the smallest one that they overlook in 1 of 1,000 at most. Of the latter and larger
    ones no more than 1 in 1,000 ends the samples early, and none where those drawn so far err too often. Where the rate
    lies in between, or over both, all are drawn.

    Args:
        samples: At least ``repeats``, or as many as there are.
        errs: Whether a sample errs, in each of several ways; NaN where it says nothing of that.
        most: Shares of samples that may err in each way: what will be asserted of those that were drawn.
        repeats: Samples at most.
        least: Samples at least.

    References:
        Wald (1945), Sequential tests of statistical hypotheses, Annals of Mathematical Statistics 16(2).
    """
    most = np.asarray(most, dtype=np.float64)
    may = np.floor(most * repeats + 1e-9)
    low = np.where(may > 0, betaincinv(np.maximum(may, 1.0), repeats - may + 1.0, 0.001), 0.0)
    high = betaincinv(may + 1.0, repeats - may, 1.0 - MISSED)
    # What a right sample adds; a wrong one takes away.
    right = np.log((1.0 - low) / (1.0 - high))
    drawn: list[Sample] = []
    following, soonest = iter(samples), max(1, least)
    wrong = known = np.zeros(may.shape)
    while batch := list(islice(following, min(soonest, repeats - len(drawn)))):
        drawn += batch
        now = np.array([errs(sample) for sample in batch], dtype=np.float64)
        wrong, known = wrong + (now == 1.0).sum(axis=0), known + (~np.isnan(now)).sum(axis=0)
        missing = -math.log(MISSED) - xlogy(wrong, low / high) - (known - wrong) * right
        if ((missing <= 0.0) & (wrong <= most * known)).all():
            break
        # Not settled before all samples from here on have been right for so long.
        soonest = int(np.clip(np.ceil((missing / right).max() - 1e-6), 1, repeats))
    return drawn


def enough(found: Iterable[Pair], most: NDArray[np.float64] = ALLOWED, repeats: int = REPEATS) -> list[Pair]:
    """The `p_values` of the first samples, `until_settled` that no wrong claim is more frequent than it may be."""
    return until_settled(found, claims, most, repeats)


def enough_of_each(
    found: Iterable[Sequence[Pair]], most: NDArray[np.float64] = ALLOWED, repeats: int = REPEATS
) -> list[list[Pair]]:
    """The same of several estimates of each sample: a list for each of them."""
    drawn = until_settled(found, lambda pairs: [claims(pair) for pair in pairs], most, repeats)
    return [list(pairs) for pairs in zip(*drawn, strict=True)]


def mostly(happens: Iterable[bool], least: float, repeats: int) -> float:
    """Share of samples in which something happens, `until_settled` that it is at least so large."""
    return float(np.mean(until_settled(happens, lambda one: [not one], [1.0 - least], repeats)))


def rarely(happens: Iterable[bool], most: float, repeats: int) -> float:
    """Share of samples in which something happens, `until_settled` that it is no larger."""
    return float(np.mean(until_settled(happens, lambda one: [one], [most], repeats)))


def claims(pair: Pair) -> list[bool]:
    """Which bounds miss the truth, in the order of `ALLOWED`."""
    p = [1.0 if one is None else one for one in pair]
    return [one <= level for level in (0.05, 0.002) for one in p]


def wrong_claims(found: Iterable[Pair]) -> NDArray[np.float64]:
    """Shares of samples in which a bound misses the truth, in the order of `ALLOWED`.

    Args:
        found: `p_values` of each sample. Where there is no bound nothing is claimed.
    """
    p = np.array([(1.0 if low is None else low, 1.0 if up is None else up) for low, up in found])
    return np.concatenate([np.mean(p <= 0.05, axis=0), np.mean(p <= 0.002, axis=0)])


def allowed(repeats: int, limits: NDArray[np.float64] = ALLOWED) -> NDArray[np.float64]:
    """Shares of wrong claims that so few samples may show: were the limits met just so, 999 of 1,000 runs keep them."""
    shares: NDArray[np.float64] = stats.binom.ppf(0.999, repeats, limits) / repeats
    return shares


def clusters_of(
    groups: int, average: float, spread: float, alike: float, right: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Answers and the cluster of each row: lognormal sizes, beta shares.

    Args:
        groups: Clusters.
        average: Rows of a cluster.
        spread: Standard deviation of the logarithm of its rows; 0: all are equal.
        alike: Correlation of the answers of one cluster.
        right: Share of the answers that is right.
        rng: Draws.
    """
    sizes = np.maximum(1, np.round(average * rng.lognormal(-0.5 * spread**2, spread, groups))).astype(np.int64)
    weight = (1.0 - alike) / alike
    codes = np.repeat(np.arange(groups), sizes)
    return rng.random(len(codes)) < rng.beta(right * weight, (1.0 - right) * weight, groups)[codes], codes


def bounded(found: Iterable[Pair]) -> float:
    """Share of samples that have a bound on either side."""
    return float(np.mean([low is not None and up is not None for low, up in found]))

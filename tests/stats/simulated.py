"""What simulations of bounds share: how often bounds claim too much, and how often they may."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from evalspec.evidence.estimate import Estimate, Side

SIDES: tuple[Side, Side] = ("lower", "upper")
REPEATS = 4000
ALLOWED = np.array([0.065, 0.065, 0.006, 0.006])
"""Shares of wrong claims: lower and upper bound at 95 % (PASS), lower and upper at 99.8 % (FAIL)."""
RESAMPLED = np.array([0.08, 0.08, 0.006, 0.006])
"""The same where bounds are resampled."""

Pair = tuple[float | None, float | None]


def p_values(estimate: Estimate, truth: float) -> Pair:
    """Evidence that the parameter lies above the truth, and below it."""
    return estimate.p_value(truth, "lower"), estimate.p_value(truth, "upper")


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

"""The sign of a sum of weighted exponential numbers, by saddlepoint approximation."""

from __future__ import annotations

import math

import numpy as np

from evalspec.stats.types import FloatArray

_STEPS = 200


def sum_z(weights: FloatArray, counts: FloatArray) -> float:
    """Normal score of the chance that a weighted sum of independent standard exponential numbers is below 0.

    Exact where only the last weight is positive. Of equal weights but one, where the chance is known, the approximation
    takes a tail of 0.002 for 0.00216 with two numbers and for 0.00206 with twenty or more.

    Args:
        weights: shape (n,).
        counts: shape (n,), numbers that have each weight, positive; 1 for the last.

    Returns:
        z with ``P(sum < 0)`` = Phi(z); infinite where no weight, or every weight, is above 0.

    References:
        Lugannani and Rice (1980), Advances in Applied Probability 12; Barndorff-Nielsen (1991), Biometrika 78.
    """
    from scipy.special import ndtri_exp

    low, high = float(weights.min()), float(weights.max())
    if high <= 0.0:
        return math.inf
    if low >= 0.0:
        return -math.inf
    if float(weights[:-1].max(initial=0.0)) <= 0.0:
        # What the last number brings is exponential: the chance that it makes up for the others is a Laplace transform.
        return -float(ndtri_exp(-float(counts[:-1] @ np.log1p(weights[:-1] / -high))))
    tilt = _saddle(weights, counts, 1.0 / low, 1.0 / high)
    parts: FloatArray = weights / (1.0 - tilt * weights)
    root = math.copysign(math.sqrt(max(0.0, 2.0 * float(counts @ np.log1p(-tilt * weights)))), tilt)
    if abs(root) < 1e-3:
        third, second = float(counts @ weights**3), float(counts @ weights**2)
        return root + third / (3.0 * second * math.sqrt(second))
    return root + math.log(tilt * math.sqrt(float(counts @ parts**2)) / root) / root


def _saddle(weights: FloatArray, counts: FloatArray, low: float, high: float) -> float:
    """The tilt under which the sum is 0 in the mean: Newton's steps kept inside a bracket."""
    tilt = -float(counts @ weights) / float(counts @ weights**2)
    if not low < tilt < high:
        tilt = 0.5 * (high if tilt >= high else low)
    for _ in range(_STEPS):
        parts = weights / (1.0 - tilt * weights)
        first = float(counts @ parts)
        low, high = (low, tilt) if first > 0.0 else (tilt, high)
        parts *= parts
        step = tilt - first / float(counts @ parts)
        following = step if low < step < high else 0.5 * (low + high)
        if abs(following - tilt) <= 1e-10 * abs(following):
            return following
        tilt = following
    return tilt

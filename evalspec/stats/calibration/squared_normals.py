"""The distribution of a weighted sum of squared normals: what a squared calibration error is made of."""

from __future__ import annotations

import math

import numpy as np

from evalspec.stats.roots import brentq
from evalspec.stats.types import FloatArray


def quadratic_tails(total: float, weights: FloatArray, shifts: FloatArray) -> tuple[float, float]:
    """P(Q <= total) and P(Q >= total) for Q = sum of weights_k x (shifts_k + z_k)^2, z_k independent standard normal.

    Args:
        total: Where the distribution function is asked for.
        weights: shape (K,), at least 0 and not all 0.
        shifts: shape (K,).

    References:
        Kuonen (1999), Saddlepoint approximations for distributions of quadratic forms in normal variables,
        Biometrika 86.
    """
    from scipy.special import ndtr

    if total <= 0.0:
        return 0.0, 1.0
    largest = float(weights.max())
    scaled, squares = weights / largest, shifts**2
    root = _root(total / largest, scaled, squares)
    return float(ndtr(root)), float(ndtr(-root))


def _root(at: float, weights: FloatArray, squares: FloatArray) -> float:
    """Normal score of Q at a point: Barndorff-Nielsen's r*; the largest weight is 1."""

    def slope(tilt: float) -> float:
        left = 1.0 / (1.0 - 2.0 * tilt * weights)
        return float(np.sum(weights * left * (1.0 + squares * left))) - at

    # The mean under a tilt rises from 0 at minus infinity to infinity at one half.
    low = -1.0
    while slope(low) > 0.0:
        low *= 4.0
    high, distance = 0.0, 0.5
    while slope(high) < 0.0:
        distance *= 0.25
        high = 0.5 - distance
    tilt = brentq(slope, low, high, xtol=1e-9, rtol=1e-9) if slope(0.0) != 0.0 else 0.0
    left = 1.0 / (1.0 - 2.0 * tilt * weights)
    moment = float(np.sum(0.5 * np.log(left) + squares * weights * tilt * left))
    curvature = float(np.sum(2.0 * (weights * left) ** 2 * (1.0 + 2.0 * squares * left)))
    root = math.copysign(math.sqrt(max(0.0, 2.0 * (tilt * at - moment))), tilt)
    if abs(root) < 1e-3:
        third = float(np.sum(8.0 * weights**3 * (1.0 + 3.0 * squares)))
        second = float(np.sum(2.0 * weights**2 * (1.0 + 2.0 * squares)))
        return float(root + third / second**1.5 / 6.0)
    return float(root + math.log(tilt * math.sqrt(curvature) / root) / root)

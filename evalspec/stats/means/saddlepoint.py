"""The bootstrap distribution of a mean without resamples, by saddlepoint approximation."""

from __future__ import annotations

import math

import numpy as np

from evalspec.stats.roots import brentq
from evalspec.stats.types import FloatArray

_STEEPEST = 1e6


def tail_z(values: FloatArray, point: float) -> float:
    """Normal score of the bootstrap distribution of the mean of ``values`` at ``point``.

    Args:
        values: shape (n,), not all equal.
        point: Where the distribution function is taken.

    Returns:
        z with ``P(mean* <= point)`` = Phi(z); infinite outside the range of the values.

    References:
        Davison and Hinkley (1988), Saddlepoint approximations in resampling methods, Biometrika 75;
        Barndorff-Nielsen (1991), Modified signed log likelihood ratio, Biometrika 78.
    """
    scale = float(values.std())
    if point <= float(values.min()):
        return -math.inf
    if point >= float(values.max()):
        return math.inf
    scores = (values - point) / scale
    tilt = _tilt_of_zero(scores)
    log_moment, _, curvature = _cumulants(scores, tilt)
    skewness = float(np.mean((scores - scores.mean()) ** 3))
    return _modified_root(tilt, -log_moment, curvature, len(scores), skewness)


def mean_at(values: FloatArray, z: float) -> float:
    """The inverse of `tail_z`: where the bootstrap distribution of the mean of ``values`` has normal score ``z``.

    Args:
        values: shape (n,), not all equal.
        z: Normal score.

    Returns:
        The point; the smallest or largest value where the distribution doesn't reach further.
    """
    centre, scale = float(values.mean()), float(values.std())
    scores = (values - centre) / scale
    skewness = float(np.mean(scores**3))

    def excess(tilt: float) -> float:
        log_moment, first, second = _cumulants(scores, tilt)
        return _modified_root(tilt, tilt * first - log_moment, second, len(scores), skewness) - z

    near = z / math.sqrt(len(scores))
    low, high = min(0.0, 2.0 * near) - 1e-3, max(0.0, 2.0 * near) + 1e-3
    while excess(low) > 0.0:
        low *= 2.0
        if low < -_STEEPEST:
            return float(values.min())
    while excess(high) < 0.0:
        high *= 2.0
        if high > _STEEPEST:
            return float(values.max())
    tilt = brentq(excess, low, high, xtol=1e-9, rtol=1e-9)
    return centre + scale * _cumulants(scores, tilt)[1]


def _cumulants(scores: FloatArray, tilt: float) -> tuple[float, float, float]:
    """K, K' and K'' of the empirical distribution at a tilt."""
    powers = tilt * scores
    top = float(powers.max())
    powers -= top
    weights = np.exp(powers, out=powers)
    total = float(weights.sum())
    first = float(weights @ scores) / total
    weights *= scores
    second = float(weights @ scores) / total - first * first
    return top + math.log(total / len(scores)), first, max(second, 1e-300)


def _tilt_of_zero(scores: FloatArray) -> float:
    """The tilt under which the mean is 0: Newton's steps kept inside a bracket."""
    mean = float(scores.mean())
    if mean == 0.0:
        return 0.0
    low, high = (-_STEEPEST, 0.0) if mean > 0 else (0.0, _STEEPEST)
    tilt = max(low, min(high, -mean))
    for _ in range(200):
        _, first, second = _cumulants(scores, tilt)
        low, high = (low, tilt) if first > 0 else (tilt, high)
        step = tilt - first / second
        following = step if low < step < high else 0.5 * (low + high)
        if abs(following - tilt) <= 1e-9 * (1e-3 + abs(tilt)):
            return following
        tilt = following
    return tilt


def _modified_root(tilt: float, deviance: float, curvature: float, n: int, skewness: float) -> float:
    """Barndorff-Nielsen's r*, with the sign of the tilt.

    Args:
        tilt: The tilt whose mean is the point.
        deviance: tilt x point - K(tilt).
        curvature: K'' there.
        n: Values.
        skewness: Of the values: r* goes to a sixth of it over sqrt(n) where the tilt goes to 0.
    """
    root = math.copysign(math.sqrt(max(0.0, 2.0 * n * deviance)), tilt)
    if abs(root) < 1e-3:
        return root + skewness / (6.0 * math.sqrt(n))
    return root + math.log(tilt * math.sqrt(n * curvature) / root) / root

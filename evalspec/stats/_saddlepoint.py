"""The bootstrap distribution of a mean without resamples, by saddlepoint approximation."""

from __future__ import annotations

import math

import numpy as np

from evalspec.stats._types import FloatArray

_EDGE = 40.0


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
    return _signed_root(scores, _tilt_of_zero(scores))


def _cumulants(scores: FloatArray, tilt: float) -> tuple[float, float, float]:
    """K, K' and K'' of the empirical distribution at a tilt."""
    powers = tilt * scores
    top = float(powers.max())
    weights = np.exp(powers - top)
    total = float(weights.sum())
    first = float(weights @ scores) / total
    second = float(weights @ (scores * scores)) / total - first * first
    return top + math.log(total / len(scores)), first, max(second, 1e-300)


def _tilt_of_zero(scores: FloatArray) -> float:
    """The tilt under which the mean is 0: Newton's steps kept inside a bracket."""
    mean = float(scores.mean())
    if mean == 0.0:
        return 0.0
    low, high = (-_EDGE, 0.0) if mean > 0 else (0.0, _EDGE)
    while _cumulants(scores, low)[1] > 0 and low > -1e6:
        low *= 4.0
    while _cumulants(scores, high)[1] < 0 and high < 1e6:
        high *= 4.0
    tilt = max(low, min(high, -mean))
    for _ in range(100):
        _, first, second = _cumulants(scores, tilt)
        if first > 0:
            high = tilt
        else:
            low = tilt
        step = tilt - first / second
        following = step if low < step < high else 0.5 * (low + high)
        if abs(following - tilt) <= 1e-10 * (1.0 + abs(tilt)):
            return following
        tilt = following
    return tilt


def _signed_root(scores: FloatArray, tilt: float) -> float:
    """Barndorff-Nielsen's r* at 0, with the sign of the distribution function."""
    n = len(scores)
    log_moment, _, second = _cumulants(scores, tilt)
    root = math.copysign(math.sqrt(max(0.0, -2.0 * n * log_moment)), tilt)
    if abs(root) < 1e-3:
        centred = scores - scores.mean()
        skewness = float(np.mean(centred**3)) / float(np.mean(centred**2)) ** 1.5
        return root + skewness / (6.0 * math.sqrt(n))
    score = tilt * math.sqrt(n * second)
    return root + math.log(score / root) / root

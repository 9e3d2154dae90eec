"""Temperature scaling: one number that makes all probabilities sharper or flatter."""

from __future__ import annotations

import numpy as np

from evalspec.stats.types import BoolArray, FloatArray, IntArray

_LEAST, _MOST = -4.0, 4.0
_FLOOR = 1e-12


def apply_temperature(probabilities: FloatArray, temperature: float) -> FloatArray:
    """Probabilities after their logits were divided by a temperature.

    Args:
        probabilities: shape (n, C).
        temperature: Over 1 flattens, below 1 sharpens.

    Returns:
        shape (n, C), rows sum to 1.
    """
    logits = np.log(np.maximum(probabilities, _FLOOR)) / temperature
    logits -= logits.max(axis=1, keepdims=True)
    scaled = np.exp(logits)
    result: FloatArray = scaled / scaled.sum(axis=1, keepdims=True)
    return result


def fit_temperature(probabilities: FloatArray, truth: IntArray) -> float | None:
    """The temperature with the smallest log loss on these rows; None where no temperature is best.

    Args:
        probabilities: shape (n, C).
        truth: shape (n,), class index.

    References:
        Guo et al. (2017), On calibration of modern neural networks, ICML.
    """
    from scipy.optimize import minimize_scalar

    if not len(truth):
        return None
    logits = np.log(np.maximum(probabilities, _FLOOR))
    logits -= logits.max(axis=1, keepdims=True)
    own = float(logits[np.arange(len(truth)), truth].mean())

    def loss(log_temperature: float) -> float:
        # The largest logit of a row is 0, so nothing overflows and every sum is at least 1.
        scale = np.exp(-log_temperature)
        return float(np.mean(np.log(np.exp(logits * scale).sum(axis=1))) - own * scale)

    minimum = minimize_scalar(loss, bounds=(_LEAST, _MOST), method="bounded", options={"xatol": 1e-6})
    # No better than an end of the range: every answer is right, or worse than chance.
    if min(loss(_LEAST), loss(_MOST)) <= minimum.fun + 1e-9:
        return None
    return float(np.exp(minimum.x))


def halves(n: int, rng: np.random.Generator, clusters: IntArray | None = None) -> tuple[BoolArray, BoolArray]:
    """Two disjoint halves of the rows, drawn at random; rows of one cluster stay together.

    Args:
        n: Rows.
        rng: The source of randomness.
        clusters: shape (n,), or None.

    Returns:
        Masks of shape (n,): to fit on, to judge on.
    """
    units = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    count = int(units.max()) + 1 if n else 0
    first = np.zeros(count, dtype=np.bool_)
    first[rng.permutation(count)[: count // 2]] = True
    mask: BoolArray = first[units]
    return mask, ~mask

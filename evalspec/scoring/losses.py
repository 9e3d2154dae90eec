"""Losses of a row's probabilities, given its true class: one definition for all checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

PROBABILITY_FLOOR = float(np.finfo(np.float64).eps)
"""Least probability of which a logarithm is taken."""


def log_losses(probabilities: FloatArray, truth: NDArray[np.int64]) -> FloatArray:
    """-ln of the probability of the true class, at most 36.04 (a probability of 0 is taken as 2e-16), shape (n,).

    Args:
        probabilities: shape (n, C).
        truth: shape (n,), class index.
    """
    own = probabilities[np.arange(len(truth)), truth]
    losses: FloatArray = -np.log(np.clip(own, PROBABILITY_FLOOR, 1.0))
    return losses


def brier_losses(probabilities: FloatArray, truth: NDArray[np.int64]) -> FloatArray:
    """Squared error of the probabilities, shape (n,): of one class of two (0..1), or summed over all (0..2).

    Args:
        probabilities: shape (n, C).
        truth: shape (n,), class index.
    """
    errors = probabilities.copy()
    errors[np.arange(len(truth)), truth] -= 1.0
    squares: FloatArray = np.einsum("ij,ij->i", errors, errors)
    return squares / 2.0 if probabilities.shape[1] == 2 else squares


def brier_limits(classes: int) -> tuple[float, float]:
    """The smallest and the largest Brier loss of a row.

    Args:
        classes: That a row may be of.
    """
    return 0.0, 1.0 if classes == 2 else 2.0

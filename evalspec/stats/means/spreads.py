"""Spread of rows about their mean, as a unit that has an error of its own."""

from __future__ import annotations

import numpy as np

from evalspec.stats.types import FloatArray


def spread_shares(points: FloatArray) -> FloatArray:
    """Contribution of each row to the mean distance of the rows from their mean.

    Their mean is that distance. They vary from sample to sample as it does, the error of the centre included, so that
    a mean by it is a ratio of two means. A unit that is taken as known makes such bounds err in up to a third of
    samples where a threshold is in units of it: both come from the same rows, and are about as uncertain.

    Args:
        points: shape (n, d), n at least 1.

    Returns:
        shape (n,), none of them negative.

    References:
        Hampel (1974), The influence curve and its role in robust estimation, JASA 69.
    """
    apart = points - points.mean(axis=0)
    lengths = np.sqrt(np.sum(apart**2, axis=1))
    directions = apart / np.where(lengths > 0, lengths, 1.0)[:, None]
    # Moving the centre by a little changes the mean distance by that along the mean direction.
    return np.asarray(np.maximum(0.0, lengths - apart @ directions.mean(axis=0)))

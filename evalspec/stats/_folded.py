"""The distribution of a weighted sum of folded normals: what the plug-in calibration error is made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CELLS = 1000
_REACH = 8.0


def folded_mean(shift: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Mean of |shift + z| for a standard normal z.

    References:
        Leone, Nelson, Nottingham (1961), The folded normal distribution, Technometrics 3(4).
    """
    from scipy.special import ndtr

    at = np.asarray(shift, dtype=np.float64)
    density = np.exp(-0.5 * at**2) / np.sqrt(2.0 * np.pi)
    mean: NDArray[np.float64] = 2.0 * density + at * (2.0 * ndtr(at) - 1.0)
    return mean


def folded_sum_cdf(total: float, scales: NDArray[np.float64], shift: float) -> float:
    """P(sum of scales_k x |shift + z_k| <= total), z_k independent standard normal.

    The densities are laid on one grid and convolved by FFT.

    Args:
        total: Where the distribution function is asked for.
        scales: shape (K,), at least 0.
        shift: The same for all terms, at least 0.
    """
    from scipy.special import ndtr

    kept = scales[scales > 0]
    if not len(kept):
        return float(total >= 0)
    if total <= 0:
        return 0.0
    width = float(kept.sum()) * (shift + _REACH) / CELLS
    edges = np.arange(CELLS + 1) * width
    at = edges[None, :] / kept[:, None]
    masses = np.diff(ndtr(at - shift) - ndtr(-at - shift), axis=1)
    size = CELLS + len(kept)
    spectrum = np.fft.rfft(masses, 2 * size, axis=1).prod(axis=0)
    density = np.fft.irfft(spectrum, 2 * size)[:size]
    # Each term sits in the middle of its cell, so the sum sits K/2 cells further; half a cell back for the edge.
    place = total / width - len(kept) / 2.0 + 0.5
    cumulated = np.concatenate(([0.0], np.cumsum(density)))
    return float(np.clip(np.interp(place, np.arange(size + 1), cumulated), 0.0, 1.0))

"""The distribution of a weighted sum of folded normals: what the plug-in calibration error is made of."""

from __future__ import annotations

import math

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


def folded_mean_at(shift: float) -> float:
    """The same of one shift, for searches that ask for many, one after the other."""
    density = math.exp(-0.5 * shift * shift) / math.sqrt(2.0 * math.pi)
    return 2.0 * density + shift * math.erf(shift / math.sqrt(2.0))


def without_noise(seen: float, scale: float) -> float:
    """The shift at which scale x |shift + z| is ``seen`` on average, times scale; 0 where noise alone is larger."""
    if scale <= 0:
        return seen
    wanted = seen / scale
    if wanted <= math.sqrt(2.0 / math.pi):
        return 0.0
    low, high = 0.0, wanted
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if folded_mean_at(middle) > wanted else (middle, high)
    return high * scale


def folded_sum_cdf(total: float, scales: NDArray[np.float64], shift: NDArray[np.float64] | float) -> float:
    """P(sum of scales_k x |shift + z_k| <= total), z_k independent standard normal.

    Args:
        total: Where the distribution function is asked for.
        scales: shape (K,), at least 0.
        shift: The same for all terms, or shape (K,), at least 0.
    """
    if not (scales > 0).any():
        return float(total >= 0)
    if total <= 0:
        return 0.0
    totals, cumulated = _distribution(scales, shift)
    return float(np.clip(np.interp(total, totals, cumulated), 0.0, 1.0))


def folded_sum_quantile(level: float, scales: NDArray[np.float64], shift: float) -> float:
    """The inverse of `folded_sum_cdf`.

    Args:
        level: Of the distribution function, in 0..1.
        scales: shape (K,), at least 0.
        shift: The same for all terms, at least 0.
    """
    if not (scales > 0).any():
        return 0.0
    totals, cumulated = _distribution(scales, shift)
    # The transform leaves a hair of noise, on which the function may fall.
    return max(0.0, float(np.interp(level, np.maximum.accumulate(cumulated), totals)))


def _distribution(
    scales: NDArray[np.float64], shift: NDArray[np.float64] | float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Totals, and the distribution function there: the terms' densities are laid on one grid and convolved by FFT."""
    from scipy.fft import next_fast_len
    from scipy.special import ndtr

    shifts = np.broadcast_to(shift, scales.shape)[scales > 0]
    scales = scales[scales > 0]
    reach = scales * (shifts + _REACH)
    width = float(reach.sum()) / CELLS
    # Beyond its own reach a term has no mass, and the reaches sum to that of the total: terms are laid end to end.
    edges = np.ceil(reach / width).astype(np.int64) + 1
    starts = np.cumsum(edges) - edges
    edge = np.arange(edges.sum()) - np.repeat(starts, edges)
    at = edge * width / np.repeat(scales, edges)
    shifted = np.repeat(shifts, edges)
    below = ndtr(at - shifted) - ndtr(-at - shifted)
    size = CELLS + len(scales)
    length = next_fast_len(size, real=True)
    masses = np.zeros((len(scales), length))
    steps = np.diff(below)
    for row, start, cells in zip(masses, starts.tolist(), (edges - 1).tolist(), strict=True):
        row[:cells] = steps[start : start + cells]
    spectrum = np.fft.rfft(masses, axis=1).prod(axis=0)
    density = np.fft.irfft(spectrum, length)[:size]
    # Each term sits in the middle of its cell, so the sum sits K/2 cells further; half a cell back for the edge.
    totals: NDArray[np.float64] = width * (np.arange(size + 1, dtype=np.float64) + 0.5 * (len(scales) - 1))
    return totals, np.concatenate(([0.0], np.cumsum(density))).astype(np.float64)

"""Planned measurements of calibration errors, which noise makes larger: plain values lie above the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from evalspec.errors import InputError
from evalspec.evidence.estimate import Side
from evalspec.stats.calibration.folded_normals import folded_mean_at
from evalspec.stats.calibration.sample_size import NULL
from evalspec.stats.power import NormalDesign

BINS = 10
"""Bins that the noise is spread over."""
TO_PASS = 1.2
"""Factor on the recorded noise: it is that of one sample, and noise grows with the error."""
WIDER = 1.5
"""Factor on the standard deviation of the plain value, for PASS: several kinds of bins are asked; all must pass."""
TO_FAIL = 1.5
"""Factor on the recorded noise for FAIL, which takes off the noise of a model that is as right as it says."""
LARGEST = 1.1
"""Factor on the recorded standard error of the worst bin."""
INCREASE = 1.15
"""Factor on the recorded distance of an increase from its upper bound."""
BIASED = 0.8
"""Times the distance of the bounds of an increase is that of the lower one, where its first error is large."""
_STEPS = 60


@dataclass(frozen=True, slots=True)
class ErrorDesign:
    """A mean absolute gap over bins, each as noisy as the others and as far off: a sum of folded normals.

    PASS asks for a plain value that the error of the threshold seldom falls below; FAIL for one that is over the
    threshold and what noise adds to a calibrated model. Both are about the error over the bins in print.

    Args:
        noise: Sum over the bins of the standard error of what each adds to the plain value.
    """

    noise: float

    @property
    def assumed(self) -> str:
        """Noise that is assumed, and its source, in words."""
        return f"noise adds {NULL * self.noise:.3g} to the plain error of a calibrated model (from the last record)"

    @property
    def limits(self) -> tuple[float, float]:
        """0..1."""
        return (0.0, 1.0)

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that the plain value is far enough on this side of what is expected at the threshold."""
        from scipy.special import ndtr, ndtri

        if self.noise <= 0.0:
            return 0.0
        if side == "upper":
            noise = TO_PASS * self.noise
            (at, around), (mean, deviation) = _plain(threshold, noise), _plain(truth, noise)
            most = at + float(ndtri(alpha)) * around
            return float(ndtr((most - mean) / (WIDER * deviation)))
        noise = TO_FAIL * self.noise
        error = noise / math.sqrt(BINS)
        least = threshold + NULL * noise - float(ndtri(alpha / 2.0)) * error
        return float(ndtr((_plain(truth, noise)[0] - least) / error))


@dataclass(frozen=True, slots=True)
class LargestErrorDesign:
    """The largest gap of any bin, each bin as noisy as the others.

    PASS asks that all bins are shown to lie within, and is planned with all of them at the truth; FAIL that one of them
    is shown to lie beyond, at the level divided by bins and sides, and is planned with one at the truth.

    Args:
        error: Standard error of the gap of a bin.
    """

    error: float

    @property
    def assumed(self) -> str:
        """Standard error, and where it comes from."""
        return f"standard error {self.error:.3g} of a bin's gap (from the last record)"

    @property
    def limits(self) -> tuple[float, float]:
        """0..1."""
        return (0.0, 1.0)

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that all bins lie within, or that one lies beyond."""
        from scipy.special import ndtr, ndtri

        distance = (threshold - truth) / self.error
        if side == "upper":
            return float(ndtr(distance + float(ndtri(alpha))) ** BINS)
        return float(ndtr(float(ndtri(alpha / (2 * BINS))) - distance))


def recorded_largest(value: float, upper: float, confidence: float) -> LargestErrorDesign | None:
    """A design from the largest gap of any bin and its upper bound in an earlier record; None where it tells none.

    Args:
        value: The recorded gap.
        upper: Its upper bound.
        confidence: Of the bound.

    Raises:
        InputError: The confidence can't be.
    """
    z = _score(confidence)
    return LargestErrorDesign(LARGEST * (upper - value) / z) if value < upper < 1.0 else None


def recorded_increase(value: float, lower: float | None, upper: float, confidence: float) -> NormalDesign | None:
    """A design from the difference of two calibration errors and its bounds in an earlier record.

    Either error's lower bound lies far below it, or at 0. So the lower bound of a difference tells too little of what
    it would be with a large first error, whose own lower bound is not 0: it is planned from the distance of both.

    Args:
        value: The recorded difference.
        lower: Its lower bound.
        upper: Its upper bound.
        confidence: Of either.

    Raises:
        InputError: The confidence can't be.
    """
    z = _score(confidence)
    if lower is None or not lower < value < upper:
        return None
    passing, failing = INCREASE * (upper - value) / z, BIASED * (upper - lower) / z
    return NormalDesign(passing, "from the last record", -1.0, 1.0, "upper", failing)


def recorded_error(value: float, upper: float, confidence: float) -> ErrorDesign | None:
    """A design from a debiased calibration error and its upper bound in an earlier record; None where it tells none.

    Args:
        value: The recorded error, without what noise adds.
        upper: Its upper bound.
        confidence: Of the bound.

    Raises:
        InputError: The confidence can't be.
    """
    z, low, high = _score(confidence), 1e-9, 10.0
    if not 0.0 <= value < upper < 1.0:
        return None
    for _ in range(_STEPS):
        noise = math.sqrt(low * high)
        mean, deviation = _plain(upper, noise)
        if mean - z * deviation > _plain(value, noise)[0]:
            low = noise
        else:
            high = noise
    return ErrorDesign(high)


def _score(confidence: float) -> float:
    from scipy.special import ndtri

    if not 0.5 < confidence < 1.0:
        raise InputError(f"no design from a bound at {confidence:g}")
    return float(ndtri(confidence))


@lru_cache(maxsize=16)
def _plain(error: float, noise: float) -> tuple[float, float]:
    """Mean and standard deviation of the plain value; a search asks again and again at the threshold."""
    shift = error / noise
    mean = folded_mean_at(shift)
    return noise * mean, noise * math.sqrt(max(1e-9, 1.0 + shift**2 - mean**2) / BINS)

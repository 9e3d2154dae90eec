"""Bottlenecks, and the gain from removing them: the roofline and Amdahl's law."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from evalspec.evidence.estimate import Estimate, Side

Bound = Literal["compute", "memory", "overhead"]

MOSTLY = 0.5
"""Share of the time from which on it bounds the whole, where it is spent on each call and not on its work."""
FAR_BELOW = 0.1
"""Below this share of the roof, neither operations nor bytes are what takes the time."""


def ridge(operations_per_s: float, bytes_per_s: float) -> float:
    """Arithmetic intensity from which on the memory keeps up with the arithmetic, in FLOP/B.

    References:
        Williams, Waterman, Patterson (2009), Roofline, CACM 52(4).
    """
    return operations_per_s / bytes_per_s


def attainable(intensity: float, operations_per_s: float, bytes_per_s: float) -> float:
    """The roof at an arithmetic intensity, in operations a second.

    Args:
        intensity: FLOP/B.
        operations_per_s: Ceiling of the arithmetic, in the precision that is computed in.
        bytes_per_s: Ceiling of the memory.
    """
    return min(operations_per_s, bytes_per_s * intensity)


def least_time_s(operations: float, moved_bytes: float, operations_per_s: float, bytes_per_s: float) -> float:
    """The shortest time that the roof allows; also where nothing is computed."""
    return max(operations / operations_per_s, moved_bytes / bytes_per_s)


def overhead_ratio(gap: float, busy: float) -> float:
    """Share of the time in which the device waits for its next piece of work.

    Args:
        gap: Time between pieces of work.
        busy: Time at work, in the same unit.
    """
    return gap / (gap + busy)


def spent_on_calls(time_s: float, larger_s: float, factor: float, weights_s: float) -> float:
    """Share of a call's time that neither grows with the batch nor reads the weights.

    Args:
        time_s: Of a call with the batch asked for.
        larger_s: Of a call with ``factor`` times the batch.
        factor: Over 1.
        weights_s: The shortest time in which the weights are read, once a call.

    Returns:
        0..1.
    """
    by_batch = max(0.0, (larger_s - time_s) / (factor - 1.0))
    return min(1.0, max(0.0, time_s - by_batch - weights_s) / time_s)


def bound_by(fraction: float, on_calls: float | None, intensity: float, at_ridge: float) -> Bound:
    """Resource that takes the time: compute, memory or overhead.

    Args:
        fraction: Of the roof that was reached.
        on_calls: As `spent_on_calls`; None where the batch can't be varied.
        intensity: Arithmetic intensity, FLOP/B.
        at_ridge: As `ridge`.
    """
    overhead = fraction < FAR_BELOW if on_calls is None else on_calls >= MOSTLY
    if overhead:
        return "overhead"
    return "compute" if intensity >= at_ridge else "memory"


def amdahl_ceiling(share: float) -> float:
    """Speedup of the whole when a part with this share of its time takes none any more.

    Args:
        share: 0..1; 1 gives infinity.

    References:
        Amdahl (1967), AFIPS Spring Joint Computer Conference.
    """
    return math.inf if share >= 1.0 else 1.0 / (1.0 - share)


def speedup(share: float, factor: float) -> float:
    """Speedup of the whole when that part becomes ``factor`` times as fast."""
    return 1.0 / (1.0 - share + share / factor)


@dataclass(frozen=True)
class AmdahlCeiling(Estimate):
    """`amdahl_ceiling` of an estimated share.

    It rises with the share, so bounds and thresholds are those of the share, carried over.

    Args:
        share: In 0..1.
    """

    share: Estimate

    @property
    def n(self) -> int:
        """Number of values behind the share."""
        return self.share.n

    @property
    def method(self) -> str:
        """Method of the share, carried over."""
        return f"1 / (1 - share); share: {self.share.method}"

    @property
    def value(self) -> float | None:
        """The ceiling; infinite where the share is the whole; None where there is no share."""
        return _carried(self.share.value)

    def bound(self, confidence: float, side: Side) -> float | None:
        """The bound of the share, carried over; infinite where it reaches the whole."""
        return _carried(self.share.bound(confidence, side))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value of the share against 1 - 1 / threshold."""
        if threshold <= 0:
            return None if self.value is None else float(side == "upper")
        return self.share.p_value(1.0 - 1.0 / threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Number that decides the share against 1 - 1 / threshold."""
        return self.share.n_to_decide(1.0 - 1.0 / threshold, alpha) if threshold > 0 else None


def _carried(share: float | None) -> float | None:
    return None if share is None else amdahl_ceiling(max(0.0, share))

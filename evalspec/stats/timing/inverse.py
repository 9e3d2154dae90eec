"""A rate that is one by a time: the bounds of the time, turned round."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evalspec.evidence.estimate import Estimate, Side

_OTHER: dict[Side, Side] = {"lower": "upper", "upper": "lower"}


@dataclass(frozen=True)
class Inverse(Estimate):
    """So many by a time, such as tokens a second by the time of a token.

    What nine in ten stay within as a time, nine in ten reach as a rate: bounds and p-values are those of the time at
    the other side.

    Args:
        time: Estimate of the time.
        many: What is divided by it: 1,000 for a time in ms and a rate by the second.
    """

    time: Estimate
    many: float = 1000.0

    @property
    def value(self) -> float | None:
        """0 where the time is infinite."""
        return self._of(self.time.value)

    @property
    def n(self) -> int:
        """Of the time."""
        return self.time.n

    @property
    def method(self) -> str:
        """Of the time."""
        return f"one by the time: {self.time.method}"

    @property
    def reason(self) -> str | None:
        """Of the time."""
        return self.time.reason

    @property
    def by_processes(self) -> bool:
        """Of the time."""
        return self.time.by_processes

    def bound(self, confidence: float, side: Side) -> float | None:
        """One by the time's bound on the other side."""
        return self._of(self.time.bound(confidence, _OTHER[side]))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The p-value of the time at one by the threshold."""
        return self.time.p_value(self._time_of(threshold), _OTHER[side])

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Of the time."""
        return self.time.n_to_decide(self._time_of(threshold), alpha)

    def _of(self, time: float | None) -> float | None:
        if time is None or time <= 0.0:
            return None
        return self.many / time

    def _time_of(self, rate: float) -> float:
        return self.many / rate if rate > 0.0 else math.inf

"""Estimate that has a value and no bound."""

from __future__ import annotations

from dataclasses import dataclass

from evalspec.evidence.estimate import Estimate, Side


@dataclass(frozen=True, slots=True)
class ValueOnly(Estimate):
    """A value without bounds, since the sample is too small. ``method`` says what would give a bound.

    Args:
        value: The statistic, or None where there is none.
        n: Rows.
        method: The method, and from which n on it gives a bound.
    """

    value: float | None
    n: int
    method: str

    def bound(self, confidence: float, side: Side) -> float | None:
        """No bound."""
        return None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """No p-value, as there is no bound."""
        return None

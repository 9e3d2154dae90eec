"""A ratio to a baseline where only differences have an interval."""

from __future__ import annotations

from dataclasses import dataclass

from evalspec.evidence.estimate import Estimate, Side


@dataclass(frozen=True, slots=True)
class AsRatio(Estimate):
    """A difference ``candidate - K x baseline``, asked for as a ratio: it clears K where the difference clears 0.

    Args:
        difference: The difference, made to be held at 0.
        factor: K.
        baseline: The baseline's value, positive; what the difference is a share of.
    """

    difference: Estimate
    factor: float
    baseline: float

    @property
    def value(self) -> float | None:
        """Ratio to the baseline's value: K, and the difference as a share of the baseline."""
        return None if self.difference.value is None else self.factor + self.difference.value / self.baseline

    @property
    def n(self) -> int:
        """Number of the difference's observations."""
        return self.difference.n

    @property
    def method(self) -> str:
        """Method of the difference, taken as a share of the baseline's value."""
        return f"{self.difference.method}, as a share of the baseline's value"

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound of the ratio: K, and the difference's bound as a share of the baseline."""
        bound = self.difference.bound(confidence, side)
        return None if bound is None else self.factor + bound / self.baseline

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The p-value of the difference, held at the threshold turned into a difference: K becomes 0."""
        return self.difference.p_value((threshold - self.factor) * self.baseline, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Number of observations that the difference needs, held at the threshold turned into a difference."""
        return self.difference.n_to_decide((threshold - self.factor) * self.baseline, alpha)

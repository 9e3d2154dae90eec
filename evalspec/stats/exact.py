"""Facts of two models beside each other: nothing was sampled, so nothing is in doubt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from evalspec.evidence.estimate import Comparison, Estimate, Side


@dataclass(frozen=True)
class Exact(Estimate):
    """A known number, as an estimate without uncertainty.

    Args:
        value: The number.
        n: Number of items over which it was counted.
        method: How it was counted.
        in_this_run: It is about one run, not about a file.
    """

    value: float
    n: int
    method: str
    in_this_run: bool = False
    exact: ClassVar[bool] = True

    def bound(self, confidence: float, side: Side) -> float:
        """The number itself."""
        return self.value

    def p_value(self, threshold: float, side: Side) -> float:
        """0 if it lies on that side of the threshold or on it, else 1."""
        return 0.0 if (self.value >= threshold if side == "lower" else self.value <= threshold) else 1.0


@dataclass(frozen=True)
class ExactPair(Comparison):
    """A fact of a candidate beside that of another model.

    Args:
        candidate_value: Of the candidate, in the metric's unit.
        baseline_value: Of the other.
        n: What each was counted over.
        method: How.
        in_this_run: It is about one run, not about a file.
    """

    candidate_value: float = field()
    baseline_value: float
    n: int
    method: str
    in_this_run: bool = False

    def difference(self, factor: float, margin: float) -> Exact:
        """Candidate - factor x baseline."""
        value = self.candidate_value - factor * self.baseline_value
        return Exact(value, self.n, self.method, self.in_this_run)

    def ratio(self) -> Exact | None:
        """Candidate / baseline; None where the baseline has none."""
        if self.baseline_value <= 0:
            return None
        return Exact(self.candidate_value / self.baseline_value, self.n, self.method, self.in_this_run)

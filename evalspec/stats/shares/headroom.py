"""Headroom between a score and the best that it could be."""

from __future__ import annotations

from dataclasses import dataclass

from evalspec.evidence.estimate import Estimate, Side


@dataclass(frozen=True, slots=True)
class Headroom(Estimate):
    """A ceiling less a score: bounds and p-values are the score's, seen from the ceiling.

    Args:
        score: The score, better where it is higher.
        ceiling: The best that it could be: 1, or what people reach. A known number.
    """

    score: Estimate
    ceiling: float

    @property
    def value(self) -> float | None:
        """Ceiling less the score; negative where the score is over the ceiling."""
        return None if self.score.value is None else self.ceiling - self.score.value

    @property
    def n(self) -> int:
        """Rows of the score."""
        return self.score.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"{self.ceiling:g} minus the score: {self.score.method}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """The ceiling less the score's bound on the other side."""
        limit = self.score.bound(confidence, _other(side))
        return None if limit is None else self.ceiling - limit

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The score's, at the ceiling less the threshold."""
        return self.score.p_value(self.ceiling - threshold, _other(side))

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """The score's, at the ceiling less the threshold."""
        return self.score.n_to_decide(self.ceiling - threshold, alpha)


def _other(side: Side) -> Side:
    return "lower" if side == "upper" else "upper"

"""Average precision with bounds: the area under its curve without each group of pictures in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.stats.means.mean import mean
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Left:
    """A score of all pictures, and what it hangs on without each group of them.

    COCO reads the curve of precision at 101 recalls. Without one picture the recalls of all others move a little,
    together, over those steps, and the jackknife takes that for a bias of ten times the standard error. So the
    pseudo-values are those of the area under the curve, which has no steps, and the bounds are moved apart by half a
    step of recall: so far the score of all pictures may lie from that of the population for the steps alone.

    Args:
        value: The score of all pictures.
        area: shape (1 + G,), the same without steps: of all pictures, then without each group.
        slack: Half a step.
    """

    value: float
    area: NDArray[np.float64]
    slack: float

    @property
    def pseudo(self) -> NDArray[np.float64]:
        """Pseudo-values about the score, shape (G,)."""
        groups = len(self.area) - 1
        return np.asarray((groups - 1) * (self.area[0] - self.area[1:]) + self.value)

    def estimate(self, n: int) -> Estimate:
        """The score with its bounds.

        Args:
            n: Pictures.
        """
        return _stepped(self.value, self.pseudo, self.slack, n)


@dataclass(frozen=True, eq=False)
class ShiftedMean(Estimate):
    """A score with the bounds of the mean of its pseudo-values, moved apart.

    Args:
        value: The score.
        n: Pictures.
        lower: The mean of the pseudo-values, less the slack.
        upper: The same and the slack.
        slack: In the score's unit.
    """

    value: float
    n: int
    lower: Estimate
    upper: Estimate
    slack: float

    @property
    def method(self) -> str:
        """Method of the bounds, or the reason why there are none."""
        wider = f"; bounds moved apart by half a step of recall, {self.slack:.2g}" if self.slack else ""
        how = self.lower.method.replace("rows", f"groups of {max(1, round(self.n / self.lower.n))} pictures")
        return f"jackknife over {self.lower.n} groups of pictures; {how}{wider}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound as `Estimate.bound`."""
        return (self.lower if side == "lower" else self.upper).bound(confidence, side)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value as `Estimate.p_value`."""
        return (self.lower if side == "lower" else self.upper).p_value(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Pictures: groups grow with them."""
        side = self.lower if threshold < self.value else self.upper
        groups = side.n_to_decide(threshold, alpha)
        return None if groups is None else round(groups * self.n / side.n)


def _stepped(value: float, pseudo: NDArray[np.float64], slack: float, n: int) -> Estimate:
    lower = mean(pseudo - slack)
    if isinstance(lower, ValueOnly):
        return ValueOnly(value, n, lower.method.replace("rows", "groups of pictures"))
    return ShiftedMean(value, n, lower, mean(pseudo + slack), slack)


@dataclass(frozen=True, slots=True)
class PairedLeft(Comparison):
    """Two models' scores of the same pictures, without the same groups of them.

    Args:
        candidate: Of the candidate.
        baseline: Of the baseline.
        n: Pictures.
        reason: Why there is no bound; None: there is one.
    """

    candidate: Left
    baseline: Left
    n: int
    reason: str | None

    @property
    def candidate_value(self) -> float | None:
        """The candidate's score."""
        return self.candidate.value

    @property
    def baseline_value(self) -> float | None:
        """The baseline's score."""
        return self.baseline.value

    def difference(self, factor: float = 1.0, margin: float = 0.0) -> Estimate:
        """Estimate of candidate - factor x baseline; ``margin`` is not needed."""
        value = self.candidate.value - factor * self.baseline.value
        if self.reason is not None:
            return ValueOnly(value, self.n, self.reason)
        pseudo = self.candidate.pseudo - factor * self.baseline.pseudo
        # Each model's recall lies somewhere between two steps of its own.
        slack = float(np.hypot(self.candidate.slack, factor * self.baseline.slack))
        return _stepped(value, pseudo, slack, self.n)

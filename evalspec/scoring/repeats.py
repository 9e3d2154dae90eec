"""Several answers to each row: how much of a mean's variance is of drawing them, and from when on more do not pay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell

ASKED, METRIC, WITHIN, BETWEEN = (
    "answers to each row", "metric of the variances", "variance within rows", "variance between rows",
)  # fmt: skip
"""Conditions of a check in the record."""
WIDER = 0.05
"""Share by which an interval may be wider than with any number of answers to each row."""


@dataclass(frozen=True, slots=True)
class RepeatedAnswers:
    """Variance of one metric's scores, of rows that were answered several times.

    Args:
        metric: Its name.
        asked: Answers to each row.
        within: Mean variance of the answers to one row.
        between: Variance of the rows' own means, were each answered without end.

    References:
        Miller (2024), Adding Error Bars to Evals, arXiv 2411.00640, section 3.
    """

    metric: str
    asked: int
    within: float
    between: float

    @classmethod
    def of(cls, metric: str, scores: NDArray[np.float64]) -> RepeatedAnswers:
        """Variances of the scores of several answers to each row.

        Args:
            metric: Its name.
            scores: shape (answers to each row, rows), at least 2 of both.
        """
        asked = len(scores)
        within = float(scores.var(axis=0, ddof=1).mean())
        between = max(0.0, float(scores.mean(axis=0).var(ddof=1)) - within / asked)
        return cls(metric, asked, within, between)

    @property
    def enough(self) -> int | None:
        """Answers to each row from which on more make the interval narrower by less than `WIDER`; None: no number."""
        if self.within <= 0.0:
            return 1
        room = self.between * ((1.0 + WIDER) ** 2 - 1.0)
        return math.ceil(self.within / room - 1e-9) if room > 0.0 else None

    @property
    def sentence(self) -> str:
        """In words."""
        drawing = self.within / self.asked
        whole = self.between + drawing
        share = 100.0 * drawing / whole if whole > 0.0 else 0.0
        told = (
            f"each row was answered {self.asked} times, and {share:.2g} % of the variance of {self.metric} is of that"
        )
        if self.enough is None:
            return f"{told}; rows hardly differ, so that more answers to each pay as more rows do"
        if self.enough <= self.asked:
            return f"{told}: more than {self.enough} do not pay (its interval would be under 5 % narrower); bring rows"
        return f"{told}: up to {self.enough} pay, then rows alone do"

    def conditions(self) -> dict[str, Cell]:
        """The same for the record."""
        return {ASKED: self.asked, METRIC: self.metric, WITHIN: self.within, BETWEEN: self.between}


def recorded(conditions: Mapping[str, Cell]) -> RepeatedAnswers | None:
    """Variances as `RepeatedAnswers.conditions` wrote them; None: rows were answered once."""
    metric, asked, within, between = (conditions.get(name) for name in (METRIC, ASKED, WITHIN, BETWEEN))
    if not isinstance(metric, str) or not isinstance(asked, int):
        return None
    if not isinstance(within, int | float) or not isinstance(between, int | float):
        return None
    return RepeatedAnswers(metric, asked, float(within), float(between))

"""Several answers to each row: how much of a mean's variance is of drawing them, and from when on more do not pay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evalspec.evidence.frozen import Cell
    from evalspec.language.requirement import Requirement
    from evalspec.scoring.scored_rows import Scored

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


def repeats_of(rows: Scored, requirements: Sequence[Requirement], usual: Sequence[str]) -> RepeatedAnswers | None:
    """Variances of the first metric that is required and is a mean over answers, else of the first usual one.

    Args:
        rows: Answers of the candidate.
        requirements: Of the check.
        usual: Metrics of the task.
    """
    import numpy as np

    from evalspec.scoring.scored_rows import Undefined
    from evalspec.scoring.scores import MeanLoss, Share
    from evalspec.scoring.tasks import score

    if rows.asked == 1 or rows.questions < 2:
        return None
    for metric in dict.fromkeys((*(one.metric for one in requirements if one.part is None), *usual)):
        try:
            definition = score(metric, None, rows)
            if isinstance(definition, Share) and definition.counted(rows).all():
                values = definition.hit(rows).astype(np.float64)
            elif isinstance(definition, MeanLoss):
                values = definition.losses(rows)
            else:
                continue
        except Undefined:
            continue
        each = values.reshape(rows.asked, rows.questions)
        within = float(each.var(axis=0, ddof=1).mean())
        between = max(0.0, float(each.mean(axis=0).var(ddof=1)) - within / rows.asked)
        return RepeatedAnswers(metric, rows.asked, within, between)
    return None

"""Scores of answers that never look at the row, in slices: such a score leaves nothing to beat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.scoring.dummies import WORDS
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.sliced_metrics import asked_of
from evalspec.scoring.tasks import score

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement
    from evalspec.scoring.scores import Estimators
    from evalspec.scoring.slicing import Cell


def of_slices(
    requirements: Iterable[Requirement], rows: Scored, kept: Sequence[Cell], tools: Estimators
) -> dict[str, tuple[float, str]]:
    """Scores of the one answer that is right most often over all rows, in each slice and in the worst of them.

    Args:
        requirements: Of the check.
        rows: The candidate's.
        kept: The slices.
        tools: What estimates need beside rows.
    """
    blind_scores: dict[str, tuple[float, str]] = {}
    constant = constant_rows(rows)
    for one in requirements:
        asked = asked_of(one.metric)
        if asked.base is None or asked.form not in ("each", "worst") or constant is None:
            continue
        scores = _by_cell(asked.base, constant, kept, tools)
        if asked.form == "worst" and len(scores) == len(kept) and scores:
            blind_scores[one.metric] = ((max if one.upper else min)(scores.values()), WORDS["constant"])
        elif asked.form == "each":
            blind_scores |= {f"{one.metric}({name})": (value, WORDS["constant"]) for name, value in scores.items()}
    return blind_scores


def constant_rows(rows: Scored) -> Scored | None:
    """The same rows, answered alike: the most frequent class with the shares of all, or the median; None: neither."""
    if rows.task == "classes" and rows.classes is not None:
        counts = np.bincount(rows.truth, minlength=len(rows.classes))
        shares = None if rows.probabilities is None else np.tile(counts / rows.n, (rows.n, 1))
        return replace(rows, predicted=np.full(rows.n, counts.argmax()), probabilities=shares)
    if rows.task == "values":
        return replace(rows, values=np.full(rows.n, float(np.median(rows.truth))))
    return None


def _by_cell(metric: str, constant: Scored, kept: Sequence[Cell], tools: Estimators) -> dict[str, float]:
    scores = {}
    for cell in kept:
        try:
            value = score(metric, None, constant).estimate(constant.rows(cell.rows), tools).value if cell.n else None
        except Undefined:
            continue
        if value is not None:
            scores[cell.name] = value
    return scores

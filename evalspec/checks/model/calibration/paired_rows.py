"""Answers of another model beside those of the check's own, row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import NotRunError
from evalspec.language.predictions import all_answers
from evalspec.scoring.scored_rows import Scored, aligned

if TYPE_CHECKING:
    from evalspec.language.inputs import Predictions


def beside(rows: Predictions, other: Predictions) -> Predictions:
    """Answers of another model on the same rows, with the classes in the same order.

    Args:
        rows: Answers of the check's model, with truth.
        other: Answers of another model on the same dataset.

    Raises:
        NotRunError: The other model answered other rows, gives another kind of answer, or has other classes.
    """
    if other.truth is None:
        raise NotRunError(f"{other.dataset} names no label for {other.model!r}, so its rows can't be matched")
    other = all_answers(other)
    aligned_rows = aligned(_scored(other), _scored(rows))
    return replace(
        other,
        classes=aligned_rows.classes,
        truth=aligned_rows.truth,
        predicted=aligned_rows.predicted,
        n=aligned_rows.n,
        asked=aligned_rows.asked,
        probabilities=aligned_rows.probabilities,
    )


def _scored(rows: Predictions) -> Scored:
    return Scored(
        model=rows.model, dataset=rows.dataset, truth=np.asarray(rows.truth), classes=rows.classes,
        predicted=rows.predicted, probabilities=rows.probabilities, values=rows.values, clusters=rows.clusters,
        members=rows.members, texts=rows.texts, masks=rows.masks, boxes=rows.boxes, true_boxes=rows.true_boxes,
        asked=rows.asked,
    )  # fmt: skip

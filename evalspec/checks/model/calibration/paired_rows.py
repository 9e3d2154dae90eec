"""Another model's answers beside the check's own, row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import NotRunError
from evalspec.scoring.scored_rows import Scored, aligned

if TYPE_CHECKING:
    from evalspec.language.inputs import Predictions


def beside(rows: Predictions, other: Predictions) -> Predictions:
    """Another model's answers on the same rows, with the classes in the same order.

    Args:
        rows: Of the check's model, with truth.
        other: Of another model, on the same dataset.

    Raises:
        NotRunError: It answered other rows, gives something else, or has other classes.
    """
    if other.truth is None:
        raise NotRunError(f"{other.dataset} names no label for {other.model!r}, so its rows can't be told apart")
    found = aligned(_scored(other), _scored(rows))
    return replace(
        other, classes=found.classes, truth=found.truth, predicted=found.predicted, probabilities=found.probabilities
    )


def _scored(rows: Predictions) -> Scored:
    return Scored(
        model=rows.model, dataset=rows.dataset, truth=np.asarray(rows.truth), classes=rows.classes,
        predicted=rows.predicted, probabilities=rows.probabilities, values=rows.values, clusters=rows.clusters,
        members=rows.members, texts=rows.texts, masks=rows.masks, boxes=rows.boxes, true_boxes=rows.true_boxes,
    )  # fmt: skip

"""`quality` of masks."""

from __future__ import annotations

import numpy as np

from evalspec.checks.model._scored import Scored
from evalspec.language.inputs import Predictions


def scored(answers: Predictions) -> Scored:
    """Rows of boxes or masks, by themselves."""
    true = answers.true_boxes
    truth = answers.truth if true is None else np.bincount(true.row, minlength=answers.n)
    return Scored(
        "candidate", "test", np.asarray(truth), answers.classes, None, None, None, answers.clusters,
        masks=answers.masks, boxes=answers.boxes, true_boxes=true,
    )  # fmt: skip

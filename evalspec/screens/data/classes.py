"""A class that the rows don't have, or that the model never answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.screens import Suspicion
from evalspec.screens.answers import class_asked, fields_of
from evalspec.screens.evidence import Look

if TYPE_CHECKING:
    from evalspec.screens.evidence import Evidence

ROWS_A_CLASS = 20
"""Rows for each class, from which on one without any is no accident."""
FEWEST = 10
SHARE = 0.01
"""Rows of a class that is never answered: so many, and so large a share of all."""


def look(evidence: Evidence) -> Look:
    """Answers and truth of every dataset that was judged; all of it are facts."""
    found: dict[tuple[str, str], Suspicion] = {}
    for dataset, model in evidence.answers:
        for name, sentence, of_model in _classes(evidence, dataset, model):
            if (dataset, name) not in found and not class_asked(evidence, dataset, model if of_model else None, name):
                require = f"recall({name}) >= 50 %"
                suggestion = evidence.requirement("model", "quality", require, fields_of(dataset, model))
                found[dataset, name] = evidence.suspicion(name, sentence, suggestion, weakens=True)
    return Look(tuple(found.values()))


def _classes(evidence: Evidence, dataset: str, model: str) -> Iterator[tuple[str, str, bool]]:
    """Class, what is odd about it, and that this is of the model, not of the rows."""
    answers = evidence.predictions(dataset, model)
    if not answers.is_classification or answers.truth is None or answers.predicted is None or answers.classes is None:
        return
    count = len(answers.classes)
    rows = np.bincount(answers.truth[answers.truth >= 0], minlength=count)
    said = np.bincount(answers.predicted[answers.predicted >= 0], minlength=count)
    for index, name in enumerate(answers.classes):
        if rows[index] == 0 and answers.n >= ROWS_A_CLASS * count:
            yield name, f"none of the {answers.n:,} rows of {dataset} is {name!r}, which {model} can answer", False
        elif said[index] == 0 and rows[index] >= max(FEWEST, SHARE * answers.n):
            yield (
                name,
                f"{model} never answers {name!r} on {dataset}, where {rows[index]:,} of {answers.n:,} rows are",
                True,
            )

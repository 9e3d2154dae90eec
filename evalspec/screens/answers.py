"""Which answers of a run belong together, and which of them are right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Predictions
    from evalspec.screens.evidence import Evidence


def judged_models(evidence: Evidence) -> tuple[str, ...]:
    """Models that a check is about."""
    return tuple(dict.fromkeys(check.model for check in evidence.checks if check.uses_model))


def judged_answers(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """(dataset, model) of all answers of the models that checks are about."""
    models = judged_models(evidence)
    return ((dataset, model) for dataset, model in evidence.answers if model in models)


def fields_of(dataset: str, model: str) -> dict[str, object]:
    """Fields of a check of this model on this dataset."""
    fields: dict[str, object] = {"dataset": dataset}
    return fields if model == "candidate" else fields | {"model": model}


def baselines(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """(model, baseline, dataset) that the spec holds against each other and of which the run has answers."""
    pairs: dict[tuple[str, str], None] = {}
    for check in evidence.checks:
        named = [*check.baselines, getattr(check, "baseline", None)]
        pairs |= {(check.model, str(one)): None for one in named if one is not None and one != check.model}
    there = set(evidence.answers)
    for model, baseline in pairs:
        for dataset in dict.fromkeys(dataset for dataset, _ in evidence.answers):
            if {(dataset, model), (dataset, baseline)} <= there:
                yield model, baseline, dataset


def right(answers: Predictions, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Rows that are answered rightly: one class, or all classes of a row; None: nothing says what is right.

    Args:
        answers: To all rows of a dataset.
        rows: shape (k,), those that are looked at.

    Returns:
        shape (k,).
    """
    if answers.truth is None:
        return None
    truth = answers.truth[rows]
    if answers.is_classification and answers.predicted is not None:
        return np.asarray(answers.predicted[rows] == truth)
    if answers.members is not None:
        return np.asarray((answers.members[rows] == truth).all(axis=1))
    return None


def class_asked(evidence: Evidence, dataset: str, model: str | None, name: str) -> bool:
    """A requirement names this class.

    Args:
        evidence: Of the run.
        dataset: Its rows.
        model: Of the check; None: any.
        name: Of the class.
    """
    return any(
        one.part == name and one.metric in ("recall", "precision", "f1")
        for check in evidence.checks
        if model in (None, check.model) and getattr(check, "dataset", "") == dataset
        for one in check.requirements
    )


class RowLosses(NamedTuple):
    """How far each row's answer is off.

    Args:
        metric: Name of the score whose mean they are, and a larger loss makes worse.
        rows: shape (k,), NaN where a row's truth is not known.
        better: The score is better when it is larger: a loss is what is missing to 1.
    """

    metric: str
    rows: NDArray[np.float64]
    better: bool


def losses(evidence: Evidence, dataset: str, model: str, rows: NDArray[np.int64]) -> RowLosses | None:
    """0 or 1 of classes, the distance of values, of texts what a check of these answers scores; None: nothing says so.

    Args:
        evidence: Of the run.
        dataset: Its answers are looked at.
        model: Who gave them.
        rows: shape (k,), those that are looked at.
    """
    answers = evidence.predictions(dataset, model)
    hits = right(answers, rows)
    if hits is not None:
        return RowLosses("accuracy", 1.0 - hits.astype(np.float64), True)
    if answers.truth is None:
        return None
    if answers.task == "values" and answers.values is not None:
        return RowLosses("mae", np.abs(answers.values[rows] - np.asarray(answers.truth, np.float64)[rows]), False)
    for check in evidence.checks:
        scored = check.row_scores(answers) if getattr(check, "dataset", "") == dataset else None
        if scored is not None:
            return RowLosses(scored.name, 1.0 - np.asarray(scored.scores, np.float64)[rows], True)
    return None

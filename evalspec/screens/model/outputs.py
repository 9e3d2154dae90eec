"""Answers that can't be what they are called: the same value for every row, or another model's to the last digit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.screens.answers import baselines, fields_of, judged_answers
from evalspec.screens.evidence import Look

if TYPE_CHECKING:
    from evalspec.evidence.screens import Suspicion
    from evalspec.language.inputs import Predictions
    from evalspec.screens.evidence import Evidence

FEWEST = 50


def look(evidence: Evidence) -> Look:
    """Answers to every dataset; all of it are facts."""
    suspicions: list[Suspicion] = []
    for dataset, model in judged_answers(evidence):
        suspicions += _constant(evidence, dataset, model)
    for model, baseline, dataset in baselines(evidence):
        suspicions += _copied(evidence, model, baseline, dataset)
    return Look(tuple(suspicions))


def _constant(evidence: Evidence, dataset: str, model: str) -> list[Suspicion]:
    """Values that don't depend on the row, where the true ones do."""
    answers = evidence.predictions(dataset, model)
    if answers.task != "values" or answers.values is None or answers.n < FEWEST:
        return []
    if answers.truth is None or np.ptp(answers.values) > 0 or np.ptp(np.asarray(answers.truth, np.float64)) == 0:
        return []
    if evidence.asks("r2", (dataset,), model=model):
        return []
    fields = fields_of(dataset, model)
    sentence = f"{model} gives {answers.values[0]:.4g} for each of the {answers.n:,} rows of {dataset}"
    suggestion = evidence.requirement("model", "quality", "r2 >= 0.2", fields)
    return [evidence.suspicion(f"{model} on {dataset}", sentence, suggestion)]


def _copied(evidence: Evidence, model: str, baseline: str, dataset: str) -> list[Suspicion]:
    """Probabilities or values of two models that are the same to the last digit in all rows."""
    if evidence.same_files(model, baseline):
        return []
    ours, theirs = (_numbers(evidence.predictions(dataset, name)) for name in (model, baseline))
    if ours is None or theirs is None or len(ours) < FEWEST or ours.shape != theirs.shape:
        return []
    # Probabilities of 0 and 1 alone are classes, and models may agree on these.
    if len(np.unique(ours)) < FEWEST or not np.array_equal(ours, theirs):
        return []
    sentence = (
        f"the answers of {model} and of {baseline} to all {len(ours):,} rows of {dataset} are the same to the last "
        "digit, though the models are not: one of them may have been answered by the other, which no requirement tells "
        "apart from two good models: make the answers again from each artifact"
    )
    return [evidence.suspicion(f"{model} and {baseline}", sentence, "")]


def _numbers(answers: Predictions) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    return answers.probabilities if answers.probabilities is not None else answers.values

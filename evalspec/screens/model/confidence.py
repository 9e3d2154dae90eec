"""A confidence that is wrong, for all rows or for a group of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.words import in_percent
from evalspec.screens.answers import fields_of, judged_answers, right
from evalspec.screens.evidence import Look
from evalspec.screens.groups import decided, row_groups
from evalspec.screens.pairs import independent_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.screens import Suspicion
    from evalspec.language.inputs import Predictions
    from evalspec.screens.evidence import Evidence

FEWEST = 100
GAP = 0.2
"""Least mean gap between confidence and share of right answers, of all rows."""
GROUP_GAP = 0.15
"""Of a group, beyond that of the other rows."""
MARGIN = 0.05
"""A gap that rows may have anyway."""
ASKED = ("ece", "classwise_ece", "rms_calibration", "mce", "ece_increase", "ece_after_temperature")
SURE = 0.02
"""Of logits: least share of rows that lie on the rim of what probabilities can be."""


def look(evidence: Evidence) -> Look:
    """Confidences of the models that checks are about."""
    suspicions: list[Suspicion] = []
    questions = 0
    for dataset, model in judged_answers(evidence):
        for suspicion in _of_answers(evidence, dataset, model):
            questions += 1
            suspicions += [suspicion] if suspicion is not None else []
    return Look(tuple(suspicions), questions)


def _of_answers(evidence: Evidence, dataset: str, model: str) -> Iterator[Suspicion | None]:
    answers = evidence.predictions(dataset, model)
    rows = evidence.index(dataset)[independent_rows(evidence, dataset)]
    hits = right(answers, rows)
    if hits is None or answers.probabilities is None or not answers.is_classification or len(rows) < FEWEST:
        return
    sure = answers.probabilities[rows].max(axis=1)
    gap = float(sure.mean() - hits.mean())
    asked = any(evidence.asks(metric, (dataset,), model=model) for metric in ASKED)
    if abs(gap) < GAP or asked:
        yield None
    else:
        why = ", as if softmax had been applied to probabilities" if twice(answers.probabilities[rows]) else ""
        yield evidence.suspicion(
            f"{model} on {dataset}", f"{_said(model, dataset, sure, hits, 'all')}{why}",
            evidence.requirement("model", "calibration", "ece <= 0.1", fields_of(dataset, model)),
            _p_value(sure, hits, 0.0),
        )  # fmt: skip
    for group in row_groups(evidence, dataset):
        inside = group.inside
        others = float(sure[~inside].mean() - hits[~inside].mean())
        own = float(sure[inside].mean() - hits[inside].mean())
        if abs(own) < GROUP_GAP or abs(own - others) < GROUP_GAP or decided(evidence, dataset, group.column):
            yield None
            continue
        brier = _brier(answers, rows)
        require = f"worst_brier <= {1.5 * brier:.2g}"
        suggestion = evidence.slice_requirement(group.where, require, fields_of(dataset, model))
        sentence = (
            f"{_said(model, dataset, sure[inside], hits[inside], group.name)}; for the other rows these are "
            f"{in_percent(float(sure[~inside].mean()), 0)} and {in_percent(float(hits[~inside].mean()), 0)}"
        )
        yield evidence.suspicion(group.name, sentence, suggestion, _p_value(sure[inside], hits[inside], others))


def _said(model: str, dataset: str, sure: NDArray[np.float64], hits: NDArray[np.bool_], name: str) -> str:
    rows = f"all {len(hits):,} rows" if name == "all" else f"the {len(hits):,} rows with {name}"
    return (
        f"on {rows} of {dataset}, {model} has a confidence of {in_percent(float(sure.mean()), 0)} on average, but "
        f"{in_percent(float(hits.mean()), 0)} of its answers are right"
    )


def _p_value(sure: NDArray[np.float64], hits: NDArray[np.bool_], others: float) -> float:
    """Chance of so many right answers, or so few, were the confidence off by the margin more than that of others.

    Sums of unlike chances vary less than those of their mean (Hoeffding 1956), so the binomial tail is no smaller.
    """
    from scipy.special import bdtr, bdtrc

    n, k, mean = len(hits), int(hits.sum()), float(sure.mean())
    if mean > hits.mean():
        return min(1.0, 2.0 * float(bdtr(k, n, max(0.0, mean - max(0.0, others) - MARGIN))))
    return min(1.0, 2.0 * float(bdtrc(k - 1, n, min(1.0, mean - min(0.0, others) + MARGIN))))


def twice(probabilities: NDArray[np.float64]) -> bool:
    """These are what softmax makes of probabilities: their logarithms, moved to the sum 1, lie in 0..1 in every row.

    Args:
        probabilities: shape (n, C), C >= 3; of two classes nothing tells.
    """
    count = probabilities.shape[1]
    if count < 3 or (probabilities <= 0).any():
        return False
    logs = np.log(probabilities)
    before = logs + (1.0 - logs.sum(axis=1, keepdims=True)) / count
    rim = np.mean(before.max(axis=1) > 1 - SURE)
    return bool((before > -1e-3).all() and (before < 1 + 1e-3).all() and rim > SURE)


def _brier(answers: Predictions, rows: NDArray[np.int64]) -> float:
    """Of all rows, as `slices` has it."""
    assert answers.probabilities is not None
    assert answers.truth is not None
    said = answers.probabilities[rows].copy()
    said[np.arange(len(rows)), answers.truth[rows]] -= 1.0
    return float((said**2).sum(axis=1).mean()) or 0.01

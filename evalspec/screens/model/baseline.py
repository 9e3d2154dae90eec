"""A baseline that is broken, so that nothing is easier than to be no worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.screens.answers import baselines
from evalspec.screens.evidence import Look
from evalspec.stats.midranks import midranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.screens import Suspicion
    from evalspec.language.inputs import Predictions
    from evalspec.screens.evidence import Evidence

FEWEST = 50
NONE, SKILL = 0.1, 0.35
"""Of the way from guessing to perfect: so little is none, and so much at the least a sound baseline has."""


def look(evidence: Evidence) -> Look:
    """Every model that another one is held against."""
    suspicions: dict[tuple[str, str], Suspicion] = {}
    seen: set[tuple[str, str]] = set()
    for _, baseline, dataset in baselines(evidence):
        if (baseline, dataset) in seen:
            continue
        seen.add((baseline, dataset))
        answers = evidence.predictions(dataset, baseline)
        if answers.truth is None or answers.n < FEWEST:
            continue
        if any(evidence.asks(metric, (dataset,), model=baseline) for metric in ("accuracy", "balanced_accuracy", "r2")):
            continue
        broken = _of_classes(answers) if answers.is_classification else _of_values(answers)
        if broken is None:
            continue
        what, require, p_value = broken
        sentence = f"{baseline}, against which others are held, {what} on {dataset}"
        suggestion = evidence.requirement("model", "quality", require, {"dataset": dataset, "model": baseline})
        suspicions[baseline, dataset] = evidence.suspicion(
            f"{baseline} on {dataset}", sentence, suggestion, p_value, weakens=True
        )
    return Look(tuple(suspicions.values()), len(seen))


def _of_classes(answers: Predictions) -> tuple[str, str, float] | None:
    """Mean recall of the classes, beside that of a sound baseline; its probabilities order nothing either."""
    from scipy.special import ndtr

    assert answers.truth is not None
    assert answers.predicted is not None
    known = answers.truth >= 0
    truth, predicted = np.asarray(answers.truth[known], np.int64), answers.predicted[known]
    rows = np.bincount(truth)
    classes = np.flatnonzero(rows >= 5)
    if len(classes) < 2:
        return None
    hits = np.bincount(truth[predicted == truth], minlength=len(rows))[classes]
    recalls = hits / rows[classes]
    chance = 1.0 / len(classes)
    least = chance + SKILL * (1.0 - chance)
    # The error that recalls of such a baseline have.
    error = float(np.sqrt((least * (1.0 - least) / rows[classes]).sum())) / len(classes)
    mean = float(recalls.mean())
    p_value = float(ndtr((mean - least) / error))
    if mean > chance + NONE * (1.0 - chance) or _orders(answers, truth, known):
        return None
    sentence = f"finds {100 * mean:.3g} % of the rows of a class on average, where guessing finds {100 * chance:.3g} %,"
    return sentence, f"balanced_accuracy >= {100 * least:.0f} %", p_value


def _orders(answers: Predictions, truth: NDArray[np.int64], known: NDArray[np.bool_]) -> bool:
    """Its probabilities of a class put rows of it before others, though it may never answer that class."""
    if answers.probabilities is None:
        return False
    areas = []
    for label in np.unique(truth):
        inside = truth == label
        if min(inside.sum(), (~inside).sum()) < 5:
            continue
        ranks = midranks(answers.probabilities[known][:, label])
        n, m = int(inside.sum()), int((~inside).sum())
        areas.append((ranks[inside].sum() - n * (n + 1) / 2) / (n * m))
    return bool(areas and np.mean(areas) > 0.5 + NONE)


def _of_values(answers: Predictions) -> tuple[str, str, float] | None:
    """Errors beside those of always giving the median: by t on their paired differences."""
    from scipy.special import stdtr

    if answers.values is None or answers.task != "values":
        return None
    truth = np.asarray(answers.truth, np.float64)
    known = np.isfinite(truth) & np.isfinite(answers.values)
    if known.sum() < FEWEST:
        return None
    constant = np.abs(truth[known] - np.median(truth[known]))
    errors = np.abs(answers.values[known] - truth[known])
    if errors.mean() < (1.0 - NONE) * constant.mean():
        return None
    differences = errors - (1.0 - SKILL) * constant
    spread = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    p_value = float(stdtr(len(differences) - 1, -differences.mean() / spread)) if spread > 0 else 0.0
    sentence = (
        f"is off by {errors.mean():.3g} on average, where always giving {np.median(truth[known]):.3g} is off by "
        f"{constant.mean():.3g},"
    )
    return sentence, "r2 >= 0.2", p_value

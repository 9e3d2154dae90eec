"""Answers that fit other rows, or other classes, than those they stand beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evalspec.screens.answers import fields_of, judged_answers
from evalspec.screens.evidence import Look
from evalspec.stats.midranks import midranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.screens import Suspicion
    from evalspec.language.inputs import Predictions
    from evalspec.screens.evidence import Evidence

FEWEST = 100
FEWEST_OF_CLASS = 5
FARTHEST = 8
"""Rows by which answers may be shifted and still be recognized."""
BETTER = 0.25
"""More of the rows, or of the variance, fits elsewhere than in place."""
ALIKE = 0.1
"""More than chance, or of a rank correlation twice as much: neighbours so alike fit each other's answers anyway."""
SWAPPED, IN_PLACE = 0.5, 0.4
"""Share of rows of swapped classes that fits once they are put right, and how far it lies above that in place."""


def look(evidence: Evidence) -> Look:
    """Answers of every judged model to every dataset whose truth is known."""
    suspicions: list[Suspicion] = []
    questions = 0
    for dataset, model in judged_answers(evidence):
        answers = evidence.predictions(dataset, model)
        if answers.truth is None or answers.n < FEWEST:
            continue
        for outcome in (_shifted(answers), _swapped(answers)):
            if outcome is None:
                continue
            questions += outcome.questions
            if outcome.sentence:
                text = f"answers of {model} to {dataset} {outcome.sentence}"
                suggestion = ""
                if outcome.require:
                    suggestion = evidence.requirement("model", "quality", outcome.require, fields_of(dataset, model))
                suspicions.append(evidence.suspicion(f"{model} on {dataset}", text, suggestion, outcome.p_value))
    return Look(tuple(suspicions), questions)


class Fit(NamedTuple):
    """How answers fit elsewhere.

    Args:
        questions: p-values that were computed.
        sentence: Empty: no better than in place.
        require: The sentence that a model with answers in place would hold.
        p_value: By itself.
    """

    questions: int
    sentence: str = ""
    require: str = ""
    p_value: float = 1.0


def _offsets() -> tuple[int, ...]:
    return tuple(step for far in range(1, FARTHEST + 1) for step in (-far, far))


def _shifted(answers: Predictions) -> Fit | None:
    """The offset at which answers fit best, where that is far better than in place and neighbours are unlike.

    Returns:
        None: answers of another task.
    """
    pair = _pair(answers)
    if pair is None:
        return None
    truth, said = pair
    of_classes = answers.is_classification
    offsets = _offsets()
    rows = np.arange(len(truth))
    # The last place is the reverse order.
    places = [np.roll(rows, step) for step in offsets] + [rows[::-1]]
    fit = _agreement if of_classes else _correlation
    here = fit(truth, said)
    there = np.array([fit(truth, said[place]) for place in places])
    best = int(there.argmax())
    itself = fit(truth, truth[places[best]])
    asked = len(places)
    if of_classes:
        shares = np.unique(truth, return_counts=True)[1] / len(truth)
        chance = float((shares**2).sum())
        if there[best] < max(here, chance) + BETTER or itself > chance + ALIKE:
            return Fit(asked)
    elif there[best] ** 2 < here**2 + BETTER or abs(itself) > 2 * ALIKE:
        return Fit(asked)
    p_value = _p_of_share(there[best], here, len(truth)) if of_classes else _p_of_rank(there[best], here, len(truth))
    place = "in reverse order" if best == len(offsets) else f"shifted by {_rows(offsets[best])}"
    if of_classes:
        sentence = f"fit the truth in {100 * here:.3g} % of the rows, and in {100 * there[best]:.3g} % {place}"
    else:
        sentence = f"follow the truth with a rank correlation of {here:.2f}, and of {there[best]:.2f} {place}"
    require = f"accuracy >= {50 * (here + there[best]):.0f} %" if of_classes else f"r2 >= {there[best] ** 2 / 2:.2g}"
    return Fit(asked, f"{sentence}: they may belong to other rows", require, p_value)


def _pair(answers: Predictions) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Truth and answer of the rows whose truth is known: classes, or ranks of values; shape (k,) each."""
    assert answers.truth is not None
    if answers.is_classification and answers.predicted is not None:
        known = answers.truth >= 0
        truth, said = answers.truth[known].astype(np.float64), answers.predicted[known].astype(np.float64)
    elif answers.task == "values" and answers.values is not None:
        values = np.asarray(answers.truth, np.float64)
        known = np.isfinite(values) & np.isfinite(answers.values)
        truth, said = midranks(values[known]), midranks(answers.values[known])
    else:
        return None
    if len(truth) < FEWEST or np.ptp(truth) == 0 or np.ptp(said) == 0:
        return None
    return truth, said


def _agreement(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return float((one == other).mean())


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def _p_of_share(there: float, here: float, n: int) -> float:
    from scipy.special import bdtrc

    return float(bdtrc(round(there * n) - 1, n, min(1.0, here + BETTER / 2)))


def _p_of_rank(there: float, here: float, n: int) -> float:
    """By Fisher's z, whose error for ranks is at most 1.06 / (n - 3) (Fieller, Hartley, Pearson 1957)."""
    from scipy.special import ndtr

    gap = np.arctanh(min(there, 0.9999)) - np.arctanh(min(abs(here), 0.9999))
    return float(ndtr(-gap / np.sqrt(2 * 1.06 / (n - 3))))


def _rows(step: int) -> str:
    return f"{abs(step)} row{'s' if abs(step) > 1 else ''} {'down' if step > 0 else 'up'}"


def _swapped(answers: Predictions) -> Fit | None:
    """Classes whose rows are answered by each other's names: sought in one half of the rows, tested in the other."""
    if not answers.is_classification or answers.predicted is None or answers.classes is None:
        return None
    assert answers.truth is not None
    known = answers.truth >= 0
    truth, said = np.asarray(answers.truth[known], np.int64), np.asarray(answers.predicted[known], np.int64)
    k = len(answers.classes)
    half = np.arange(len(truth)) % 2 == 0
    table = np.bincount(truth[half] * k + said[half], minlength=k * k).reshape(k, k)
    rows = table.sum(axis=1)
    if (table.argmax(axis=1) == np.arange(k))[rows > 0].all():
        return Fit(1)
    from scipy.optimize import linear_sum_assignment
    from scipy.special import bdtrc

    # Half a row more where they stand: of two that fit as well, nothing is moved.
    name = linear_sum_assignment(table + 0.5 * np.eye(k), maximize=True)[1]
    fits = table[np.arange(k), name]
    moved = (name != np.arange(k)) & (rows > 0)
    if not moved.any():
        return Fit(1)
    inside = moved[truth] & ~half
    if inside.sum() < FEWEST_OF_CLASS * moved.sum() or (fits[moved] < IN_PLACE * rows[moved]).any():
        return Fit(1)
    n = int(inside.sum())
    here = float((said[inside] == truth[inside]).mean())
    hits = int((said[inside] == name[truth[inside]]).sum())
    if hits < SWAPPED * n or hits / n < here + IN_PLACE:
        return Fit(1)
    pairs = [f"{answers.classes[one]} as {answers.classes[name[one]]}" for one in np.flatnonzero(moved)]
    named = ", ".join(pairs[:3]) + (f" and {len(pairs) - 3} more" if len(pairs) > 3 else "")
    sentence = (
        f"name classes in another order: {named}; {100 * here:.3g} % of these rows are right, and "
        f"{100 * hits / n:.3g} % would be: look at `classes`"
    )
    # Half of what these classes would gain.
    accuracy = float((said == truth).mean()) + (hits / n - here) * float(moved[truth].mean()) / 2
    require = f"accuracy >= {100 * accuracy:.0f} %"
    return Fit(1, sentence, require, float(bdtrc(hits - 1, n, here + IN_PLACE / 2)))

"""A class whose labels a model denies, or whose answers are wrong, far more often than its own probabilities say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from evalspec.screens.answers import class_asked, fields_of, judged_answers
from evalspec.screens.evidence import Look
from evalspec.screens.pairs import independent_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.screens import Suspicion
    from evalspec.screens.evidence import Evidence

FEWEST = 100
FEWEST_OF_CLASS = 20
EXCESS = 0.15
"""Least share of the rows of a class that is beyond what probabilities lead to expect."""
MARGIN = 0.05
"""Share of them that a sound model may be off by, beyond what it is in the other classes."""
SAME = 0.5
"""Share of errors that another class explains already."""


class ClassErrors(NamedTuple):
    """Errors of one class, seen from its labels or from its answers.

    Args:
        place: Of the class.
        side: Rows that are labelled so, or answered so.
        rows: How many of these there are.
        wrong: shape (n,), those of them whose answer is not their label.
        other: The class that most of these have on the other side.
        expected: How many there would be, were probabilities as good as in the other classes.
        p_value: By itself.
    """

    place: int
    side: Literal["label", "answer"]
    rows: int
    wrong: NDArray[np.bool_]
    other: int
    expected: float
    p_value: float

    @property
    def errors(self) -> int:
        """How many of them are wrong."""
        return int(self.wrong.sum())

    @property
    def is_large(self) -> bool:
        """True where so many are beyond what is expected that it matters."""
        return self.rows >= FEWEST_OF_CLASS and self.errors - self.expected >= EXCESS * self.rows


def look(evidence: Evidence) -> Look:
    """Probabilities of the models that checks are about, beside the labels."""
    suspicions: list[Suspicion] = []
    questions = 0
    for dataset, model in judged_answers(evidence):
        classes = list(_of_answers(evidence, dataset, model))
        questions += len(classes)
        told: list[ClassErrors] = []
        for one in sorted((each for each in classes if each.is_large), key=lambda each: each.p_value):
            # The same errors seen from the other side, or in what they leave for others.
            if any((one.wrong & each.wrong).sum() > SAME * one.errors for each in told):
                continue
            told.append(one)
            suspicion = _suspicion(evidence, dataset, model, one)
            suspicions += [suspicion] if suspicion is not None else []
    return Look(tuple(suspicions), questions)


def _of_answers(evidence: Evidence, dataset: str, model: str) -> Iterator[ClassErrors]:
    answers = evidence.predictions(dataset, model)
    if not answers.is_classification or answers.truth is None or answers.predicted is None:
        return
    if answers.probabilities is None or evidence.asks("classwise_ece", (dataset,), model=model):
        return
    rows = evidence.index(dataset)[independent_rows(evidence, dataset)]
    rows = rows[answers.truth[rows] >= 0]
    if len(rows) < FEWEST:
        return
    truth, said = np.asarray(answers.truth[rows], np.int64), np.asarray(answers.predicted[rows], np.int64)
    yield from class_errors(truth, said, answers.probabilities[rows])


def class_errors(
    truth: NDArray[np.int64], said: NDArray[np.int64], probabilities: NDArray[np.float64]
) -> Iterator[ClassErrors]:
    """Errors of each class that has rows and answers, beside what probabilities lead to expect.

    Of rows that are answered otherwise than k, as many are labelled k as the sum of their probabilities of k; of rows
    that are answered k, as many are not as the sum of what these lack to 1 (the idea of confident learning, Northcutt
    et al. 2021, in sums). What is more than in the other classes tells of k, in a model that is too sure of all.

    Args:
        truth: shape (n,), class of each label.
        said: shape (n,), class of each answer.
        probabilities: shape (n, C).
    """
    from scipy.special import bdtrc

    k = probabilities.shape[1]
    table = np.bincount(truth * k + said, minlength=k * k).reshape(k, k)
    off = table - np.diag(np.diag(table))
    # Row: answer; column: class that it is a probability of.
    sums = np.zeros((k, k))
    np.add.at(sums, said, probabilities)
    missed = sums.sum(axis=0) - np.diag(sums)
    false = np.maximum(0.0, table.sum(axis=0) - np.diag(sums))
    wrong = truth != said
    sides: tuple[tuple[Literal["label", "answer"], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]], ...] = (
        ("label", truth, off, missed),
        ("answer", said, off.T, false),
    )
    for side, of, errors, expected in sides:
        counts = errors.sum(axis=1)
        for place in np.flatnonzero(np.bincount(of, minlength=k)):
            if not (table[place].any() and table[:, place].any()):
                # A class without rows, or without answers, is told as a fact.
                continue
            others = counts.sum() - counts[place] + 2.0, expected.sum() - expected[place] + 2.0
            own = float(expected[place]) * max(1.0, others[0] / others[1])
            rows = int((of == place).sum())
            able = int((said != place).sum()) if side == "label" else rows
            chance = min(1.0, (own + MARGIN * rows) / max(1, able))
            # Sums of unlike chances vary less than those of their mean (Hoeffding 1956).
            p_value = float(bdtrc(int(counts[place]) - 1, able, chance)) if counts[place] else 1.0
            yield ClassErrors(
                int(place), side, rows, wrong & (of == place), int(errors[place].argmax()), own, p_value
            )  # fmt: skip


def _suspicion(evidence: Evidence, dataset: str, model: str, one: ClassErrors) -> Suspicion | None:
    """Sentence and suggestion; None: a requirement is about this class."""
    answers = evidence.predictions(dataset, model)
    assert answers.classes is not None
    name, other = answers.classes[one.place], answers.classes[one.other]
    if class_asked(evidence, dataset, model, name):
        return None
    if one.side == "label":
        what = (
            f"{one.errors:,} of the {one.rows:,} rows of {dataset} labelled {name!r} with another class, mostly "
            f"{other!r}"
        )
        why = f"the labels may be wrong, or {model} may have lost {name!r}"
        metric = "recall"
    else:
        what = (
            f"{one.rows:,} rows of {dataset} with {name!r}, of which {one.errors:,} are labelled differently, mostly "
            f"{other!r}"
        )
        why = f"the labels may be wrong, or {model} may take others for {name!r}"
        metric = "precision"
    expected = max(0.0, one.expected)
    sentence = f"{model} answers {what}; by its own probabilities about {expected:,.0f} were to be expected: {why}"
    # Half way to what is expected.
    least = 1.0 - (one.errors + one.expected) / 2 / one.rows
    require = f"{metric}({name}) >= {100 * least:.0f} %"
    return evidence.suspicion(
        name, sentence, evidence.requirement("model", "quality", require, fields_of(dataset, model)), one.p_value
    )

"""A class whose labels a model denies, or whose answers are wrong, far more often than its own probabilities say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from evalspec.evidence.screens import LEVEL
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
CERTAIN = 1e-8
"""p-value that stands among any number of questions: of two sides that do, the one with the larger share is told."""
TEMPERATURES = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0, 10.0)
"""By which a model that is too sure of all classes is softened; one that needs more says nothing of its errors."""
LEAST = 1e-30
"""Probability that stands for 0, which no temperature softens: a model that only says 0 and 1 needs more than 10."""
ROBUST = 3
"""Other classes, from which on the worst of them is left out."""

Side = Literal["label", "answer"]
Expected = Mapping[Side, "NDArray[np.float64]"]


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
    side: Side
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
    def beyond(self) -> float:
        """Share of the rows that is beyond what is expected."""
        return (self.errors - self.expected) / self.rows


def look(evidence: Evidence) -> Look:
    """Probabilities of the models that checks are about, beside the labels."""
    suspicions: list[Suspicion] = []
    questions = 0
    for dataset, model in judged_answers(evidence):
        large, asked = _of_answers(evidence, dataset, model)
        questions += asked
        told: list[ClassErrors] = []
        for one in sorted(large, key=lambda each: (max(each.p_value, CERTAIN), -each.beyond)):
            # The same errors seen from the other side, or in what they leave for others.
            if any((one.wrong & each.wrong).sum() > SAME * one.errors for each in told):
                continue
            told.append(one)
            suspicion = _suspicion(evidence, dataset, model, one)
            suspicions += [suspicion] if suspicion is not None else []
    return Look(tuple(suspicions), questions)


def _of_answers(evidence: Evidence, dataset: str, model: str) -> tuple[list[ClassErrors], int]:
    answers = evidence.predictions(dataset, model)
    if not answers.is_classification or answers.truth is None or answers.predicted is None:
        return [], 0
    if answers.probabilities is None or evidence.asks("classwise_ece", (dataset,), model=model):
        return [], 0
    rows = evidence.index(dataset)[independent_rows(evidence, dataset)]
    rows = rows[answers.truth[rows] >= 0]
    if len(rows) < FEWEST:
        return [], 0
    truth, said = np.asarray(answers.truth[rows], np.int64), np.asarray(answers.predicted[rows], np.int64)
    return class_errors(truth, said, answers.probabilities[rows])


def class_errors(
    truth: NDArray[np.int64], said: NDArray[np.int64], probabilities: NDArray[np.float64]
) -> tuple[list[ClassErrors], int]:
    """Classes with far more errors than probabilities lead to expect, and how many p-values were computed for them.

    Of rows that are answered otherwise than k, as many are labelled k as the sum of their probabilities of k; of rows
    that are answered k, as many are not as the sum of what these lack to 1 (the idea of confident learning, Northcutt
    et al. 2021, in sums). A model that is too sure of all classes is softened until it explains the errors of the
    others (Guo et al. 2017); what is more than that tells of k.

    Args:
        truth: shape (n,), class of each label.
        said: shape (n,), class of each answer.
        probabilities: shape (n, C).
    """
    k = probabilities.shape[1]
    # A class without rows, or without answers, is told as a fact.
    known = (np.bincount(truth, minlength=k) > 0) & (np.bincount(said, minlength=k) > 0)
    plain = _beyond(truth, said, known, _expected(said, probabilities, (1.0,)))
    if plain:
        # Softened probabilities lead to expect more: what is not large now isn't then either.
        plain = _beyond(truth, said, known, _expected(said, probabilities, TEMPERATURES))
    return plain, 2 * int(known.sum())


def _expected(said: NDArray[np.int64], probabilities: NDArray[np.float64], temperatures: Sequence[float]) -> Expected:
    """Errors of each class that probabilities lead to expect, at each temperature: shape (T, C) of each side."""
    n, k = probabilities.shape
    answered = np.bincount(said, minlength=k)
    shares = probabilities
    logs = np.zeros((0, k), np.float32)
    missed, false = [], []
    for temperature in temperatures:
        if temperature > 1.0:
            if not len(logs):
                logs = np.log(np.maximum(probabilities, LEAST).astype(np.float32))
                logs -= logs.max(axis=1, keepdims=True)
            shares = np.exp(logs / np.float32(temperature))
            shares /= shares.sum(axis=1, keepdims=True)
        own = np.bincount(said, weights=shares[np.arange(n), said], minlength=k)
        missed.append(np.maximum(0.0, shares.sum(axis=0, dtype=np.float64) - own))
        false.append(np.maximum(0.0, answered - own))
    return {"label": np.array(missed), "answer": np.array(false)}


def _beyond(
    truth: NDArray[np.int64], said: NDArray[np.int64], known: NDArray[np.bool_], expected: Expected
) -> list[ClassErrors]:
    """Classes with errors that matter, beyond those at the temperature that explains the other classes."""
    from scipy.special import bdtrc

    found = []
    wrong = truth != said
    sides: tuple[tuple[Side, NDArray[np.int64], NDArray[np.int64]], ...] = (
        ("label", truth, said),
        ("answer", said, truth),
    )
    for side, of, across in sides:
        rows = np.bincount(of, minlength=len(known))
        counts = np.bincount(of[wrong], minlength=len(known))
        large = known & (rows >= FEWEST_OF_CLASS) & (counts >= EXCESS * rows)
        for place in np.flatnonzero(large).tolist():
            size, count = int(rows[place]), int(counts[place])
            own = _own(expected[side], counts, place)
            if count - own < EXCESS * size:
                continue
            able = int((said != place).sum()) if side == "label" else size
            # Sums of unlike chances vary less than those of their mean (Hoeffding 1956).
            p_value = float(bdtrc(count - 1, able, min(1.0, (own + MARGIN * size) / able)))
            if p_value <= LEVEL:
                inside = wrong & (of == place)
                found.append(
                    ClassErrors(place, side, size, inside, int(np.bincount(across[inside]).argmax()), own, p_value)
                )
    return found


def _own(expected: NDArray[np.float64], counts: NDArray[np.int64], place: int) -> float:
    """Errors to expect of one class where probabilities explain those of the others; infinite: they explain none.

    Args:
        expected: shape (T, C), at each temperature.
        counts: shape (C,), errors.
        place: Of the class.
    """
    others = np.ones(len(counts), np.bool_)
    others[place] = False
    if others.sum() >= ROBUST:
        # Two classes may have been confused with each other.
        others[np.where(others, counts - expected[0], -np.inf).argmax()] = False
    errors, known = float(counts[others].sum()), expected[:, others].sum(axis=1)
    if len(expected) == 1 or known[0] >= errors:
        return float(expected[0, place])
    if known[-1] < errors:
        return float("inf")
    # They are a sample as well.
    most = errors + 2.0 * np.sqrt(errors) + 2.0
    return float(np.interp(most, np.maximum.accumulate(known), np.maximum.accumulate(expected[:, place])))


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
        why = f"the labels may be wrong, {model} may have lost {name!r}, or more rows are {name!r} than it assumes"
        metric = "recall"
    else:
        what = (
            f"{one.rows:,} rows of {dataset} with {name!r}, of which {one.errors:,} are labelled differently, mostly "
            f"{other!r}"
        )
        why = (
            f"the labels may be wrong, {model} may take others for {name!r}, or fewer rows are {name!r} than it assumes"
        )
        metric = "precision"
    sentence = f"{model} answers {what}; by its own probabilities about {one.expected:,.0f} were to be expected: {why}"
    # Half way to what is expected.
    least = 1.0 - (one.errors + one.expected) / 2 / one.rows
    require = f"{metric}({name}) >= {100 * least:.0f} %"
    return evidence.suspicion(
        name, sentence, evidence.requirement("model", "quality", require, fields_of(dataset, model)), one.p_value
    )

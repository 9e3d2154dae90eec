"""Errors of one class, beside models that are sound, too sure of all, or say nothing of their errors."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.evidence.screens import LEVEL
from evalspec.screens.model.class_errors import ClassErrors, class_errors
from tests.campaigns.sizes import examples
from tests.screens.runs import planned, screened, sound

N = 2_000
Answered = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def answered(rng: np.random.Generator, sharpness: float, n: int = N) -> Answered:
    """Truth, answers and probabilities of three classes; at a sharpness of 1 these are the chances of the truth."""
    return drawn(rng, rng.dirichlet([1.2, 0.7, 0.4], n), sharpness)


def rare(rng: np.random.Generator, sharpness: float, n: int = N, k: int = 10, spread: float = 1.5) -> Answered:
    """The same of classes of which each is rarer than the one before."""
    scores = rng.normal(0.0, spread, (n, k)) - 2.0 * np.log(np.arange(1, k + 1))
    return drawn(rng, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), sharpness)


def drawn(rng: np.random.Generator, chances: NDArray[np.float64], sharpness: float) -> Answered:
    truth = (rng.random((len(chances), 1)) > chances.cumsum(axis=1)).sum(axis=1)
    said = chances**sharpness
    return truth, chances.argmax(axis=1), said / said.sum(axis=1, keepdims=True)


def shown(answers: Answered) -> list[ClassErrors]:
    """Those that would be shown if no other screen asked anything."""
    found, questions = class_errors(*answers)
    return [one for one in found if one.p_value <= LEVEL / questions]


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 1.5, 2.0, 4.0, 10.0])
@pytest.mark.parametrize("seed", range(5))
def test_no_class_is_suspect_in_a_model_that_is_sound_or_too_sure_of_all(sharpness: float, seed: int) -> None:
    assert class_errors(*answered(np.random.default_rng(seed), sharpness))[1] == 6
    assert shown(answered(np.random.default_rng(seed), sharpness)) == []
    assert shown(rare(np.random.default_rng(seed), sharpness)) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_model_that_says_0_and_1_says_nothing_of_its_errors(seed: int) -> None:
    """A tree grown to the end, or one neighbour: a rare class has more errors than a frequent one."""
    for answers in (answered, rare):
        truth, said, probabilities = answers(np.random.default_rng(seed), 1.0)
        assert shown((truth, said, np.eye(probabilities.shape[1])[said])) == []


def test_errors_are_counted_from_labels_and_from_answers() -> None:
    rng = np.random.default_rng(0)
    truth, said, probabilities = answered(rng, 1.0)
    wrong = np.where((truth == 0) & (rng.random(N) < 0.5), 2, truth)
    large = [one for one in class_errors(wrong, said, probabilities)[0] if one.p_value < 1e-10]
    assert {(one.side, one.place, one.other) for one in large} == {("label", 2, 0), ("answer", 0, 2)}
    for one in large:
        assert one.errors == one.wrong.sum() == ((wrong if one.side == "label" else said) == one.place)[
            wrong != said
        ].sum()  # fmt: skip
        assert one.expected < one.errors / 2


@pytest.mark.parametrize("sharpness", [1.0, 2.0])
def test_wrong_labels_of_one_class_are_seen_in_a_model_that_is_too_sure_of_all(sharpness: float) -> None:
    rng = np.random.default_rng(2)
    truth, said, probabilities = rare(rng, sharpness, spread=5.0)
    wrong = np.where((truth == 1) & (rng.random(N) < 0.4), 2, truth)
    assert shown((wrong, said, probabilities))[0].place in (1, 2)


def test_two_classes_whose_labels_are_confused_do_not_excuse_each_other() -> None:
    rng = np.random.default_rng(4)
    scores = rng.normal(0.0, 6.0, (N, 10))
    truth, said, probabilities = drawn(rng, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), 1.0)
    confused = (truth < 2) & (rng.random(N) < 0.4)
    assert {one.place for one in shown((np.where(confused, 1 - truth, truth), said, probabilities))} == {0, 1}


def test_a_class_that_is_hardly_answered_is_seen_from_its_labels() -> None:
    truth, _, probabilities = answered(np.random.default_rng(1), 1.0)
    cut = probabilities * [1.0, 1.0, 0.03]
    cut /= cut.sum(axis=1, keepdims=True)
    (one,) = class_errors(truth, cut.argmax(axis=1), cut)[0]
    assert (one.side, one.place) == ("label", 2)
    assert one.p_value < 1e-10


def test_rows_without_chance_of_an_answer_are_no_crash() -> None:
    nothing = np.zeros(0, np.int64)
    assert class_errors(nothing, nothing, np.zeros((0, 3))) == ([], 0)
    same = np.zeros(200, np.int64)
    assert class_errors(same, same, np.ones((200, 1))) == ([], 2)
    assert class_errors(same, same, np.eye(3)[same]) == ([], 2)


def test_many_classes_take_memory_of_their_probabilities_only() -> None:
    truth, said, probabilities = rare(np.random.default_rng(0), 1.0, 200, 5_000)
    tracemalloc.start()
    try:
        class_errors(truth, said, probabilities)
        assert tracemalloc.get_traced_memory()[1] < 8 * probabilities.nbytes
    finally:
        tracemalloc.stop()


def test_fewer_rows_of_a_class_than_the_model_learned_are_named_as_a_reason(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = sound(rng)
    truth = rows.truth
    rows.truth = np.where((truth == 0) & (rng.random(len(truth)) < 0.5), 1, truth)
    found = screened(planned(tmp_path), rows, ("model/class_errors",)).suspicions
    assert found
    for one in found:
        amount = "fewer" if "precision(" in one.suggestion else "more"
        assert f"or {amount} rows are '{one.subject}' than it assumes" in one.sentence


@pytest.mark.proof
@pytest.mark.parametrize("sharpness", [1.0, 2.0, 4.0])
def test_at_most_one_sound_model_in_fifty_has_a_suspect_class(sharpness: float) -> None:
    runs = examples(200)
    small = sum(bool(shown(rare(np.random.default_rng(seed), sharpness, 300, 2))) for seed in range(runs))
    large = sum(bool(shown(rare(np.random.default_rng(seed), sharpness, 1_000, 5))) for seed in range(runs))
    assert max(small, large) <= 0.02 * runs

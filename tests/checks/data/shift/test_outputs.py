"""Answers and embeddings of a model on two datasets: what moved is found, and where nothing moved nothing is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evalspec.checks.data.shift.classifier import COMPONENTS, embedding_pool
from evalspec.checks.data.shift.outputs import Outputs, compare_outputs, outputs_of
from evalspec.checks.data.shift.spec import Shift
from evalspec.errors import InputError
from evalspec.evidence.blocks import Intervals
from evalspec.evidence.estimate import Measured, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import NeedPredictions
from evalspec.language.predictions import Boxes
from tests.fakes import FakeInputs, boxed, classifier, painter, regressor, tagger, writer

CLASSES = ("ham", "spam", "scam")


def answers(n: int, seed: int, *, sure: float = 6.0, first: float = 0.0, dataset: str = "test") -> Predictions:
    """Probabilities of three classes; of one model that is surer or leans to its first class."""
    rng = np.random.default_rng(seed)
    logits = np.log(rng.dirichlet((1.0, 1.0, 1.0), n)) * sure / 6.0
    logits[:, 0] += first
    shares = np.exp(logits)
    return classifier(shares / shares.sum(axis=1, keepdims=True), None, dataset=dataset, classes=CLASSES)


def compare(folder: Path, first: Predictions, second: Predictions, **fields: object) -> Outputs:
    inputs = FakeInputs(folder, answers={("test", "candidate"): first, ("traffic", "candidate"): second})
    check = Shift.model_validate(
        {"check": "shift", "reference": "test", "current": "traffic", "predictions": "candidate", **fields}
    )
    return compare_outputs(check, inputs)


def parts(found: Outputs) -> Parts:
    moved = found.estimates["prediction_shift"]
    assert isinstance(moved, Parts)
    return moved


def test_what_answers_are_compared_by() -> None:
    three = outputs_of(answers(20, 1))
    assert list(three) == ["predicted", "confidence", "probability:ham", "probability:spam", "probability:scam"]
    assert set(three["predicted"].values) <= set(CLASSES)
    two = outputs_of(classifier([[0.3, 0.7], [0.8, 0.2]], None, classes=("no", "yes")))
    assert list(two) == ["predicted", "confidence", "probability:yes"]
    assert two["probability:yes"].values.tolist() == [0.7, 0.2]
    assert list(outputs_of(regressor([1.0, 2.0], None))) == ["value"]
    assert outputs_of(writer(["ab", "abcd"], None))["length"].values.tolist() == [2.0, 4.0]
    several = outputs_of(tagger([[True, False], [True, True]], None, classes=("a", "b")))
    assert several["label:b"].values.tolist() == [0.0, 1.0]
    mask = outputs_of(painter([[[0, 0], [0, 1]]], None, classes=("road", "sky")))
    assert mask["share:sky"].values.tolist() == [0.25]
    boxes = Boxes(np.array([0, 0, 2]), np.zeros((3, 4)), np.zeros(3, dtype=np.int64), np.array([0.5, 0.7, 0.9]))
    found = outputs_of(boxed(boxes, None, 3, classes=("car",)))
    assert found["boxes"].values.tolist() == [2.0, 0.0, 1.0]
    assert found["score"].values.tolist() == pytest.approx([0.6, 0.9])
    assert found["score"].among(np.array([5, 6, 7])).tolist() == [5, 7]  # type: ignore[union-attr]


def test_answers_that_stay_and_answers_that_move(tmp_path: Path) -> None:
    clean = parts(compare(tmp_path, answers(2000, 1), answers(2000, 2))).parts
    moved = parts(compare(tmp_path, answers(2000, 1), answers(2000, 2, first=0.8))).parts
    for name, one in clean.items():
        assert one.p_value(0.1, "upper") < 0.01, name  # type: ignore[union-attr, operator]
    # The odds of ham grow by e^0.8: a third of the rows becomes half of them or so.
    assert moved["predicted"].value == pytest.approx(0.22, abs=0.06)
    assert moved["predicted"].p_value(0.1, "lower") < 1e-4  # type: ignore[union-attr, operator]
    assert moved["probability:ham"].p_value(0.1, "lower") < 1e-4  # type: ignore[union-attr, operator]


def test_confidence_alone_may_move(tmp_path: Path) -> None:
    """Surer answers, the same classes: what is said stays, how sure it is does not."""
    found = compare(tmp_path, answers(2000, 1), answers(2000, 2, sure=12.0))
    by_name = parts(found).parts
    assert by_name["predicted"].value < 0.05  # type: ignore[operator]
    assert by_name["confidence"].p_value(0.1, "lower") < 1e-6  # type: ignore[union-attr, operator]
    block = found.blocks[0]
    assert isinstance(block, Intervals) and block.rows[0].label == "confidence"


def test_rows_of_a_cluster_count_once(tmp_path: Path) -> None:
    first, second = answers(1500, 1), answers(150, 2)
    copies = np.tile(np.arange(150), 10)
    assert second.probabilities is not None and second.predicted is not None
    many = replace(
        second, n=1500, probabilities=second.probabilities[copies], predicted=second.predicted[copies], clusters=copies
    )
    naive, wide, plain = (
        parts(compare(tmp_path, first, one)).parts["confidence"] for one in (replace(many, clusters=None), many, second)
    )
    bounds = [one.bound(0.95, "upper") for one in (naive, wide, plain)]  # type: ignore[union-attr]
    assert bounds[1] == pytest.approx(bounds[2], abs=0.01)
    assert bounds[0] < bounds[1] - 0.02  # type: ignore[operator]


def test_without_a_model_or_an_embedding_there_is_a_reason(tmp_path: Path) -> None:
    bare = compare(tmp_path, answers(200, 1), answers(200, 2), predictions=None)
    assert "name one, `predictions: candidate`" in bare.missing["prediction_shift"]
    assert "name one, `embedding: candidate`" in bare.missing["embedding_shift"]
    none = compare(tmp_path, answers(200, 1), answers(200, 2), embedding="candidate")
    assert "gives no embedding" in none.missing["embedding_shift"]
    few = compare(tmp_path, embedded(60, 1), embedded(60, 2), embedding="candidate")
    assert "100 are needed" in few.missing["embedding_shift"]


def embedded(n: int, seed: int, *, moved: float = 0.0, width: int = 96) -> Predictions:
    """Numbers that hang together, as those of a network do; one direction of them may move."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(n, 6)) * np.array([4.0, 3.0, 2.0, 1.0, 1.0, 1.0])
    own[:, 1] += moved
    mixing = np.random.default_rng(0).normal(size=(6, width))
    rows = own @ mixing + 0.1 * rng.normal(size=(n, width))
    return replace(answers(n, seed), embeddings=rows.astype(np.float32))


@pytest.mark.proof
def test_embeddings_tell_the_rows_apart_or_not(tmp_path: Path) -> None:
    fields = {"predictions": None, "embedding": "candidate", "require": ["embedding_shift <= 0.65"]}
    clean = compare(tmp_path, embedded(1200, 1), embedded(1200, 2), **fields).estimates["embedding_shift"]
    assert isinstance(clean, Measured) and not isinstance(clean.estimate, Parts)
    assert clean.withhold is None and clean.estimate.p_value(0.65, "upper") < 0.01  # type: ignore[union-attr, operator]
    moved = compare(tmp_path, embedded(1200, 1), embedded(1200, 2, moved=4.0), **fields)
    shifted = moved.estimates["embedding_shift"]
    assert isinstance(shifted, Measured)
    assert shifted.estimate.p_value(0.65, "lower") < 1e-6  # type: ignore[union-attr, operator]
    assert "64 principal components of 96 numbers" in moved.notes[0]


@pytest.mark.proof
def test_wide_embeddings_and_those_that_do_not_fit() -> None:
    rng = np.random.default_rng(3)
    wide = rng.normal(size=(120, 1500)).astype(np.float32)
    pool = embedding_pool(wide, wide, (None, None), rng)
    assert pool.values.shape == (240, COMPONENTS)
    with pytest.raises(InputError, match="1500 numbers beside 3"):
        embedding_pool(wide, wide[:, :3], (None, None), rng)
    broken = wide.copy()
    broken[0, 0] = np.nan
    with pytest.raises(InputError, match="not finite"):
        embedding_pool(broken, wide, (None, None), rng)
    ids = np.repeat(np.arange(60), 2)
    assert embedding_pool(wide, wide, (ids, ids), rng).units.max() == 119


def test_what_it_asks_for() -> None:
    check = Shift.model_validate(
        {
            "check": "shift", "reference": "test", "current": "traffic", "predictions": "candidate",
            "embedding": "encoder", "require": ["reweighted_score_change <= 2 pp"],
        }
    )  # fmt: skip
    asked = [need for need in check.needs() if isinstance(need, NeedPredictions)]
    assert [(need.dataset, need.model, need.label) for need in asked] == [
        ("test", "candidate", True), ("traffic", "candidate", False),
        ("test", "encoder", False), ("traffic", "encoder", False),
    ]  # fmt: skip
    bare = check.model_copy(update={"predictions": None})
    why = bare.check_requirement(check.requirements[0], {})
    assert why is not None and "name one: `predictions: candidate`" in why

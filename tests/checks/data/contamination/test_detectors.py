"""Pictures, embeddings, keys and scores, put together by `contamination`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.checks.data.contamination.spec import Contamination
from evalspec.evidence.blocks import Examples, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, NeedPredictions
from evalspec.sources.reading.arrays import array_column
from tests.checks.planting import confident
from tests.fakes import FakeInputs, classifier
from tests.stats.sets.test_perceptual import changed, jpeg, scenes, sized

Tables = dict[str, pa.Table]


def run(
    folder: Path, tables: Tables, answers: Mapping[tuple[str, str], Predictions] | None = None, **more: object
) -> CheckResult:
    train = tuple(name for name in tables if name != "test")
    labels = dict.fromkeys(tables, "y")
    inputs = FakeInputs(folder, tables=tables, labels=labels, answers=answers or {}, batch_rows=40)
    check = Contamination.model_validate({"train": train, "test": "test", "report_only": True, **more})
    return check.run(inputs)


def fact(result: CheckResult, metric: str) -> float:
    found = result.estimates[metric]
    assert isinstance(found, Fact)
    return found.value


def shots(pictures: np.ndarray) -> pa.Table:
    return pa.table({"image": array_column(pictures, "pictures"), "y": np.zeros(len(pictures))})


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"id": np.arange(n) + 1000 * seed, "a": rng.random(n), "b": rng.random(n), "y": np.zeros(n)})


@pytest.mark.proof
def test_pictures_of_another_size_and_encoding_are_near_duplicates(tmp_path: Path) -> None:
    train, test = scenes(60, 1, 64), scenes(30, 2, 64)
    test[:6] = changed(train[:6], jpeg(50))
    result = run(tmp_path, {"train": shots(changed(train, sized(1.5))), "test": shots(test)})
    assert fact(result, "near_duplicates") == pytest.approx(6 / 30)
    assert fact(result, "exact_duplicates") == 0
    evidence = pq.read_table(tmp_path / "duplicates-contamination.parquet")
    assert evidence.column("kind").to_pylist() == ["picture"] * 6
    examples = next(block for block in result.blocks if isinstance(block, Examples))
    assert all(one.image for one in examples.examples) and len(examples.examples) == 12


def test_pictures_beside_other_columns_are_shown_and_not_counted(tmp_path: Path) -> None:
    """The same picture with another question is another row."""
    train, test = scenes(20, 1, 64), scenes(20, 2, 64)
    test[:6] = changed(train[:6], jpeg(50))
    asked = [shots(one).append_column("question", pa.array([f"{word} {i}" for i in range(20)]))
             for one, word in ((train, "how many"), (test, "which colour"))]  # fmt: skip
    result = run(tmp_path, {"train": asked[0], "test": asked[1]}, column=("image", "question"))
    assert fact(result, "near_duplicates") == 0
    table = next(block for block in result.blocks if isinstance(block, Table))
    column = [one.name for one in table.columns].index("alike")
    assert table.rows[0][column] == 6
    assert table.rows[0][-1] == 0.0


def test_keys_are_counted_beside_what_they_hold(tmp_path: Path) -> None:
    train, test = rows(100, 1), rows(50, 2)
    ids = test.column("id").to_numpy().copy()
    ids[:4] = train.column("id").to_numpy()[10:14]
    test = test.set_column(0, "id", pa.array(ids))
    result = run(tmp_path, {"train": train, "test": test}, column=("a", "b"), tolerance=0.0, key="id")
    assert fact(result, "shared_keys") == 4
    assert fact(result, "near_duplicates") == 0
    assert any("4 rows of test have the id of a training row that differs" in note for note in result.notes)
    examples = next(block for block in result.blocks if isinstance(block, Examples))
    assert {one.fields["found"] for one in examples.examples} == {"same key"}
    assert examples.examples[0].title == "test, 1010" and examples.examples[1].title == "train, 1010"


@pytest.mark.parametrize(("blank", "n"), [("test", 40), ("train", 50)])
def test_rows_without_a_key_keep_the_count_from_passing(tmp_path: Path, blank: str, n: int) -> None:
    tables = {"train": rows(100, 1), "test": rows(50, 2).set_column(0, "id", pa.array(np.arange(50) + 5000))}
    ids = pa.array(tables[blank].column("id").to_pylist()[:-10] + [None] * 10)
    tables[blank] = tables[blank].set_column(0, "id", ids)
    found = run(tmp_path, tables, column=("a", "b"), tolerance=0.0, key="id").estimates["shared_keys"]
    assert isinstance(found, Measured) and isinstance(found.estimate, Fact)
    assert (found.estimate.value, found.estimate.n) == (0, n)
    assert found.withhold == (
        f"rows without id (10 of {blank}) may be of anybody; fill them in, or leave them out with `where:`"
    )


def test_several_columns_make_one_key(tmp_path: Path) -> None:
    train, test = rows(100, 1), rows(100, 2)
    parts = [one.append_column("site", pa.array(["x", "y"] * 50)).set_column(0, "id", pa.array(np.arange(100) + shift))
             for one, shift in ((train, 0), (test, 1))]  # fmt: skip
    tables = dict(zip(("train", "test"), parts, strict=True))
    assert fact(run(tmp_path, tables, column=("a", "b"), key="id"), "shared_keys") == 99
    assert fact(run(tmp_path, tables, column=("a", "b"), key=("id", "site")), "shared_keys") == 0


def test_neighbours_in_embeddings_are_a_fact_with_its_chance_level(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = {"train": rng.normal(size=(100, 8)), "test": rng.normal(size=(50, 8))}
    vectors["test"][:5] = vectors["train"][90:95] * 2
    answers = {
        (name, "embedder"): replace(
            classifier(np.full((len(one), 2), 0.5), None, dataset=name, model="embedder"), embeddings=one.astype("f4")
        )
        for name, one in vectors.items()
    }
    tables = {"train": rows(100, 1), "test": rows(50, 2)}
    result = run(tmp_path, tables, answers, column=("a", "b"), tolerance=0.0, embedding="embedder")
    assert fact(result, "embedding_neighbours") == pytest.approx(0.1)
    assert fact(result, "near_duplicates") == 0
    found = result.estimates["embedding_neighbours"]
    assert "test rows among themselves" in found.method  # type: ignore[union-attr]
    titles = [block.title for block in result.blocks]
    assert "Neighbours in the embeddings of embedder" in titles


def remembered(folder: Path, copies: int, **more: object) -> CheckResult:
    """600 test rows, some of them copied from training: all of those right, 70 % of the others."""
    train, test = rows(900, 1), rows(600, 2)
    test = pa.concat_tables([train.slice(0, copies), test.slice(copies)])
    truth = np.arange(600) % 2
    right = (np.arange(600) < copies) | (np.arange(600) % 10 < 7)
    answers = {("test", "candidate"): classifier(confident(truth, right, 2), truth)}
    fields: dict[str, object] = {"column": ("a", "b"), "tolerance": 0.0, "predictions": "candidate", **more}
    return run(folder, {"train": train, "test": test}, answers, **fields)


def test_what_the_copies_add_to_the_score_is_estimated(tmp_path: Path) -> None:
    result = remembered(tmp_path, 200)
    change, clean = result.estimates["clean_score_change"], result.estimates["clean_score"]
    assert isinstance(change, Estimate) and isinstance(clean, Estimate)
    assert clean.value == pytest.approx(0.7) and change.value == pytest.approx(0.1)
    lower = change.bound(0.95, "lower")
    assert lower is not None and lower > 0.08
    assert result.conditions["predictions of"] == "candidate" and result.conditions["metric"] == "accuracy"
    assert result.notes[0].startswith("accuracy is 0.7 on the 400 clean rows and 0.8 on all 600: +10 pp")


def test_the_score_is_made_as_quality_makes_it(tmp_path: Path) -> None:
    """At the same threshold, about the same class."""
    usual, bold = remembered(tmp_path, 200), remembered(tmp_path, 200, decision_threshold=0.05)
    assert usual.estimates["clean_score"].value == pytest.approx(0.7)  # type: ignore[union-attr]
    # Whatever has a probability of 0.1 is said to be of the second class, which half of the rows are.
    assert bold.estimates["clean_score"].value == pytest.approx(0.5)  # type: ignore[union-attr]
    recall = remembered(tmp_path, 200, metric="recall", positive="0")
    assert recall.conditions["metric"] == "recall"


def test_neighbours_and_keys_are_no_copies_and_take_no_row_off(tmp_path: Path) -> None:
    train, test = rows(900, 1), rows(600, 2).set_column(0, "id", pa.array(np.arange(600) + 1000))
    truth = np.arange(600) % 2
    answers = {("test", "candidate"): classifier(confident(truth, np.arange(600) % 10 < 7, 2), truth)}
    result = run(tmp_path, {"train": train, "test": test}, answers, column=("a", "b"), tolerance=0.0, key="id",
                 predictions="candidate")  # fmt: skip
    assert fact(result, "shared_keys") == 600
    assert result.estimates["clean_score_change"].value == 0.0  # type: ignore[union-attr]


@pytest.mark.parametrize("sentence", ["clean_score >= 0.8", "clean_score_change <= 1 pp", "embedding_neighbours == 0",
                                      "shared_keys == 0"])  # fmt: skip
def test_what_is_not_asked_for_can_not_be_required(sentence: str) -> None:
    check = Contamination.model_validate({"train": ["train"], "test": "test", "require": [sentence]})
    reason = check.check_requirement(check.requirements[0], {})
    assert reason is not None and "needs `" in reason


def test_a_metric_without_points_can_not_be_required_to_change_by_some() -> None:
    fields = {"train": ["train"], "test": "test", "predictions": "candidate", "metric": "mae"}
    check = Contamination.model_validate({**fields, "require": ["clean_score_change <= 1 pp"]})
    assert "not a fraction" in (check.check_requirement(check.requirements[0], {}) or "")


def test_models_are_asked_for_what_is_needed_of_them() -> None:
    fields = {"train": ["train", "more"], "test": "test", "predictions": "candidate", "embedding": "embedder"}
    needs = Contamination.model_validate({**fields, "report_only": True}).needs()
    asked = [(need.dataset, need.model, need.label) for need in needs if isinstance(need, NeedPredictions)]
    assert asked == [("test", "candidate", True), *((name, "embedder", False) for name in ("train", "more", "test"))]

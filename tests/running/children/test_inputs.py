"""What a check is handed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access, Dataset
from evalspec.loading import load
from evalspec.planning import plan
from evalspec.running.children.inputs import RunInputs
from evalspec.running.children.jobs import CheckJob, SpecParts
from evalspec.running.children.process import Limits
from evalspec.running.children.reader import dataset_record
from evalspec.running.journal.replay import Replay
from evalspec.sources.reading import open as reading_open

SPEC = """
evalspec: 1
name: columns
datasets:
  train: {kind: csv, path: train.csv, label: outcome, key: id, cluster: person}
  test: {kind: csv, path: test.csv, label: outcome, key: id, cluster: person}
slices:
  - {name: rich, where: income > 100}
data:
  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}
"""


MODEL = """
models:
  candidate: {kind: predictions, files: {test: answers.csv}, inputs: {x: [income, gone]}}
"""


@pytest.fixture
def inputs(tmp_path: Path) -> RunInputs:
    return made(tmp_path, SPEC)


def made(tmp_path: Path, text: str) -> RunInputs:
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text("id,person,income,age,outcome\n1,7,50,30,a\n2,7,150,31,b\n3,8,90,32,a\n")
    (tmp_path / "evalspec.yaml").write_text(text)
    spec = load(tmp_path / "evalspec.yaml")
    parts = SpecParts(
        models=dict(spec.models),
        datasets=dict(spec.datasets),
        slices={one.name: one.where for one in spec.slices},
        access=Access(tmp_path),
    )
    job = CheckJob(
        parts=parts,
        check=plan(spec).checks[0].check,
        predictions={},
        model_facts={},
        confidence=0.95,
        alpha_fail=0.01,
        seed=1,
        draft=False,
        evidence=tmp_path,
        limits=Limits(),
        threads=1,
        environment={},
    )
    return RunInputs(job, lambda *_: None, Replay(tmp_path, "none"))


def test_a_column_that_slices_look_at_is_still_compared(inputs: RunInputs) -> None:
    assert inputs.feature_columns("test") == ("income", "age")


def test_slices_and_clusters(inputs: RunInputs) -> None:
    assert inputs.slice_names() == ("rich",)
    assert inputs.slice_mask("rich", "test").inside.tolist() == [False, True, False]
    clusters = inputs.clusters("test")
    assert clusters is not None
    assert clusters.tolist() == [0, 0, 1]


def test_today_is_the_day_of_the_job(inputs: RunInputs) -> None:
    job = replace(inputs._job, today=date(2026, 3, 1))
    assert RunInputs(job, lambda *_: None, inputs.timing).today == date(2026, 3, 1)


def test_code_needs_trust(inputs: RunInputs) -> None:
    with pytest.raises(InputError, match=r"module cost runs the code cost.py; pass --trust"):
        inputs.code("cost.py", "module cost")


def test_rows_some_at_a_time_and_files(inputs: RunInputs, tmp_path: Path) -> None:
    batches = list(inputs.batches("test", ["income", "age"]))
    assert [batch.to_pydict() for batch in batches] == [{"income": [50, 150, 90], "age": [30, 31, 32]}]
    assert inputs.files("test") == (tmp_path / "test.csv",) and inputs.file("test.csv") == tmp_path / "test.csv"
    with pytest.raises(InputError, match=r"no file or folder 'gone\.json'"):
        inputs.file("gone.json")


def test_what_the_candidate_is_said_to_read(inputs: RunInputs, tmp_path: Path) -> None:
    assert inputs.stated_columns("test") == ()
    (tmp_path / "answers.csv").write_text("id,a,b\n1,0,1\n")
    stated = made(tmp_path, SPEC + MODEL)
    assert stated.stated_columns("test") == ("income",)
    assert stated.feature_columns("test") == ("income", "age")


def test_only_the_columns_that_are_asked_for_are_read(inputs: RunInputs, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, ...] | None] = []
    plainly = reading_open.open_dataset

    def watched(dataset: Dataset, access: Access, columns: Sequence[str] | None = None) -> Any:
        read.append(None if columns is None else tuple(columns))
        return plainly(dataset, access, columns)

    monkeypatch.setattr(reading_open, "open_dataset", watched)
    assert inputs.table("test", ["income"]).to_pydict() == {"income": [50, 150, 90]}
    # With it comes what says which row it is; slices of it are there too.
    assert read == [("income",)]
    assert inputs.table("test", ["outcome"]).column_names == ["outcome"]
    assert inputs.slice_mask("rich", "test").inside.tolist() == [False, True, False]
    assert len(read) == 1
    # Beyond that all of it is read, once.
    assert inputs.table("test", ["age", "income"]).to_pydict() == {"age": [30, 31, 32], "income": [50, 150, 90]}
    assert inputs.table("test").num_columns == 5
    assert inputs.slice_mask("rich", "test").inside.tolist() == [False, True, False]
    assert read[1:] == [None]
    with pytest.raises(InputError, match="no column 'incom'"):
        inputs.table("train", ["incom"])


def test_what_the_spec_says_of_columns_slices_and_clusters(inputs: RunInputs) -> None:
    assert inputs.column_names("test") == ("id", "person", "income", "age", "outcome")
    assert inputs.slice_where("rich") == "income > 100"
    assert inputs.has_clusters("test")


def test_f16_one_row_under_other_ids_is_one_cluster(tmp_path: Path) -> None:
    """Without a column that says so, and joined with the one that there is; a draft does not look."""
    text = SPEC.replace("label: outcome, key: id, cluster: person", "label: outcome, key: id")
    inputs = made_again(None, tmp_path, text)
    head, rows = "id,person,income,age,outcome\n", [f"{at},{at},0.5,30.25,a" for at in range(200)]
    (tmp_path / "test.csv").write_text(head + "\n".join(rows) + "\n")
    clusters = inputs.clusters("test")
    assert clusters is not None and set(clusters.tolist()) == {0} and inputs.has_clusters("test")
    assert inputs.equal_rows.lines() == [
        "of 200 rows of test only 1 differs: rows that are equal in all that is neither a key nor a name count as one"
    ]
    assert inputs.clusters("train") is None and not inputs.has_clusters("train")
    draft = RunInputs(replace(inputs._job, draft=True), lambda *_: None, inputs.timing)
    assert draft.clusters("test") is None
    several = [f"{at},{at // 50},{at % 10 / 8},30.25,a" for at in range(200)]
    (tmp_path / "test.csv").write_text(head + "\n".join(several) + "\n")
    joined = made_again(inputs, tmp_path, SPEC).clusters("test")
    assert joined is not None and len(set(joined.tolist())) == 1
    # The model reads the income alone.
    stated = made_again(inputs, tmp_path, text + MODEL.replace("income, gone", "income")).clusters("test")
    assert stated is not None and len(set(stated.tolist())) == 10


def made_again(inputs: RunInputs | None, folder: Path, text: str) -> RunInputs:
    """Over the files that are there, of which rows may be copies."""
    rows = None if inputs is None else (folder / "test.csv").read_text()
    (folder / "answers.csv").write_text("id,a,b\n1,0,1\n")
    again = made(folder, text)
    if rows is not None:
        (folder / "test.csv").write_text(rows)
    job = replace(again._job, repeating=frozenset({"test"}))
    return RunInputs(job, lambda *_: None, again.timing)


def test_f16_the_pass_that_makes_the_digest_tells_whether_rows_may_repeat(tmp_path: Path) -> None:
    parts = made(tmp_path, SPEC)._job.parts
    head = "id,person,income,age,outcome\n"
    for incomes, told in (("0.5", True), ("{}.25", False)):
        rows = [f"{at},{at},{incomes.format(at)},30,a" for at in range(200)]
        (tmp_path / "test.csv").write_text(head + "\n".join(rows) + "\n")
        assert dataset_record("test", parts).may_repeat is told

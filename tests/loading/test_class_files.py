"""What is said of a model's answers before it gives any: classes that are not its own, columns that files lack."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from evalspec.errors import SpecError
from evalspec.loading import load

SPEC = """\
evalspec: 1
name: birds
models:
  candidate: {kind: predictions, files: {test: said.parquet}, outputs: {probabilities: "p_*"}, classes: [cat, owl]}
  old: {kind: predictions, files: {test: said.csv}, outputs: {label: said}, classes: classes.txt}
datasets:
  test: {kind: parquet, path: test.parquet, label: y, key: id}
model:
  - check: quality
    dataset: test
    require: [recall(owl) >= 1 %]
data:
  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}
"""
TRAIN = "  train: {kind: parquet, path: test.parquet, key: id}\n"
SPEC = SPEC.replace("model:\n  - check", f"{TRAIN}model:\n  - check")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"id": list(range(60)), "y": ["cat", "owl"] * 30, "size": [1.5] * 60})
    pq.write_table(rows, "test.parquet")
    pq.write_table(pa.table({"id": list(range(60)), "p_cat": [0.5] * 60, "p_owl": [0.5] * 60}), "said.parquet")
    pacsv.write_csv(pa.table({"id": list(range(60)), "said": ["cat"] * 60}), "said.csv")
    Path("classes.txt").write_text("cat\nowl\n")
    return tmp_path


def refused(text: str) -> list[str]:
    Path("s.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load("s.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_a_spec_whose_answers_fit_is_right(folder: Path) -> None:
    Path("s.yaml").write_text(SPEC)
    assert load("s.yaml").headers["test"].rows == 60


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        (
            "recall(owl)", "recall(olw)",
            "s.yaml:12:15: model[0].require[0]: candidate has no class 'olw' (choices: cat, owl); did you mean 'owl'?",
        ),
        (
            "recall(owl)", "recall(Owl)",
            "s.yaml:12:15: model[0].require[0]: candidate has no class 'Owl' (choices: cat, owl); did you mean 'owl'?",
        ),
        (
            "recall(owl) >= 1 %", "recall(bird) >= old - 1 pp",
            "s.yaml:12:15: model[0].require[0]: candidate has no class 'bird' (choices: cat, owl)",
        ),
        (
            "dataset: test\n    require", "dataset: test\n    positive: dog\n    require",
            "s.yaml:12:15: model[0].positive: candidate has no class 'dog' (choices: cat, owl)",
        ),
        (
            '"p_*"', '"q_*"',
            "s.yaml:4:88: models.candidate.outputs.probabilities: 'said.parquet' lacks the column 'q_*' that is the "
            "probabilities (choices: id, p_cat, p_owl)",
        ),
        (
            '"p_*"', '"p_o*"',
            "s.yaml:4:88: models.candidate.outputs.probabilities: 'p_o*' matches one column of 'said.parquet' only, "
            "'p_owl': it must match a column of every class (choices: id, p_cat, p_owl); name the columns of all "
            "classes by one pattern, or name the column of the second of two classes without a star",
        ),
        (
            "label: said", "label: sad",
            "s.yaml:5:70: models.old.outputs.label: 'said.csv' lacks the column 'sad' that is the label (choices: id, "
            "said); did you mean 'said'?",
        ),
        (
            "y, key: id", "y, key: size",
            "s.yaml:4:48: models.candidate.files.test: 'said.parquet' lacks the key column 'size' of test (choices: "
            "id, p_cat, p_owl)",
        ),
        (
            "y, key: id", "y",
            "s.yaml:4:48: models.candidate.files.test: the answers of candidate are joined by key, and "
            "test names none; add `key:` to datasets.test",
        ),
        (
            "said.csv", "classes.txt",
            "s.yaml:5:42: models.old.files.test: 'classes.txt' is not a file of predictions (choices: .parquet, .csv, "
            ".jsonl, .ndjson, .arrow, .feather, .npz)",
        ),
        (
            "test: test, require", "test: train, require",
            "s.yaml:14:5: data[0]: the test set 'train' is named among its own training sets",
        ),
        (
            "train: [train]", "train: train",
            "s.yaml:14:35: data[0].train: 'train' should be a list; write [train]",
        ),
        (
            "train: [train], test: test", "train: [train], test: test, key: ID",
            "s.yaml:14:61: data[0].key: train and test have no column 'ID' (choices: id, y, size); did you mean 'id'?",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_with_its_place(written: str, instead: str, said: str, folder: Path) -> None:
    text = SPEC.replace(written, instead, 1)
    assert text != SPEC
    assert refused(text)[0] == said


def test_classes_in_a_file_are_looked_at_and_classes_nowhere_are_not(folder: Path) -> None:
    Path("classes.txt").write_text("cat\nhawk\n")
    against = SPEC.replace("recall(owl) >= 1 %", "recall(owl) >= old - 1 pp")
    assert refused(against) == [
        "s.yaml:12:15: model[0].require[0]: old has no class 'owl' (choices: cat, hawk)",
    ]
    Path("s.yaml").write_text(against.replace(", classes: classes.txt", ""))
    load("s.yaml")


def test_a_file_of_answers_that_is_not_there_is_said_once(folder: Path) -> None:
    Path("said.csv").unlink()
    (said,) = refused(SPEC)
    assert "there is no file or folder 'said.csv'" in said


def test_a_file_of_answers_with_another_delimiter_is_said_once(folder: Path) -> None:
    Path("said.csv").write_text("id;said\n" + "".join(f"{row};cat\n" for row in range(60)))
    assert refused(SPEC) == [
        "s.yaml:5:42: models.old.files.test: 'said.csv' has one column, called 'id;said'; separate its cells with "
        'commas; now it has ";" between them'
    ]


def test_answers_that_a_check_wants_and_no_file_has_are_said(folder: Path) -> None:
    (said,) = refused(SPEC.replace("dataset: test", "dataset: train").replace("train: {kind: parquet, path: "
        "test.parquet, key: id}", "train: {kind: parquet, path: test.parquet, key: id, label: y}"))  # fmt: skip
    assert said == (
        "s.yaml:11:14: model[0].dataset: candidate has no file of answers for train (choices: test); add it to "
        "models.candidate.files, or name another dataset"
    )


def test_a_damaged_file_of_answers_is_said(folder: Path) -> None:
    Path("said.parquet").write_bytes(b"PAR1 and no more")
    (said,) = refused(SPEC)
    assert said.startswith("s.yaml:4:48: models.candidate.files.test: 'said.parquet' can't be read as parquet")

"""A record whose evidence was changed by hand is noticed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec import __version__
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import RULE_VERSION
from evalspec.records.verify import verify
from evalspec.verdict import decide
from tests.shared import predictions_run


def evalspec(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "evalspec", *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """A suite and a run of it, side by side as in a repository."""
    return shutil.copytree(predictions_run(tmp_path_factory), tmp_path / "copy")


def edit(base: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = base / "run" / "record.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def test_an_untouched_run_is_the_same_also_when_moved(base: Path) -> None:
    done = evalspec("verify", base / "run")
    assert done.returncode == 0, done.stdout
    assert "same: quality/accuracy" in done.stdout
    assert "same: values of quality" in done.stdout
    assert "differs" not in done.stdout
    assert "not recomputed" not in done.stdout


def test_a_run_that_was_moved_away_from_its_spec_is_told_where_it_is(base: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "deep" / "run"
    shutil.copytree(base / "run", moved)
    done = evalspec("verify", moved)
    assert done.returncode == 3, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "--spec-folder" in line]
    assert line.startswith("not recomputed: the run's spec is not at ../suite/evalspec.yaml from its folder")
    done = evalspec("verify", moved, "--spec-folder", base / "suite")
    assert done.returncode == 0, done.stdout
    assert "same: quality/accuracy" in done.stdout
    done = evalspec("verify", moved, "--spec-folder", tmp_path / "nowhere")
    assert done.returncode == 2
    assert "--spec-folder" in done.stderr


def test_a_changed_value(base: Path) -> None:
    def better(record: dict[str, Any]) -> None:
        record["checks"][0]["tests"][0]["value"] = 0.999

    edit(base, better)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "differs: quality/accuracy" in done.stdout
    assert "differs: verdict" in done.stdout


def test_a_changed_p_value_that_leaves_the_verdict(base: Path) -> None:
    def smaller(record: dict[str, Any]) -> None:
        record["checks"][0]["tests"][0]["p_pass"] /= 2

    edit(base, smaller)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "differs: quality/accuracy" in done.stdout


def test_a_changed_verdict(base: Path) -> None:
    edit(base, lambda record: record["verdict"].update(reason="All is well."))
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "differs: verdict" in done.stdout


@pytest.mark.parametrize(("key", "made"), [("evalspec", "0.0.9"), ("rule", "0")])
def test_another_version_does_not_blame_the_record(key: str, made: str, base: Path) -> None:
    """What a version recomputes otherwise is said to be that; files and what the spec says are red whoever looks."""

    def older(record: dict[str, Any]) -> None:
        (record if key == "evalspec" else record["verdict"])[key] = made
        record["checks"][0]["tests"][0]["method"] = "as it was called then"

    edit(base, older)
    found = verify(base / "run")
    rule = made if key == "rule" else RULE_VERSION
    version = made if key == "evalspec" else __version__
    this = f"evalspec {__version__} with rule {RULE_VERSION}"
    assert found.versions is not None
    assert found.versions.startswith(
        f"the record was made by evalspec {version} with rule {rule}, and this is {this}: "
    )
    assert found.differs == ()
    assert any(line.startswith("quality/accuracy: the record says method as it was called") for line in found.otherwise)
    edit(base, lambda record: record.update(seed=record["seed"] + 1))
    assert any(line.startswith("seed: ") for line in verify(base / "run").differs)


def test_no_report_is_made_of_a_verdict_that_was_changed(base: Path) -> None:
    edit(base, lambda record: record["checks"][0]["tests"][0].update(p_pass=0.5))
    done = evalspec("report", base / "run")
    assert done.returncode == 2
    assert "its tests do not give its verdict (quality/accuracy, the verdict)" in done.stderr


def test_changed_predictions(base: Path) -> None:
    path = base / "run" / "evidence" / "predictions-candidate-test.parquet"
    table = pq.read_table(path)
    answers = table.column("predicted").to_pylist()
    answers[0] = (answers[0] + 1) % 3
    column = pa.array(answers, table.schema.field("predicted").type)
    changed = table.set_column(table.schema.get_field_index("predicted"), "predicted", column)
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "its bytes are not those that were written" in done.stdout


def test_a_changed_dataset(base: Path) -> None:
    path = base / "suite" / "test.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "dataset test: its rows are not those that were measured" in done.stdout


def test_a_loosened_threshold(base: Path) -> None:
    path = base / "run" / "spec.yaml"
    path.write_text(path.read_text().replace("accuracy >= 90 %", "accuracy >= 50 %"))
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "differs: digest of spec.yaml" in done.stdout


def test_a_dataset_that_is_gone_is_said(base: Path) -> None:
    shutil.rmtree(base / "suite")
    done = evalspec("verify", base / "run")
    assert "not recomputed: quality: dataset test can't be read here" in done.stdout
    assert done.returncode == 3


def decided_again(record: dict[str, Any]) -> None:
    """The verdict that follows from a record as it was edited."""
    again = Record.model_validate(record)
    record["verdict"] = decide(again).model_dump(mode="json")


def without_a_check(record: dict[str, Any]) -> None:
    record["checks"] = []


def without_a_requirement(record: dict[str, Any]) -> None:
    del record["checks"][0]["tests"][1]


def with_a_waiver(record: dict[str, Any]) -> None:
    waiver = {"of": "quality/accuracy", "why": "No time.", "owner": "nobody@example.com", "expires": "2999-01-01"}
    record["waivers"] = [waiver]


def of_another_subject(record: dict[str, Any]) -> None:
    record["subject"] = "0" * 64


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (without_a_check, "differs: checks: "),
        (without_a_requirement, "differs: quality/recall(class_1): "),
        (with_a_waiver, "differs: waivers: "),
        (of_another_subject, "differs: subject: "),
    ],
)
def test_a_record_that_agrees_with_itself_and_not_with_its_spec(
    base: Path, change: Callable[[dict[str, Any]], None], found: str
) -> None:
    edit(base, change)
    edit(base, decided_again)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1, done.stdout + done.stderr
    assert found in done.stdout
    assert "differs: verdict" not in done.stdout


@pytest.mark.parametrize("content", [None, "", "{}", '{"version": 99}', "\x00"])
def test_a_broken_record_is_one_sentence(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "record.json").write_text(content)
    done = evalspec("verify", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr

"""The suggested recalibration: what stands in its file, that a server can apply it, and that it decides nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from evalspec.checks.model.calibration import recalibration
from evalspec.checks.model.calibration.spec import Calibration
from evalspec.evidence.blocks import Curve, Table
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.remedies import Recalibrate
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult
from evalspec.stats.calibration.expected_error import expected_calibration_error, top_label
from evalspec.stats.calibration.recalibration import METHODS
from tests.commands import evalspec
from tests.fakes import FakeInputs, classifier

DOCS = Path(__file__).parents[4] / "docs" / "recalibration.md"
Floats = NDArray[np.float64]


def made(distort: Callable[[Floats], Floats], n: int = 4000, classes: int = 3) -> Predictions:
    """A calibrated model whose probabilities are distorted."""
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.full(classes, 0.8), n)
    truth = np.minimum((rng.random(n)[:, None] > true.cumsum(axis=1)).sum(axis=1), classes - 1)
    said = distort(true)
    return classifier(said / said.sum(axis=1, keepdims=True), truth, classes=("ant", "bee", "cow")[:classes])


def bent(true: Floats) -> Floats:
    """Two classes, far from any scaling: from one half on the second is said to be far likelier than it is."""
    second = np.where(true[:, 1] < 0.5, true[:, 1], 0.8 + 0.4 * (true[:, 1] - 0.5))
    return np.stack([1 - second, second], axis=1)


DISTORTED: dict[str, Callable[[Floats], Floats]] = {
    "temperature": lambda true: true**2.5,
    "vector": lambda true: true**1.2 * np.array([4.0, 1.0, 0.5]),
    "isotonic": bent,
}


def run(rows: Predictions, folder: Path, **fields: object) -> CheckResult:
    folder.mkdir(exist_ok=True)
    tables = {"test": pa.table({"label": rows.truth})}
    inputs = FakeInputs(folder, tables=tables, answers={("test", "candidate"): rows})
    return Calibration.model_validate({"check": "calibration", "dataset": "test", **fields}).run(inputs)


def table(result: CheckResult) -> dict[str, dict[str, Any]]:
    """Rows of the table of maps, by name."""
    found = next(block for block in result.blocks if block.title == "Recalibration")
    assert isinstance(found, Table)
    names = [column.name for column in found.columns]
    return {str(row[0]): dict(zip(names, row, strict=True)) for row in found.rows}


def documented() -> Callable[[Floats, dict[str, Any]], Floats]:
    """The function that the documentation shows."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(DOCS), "exec"), names)
    lines = code.partition("def recalibrated")[2].strip().splitlines()
    assert len(lines) <= 8, "a server can copy it"
    function: Callable[[Floats, dict[str, Any]], Floats] = names["recalibrated"]
    return function


@pytest.mark.parametrize("method", DISTORTED)
def test_what_is_suggested_repairs_it_and_can_be_applied_elsewhere(method: str, tmp_path: Path) -> None:
    rows = made(DISTORTED[method], classes=2 if method == "isotonic" else 3)
    result = run(rows, tmp_path)
    assert [file for file, _ in result.evidence] == ["recalibration.json"]
    written = json.loads((tmp_path / "recalibration.json").read_text())
    assert (written["recalibration"], written["method"]) == (1, method)
    assert written["classes"] == list(rows.classes or ()) and written["judged_on"] == 2000
    assert written["model"] == {"name": "candidate", "digest": "candidate@test"}
    assert written["dataset"]["digest"].startswith("sha256:") and written["dataset"]["rows"] == 4000
    before, after = written["ece_before"], written["ece_after"]
    assert after["lower"] <= after["value"] <= after["upper"] < 0.05 < before["value"]
    (remedy,) = result.remedies
    assert isinstance(remedy, Recalibrate)
    assert (remedy.value, remedy.upper) == (written["ece_after"]["value"], written["ece_after"]["upper"])
    assert (remedy.n, remedy.file) == (written["judged_on"], "recalibration.json")
    assert any(note.startswith("Suggested: ") and "recalibration.json" in note for note in result.notes)
    # New rows of the same model come out calibrated by the five lines of the documentation.
    new = made(DISTORTED[method], 40_000, len(written["classes"]))
    assert new.probabilities is not None and new.truth is not None
    shares = documented()(new.probabilities, written)
    assert shares.sum(axis=1) == pytest.approx(np.ones(40_000))
    errors = [expected_calibration_error(*top_label(said, new.truth)).value for said in (new.probabilities, shares)]
    assert errors[0] is not None and errors[1] is not None and errors[0] > 0.05 > 0.02 > errors[1]


@pytest.mark.parametrize("method", DISTORTED)
def test_the_documented_function_is_the_map_that_was_judged(method: str) -> None:
    rows = made(DISTORTED[method], classes=2 if method == "isotonic" else 3)
    assert rows.probabilities is not None and rows.truth is not None
    fitted = METHODS[method](rows.probabilities, rows.truth)
    assert fitted is not None
    classes = rows.probabilities.shape[1]
    new = np.random.default_rng(1).dirichlet(np.ones(classes), 500)
    new[:classes] = np.eye(classes)
    stored = json.loads(json.dumps({"method": method, **fitted.parameters}))
    assert documented()(new, stored) == pytest.approx(fitted.apply(new), abs=1e-12)


def test_every_map_stands_beside_what_it_was_before_on_the_same_held_out_rows(tmp_path: Path) -> None:
    found = table(run(made(DISTORTED["temperature"]), tmp_path))
    assert list(found) == ["as it is", "temperature", "vector scaling", "isotonic"]
    assert {line["judged on"] for line in found.values()} == {2000}
    assert found["as it is"]["fitted on"] is None and found["temperature"]["fitted on"] == 2000
    assert [name for name, line in found.items() if line["suggestion"]] == ["temperature"]
    for line in found.values():
        assert line["lower 95 %"] <= line["ece"] <= line["upper 95 %"]
    # A temperature moves no answer.
    assert found["temperature"]["accuracy"] == found["as it is"]["accuracy"]
    assert found["temperature"]["log loss"] < found["as it is"]["log loss"]


def test_a_calibrated_model_gets_no_suggestion_and_no_file(tmp_path: Path) -> None:
    result = run(made(lambda true: true), tmp_path)
    assert not result.evidence and list(tmp_path.iterdir()) == []
    assert any(note.startswith("No recalibration is suggested") for note in result.notes)
    assert result.remedies == ()
    assert not any(line["suggestion"] for line in table(result).values())


def test_a_suggestion_decides_nothing(tmp_path: Path) -> None:
    rows = made(DISTORTED["temperature"])
    ece = run(rows, tmp_path).estimates["ece"]
    assert isinstance(ece, Estimate)
    p_fail = ece.p_value(0.05, "lower")
    assert p_fail is not None and p_fail < 1e-6


def test_the_curve_shows_the_suggestion_beside_the_temperature(tmp_path: Path) -> None:
    curve = next(block for block in run(made(DISTORTED["vector"]), tmp_path).blocks if isinstance(block, Curve))
    names = [series.name for series in curve.series]
    assert names == ["as it is", "after temperature scaling", "after vector scaling"]


def test_of_many_rows_only_so_many_are_fitted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recalibration, "FIT_CELLS", 1500)
    found = table(run(made(DISTORTED["temperature"]), tmp_path))
    fitted = {name: line["fitted on"] for name, line in found.items()}
    assert fitted == {"as it is": None, "temperature": 2000, "vector scaling": 500, "isotonic": 500}


def test_an_id_names_the_file(tmp_path: Path) -> None:
    assert run(made(DISTORTED["temperature"]), tmp_path, id="field").evidence[0][0] == "recalibration-field.json"


SPEC = """
evalspec: 1
name: suggested
models:
  candidate: {kind: predictions, files: {test: said.parquet}, outputs: {probabilities: p}, classes: [ant, bee, cow]}
datasets:
  test: {kind: parquet, path: test.parquet, label: y, key: id}
model:
  - {check: calibration, dataset: test, require: [ece_after_temperature <= 0.1]}
"""


@pytest.mark.proof
def test_the_file_is_evidence_of_a_run_and_verify_leaves_it_alone(tmp_path: Path) -> None:
    rows = made(DISTORTED["temperature"], 1500)
    assert rows.probabilities is not None and rows.truth is not None and rows.classes is not None
    numbers = np.arange(rows.n)
    flat = pa.FixedSizeListArray.from_arrays(rows.probabilities.ravel(), 3)
    pq.write_table(pa.table({"id": numbers, "y": np.array(rows.classes)[rows.truth]}), tmp_path / "test.parquet")
    pq.write_table(pa.table({"id": numbers, "p": flat}), tmp_path / "said.parquet")
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    evalspec("run", tmp_path / "evalspec.yaml", "--output", tmp_path / "run", "--quiet")
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    (check,) = record["checks"]
    assert "evidence/recalibration.json" in [file["path"] for file in check["evidence"]]
    path = tmp_path / "run" / "evidence" / "recalibration.json"
    written = json.loads(path.read_text())
    assert written["dataset"]["digest"] == record["datasets"][0]["digest"]
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    done = evalspec("verify", tmp_path / "run")
    assert "same: digest of evidence/recalibration.json" in done.stdout and "differs" not in done.stdout
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before

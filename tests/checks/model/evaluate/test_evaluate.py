"""Metric modules of the evaluate library, from files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.checks.model.evaluate.measure import number
from evalspec.checks.model.evaluate.spec import Evaluate
from evalspec.errors import InputError
from tests.checks.deciding import outcome, the
from tests.checks.model.evaluate.planted import COST
from tests.checks.planting import confident
from tests.commands import evalspec
from tests.fakes import FakeInputs, classifier

SPEC = """
evalspec: 1
name: cost
models:
  candidate:
    {kind: predictions, files: {test: said.parquet}, outputs: {label: said}, classes: [ok, bad], artifact: cost.py}
datasets:
  test: {kind: parquet, path: test.parquet, label: truth, key: id}
model:
  - check: evaluate
    dataset: test
    modules: {cost: cost.py}
    require: [score(cost) <= 0.5]
"""


def case(folder: Path, module: str, wrong: float = 0.05, rows: int = 1000) -> tuple[FakeInputs, Evaluate]:
    (folder / "cost.py").write_text(module)
    truth = np.arange(rows) % 2
    right = np.random.default_rng(2).random(rows) >= wrong
    inputs = FakeInputs(evidence=folder, answers={("test", "candidate"): classifier(confident(truth, right, 2), truth)})
    check = Evaluate.model_validate(
        {"check": "evaluate", "dataset": "test", "modules": {"cost": "cost.py"}, "require": ["score(cost) <= 0.5"]}
    )
    return inputs, check


@pytest.mark.proof
def test_a_module_scores_and_has_an_interval(tmp_path: Path) -> None:
    inputs, check = case(tmp_path, COST)
    result = check.run(inputs)
    estimate = result.estimates["score"].parts["cost"]  # type: ignore[union-attr]
    said = inputs.answers["test", "candidate"]
    wrong = said.predicted != said.truth
    assert estimate.value == pytest.approx(float((wrong * np.where(said.truth == 1, 5.0, 1.0)).mean()))
    assert estimate.bound(0.95, "lower") < estimate.value < estimate.bound(0.95, "upper")  # type: ignore[union-attr]
    assert outcome(result, the(check, "score(cost) <= 0.5")) == "PASS"


@pytest.mark.proof
@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("x = 1\n", "is not a module of the evaluate library"),
        (COST.replace('{"cost": float(total / len(references))}', "{}"), "gave 0 numbers"),
        (COST.replace("float(total / len(references))", "1 / 0"), "module cost raised ZeroDivisionError"),
        (COST.replace("float(total / len(references))", 'float("nan")'), "is nan, not a number"),
    ],
)
def test_a_module_that_does_not_work_is_one_sentence(module: str, sentence: str, tmp_path: Path) -> None:
    inputs, check = case(tmp_path, module)
    with pytest.raises(InputError, match=sentence):
        check.run(inputs)


def test_of_several_numbers_the_one_that_is_called_so_counts() -> None:
    assert number("f1", {"f1": 0.5, "recall": 0.7}) == 0.5
    assert number("anything", {"f1": 0.5}) == 0.5
    with pytest.raises(InputError, match="none of them called 'cost'"):
        number("cost", {"f1": 0.5, "recall": 0.7})


@pytest.mark.proof
@pytest.mark.imports("evaluate")
@pytest.mark.parametrize("trusted", [True, False])
def test_it_runs_only_under_trust(trusted: bool, tmp_path: Path) -> None:
    (tmp_path / "cost.py").write_text(COST)
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    rows = 600
    truth = np.array(["ok", "bad"])[np.arange(rows) % 2]
    said = np.where(np.random.default_rng(3).random(rows) < 0.12, np.array(["bad", "ok"])[np.arange(rows) % 2], truth)
    pq.write_table(pa.table({"id": np.arange(rows), "truth": truth}), tmp_path / "test.parquet")
    pq.write_table(pa.table({"id": np.arange(rows), "said": said}), tmp_path / "said.parquet")
    done = evalspec("run", "evalspec.yaml", "--output", "run", *(["--trust"] if trusted else []), folder=tmp_path)
    if not trusted:
        assert done.returncode == 2, done.stdout + done.stderr
        assert "--trust" in done.stdout + done.stderr
        assert not (tmp_path / "run").exists()
        return
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    (check,) = record["checks"]
    assert len(check["conditions"]["module cost"]) == 64

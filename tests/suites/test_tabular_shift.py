"""The suite of a table with planted flaws is NOT READY for these alone, and its clean twin is READY."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from evalspec.evidence.record import CheckRecord
from evalspec.language.parts import Access
from evalspec.loading import load
from evalspec.planning import plan
from evalspec.records.verify import verify
from evalspec.running.children.checking import check_record, run_check
from evalspec.running.children.jobs import CheckJob, SpecParts, seed_of
from evalspec.running.children.process import Limits
from evalspec.running.journal.replay import Replay
from evalspec.running.options import Options, default_limits
from evalspec.running.runner import run
from evalspec.verdict import decide
from tests.commands import trains_classifiers
from tests.shared import forge
from tests.suites.test_suites import Silent, read, statuses
from tests.verdict.test_decide import a_record

SUITE = Path(__file__).resolve().parents[2] / "suites" / "tabular-shift"
FAILS = {
    "leakage/group_overlap": 12,
    "leakage/time_overlap": 20,
    "coverage/missing_conditions": 1,
    "shift/shift": 0.3127,
    "shift/unseen_categories": 14.6,
}


@pytest.mark.proof
@trains_classifiers
def test_it_fails_for_what_was_planted_and_can_be_verified_later(tmp_path: Path) -> None:
    """One run, since it takes seconds: statuses, values, and an age that is counted to the day of the record."""
    options = Options(access=Access(folder=SUITE), output=tmp_path / "run", limits=default_limits())
    _, folder = run(plan(load(SUITE / "evalspec.yaml")), options, Silent())
    record = read(folder)
    assert record["verdict"]["word"] == "NOT READY"
    found = statuses(record, blocking=True)
    assert {name for name, status in found.items() if status == "FAIL"} == set(FAILS)
    assert {status for name, status in found.items() if name not in FAILS} == {"PASS"}
    tests = {test["name"]: test for check in record["checks"] for test in check["tests"]}
    assert {name: tests[name]["value"] for name in FAILS} == pytest.approx(FAILS, rel=0.01)
    drifted = {part["part"] for part in tests["shift/shift"]["parts"] if part["value"] > 0.10}
    assert drifted == {"distance_km", "traffic", "weather", "zone"}
    # Of a record of another day nothing else is another: the age is counted to the record's day, not to today.
    started = f"{int(record['started'][:4]) + 1}{record['started'][4:]}"
    forge(folder, lambda said: said.update(started=started))
    differs = verify(folder, spec_folder=SUITE).differs
    assert [one.split(":")[0] for one in differs] == ["values of saturation"], differs
    assert "data_age" in differs[0]


def test_its_clean_twin_is_ready(tmp_path: Path) -> None:
    """In this process: what is required of processes of their own, the other one shows."""
    planned = plan(load(SUITE / "clean.yaml"))
    spec = planned.spec
    parts = SpecParts(models={}, datasets=dict(spec.datasets), slices={}, access=Access(SUITE))
    records: list[CheckRecord] = []
    for one in planned.checks:
        job = CheckJob(
            parts=parts, check=one.check, predictions={}, model_facts={}, confidence=0.95,
            alpha_fail=planned.alpha_fail, seed=seed_of(spec.seed, one.check.name), draft=False, evidence=tmp_path,
            limits=Limits(), threads=1, environment={},
        )  # fmt: skip
        result = run_check(job, lambda *_: None, Replay(tmp_path, one.check.name))
        records.append(check_record(job, result, []))
    verdict = decide(a_record(*records))
    assert verdict.word == "READY", verdict.reason
    assert {one.status for one in verdict.decisions} == {"PASS"}


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SUITE))
    return importlib.import_module("make_tabular_shift")


def test_files_are_what_the_script_makes(make: Any) -> None:
    assert make.main(["--check"]) == 0
    for name, table in make.tables().items():
        assert pq.read_table(SUITE / name).equals(table), name


def test_flaws_are_in_the_test_set_and_nowhere_else() -> None:
    test, holdout = (pq.read_table(SUITE / f"{name}.parquet").to_pylist() for name in ("test", "holdout"))
    differ = [row for row, (one, other) in enumerate(zip(test, holdout, strict=True)) if one != other]
    assert differ == [*range(100, 112), *range(500, 520)]
    days = {name: np.array(pq.read_table(SUITE / f"{name}.parquet")["started"]) for name in ("train", "holdout")}
    assert days["holdout"].min() > days["train"].max()

"""Runs that end at a look, end to end: what stands in the record, and that it is the same when it is made again."""

from __future__ import annotations

import shutil
from pathlib import Path
from string import ascii_lowercase

import pytest

from evalspec.errors import WorkerError
from evalspec.evidence.record import CheckRecord, Record
from evalspec.language.parts import Model
from evalspec.loading import LoadOptions, load
from evalspec.planning import plan
from evalspec.records.verify import verify
from evalspec.running.children.process import Child
from evalspec.running.children.workers import (
    FEW_AHEAD,
    MOST_AHEAD,
    MOST_AHEAD_BYTES,
    MOST_KEPT,
    StartedAhead,
    may_start_together,
)
from evalspec.running.options import default_limits
from evalspec.running.samples import read_samples
from evalspec.selftest.selftest import selftest
from tests.running.small import go, write
from tests.selftest.holding import Silent
from tests.shared import shared_folder

MODEL = """
  candidate: {{kind: python, function: model:answer, inputs: {{x: x}}, outputs: {{label: label}}, classes: [a, b]}}
datasets:
  test: {{kind: parquet, path: test.parquet, label: y, key: id}}
policy: {{stop: {stop}}}
system:
  - check: latency
    dataset: test
    caching_audit: false
    queries: 1000{more}
    require: [latency_p50 <= {limit} ms]
  - check: throughput
    dataset: test
    batch_sizes: [1, 4]
    duration: 0.2 s{more}
    require: [throughput >= {rate} samples/s]
"""
PLANNED_ALONE = "\n    processes: 5"
"""No processes beside those that are planned, where these differ."""
DIGITS = Path(__file__).resolve().parents[2] / "suites" / "digits"
IN_ONE_PROCESS = """
evalspec: 1
name: shared
models:
  candidate:
    kind: onnx
    path: int8.onnx
    precision: int8
    preprocess: [{cast: float32}, {scale: 0.0625}]
    inputs: {image: pixels}
    outputs: {logits: y}
    classes: classes.txt
datasets: {test: {kind: parquet, path: test.parquet, label: digit, key: id}}
policy: {stop: full}
system:
  - {check: latency, dataset: test, processes: 5, require: [latency_p50 <= 1 s]}
  - {check: throughput, dataset: test, batch_sizes: [8], duration: 0.1 s, require: [throughput >= 1 samples/s]}
  - check: throughput
    id: again
    dataset: test
    batch_sizes: [8]
    duration: 0.1 s
    require: [throughput >= 1 samples/s]
"""
CODE = """
import time
import numpy as np
def answer(inputs):
    time.sleep(2e-3)  # Other work on the machine lengthens a sleep less than work.
    return {"label": np.where(inputs["x"] > 0, "b", "a")}
"""


def spec(folder: Path, *, limit: float, rate: float, stop: str = "early", more: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text(CODE)
    return write(folder, "", MODEL.format(limit=limit, rate=rate, stop=stop, more=more))


def of(record: Record, kind: str) -> CheckRecord:
    """The check of this kind; skips where other work on the machine voids it, since then no look decides."""
    found = next(one for one in record.checks if one.check == kind)
    if any(test.by_surroundings or test.withhold for test in found.tests):
        pytest.skip(f"the machine was busy: {[test.invalid or test.withhold for test in found.tests]}")
    return found


TRIES = 3
"""Runs at the most: three processes of a disturbed machine may differ so much that no look decides."""


def ended_early(path: Path, folder: Path, kinds: tuple[str, ...], look: int) -> tuple[Record, Path]:
    """The first run whose checks of these kinds ended at this look or before it, else the last run; and its folder."""
    for number in range(1, TRIES + 1):
        record, _ = go(path, folder / f"run-{number}")
        if all(of(record, kind).conditions["look"] <= look for kind in kinds):
            break
    return record, folder / f"run-{number}"


def far_from_thresholds(factory: pytest.TempPathFactory) -> tuple[Path, Record]:
    """A folder with a spec whose model is far better than asked for, and as ``run`` a run that ended early."""

    def make(folder: Path) -> None:
        _, made = ended_early(spec(folder, limit=1000.0, rate=20.0), folder, ("latency", "throughput"), 1)
        made.rename(folder / "run")

    folder = shared_folder(factory, "looks-early", make)
    return folder, Record.model_validate_json((folder / "run" / "record.json").read_text(encoding="utf-8"))


@pytest.mark.proof
def test_a_run_far_from_its_thresholds_ends_at_looks_and_is_the_same_when_it_is_made_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder, record = far_from_thresholds(tmp_path_factory)
    latency, throughput = of(record, "latency"), of(record, "throughput")
    assert (latency.conditions["look"], latency.conditions["looks"]) == (1, 3)
    assert latency.conditions["processes"] == 3 and latency.conditions["queries"] >= 1250
    assert throughput.conditions["look"] == 1 and "throughput(batch 1)" not in throughput.measured
    assert record.verdict is not None and record.verdict.word == "READY"
    made_again = verify(folder / "run", spec_folder=folder)
    assert not made_again.differs


@pytest.mark.proof
def test_every_requirement_of_such_a_run_can_still_go_red(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, record = far_from_thresholds(tmp_path_factory)
    assert of(record, "latency").conditions["look"] and of(record, "throughput").conditions["look"]
    planned = plan(load(folder / "spec.yaml", options=LoadOptions(trust=True)))
    outcomes = selftest(planned, folder / "run", planned.spec.access(trust=True), default_limits(), Silent())
    excused = [one.why for one in outcomes if one.answer == "excused"]
    if excused:
        pytest.skip(f"the machine was busy: {excused}")
    assert {one.name: one.answer for one in outcomes} == dict.fromkeys(
        ("latency/latency_p50", "throughput/throughput"), "red"
    )


@pytest.mark.proof
def test_a_run_close_to_its_thresholds_goes_on_to_its_end(tmp_path: Path) -> None:
    record, _ = go(spec(tmp_path, limit=5.0, rate=1500.0, more=PLANNED_ALONE), tmp_path / "run")
    assert of(record, "latency").conditions["processes"] >= 5
    assert of(record, "latency").conditions["look"] == 3 and of(record, "throughput").conditions["look"] == 3
    assert not verify(tmp_path / "run", spec_folder=tmp_path).differs


@pytest.mark.proof
def test_a_run_that_fails_by_far_ends_early_too(tmp_path: Path) -> None:
    record, _ = ended_early(spec(tmp_path, limit=0.01, rate=1e6), tmp_path, ("latency",), 2)
    assert of(record, "latency").tests[0].p_fail is not None
    assert of(record, "latency").conditions["look"] < 3


@pytest.mark.proof
def test_the_policy_can_want_all(tmp_path: Path) -> None:
    record, _ = go(spec(tmp_path, limit=1000.0, rate=20.0, stop="full", more=PLANNED_ALONE), tmp_path / "run")
    assert "look" not in of(record, "latency").conditions and of(record, "latency").conditions["processes"] >= 5
    assert {"throughput(batch 1)", "throughput(batch 4)"} <= set(of(record, "throughput").measured)


class Noting(Child):
    """A worker that notes what it is told."""

    def __init__(self, told: list[str], name: str) -> None:
        self.told_to, self.name = told, name

    def tell(self, question: object) -> None:
        self.told_to.append(f"tell {self.name}")

    def answer(self, **_: object) -> dict[str, object]:
        self.told_to.append(f"answer {self.name}")
        return {}

    def close(self) -> None:
        self.told_to.append(f"close {self.name}")


def started(told: list[str], *, together: bool) -> StartedAhead:
    names = iter(ascii_lowercase)
    return StartedAhead(lambda: Noting(told, next(names)), together=together)


def test_workers_load_together_and_each_is_taken_once() -> None:
    told: list[str] = []
    ahead = started(told, together=True)
    assert [ahead.take(left).name for left in (3, 2, 1)] == ["a", "b", "c"]  # type: ignore[attr-defined]
    assert told == [f"{what} {name}" for what in ("tell", "answer") for name in "abc"]
    ahead.close()
    assert not [line for line in told if line.startswith("close")]


def test_workers_that_were_begun_before_are_waited_for_when_the_first_is_taken() -> None:
    told: list[str] = []
    ahead = started(told, together=True)
    ahead.begin(9, "test")
    assert told == [f"tell {name}" for name in "abcd"] and MOST_AHEAD == 4
    assert [ahead.take(left).name for left in (3, 2, 1)] == ["a", "b", "c"]  # type: ignore[attr-defined]
    assert told[4:] == [f"answer {name}" for name in "abcd"]
    ahead.close()
    assert told[8:] == ["close d"]


def test_others_follow_on_one_that_is_taken_alone_and_what_nobody_takes_is_ended() -> None:
    told: list[str] = []
    ahead = started(told, together=True)
    ahead.take(1)
    assert sum(line.startswith("tell") for line in told) == MOST_AHEAD
    ahead.close()
    assert [line for line in told if line.startswith("close")] == ["close b", "close c", "close d"]


def test_fewer_follow_on_one_that_is_taken_after_others() -> None:
    told: list[str] = []
    ahead = started(told, together=True)
    for left in (3, 2, 1):
        ahead.take(left)
    told.clear()
    ahead.take(1)
    assert [line for line in told if line.startswith("tell")] == ["tell d", "tell e"] and FEW_AHEAD == 2


def measured(ahead: StartedAhead, count: int) -> None:
    for left in range(count, 0, -1):
        with ahead.one(left):
            pass


def closed(told: list[str]) -> str:
    return "".join(line[-1] for line in told if line.startswith("close"))


def test_workers_that_were_measured_are_ended() -> None:
    told: list[str] = []
    ahead = started(told, together=True)
    measured(ahead, 4)
    assert closed(told) == "abcd" and ahead.kept() == []


def test_the_first_workers_that_were_measured_are_kept_for_who_wants_them() -> None:
    """How many follow hangs on what was measured, so that the last ones are chosen by it."""
    told: list[str] = []
    ahead = started(told, together=True)
    ahead.keep()
    with ahead.one(1, may_be_kept=False):
        pass
    measured(ahead, 5)
    assert closed(told) == "aef" and MOST_KEPT == 3
    assert [one.name for one in ahead.kept()] == ["b", "c", "d"]  # type: ignore[attr-defined]
    ahead.close()
    assert closed(told) == "aef" and ahead.kept() == []


@pytest.mark.parametrize("count", [5, 10, 20])
@pytest.mark.parametrize("keeps", [False, True])
def test_no_more_hold_the_model_at_once_where_some_are_kept(count: int, keeps: bool) -> None:
    told: list[str] = []
    ahead = started(told, together=True)
    if keeps:
        ahead.keep()
    measured(ahead, count)
    alive, most = 0, 0
    for line in told:
        alive += {"tell": 1, "answer": 0, "close": -1}[line.split()[0]]
        most = max(most, alive)
    assert most == MOST_AHEAD


def test_a_worker_whose_measurement_fails_is_not_kept() -> None:
    told: list[str] = []
    ahead = started(told, together=True)
    ahead.keep()
    with pytest.raises(WorkerError), ahead.one(1):
        raise WorkerError("it ended")
    assert closed(told) == "a" and ahead.kept() == []


def test_what_may_not_be_together_is_not_kept_either() -> None:
    told: list[str] = []
    ahead = started(told, together=False)
    ahead.keep()
    measured(ahead, 2)
    assert closed(told) == "ab" and ahead.kept() == []


def test_workers_that_are_there_are_taken_before_others_start() -> None:
    told: list[str] = []
    fresh = iter("xyz")
    there = [Noting(told, name) for name in "ab"]
    ahead = StartedAhead(lambda: Noting(told, next(fresh)), together=True, ready=there)
    assert [ahead.take(left).name for left in (3, 2)] == ["a", "b"] and told == []  # type: ignore[attr-defined]
    assert ahead.take(1).name == "x"  # type: ignore[attr-defined]
    ahead.close()
    assert closed(told) == "y"


@pytest.mark.proof
def test_throughput_is_timed_in_the_first_processes_of_latency_and_goes_on_in_its_own(tmp_path: Path) -> None:
    for name in ("int8.onnx", "classes.txt", "test.parquet"):
        shutil.copy(DIGITS / name, tmp_path)
    (tmp_path / "spec.yaml").write_text(IN_ONE_PROCESS)
    record, _ = go(tmp_path / "spec.yaml", tmp_path / "run")
    folder = tmp_path / "run"
    assert {one.id: one.reason for one in record.checks if one.status != "measured"} == {}
    before = {
        name: [one.details.get("timed_before") for one in read_samples(folder / "evidence" / f"samples-{name}.parquet")]
        for name in ("latency", "throughput", "again")
    }
    assert before == {
        "latency": [None] * len(before["latency"]),  # With more where the first five differ.
        # Three of latency, in their second measurement; then processes of its own.
        "throughput": [1, 1, 1, None, None],
        "again": [2, 2, 2, None, None],
    }
    conditions = {one.id: one.conditions.get("processes_timed_before") for one in record.checks}
    assert conditions == {"latency": None, "throughput": 3, "again": 3}
    assert not verify(folder, spec_folder=tmp_path).differs


def test_what_may_not_be_together_starts_one_by_one() -> None:
    told: list[str] = []
    ahead = started(told, together=False)
    assert [ahead.take(left).name for left in (2, 1)] == ["a", "b"] and told == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("update", "size", "may"),
    [({}, 1000, True), ({}, MOST_AHEAD_BYTES + 1, False), ({}, None, False), ({"device": "cuda"}, 1000, False)],
)
def test_only_small_models_without_code_on_the_processor_start_together(
    update: dict[str, object], size: int | None, may: bool
) -> None:
    from evalspec.runtimes.onnx import Onnx

    model: Model = Onnx.model_validate({"kind": "onnx", "path": "m.onnx", "precision": "fp32"}).model_copy(
        update=update
    )
    assert may_start_together(model, size) is may


def test_code_of_the_spec_starts_alone() -> None:
    from evalspec.runtimes.python import Python

    model = Python.model_validate({"kind": "python", "function": "m.py:f", "inputs": {"x": "x"}})
    assert not may_start_together(model, 10)

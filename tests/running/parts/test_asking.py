"""Workers that answer a dataset part by part: the same bytes whoever answers, and whoever is killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.answers.file import read_answers
from evalspec.answers.parts import ANSWER_ROWS, part_path, parts_of
from evalspec.errors import EvalspecError, RecordError, WorkerError
from evalspec.language.parts import Access
from evalspec.loading import load
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf_journal import passes_of
from evalspec.running.children.process import Child, Limits
from evalspec.running.engines import leaf_job
from evalspec.running.engines.choice import LOCAL, EngineChoice
from evalspec.running.engines.local import LocalEngine
from evalspec.running.files import Journal
from evalspec.running.journal.events import JournalEvents
from evalspec.running.parts import part_job
from evalspec.running.subjects import Children, Subjects
from tests.running.children.test_leaves import alive_below
from tests.running.engines.fake import FakeCluster, use

ROWS = 2 * ANSWER_ROWS + 10_000
SPEC = """
evalspec: 1
name: parts
models:
  candidate: {kind: python, function: "behaviour:MODEL", batch: 3000, inputs: {x: x}, classes: [a, b]}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
model:
  - {check: quality, dataset: test, require: [accuracy >= 50 %]}
"""
CODE = """
import os
import time
import numpy as np

def answers(x, temper=1.0):
    p = 1 / (1 + np.exp(-temper * x))
    return {"probabilities": np.stack([1 - p, p], axis=1)}

def plain(inputs):
    return answers(inputs["x"])

def slow(inputs):
    time.sleep(0.02)
    return answers(inputs["x"])

def fails(inputs):
    if (inputs["x"] > 90).any():
        raise ValueError("out of range")
    return answers(inputs["x"])

def dies(inputs):
    if (inputs["x"] > 90).any():
        os._exit(9)
    return answers(inputs["x"])

def hangs(inputs):
    if (inputs["x"] > 90).any():
        time.sleep(60)
    return answers(inputs["x"])

def eats(inputs):
    if (inputs["x"] > 90).any():
        kept = np.ones(50_000_000)
        time.sleep(3)
    return answers(inputs["x"])

class Remembers:
    asked = 0

    def __call__(self, inputs):
        self.asked += 1
        p = np.full(len(inputs["x"]), self.asked % 50 / 50)
        return {"probabilities": np.stack([1 - p, p], axis=1)}
"""
TWO = EngineChoice(children=2)


class Quiet:
    def step(self, text: str) -> None: ...

    def progress(self, done: float, total: float, what: str) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, ROWS)
    # In the second part, of three.
    x[ANSWER_ROWS + 5_000] = 99.0
    y = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-x)), "b", "a")
    pq.write_table(pa.table({"x": x, "y": y}), folder / "test.parquet", row_group_size=50_000)
    (folder / "behaviour.py").write_text(CODE)
    return folder


def subjects_in(folder: Path, run: Path, model: str, engine: EngineChoice, limits: Limits | None = None) -> Subjects:
    spec_file = folder / f"{model}.yaml"
    spec_file.write_text(SPEC.replace("MODEL", model))
    spec = load(spec_file)
    access = Access(folder, trust=True)
    run.mkdir(exist_ok=True)
    children = Children(access, limits or Limits(time_s=60), 1, run, engine)
    parts = SpecParts(models=dict(spec.models), datasets=dict(spec.datasets), slices={}, access=access)
    journal = Journal(run / "journal.jsonl")
    return Subjects(parts, children, journal, Quiet(), JournalEvents(journal.read()))


def answer(
    folder: Path, run: Path, model: str = "plain", engine: EngineChoice = LOCAL, limits: Limits | None = None
) -> tuple[Path, dict[str, Any]]:
    """The list of the parts, and what was observed of the model."""
    subjects = subjects_in(folder, run, model, engine, limits)
    try:
        subjects.describe("model", ["candidate"])
        subjects.describe("dataset", ["test"])
        path = subjects.predict("test", "candidate")
        return path, dict(subjects.models["candidate"].details)
    finally:
        subjects.close()


def files(answers: Path) -> dict[str, bytes]:
    """All that was written."""
    assert not list(answers.parent.rglob("*.partial")) and not alive_below()
    paths = [answers, *answers.with_suffix("").iterdir()]
    return {path.name: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, bytes]:
    path, told = answer(folder, folder / "alone")
    assert told["parts"] == 3 and str(told["answered_on"]).endswith(" (3 parts)") and "answered_on_several" not in told
    return files(path)


@pytest.mark.proof
def test_a_pool_gives_the_bytes_of_one_process(folder: Path, alone: dict[str, bytes], tmp_path: Path) -> None:
    path, told = answer(folder, tmp_path / "run", engine=TWO)
    assert files(path) == alone
    assert (told["batch"], told["rows_asked_again"], told["rows_answered_otherwise"]) == (3000, 64, 0)
    # A part is a multiple of a batch.
    sizes = [one.rows for one in parts_of(path)]
    assert sizes == [66_000, 66_000, ROWS - 132_000]
    read = read_answers(path)
    x = pq.read_table(folder / "test.parquet").column("x").to_numpy()
    assert read.n == ROWS and read.classes == ("a", "b") and read.probabilities is not None
    assert np.array_equal(read.probabilities[:, 1], 1 / (1 + np.exp(-x)))
    # The same again, gone on with: nothing is asked.
    shutil.rmtree(tmp_path / "run" / "leaves")
    assert files(answer(folder, tmp_path / "run")[0]) == alone


def killed_at(patch: pytest.MonkeyPatch, waits: list[float]) -> list[int]:
    """Kill the worker that was handed a part, so long after, once for each wait."""
    submit, dead = LocalEngine.submit, list[int]()

    def submitted(self: LocalEngine, number: int, start: int, stop: int) -> None:
        submit(self, number, start, stop)
        if waits:
            place = next(place for place, (other, _) in self._flying.items() if other == number)
            child = self._children[place]
            threading.Timer(waits.pop(0), kill, (child, dead)).start()

    patch.setattr(LocalEngine, "submit", submitted)
    return dead


def kill(child: Child, dead: list[int]) -> None:
    for one in psutil.Process(child.pid).children(recursive=True):
        one.kill()
    os.kill(child.pid, signal.SIGKILL)
    dead.append(child.pid)


@pytest.mark.processes
@pytest.mark.proof
def test_a_worker_that_is_killed_changes_nothing(
    folder: Path, alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = killed_at(monkeypatch, [0.0])
    path, _ = answer(folder, tmp_path / "run", engine=TWO)
    assert len(dead) == 1 and files(path) == alone
    assert [one["again"] for one in passes_of(tmp_path / "run")] == [1]


@pytest.mark.processes
@pytest.mark.proof
@pytest.mark.parametrize("seed", range(4))
def test_workers_that_are_killed_at_any_moment_change_nothing(
    folder: Path, alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    dead = killed_at(monkeypatch, [chance.uniform(0, 0.7) for _ in range(2)])
    path, told = answer(folder, tmp_path / "run", "slow", engine=TWO)
    assert len(dead) == 2 and files(path) == alone and told["rows_answered_otherwise"] == 0


class Stopped(Exception):
    """The run was killed."""


@pytest.mark.proof
@pytest.mark.parametrize("engine", [LOCAL, TWO])
def test_a_run_that_is_gone_on_with_asks_for_what_is_missing(
    folder: Path, alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineChoice
) -> None:
    with monkeypatch.context() as patch:
        finished, count = LocalEngine.finished, [0]

        def stopped(self: LocalEngine) -> Any:
            if count[0]:
                raise Stopped
            ended = finished(self)
            count[0] += len(ended)
            return ended[:1]

        patch.setattr(LocalEngine, "finished", stopped)
        with pytest.raises(Stopped):
            answer(folder, tmp_path / "run", engine=engine)
    assert not alive_below()
    (kept,) = (tmp_path / "run" / "evidence" / "predictions-candidate-test").iterdir()
    path, _ = answer(folder, tmp_path / "run", engine=TWO)
    assert files(path) == alone and kept.name in alone
    assert [(one["parts"], one["kept"]) for one in passes_of(tmp_path / "run")] == [(1, 0), (2, 1)]
    # One whose bytes were changed is no answer: it is refused, and asked for again by whoever goes on.
    part_path(path, 1).write_bytes(alone["part-00001.parquet"] + b" ")
    with pytest.raises(RecordError, match=r"part-00001\.parquet have changed since they were written"):
        read_answers(path)
    assert files(answer(folder, tmp_path / "run")[0]) == alone
    assert passes_of(tmp_path / "run")[-1]["parts"] == 1


@pytest.mark.proof
@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("fails", "behaviour:fails raised ValueError: out of range"),
        ("dies", "they were lost twice: worker exited with code 9 without an answer"),
    ],
)
def test_a_model_that_fails_on_some_rows_is_told_with_them(folder: Path, tmp_path: Path, model: str, why: str) -> None:
    with pytest.raises(EvalspecError) as error:
        answer(folder, tmp_path / "run", model, TWO)
    assert str(error.value).startswith(f"no answers of candidate on test for rows 66,000 to 131,999: {why}")
    assert "\n" not in str(error.value) and not alive_below()


@pytest.mark.processes
@pytest.mark.proof
@pytest.mark.parametrize(
    ("model", "limits", "why"),
    [
        ("hangs", Limits(time_s=5), "did not answer within 5 s and was killed"),
        ("eats", Limits(memory_bytes=450 * 2**20), "over the limit of 450 MiB, and was killed"),
    ],
)
def test_a_worker_that_takes_too_much_is_ended(
    folder: Path, tmp_path: Path, model: str, limits: Limits, why: str
) -> None:
    with pytest.raises(WorkerError, match=f"for rows 66,000 to 131,999: they were lost twice: .*{why}"):
        answer(folder, tmp_path / "run", model, LOCAL, limits)
    assert not alive_below()


@pytest.mark.proof
def test_a_model_that_remembers_is_told_as_one_that_answers_otherwise(folder: Path, tmp_path: Path) -> None:
    """Which worker answered what before decides what it says: the rows that are asked again differ."""
    path, told = answer(folder, tmp_path / "run", "Remembers", TWO)
    assert told["rows_asked_again"] == 64 and int(str(told["rows_answered_otherwise"])) > 32
    # Screens read it of the answers.
    read = read_answers(path).details
    assert {name: told[name] for name in read} == read and read["rows_asked_again"] == 64


@pytest.fixture
def _fresh() -> Iterator[None]:
    """A node's process answers for one job at a time; here all nodes are one process."""
    leaf_job._made_sure.cache_clear()
    part_job._workers.cache_clear()
    yield
    leaf_job._made_sure.cache_clear()
    part_job._workers.cache_clear()
    # Workers that wait for more end with what holds them: the next job takes its place.
    assert not alive_below()


@pytest.mark.processes
@pytest.mark.proof
@pytest.mark.usefixtures("_fresh")
def test_nodes_give_the_bytes_of_one_process(
    folder: Path, alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node is lost midway; its workers end when nobody asks them any more."""
    monkeypatch.setattr(part_job, "IDLE_S", 0.5)
    cluster = use(monkeypatch, FakeCluster(loses=lambda number, times: times == 1 and number == 1))
    path, _ = answer(folder, tmp_path / "run", engine=EngineChoice("ray", address="127.0.0.1:6379"))
    ends = time.monotonic() + 10
    while alive_below() and time.monotonic() < ends:
        time.sleep(0.1)
    assert files(path) == alone and cluster.closed and not alive_below()
    (told,) = passes_of(tmp_path / "run")
    assert (told["parts"], told["kept"], told["again"], len(told["lost"])) == (3, 0, 1, 1)


@pytest.mark.processes
@pytest.mark.proof
@pytest.mark.usefixtures("_fresh")
def test_a_node_that_sees_another_model_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeCluster())
    planned = part_job.PartJob.make_sure

    def other(self: part_job.PartJob) -> None:
        path = folder / "behaviour.py"
        before = path.stat()
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        try:
            planned(self)
        finally:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    monkeypatch.setattr(part_job.PartJob, "make_sure", other)
    with pytest.raises(EvalspecError, match=r"for rows 0 to 65,999: node N.: .*behaviour.py is a different file"):
        answer(folder, tmp_path / "run", engine=EngineChoice("ray", address="127.0.0.1:6379"))

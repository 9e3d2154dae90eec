"""Leaves of datasets that several children look at: the record of one process to the byte, whoever dies meanwhile."""

from __future__ import annotations

import base64
import contextlib
import datetime
import errno
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.checks.data.shift import classifier
from evalspec.checks.data.shift.summaries import OneColumn
from evalspec.errors import EngineError, InputError, WorkerError
from evalspec.language import scans as language_scans
from evalspec.language.parts import Access
from evalspec.language.scans import Tree
from evalspec.loading import load
from evalspec.planning import plan
from evalspec.running import equal_rows
from evalspec.running.children import checking, leaf, reader
from evalspec.running.children.jobs import CheckJob, SpecParts, seed_of
from evalspec.running.children.leaf import as_bytes
from evalspec.running.children.leaf_journal import (
    LeafJournal,
    StateFile,
    StateFiles,
    StatePlace,
    passes_of,
    remove_leaves,
)  # fmt: skip
from evalspec.running.children.leaves import LeafPieces, LeafStates
from evalspec.running.children.process import Child, Limits
from evalspec.running.children.scans import Scans
from evalspec.running.children.tables import Tables
from evalspec.running.engines import local
from evalspec.running.engines.choice import LOCAL, EngineChoice
from evalspec.running.engines.engine import LeafWork, PieceOutcome
from evalspec.running.engines.local import LocalEngine
from evalspec.running.engines.pieces import Cut
from evalspec.sources.parquet import Parquet
from tests import forked
from tests.shared import shared_folder

ROWS, LEAF = 5_500, 1_000
SPEC = """
evalspec: 1
name: leaves
datasets:
  test: {kind: parquet, path: test, label: y}
  traffic: {kind: parquet, path: traffic.parquet, label: y}
data:
  - {check: shift, reference: test, current: traffic, require: [drifted_columns <= 10 %]}
  - check: integrity
    dataset: test
    table_schema: {x: {min: -2, nullable: false}, site: {values: [a, b]}, note: {unique: true, pattern: "note .*[1-9]"}}
    duplicates_by: [note, site]
    split: y
    require: [schema_violations == 0]
  - check: coverage
    dataset: test
    by: [site, day]
    conditions: [{name: dark, where: x < 0}]
    population: traffic
    report_only: true
  - check: leakage
    train: [traffic]
    test: test
    group: note
    time: day
    index: x
    columns: [site, day]
    report_only: true
  - check: contamination
    train: [traffic]
    test: test
    column: note
    ngram: {n: 4}
    key: [listed]
    show_examples: true
    report_only: true
  - {check: contamination, id: table, train: [test], test: traffic, column: [x, site, day], report_only: true}
"""


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=int(i)) for i in rng.integers(0, 9, n)]
    return pa.table(
        {
            "x": pa.array(rng.normal(0, 1, n), mask=rng.random(n) < 0.01),
            "site": pa.array(rng.choice(["a", "b", "c"], n)).dictionary_encode(),
            "day": days,
            "note": [f"note {int(i)} of {seed}" for i in rng.integers(0, 30_000, n)],
            "listed": [list(rng.random(3)) for _ in range(n)],
            "y": rng.choice(["yes", "no"], n),
        }
    )


@pytest.fixture(autouse=True)
def short_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_scans, "LEAF_ROWS", LEAF)
    monkeypatch.setattr(classifier, "why_not", lambda smaller: "no classifier here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One side in several files, with row groups that fit neither leaves nor batches."""
    folder = tmp_path_factory.mktemp("leaves")
    (folder / "test").mkdir()
    table = rows(ROWS, 1)
    for name, start, stop in (("a", 0, 2_321), ("b", 2_321, 2_322), ("c", 2_322, ROWS)):
        pq.write_table(table.slice(start, stop - start), folder / "test" / f"{name}.parquet", row_group_size=970)
    pq.write_table(rows(ROWS - 3, 2), folder / "traffic.parquet", row_group_size=3_100)
    (folder / "evalspec.yaml").write_text(SPEC)
    return folder


def jobs_in(folder: Path, children: int, engine: EngineChoice = LOCAL) -> list[CheckJob]:
    spec = load(folder / "evalspec.yaml")
    parts = SpecParts(models={}, datasets=dict(spec.datasets), slices={}, access=Access(folder))
    return [
        CheckJob(
            parts=parts, check=one.check, predictions={}, model_facts={}, confidence=0.95, alpha_fail=0.01,
            seed=seed_of(7, one.check.name), draft=False, evidence=folder / "run" / "evidence", limits=Limits(),
            threads=1, environment={}, engine=replace(engine, children=children),
        )
        for one in plan(spec).checks
    ]  # fmt: skip


def answer(job: CheckJob) -> Any:
    """What a run with no earlier one says."""
    remove_leaves(job.evidence.parent)
    return answer_again(job)


def answer_again(job: CheckJob) -> Any:
    job.evidence.mkdir(parents=True, exist_ok=True)
    return checking.answer(job, lambda *_: None)["record"]


def alive_below() -> list[psutil.Process]:
    """Children of ours; other tests of this process may have left a browser open."""
    return [one for one in psutil.Process().children(recursive=True) if _is_ours(one)]


def _is_ours(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
        if str(forked.__file__) in words:
            # One that was forked has the words of the server that it was forked off.
            is_child = process.pid not in forked.servers()
        else:
            is_child = any(word.startswith("evalspec.") for word in words)
        return is_child and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.proof
def test_children_give_the_record_of_one_process(folder: Path) -> None:
    alone, several = ([answer(job) for job in jobs_in(folder, children)] for children in (1, 2))
    assert json.dumps(several) == json.dumps(alone)
    assert {one["status"] for one in alone} == {"measured"}
    assert not alive_below()


@pytest.mark.proof
def test_leaves_that_are_kept_are_looked_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is gone on with: of its leaves one was torn, and what rests on other rows is new."""
    job = jobs_in(folder, 2)[0]
    first = answer(job)
    kept = max((folder / "run" / "leaves").glob("*.states"), key=lambda path: path.stat().st_size)
    with kept.open("r+b") as file:
        file.truncate(kept.stat().st_size - 10)
    assert answer_again(job) == first
    told = [(one["leaves"], one["kept"]) for one in passes_of(folder / "run")]
    assert told[:2] == [(6, 0), (6, 0)] and sorted(told[2:]) == [(0, 6), (1, 5)]
    monkeypatch.setattr(local, "Child", lambda *_, **__: pytest.fail("a child"))
    assert answer_again(job) == first
    path = folder / "traffic.parquet"
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    with pytest.raises(pytest.fail.Exception):
        answer_again(job)


TWO = """
evalspec: 1
name: two
datasets:
  test: {kind: parquet, path: test, label: y}
  traffic: {kind: parquet, path: traffic.parquet, label: y}
data:
  - check: contamination
    id: strict
    train: [traffic]
    test: test
    column: note
    similarity: 0.95
    require: [near_duplicates <= 5 %]
  - {check: contamination, id: loose, train: [traffic], test: test, column: note, similarity: 0.3, report_only: true}
  - {check: contamination, id: pairs, train: [traffic], test: test, column: note, ngram: {n: 2}, report_only: true}
  - {check: leakage, id: noted, train: [traffic], test: test, group: note, report_only: true}
  - {check: leakage, id: placed, train: [traffic], test: test, group: site, report_only: true}
  - {check: integrity, id: low, dataset: test, table_schema: {x: {min: -2}}, report_only: true}
  - {check: integrity, id: high, dataset: test, table_schema: {x: {max: 2}}, report_only: true}
"""


@pytest.mark.proof
def test_two_checks_of_a_kind_share_no_state(folder: Path, tmp_path: Path) -> None:
    """Whatever they ask otherwise, in one folder of leaves; and both take theirs from there when they are resumed."""
    shutil.copytree(folder, tmp_path / "two")
    (tmp_path / "two" / "evalspec.yaml").write_text(TWO)
    alone = [answer(job) for job in jobs_in(tmp_path / "two", 1)]
    remove_leaves(tmp_path / "two" / "run")
    several = [answer_again(job) for job in jobs_in(tmp_path / "two", 2)]
    assert json.dumps(several) == json.dumps(alone)
    before = len(passes_of(tmp_path / "two" / "run"))
    assert [answer_again(job) for job in jobs_in(tmp_path / "two", 2)] == alone
    assert not sum(one["leaves"] for one in passes_of(tmp_path / "two" / "run")[before:])


@pytest.mark.proof
def test_leaves_of_training_rows_are_not_those_of_other_test_rows(folder: Path, tmp_path: Path) -> None:
    """What is looked for in one dataset comes from the other, which changes between two runs."""
    shutil.copytree(folder, tmp_path / "other")
    remove_leaves(tmp_path / "other" / "run")
    first = [answer_again(job) for job in jobs_in(tmp_path / "other", 2)[3:]]
    for name, seed in (("a", 7), ("c", 8)):
        table = pq.read_table(tmp_path / "other" / "test" / f"{name}.parquet")
        pq.write_table(rows(len(table), seed), tmp_path / "other" / "test" / f"{name}.parquet")
    resumed = [answer_again(job) for job in jobs_in(tmp_path / "other", 2)[3:]]
    fresh = [answer(job) for job in jobs_in(tmp_path / "other", 1)[3:]]
    assert json.dumps(resumed) == json.dumps(fresh) != json.dumps(first)


@pytest.mark.proof
def test_states_rest_on_the_rows_that_the_run_has_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files may be others by the time of the pass: a dataset that is kept is scanned as it was read."""
    job = jobs_in(folder, 2)[1]
    one, other = (replace(job, parts=replace(job.parts, digests={"test": digest})) for digest in ("first", "second"))
    first = answer(one)
    assert answer_again(other) == first
    assert [(told["leaves"], told["kept"]) for told in passes_of(folder / "run")] == [(6, 0), (6, 0)]
    monkeypatch.setattr(local, "Child", lambda *_, **__: pytest.fail("a child"))
    assert answer_again(one) == first


@pytest.mark.proof
def test_leaves_that_are_removed_while_a_child_writes_them_are_scanned(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, keep = jobs_in(folder, 2)[1], LeafPieces.keep
    first = answer(job)

    def removing(self: LeafPieces, one: PieceOutcome) -> None:
        keep(self, one)
        shutil.rmtree(folder / "run" / "leaves", ignore_errors=True)

    monkeypatch.setattr(LeafPieces, "keep", removing)
    assert answer(job) == first


@pytest.mark.processes
@pytest.mark.proof
def test_states_that_can_not_be_read_back_are_made_once_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is moved away while several children are at work: all of them write on to where it was."""
    job, outcome = jobs_in(folder, 2)[1], local.LocalLeaves.outcome
    first, moved = answer(job), folder / "moved"

    def moving(self: local.LocalLeaves, number: int, told: Any) -> PieceOutcome:
        if not moved.exists():
            time.sleep(1.0)
            (folder / "run" / "leaves").rename(moved)
        return outcome(self, number, told)

    monkeypatch.setattr(local.LocalLeaves, "outcome", moving)
    assert answer(job) == first and moved.exists()
    (told,) = passes_of(folder / "run")
    assert told["leaves"] == 6 and 1 <= told["again"] <= 2
    shutil.rmtree(moved)


@pytest.mark.proof
def test_whichever_check_leads_the_pass_the_states_are_the_same(folder: Path) -> None:
    """A pass that shift leads sees to the rows of integrity as well; a resumed run may begin with integrity."""
    shift, integrity = jobs_in(folder, 2)[:2]
    remove_leaves(folder / "run")
    scans = Scans()
    ahead = ((integrity.check, integrity.seed),)
    scans.expect(shift.check.name, ahead)
    shift.evidence.mkdir(parents=True, exist_ok=True)
    checking.answer(shift, lambda *_: None, scans)
    before = passes_of(folder / "run")
    # As a child unpickles its job: names that were one object are several.
    answer_again(pickle.loads(pickle.dumps(integrity)))
    after = passes_of(folder / "run")[len(before) :]
    assert [(one["leaves"], one["kept"]) for one in after] == [(0, 6)]


@pytest.mark.proof
def test_files_cut_otherwise_give_the_same_record(folder: Path, tmp_path: Path) -> None:
    for name in ("test", "traffic.parquet"):
        table = pq.read_table(folder / name)
        pq.write_table(table, tmp_path / f"{Path(name).stem}.parquet", row_group_size=777)
    (tmp_path / "evalspec.yaml").write_text(SPEC.replace("path: test,", "path: test.parquet,"))
    for other, one in zip(jobs_in(tmp_path, 2)[:2], jobs_in(folder, 1)[:2], strict=True):
        assert answer(other) == answer(one)


def killed(patch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Kill the child of the second leaf, so often."""
    tell, dead = Child.tell, list[int]()

    def telling(self: Child, question: Any) -> None:
        tell(self, question)
        if question.get("start") == LEAF and len(dead) < times:
            time.sleep(0.2)
            family = psutil.Process(self.pid).children(recursive=True)
            dead.append(self.pid)
            for one in (*family, psutil.Process(self.pid))[: 1 if len(dead) % 2 else None]:
                one.send_signal(signal.SIGKILL)

    patch.setattr(Child, "tell", telling)
    return dead


@pytest.mark.processes
@pytest.mark.proof
def test_a_leaf_whose_child_is_killed_is_looked_at_once_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = answer(jobs_in(folder, 1)[0])
    with pytest.MonkeyPatch.context() as patch:
        dead = killed(patch, 1)
        assert answer(jobs_in(folder, 2)[0]) == alone and len(dead) == 1
        log = (folder / "run" / "logs" / "leaves-shift-lost.log").read_text()
        assert log.startswith("leaf 2 of test is scanned once more: leaf was killed by SIGKILL")
    with pytest.MonkeyPatch.context() as patch:
        dead = killed(patch, 2)
        with pytest.raises(WorkerError, match=r"leaf 2 of test was lost twice: .* was killed by SIGKILL"):
            answer(jobs_in(folder, 2)[0])
        assert len(dead) == 2
    assert not alive_below()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(time_s=0.001), r"did not answer within 0\.001 s and was killed"),
        (Limits(memory_bytes=1), r"used .* of resident memory, .*, and was killed; raise --memory-limit if .*"),
    ],
)
def test_a_child_that_takes_too_much_is_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limits: Limits, why: str
) -> None:
    """No child is there at once, so the first look at it finds it over its limit."""
    monkeypatch.setattr(local, "WAIT_S", 0.0)
    with pytest.raises(WorkerError, match=rf"leaf 1 of test was lost twice: leaf {why}"):
        answer(replace(jobs_in(folder, 2)[0], limits=limits))
    assert not alive_below()


@pytest.mark.processes
@pytest.mark.proof
def test_children_that_are_killed_at_any_moment_change_nothing(folder: Path) -> None:
    """Eight times, and on until three were at work: at times the one that is killed is idle, or not there yet."""
    alone, chance, hits = answer(jobs_in(folder, 1)[0]), random.Random(5), 0
    log = folder / "run" / "logs" / "leaves-shift-lost.log"
    for number in range(20):
        if number >= 8 and hits >= 3:
            break
        log.unlink(missing_ok=True)

        def kill() -> None:
            below = alive_below()
            if below:
                with contextlib.suppress(psutil.Error):
                    chance.choice(below).send_signal(signal.SIGKILL)

        timer = threading.Timer(chance.uniform(0.2, 3.0), kill)
        timer.start()
        try:
            assert answer(jobs_in(folder, 2)[0]) == alone
        finally:
            timer.cancel()
            timer.join()
        hits += log.exists()
    assert hits >= 3 and not alive_below()


@pytest.mark.processes
@pytest.mark.proof
def test_of_several_errors_the_first_leafs_is_told(folder: Path, tmp_path: Path) -> None:
    """As one process tells it: a label that is missing in two leaves, and another type of error in a third."""
    table = rows(ROWS, 3)
    missing = np.isin(np.arange(ROWS), [2_567, 2_569, 4_000])
    table = table.set_column(5, "y", pa.array(table["y"].to_pylist(), mask=missing))
    (tmp_path / "test").mkdir()
    pq.write_table(table, tmp_path / "test" / "a.parquet", row_group_size=1_000)
    pq.write_table(table, tmp_path / "traffic.parquet")
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    said = set()
    for children in (1, 2, 3):
        with pytest.raises(InputError) as told:
            answer(jobs_in(tmp_path, children)[0])
        said.add(str(told.value))
    (one,) = said
    assert "label column 'y' is missing (null or NaN) in row 2,567" in one
    assert not alive_below()


def test_what_can_not_be_cut_starts_no_child(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(local, "Child", lambda *_, **__: started.append("child") or pytest.fail("a child"))
    job = jobs_in(folder, 2)[0]
    filtered = {name: one.model_copy(update={"where": "x < 9"}) for name, one in job.parts.datasets.items()}
    answer(replace(job, parts=replace(job.parts, datasets=filtered)))
    monkeypatch.setattr(language_scans, "LEAF_ROWS", ROWS)
    answer(job)
    assert not started


def test_any_rows_by_their_numbers(folder: Path) -> None:
    dataset, access = Parquet(path="test"), Access(folder)
    whole = pa.Table.from_batches(dataset.batches(access))
    between = dataset.between(access)
    assert whole.schema.field("listed").type == pa.list_(pa.float64(), 3)
    cuts = [(0, 1), (0, ROWS), (2_320, 2_323), (969, 971), (ROWS - 1, ROWS), (2_322, 2_322), (1_000, 5_000)]
    for start, stop in cuts:
        found = pa.Table.from_batches(between(start, stop), whole.schema)
        assert (
            found.equals(whole.slice(start, stop - start).combine_chunks())
            or found.to_pylist() == whole.slice(start, stop - start).to_pylist()
        )


def test_kept_rows_are_cut_whatever_the_format(folder: Path, tmp_path: Path) -> None:
    table = pq.read_table(folder / "traffic.parquet").drop_columns(["listed"])
    with pa.OSFile(str(tmp_path / "kept"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    parts = jobs_in(folder, 2)[0].parts
    tables = Tables(replace(parts, kept={"traffic": tmp_path / "kept"}))
    assert tables.countable("traffic") == table.num_rows
    assert pa.Table.from_batches(tables.between("traffic", ["x"])(990, 1_010)).equals(
        table.select(["x"]).slice(990, 20).combine_chunks()
    )
    assert Tables(replace(parts, rows=64)).countable("traffic") is None


@pytest.mark.parametrize("seed", range(5))
def test_leaves_may_be_done_in_any_order_and_twice(seed: int) -> None:
    """What is merged hangs on the number of the leaf alone."""
    values = np.random.default_rng(1).normal(0, 1, 9_000)
    states, tree = list[bytes](), Tree()
    for start in range(0, 9_000, 1_000):
        leaf, again = OneColumn(), OneColumn()
        for one in (leaf, again):
            one.update(pa.RecordBatch.from_arrays([pa.array(values[start : start + 1_000])], ["x"]), start)
        states.append(bytes(as_bytes(leaf.state())))
        tree.add(again)
    order = [*range(9), *random.Random(seed).sample(range(9), 5)]
    random.Random(seed).shuffle(order)
    passing = LeafStates([OneColumn])
    for leaf in order:
        passing.add(leaf, [states[leaf]])
    (merged,), whole = passing.ends(), tree.end()
    assert merged is not None and whole is not None and passing.merged == 9
    assert bytes(as_bytes(merged.state())) == bytes(as_bytes(whole.state()))


@pytest.mark.processes
@pytest.mark.proof
def test_the_digest_of_leaves_is_that_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four portions and a half, in leaves of two; rows that a run kept before are not taken for those of the file."""
    monkeypatch.setattr(language_scans, "LEAF_ROWS", 2 * 65_536)
    monkeypatch.setattr(equal_rows, "MOST_ROWS", 100_000)
    n = 295_000
    table = pa.table({"id": np.arange(n), "site": pa.array(["a", None, "c"] * (n // 3) + ["b"])})
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=70_001)
    parts = SpecParts({}, {"d": Parquet(path="d.parquet", key="id")}, {}, Access(tmp_path))
    for kept in ({}, {"d": tmp_path / "gone"}):
        handle = reader.start(replace(parts, kept=kept))
        question = {
            "do": "dataset", "name": "d", "engine": ["local", 2, ""], "folder": str(tmp_path), "limits": [60.0, None],
            "environment": {}, "keeps": False,
        }  # fmt: skip
        told = handle(question, lambda *_: None)
        assert told["record"] == reader.dataset_record("d", parts).model_dump(mode="json") and told["kept"] is False
    with monkeypatch.context() as patch, pytest.raises(WorkerError, match=r"lost twice: leaf used .* MiB"):
        patch.setattr(local, "WAIT_S", 0.0)
        handle(question | {"limits": [60.0, 1]}, lambda *_: None)
    monkeypatch.setattr(equal_rows, "MOST_ROWS", n)
    # Few enough that copies are looked for.
    assert reader._by_leaves("d", parts, question, lambda *_: None) is None
    assert not alive_below()


def test_no_leaf_is_begun_far_ahead_or_after_an_error() -> None:
    states, work = LeafStates([]), LeafWork(EngineChoice(children=2))
    engine, journal = LocalEngine(lambda place: pytest.fail("a child"), 2, {}), LeafJournal(work.folder, None, ())
    leaves = LeafPieces("test", Cut(90, 10), states, journal, {}, engine, work, lambda *_: None)
    assert [leaves.next() for _ in range(6)] == [0, 1, 2, 3, None, None]
    states.add(1, [])
    assert leaves.next() is None
    states.add(0, [])
    leaves.errors[5] = InputError("no")
    assert [leaves.next() for _ in range(3)] == [4, None, None]


class Whole(LocalEngine):
    """Pieces are as good as made when they are submitted; notes what happens in which order."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__(lambda place: pytest.fail("a child"), 2, {})
        self.events: list[str] = []
        self._ready: list[int] = []
        self._fails_at = fails_at

    def submit(self, number: int, start: int, stop: int) -> None:
        if number == self._fails_at:
            raise EngineError("it is gone")
        self.events.append(f"submit {number}")
        self._ready.append(number)

    def finished(self) -> list[PieceOutcome]:
        ended, self._ready = self._ready, []
        # Twice: one that was given up as lost may still answer.
        return [PieceOutcome(number, 10, [b""]) for number in ended for _ in range(2)]


def see_to_all(engine: Whole, told: list[float], tmp_path: Path) -> None:
    class Noting(LeafPieces):
        def keep(self, one: PieceOutcome) -> None:
            engine.events.append(f"keep {one.number}")
            super().keep(one)

    journal, states = LeafJournal(tmp_path, ["basis"], [b"x" * 32]), LeafStates([])
    states.add = lambda leaf, blocks: setattr(states, "merged", states.merged + 1)  # type: ignore[method-assign]
    work = LeafWork(EngineChoice(children=2), tmp_path)
    leaves = Noting("test", Cut(60, 10), states, journal, {}, engine, work, lambda done, *_: told.append(done))
    with contextlib.closing(journal):
        leaves.run()


def test_what_waits_is_handed_out_before_what_came_is_kept(tmp_path: Path) -> None:
    engine, told = Whole(), list[float]()
    see_to_all(engine, told, tmp_path)
    kept = [one for one in engine.events if one.startswith("keep")]
    assert engine.events.index("submit 2") < engine.events.index("keep 0")
    assert kept == [f"keep {leaf}" for leaf in range(6)] and told[-1] == 6.0


def test_what_came_is_kept_where_nothing_more_can_be_handed_out(tmp_path: Path) -> None:
    engine = Whole(fails_at=4)
    with pytest.raises(EngineError, match="4 of 6 leaves of test are kept"):
        see_to_all(engine, [], tmp_path)
    with contextlib.closing(LeafJournal(tmp_path, ["basis"], [b"x" * 32])) as journal:
        assert [journal.get(leaf, 10) for leaf in range(6)] == [[b""]] * 4 + [None] * 2


def test_a_child_hands_over_what_it_can_not_write(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first leaf is written; then the disk is full."""
    files = StateFiles(tmp_path / "leaves", "basis", (b"x" * 32,))
    scans = {"x": language_scans.Scan("test", "x", ("x",), OneColumn)}
    parts = jobs_in(folder, 2)[0].parts
    packed = base64.b64encode(pickle.dumps(("test", scans, files, {}))).decode()
    handle = leaf.start(parts)
    kept = handle({"scans": packed, "number": 0, "start": 0, "stop": 500}, lambda *_: None)
    places = [[StatePlace(**place)] for place in kept["places"]]
    (state,) = files.states(0, 500, places) or [b""]
    stale = {str(folder / "traffic.parquet"): (1, 2, "of before")}
    packed = base64.b64encode(pickle.dumps(("test", scans, files, stale))).decode()
    handed = handle({"scans": packed, "number": 0, "start": 0, "stop": 500}, lambda *_: None)
    assert [bytes(block) for block in handed["blocks"]] == [state], "read of other files than were planned"
    packed = base64.b64encode(pickle.dumps(("test", scans, files, {}))).decode()
    handle({"scans": packed, "number": 0, "start": 0, "stop": 500}, lambda *_: None)

    def full(self: StateFile, *_: object) -> None:
        self.close()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(StateFile, "add", full)
    for _ in range(2):
        handed = handle({"number": 0, "start": 0, "stop": 500}, lambda *_: None)
        assert [bytes(block) for block in handed["blocks"]] == [state] and handed["rows"] == kept["rows"] == 500


def family(pid: int) -> Iterator[psutil.Process]:
    yield from psutil.Process(pid).children(recursive=True)


def wait_for(what: str, pid: int, seconds: float = 60.0) -> list[psutil.Process]:
    """Processes below one whose role is this, once there are any."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = [one for one in family(pid) if what in " ".join(logs_of(one))]
        if len(found) >= 2:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {what} in {seconds} s")


def logs_of(process: psutil.Process) -> Sequence[str]:
    """Files that a process writes to."""
    try:
        return [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in (1, 2)]
    except OSError:
        return []


def write_large(folder: Path) -> None:
    """Two datasets that children are at for some seconds."""
    rng = np.random.default_rng(0)
    for name in ("test", "traffic"):
        table = pa.table({f"x{i}": rng.normal(0, 1, 3_000_000) for i in range(12)})
        pq.write_table(table, folder / f"{name}.parquet", use_dictionary=False, compression="none")


@pytest.mark.processes
@pytest.mark.proof
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at /proc")
@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_child(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, kill: signal.Signals
) -> None:
    large = shared_folder(tmp_path_factory, "leaves-large", write_large)
    for name in ("test", "traffic"):
        os.link(large / f"{name}.parquet", tmp_path / f"{name}.parquet")
    (tmp_path / "evalspec.yaml").write_text(
        SPEC.replace("path: test,", "path: test.parquet,").replace(", label: y", "").partition("  - check: integ")[0]
    )
    command = [sys.executable, "-m", "evalspec", "run", "evalspec.yaml", "--engine", "local:2", "--output", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        children = wait_for("leaves-shift", run.pid)
        below = [*family(run.pid)]
        run.send_signal(kill)
        code = run.wait(60)
    assert code == (130 if kill == signal.SIGINT else -signal.SIGKILL)
    gone, left = psutil.wait_procs([*children, *below], 20)
    assert not left and gone

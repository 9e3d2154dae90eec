"""Modules of checks that are imported ahead: those that a check imports itself, and a fault of theirs spoils no run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from evalspec.checks.data.integrity.spec import Integrity
from evalspec.checks.system.throughput.spec import Throughput
from evalspec.errors import WorkerError
from evalspec.language.inputs import Inputs
from evalspec.language.parts import Access, Check, CheckResult
from evalspec.running.children import sharing
from evalspec.running.children.jobs import CheckJob, SpecParts
from evalspec.running.children.process import Child, Limits
from evalspec.running.children.sharing import Heir, SharedChild, packed_job, taken_over
from evalspec.running.children.workers import StartedAhead
from evalspec.running.subjects import Children
from evalspec.runtimes.python import Python


class InOneFile(Check):
    """A check of a plugin with a single file, which has no module ``measure`` beside it."""

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    check: Literal["in_one_file"] = "in_one_file"

    def run(self, inputs: Inputs) -> CheckResult:
        raise NotImplementedError


@pytest.fixture
def children(tmp_path: Path) -> Children:
    return Children(Access(tmp_path), Limits(time_s=60), 1, tmp_path)


def begun(children: Children, monkeypatch: pytest.MonkeyPatch, *checks: Check) -> list[dict[str, Any]]:
    """Questions of a shared child that begins with these checks."""
    told: list[dict[str, Any]] = []

    @contextmanager
    def start(*_: object) -> Iterator[Any]:
        yield type("Noting", (), {"tell": lambda _, question: told.append(question), "alive": True, "pid": 1})()

    monkeypatch.setattr(children, "start", start)
    SharedChild(children).begin(checks)
    return told


def test_a_check_in_a_single_file_has_no_module_to_import(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    integrity = Integrity.model_validate({"dataset": "test"})
    assert begun(children, monkeypatch, InOneFile()) == []
    (question,) = begun(children, monkeypatch, InOneFile(), integrity)
    assert question["imports"] == ("evalspec.checks.data.integrity.measure",)
    # Whoever does not know hides nothing from code that may run there.
    assert question["foreign"] is True


def test_a_module_that_fails_while_it_is_imported_ahead_leaves_a_fresh_child(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Integrity):
        room_path: ClassVar[Callable[[str], str]] = staticmethod(lambda _: ".measure")  # type: ignore[assignment]

    shared = SharedChild(children)
    try:
        shared.begin([Broken.model_validate({"dataset": "test"})])
        first = shared._child
        assert first is not None
        with pytest.raises(WorkerError, match="relative import"):
            first.answer()
        shared.close()
        shared.begin([Broken.model_validate({"dataset": "test"})])
        assert shared._ready().alive
    finally:
        shared.close()


class Asleep(Child):
    """A worker that waits to be asked."""

    def __init__(self, name: str, ended: list[str], *, alive: bool = True) -> None:
        self.name, self.ended, self._alive = name, ended, alive

    @property
    def alive(self) -> bool:
        return self._alive

    def close(self) -> None:
        self.ended.append(self.name)


def job(folder: Path, name: str = "throughput", **fields: Any) -> CheckJob:
    parts = SpecParts(
        {"m": Python.model_validate({"function": "m.py:f", "inputs": {"x": "x"}})}, {}, {}, Access(folder)
    )
    check = Throughput.model_validate({"id": name, "dataset": "test"})
    values = {"parts": parts, "check": check, "threads": 1, "limits": Limits(time_s=60), "environment": {"A": "1"}}
    known = {"predictions": {}, "model_facts": {}, "confidence": 0.95, "alpha_fail": 0.05, "seed": 1, "draft": False}
    return CheckJob(**{**values, **known, "evidence": folder, **fields})


@pytest.mark.parametrize(
    ("heir", "fields", "taken"),
    [
        (("throughput", "m"), {}, True),
        (("again", "m"), {}, False),
        (("throughput", "m"), {"threads": 2}, False),
        (("throughput", "m"), {"environment": {"A": "2"}}, False),
        (("throughput", "m"), {"limits": Limits(time_s=61)}, False),
        (("throughput", "m"), {"parts": SpecParts({}, {}, {}, Access(Path()))}, False),
    ],
    ids=["alike", "of another check", "threads", "environment", "limits", "another spec"],
)
def test_workers_are_left_to_the_check_that_would_start_them_alike(
    heir: Heir, fields: dict[str, Any], taken: bool, tmp_path: Path
) -> None:
    ended: list[str] = []
    left = {heir: (job(tmp_path, "latency"), [Asleep("a", ended), Asleep("b", ended)])}
    mine = taken_over(job(tmp_path, **fields), {}, left)
    assert left == {} and ended == ([] if taken else ["a", "b"])
    assert [one.take(2).name for one in mine.values()] == (["a"] if taken else [])  # type: ignore[attr-defined]


def test_where_one_of_them_has_ended_all_do(tmp_path: Path) -> None:
    """Which one it was may hang on how it was."""
    ended: list[str] = []
    workers: list[Child] = [Asleep("a", ended), Asleep("b", ended, alive=False)]
    assert taken_over(job(tmp_path), {}, {("throughput", "m"): (job(tmp_path, "latency"), workers)}) == {}
    assert ended == ["a", "b"]


def test_workers_that_were_started_for_another_check_are_ended(tmp_path: Path) -> None:
    ended: list[str] = []

    def ahead(name: str) -> StartedAhead:
        return StartedAhead(lambda: Asleep("x", ended), together=True, ready=[Asleep(name, ended)])

    loaded = {("throughput", "m"): ahead("a"), ("latency", "m"): ahead("b")}
    mine = taken_over(job(tmp_path), loaded, {})
    assert list(mine) == ["m"] and ended == ["b"] and loaded == {}
    mine["m"].close()
    assert ended == ["b", "a"]


def test_nobody_waits_any_more_while_screens_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A check that is left out asks for nothing, and the workers that were left to it would sleep on."""
    ended: list[str] = []

    def kept(self: StartedAhead) -> list[Child]:
        return [Asleep("a", ended)]

    monkeypatch.setattr(StartedAhead, "kept", kept)
    monkeypatch.setattr("evalspec.running.children.checking.answer", lambda *_: {"record": {}})
    monkeypatch.setattr("evalspec.running.children.screening.Screener.handle", lambda *_: {"screened": list(ended)})
    handle = sharing.start(None)
    asked = packed_job((job(tmp_path, "latency"), (), ("throughput", "m")))
    handle({"do": "run", "job": asked}, lambda *_: None)
    assert ended == []
    assert handle({"do": "screen"}, lambda *_: None) == {"screened": ["a"]}


def test_what_a_check_that_fails_has_kept_is_left_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended: list[str] = []
    monkeypatch.setattr(StartedAhead, "kept", lambda _: [Asleep("a", ended)])

    def fail(*_: object) -> None:
        raise WorkerError("it ended")

    monkeypatch.setattr("evalspec.running.children.checking.answer", fail)
    handle = sharing.start(None)
    with pytest.raises(WorkerError):
        handle({"do": "run", "job": packed_job((job(tmp_path, "latency"), (), ("throughput", "m")))}, lambda *_: None)
    # Another check than the heir comes next.
    with pytest.raises(WorkerError):
        handle({"do": "run", "job": packed_job((job(tmp_path, "again"), (), None))}, lambda *_: None)
    assert ended == ["a"]

"""Modules of checks that are imported ahead: those that a check imports itself, and a fault of theirs spoils no run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from evalspec.checks.data.integrity.spec import Integrity
from evalspec.errors import WorkerError
from evalspec.language.inputs import Inputs
from evalspec.language.parts import Access, Check, CheckResult
from evalspec.running.children.process import Limits
from evalspec.running.children.sharing import SharedChild
from evalspec.running.subjects import Children


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

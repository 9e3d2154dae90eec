"""An interrupt that code which is not ours has swallowed comes again; one that is held or was taken does not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalspec import interrupts
from evalspec.interrupts import Interrupts
from evalspec.running import runner
from evalspec.running.children.process import Child, Limits
from tests.running.small import Steps, answers, go, write


def swallowed() -> None:
    """As a finalizer or a library with `except BaseException` does."""
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1.0)


def test_a_swallowed_interrupt_is_raised_again_but_not_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "LOST_S", 0.1)
    with Interrupts() as signals:
        signals.raise_lost()
        swallowed()
        signals.raise_lost()
        time.sleep(0.15)
        with pytest.raises(KeyboardInterrupt):
            signals.raise_lost()
        signals.raise_lost()
        time.sleep(0.15)
        with signals.deferred():
            signals.raise_lost()
        signals.hold()
        signals.raise_lost()
    assert signals.count == 1


def test_it_ends_the_wait_for_a_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(interrupts, "LOST_S", 0.1)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "slow_role.py").write_text(
        "import time\n\ndef start(job):\n    return lambda question, progress: time.sleep(60)\n"
    )
    with (
        Interrupts() as signals,
        Child("slow_role", {}, limits=Limits(), log=tmp_path / "log", on_wait=signals.raise_lost) as child,
    ):
        swallowed()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            child.ask({})
        assert time.monotonic() - begun < 30
        child.kill()


CANDIDATE = f"""
  candidate:
    kind: predictions
    files: {{test: said.parquet}}
    outputs: {{label: said}}
    classes: [a, b]
    artifact: sha256:{"1" * 64}
"""


def made_something_else_of_it() -> None:
    """As a library does whose inner parts are not Python."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1.0)
    except KeyboardInterrupt as error:
        raise ValueError("something happened inside") from error


def broke() -> None:
    raise ValueError("a fault of ours")


def small(folder: Path) -> Path:
    answers(folder / "said.parquet", right=True)
    return write(folder, CANDIDATE)


def test_a_run_keeps_what_was_measured_where_a_library_makes_another_error_of_an_interrupt(tmp_path: Path) -> None:
    record, steps = go(small(tmp_path), tmp_path / "run", steps=Steps("model: two", made_something_else_of_it))
    assert record.interrupted and [one.status for one in record.checks] == ["measured", "not_run"]
    assert steps.said[-1] == "interrupted: what was measured is kept"
    assert (tmp_path / "run" / "record.json").exists()


def test_a_fault_without_an_interrupt_stays_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a fault of ours"):
        go(small(tmp_path), tmp_path / "run", steps=Steps("model: two", broke))


@pytest.mark.parametrize("do", [None, made_something_else_of_it], ids=["an interrupt", "another error"])
def test_files_are_looked_at_again_where_screens_are_interrupted(
    do: Callable[[], None] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []
    before = runner._Run._void_changed

    def noting(self: runner._Run, *given: Any) -> bool:
        looked.append(self)
        return before(self, *given)

    monkeypatch.setattr(runner._Run, "_void_changed", noting)
    steps = Steps("screens: what no requirement asks about", do)
    record, _ = go(small(tmp_path), tmp_path / "run", steps=steps)
    assert record.interrupted and len(looked) == 1
    assert [one.status for one in record.checks] == ["measured", "measured"]

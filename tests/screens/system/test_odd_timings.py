"""Odd timings: no query, one row, readings that are constant, missing or jump once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evalspec.evidence.screens import Suspicion
from evalspec.language.inputs import Samples
from evalspec.language.timings import Telemetry
from evalspec.screens.level import look
from tests.screens.runs import evidence, planned, sound

TIMED = ("system/cold_path", "system/memory_growth", "system/input_length")


def suspicions(folder: Path, change: Callable[[int, Samples], Samples]) -> list[Suspicion]:
    seen = evidence(planned(folder), sound(np.random.default_rng(3)))
    seen.timed = [change(place, one) for place, one in enumerate(seen.timed)]
    return [one for name in TIMED for one in look(name, seen.for_screen(name)).suspicions]


def first(one: Samples, count: int) -> Samples:
    """The first queries only."""
    assert one.answers is not None
    return replace(one, block=one.block[:count], intended_ns=one.intended_ns[:count], sent_ns=one.sent_ns[:count],
                   end_ns=one.end_ns[:count], items=one.items[:count], ok=one.ok[:count],
                   answers=one.answers[:count])  # fmt: skip


def sized(one: Samples, *mib: float) -> Samples:
    """These readings of its memory."""
    times = np.linspace(0, one.end_ns[-1], len(mib)).astype(np.int64)
    return replace(one, telemetry=Telemetry(times, {"resident_mib": np.array(mib)}))


ODD: dict[str, Callable[[int, Samples], Samples]] = {
    "no queries": lambda _, one: first(one, 0),
    "one query": lambda _, one: first(one, 1),
    "a process without queries": lambda place, one: first(one, 0) if place else one,
    "all queries failed": lambda _, one: replace(one, ok=np.zeros(len(one.ok), np.bool_)),
    "no telemetry": lambda _, one: replace(one, telemetry=None),
    "no readings": lambda _, one: sized(one),
    "constant memory": lambda _, one: sized(one, *[200.0] * 8),
    "memory that was never read": lambda _, one: sized(one, *[float("nan")] * 8),
    "memory that jumps once": lambda _, one: sized(one, *[100.0] * 4, *[300.0] * 4),
    "first queries without a number": lambda _, one: replace(one, details={"warmup_first_ms": float("nan")}),
    "rows that the dataset hasn't": lambda _, one: replace(one, items=one.items + 10**6),
}


@pytest.mark.parametrize("story", list(ODD))
def test_odd_timings_show_nothing_and_break_nothing(story: str, tmp_path: Path) -> None:
    assert suspicions(tmp_path, ODD[story]) == []


def test_processes_without_queries_hide_no_growth(tmp_path: Path) -> None:
    def change(place: int, one: Samples) -> Samples:
        return sized(one, *100.0 + 30.0 * np.arange(8)) if place < 2 else first(one, 0)

    (one,) = suspicions(tmp_path, change)
    assert "grows by 210 MiB" in one.sentence


def test_a_first_query_without_a_number_hides_no_cold_path(tmp_path: Path) -> None:
    def change(place: int, one: Samples) -> Samples:
        return replace(one, details={"warmup_first_ms": 5_000.0 if place else float("nan"), "in_process": True})

    (one,) = suspicions(tmp_path, change)
    assert "takes 5 s" in one.sentence

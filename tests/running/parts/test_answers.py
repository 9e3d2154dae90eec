"""Parts that somebody answers: each once, the first one that can't be answered is told, whoever dies meanwhile."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalspec.answers.parts import part_path
from evalspec.errors import EngineError, EvalspecError, InputError, WorkerError
from evalspec.running.engines.engine import PieceOutcome
from evalspec.running.engines.pieces import Cut
from evalspec.running.parts.answers import PartAnswers, listed, observed_in
from evalspec.running.parts.kept import KeptParts

CUT = Cut(rows=950, size=100)
OBSERVED = {"framework": "torch 2", "threads": 1}


class FakeEngine:
    """Answers in any order.

    Args:
        end: Number, and how often it was begun -> its end; None: it is answered.
        slots: Parts at once.
        seed: Of the order.
    """

    def __init__(self, end: Callable[[int, int], PieceOutcome | None], slots: int = 3, seed: int = 0) -> None:
        self.slots, self.gone = slots, ["N1"]
        self._end, self._rng = end, random.Random(seed)
        self._flying: dict[int, tuple[int, int]] = {}
        self.begun: list[int] = []

    def submit(self, number: int, start: int, stop: int) -> None:
        assert number not in self._flying and len(self._flying) < self.slots
        self._flying[number] = start, stop
        self.begun.append(number)

    def finished(self) -> Sequence[PieceOutcome]:
        number = self._rng.choice(list(self._flying))
        start, stop = self._flying.pop(number)
        end = self._end(number, self.begun.count(number))
        # It says it twice: as an engine that had given up a node too early may.
        return [end or answered(number, stop - start)] * 2

    def close(self) -> None: ...


def answered(number: int, rows: int, **other: Any) -> PieceOutcome:
    told: dict[str, Any] = {
        "rows": rows, "told": {"version": 1, "classes": ["a", "b"]}, "facts": {"batch": 10, "padded_rows": number},
        "cpu": "A", "observed": OBSERVED, "read": {},
    }  # fmt: skip
    told |= other
    return PieceOutcome(number, told["rows"], [f"part {number}".encode()], told)


def answer(folder: Path, engine: FakeEngine, said: list[str] | None = None) -> KeptParts:
    kept = KeptParts(folder, folder / "predictions-m-d.parquet", "key")
    lines = [] if said is None else said
    with contextlib.closing(kept):
        PartAnswers("answers of m on d", CUT, kept, engine, OBSERVED, lambda done, of, line: lines.append(line)).run()
    return kept


@pytest.mark.parametrize("seed", range(3))
def test_each_is_answered_once_in_any_order(tmp_path: Path, seed: int) -> None:
    engine = FakeEngine(lambda number, times: None, seed=seed)
    kept = answer(tmp_path, engine)
    assert sorted(engine.begun) == [*range(10)]
    parts = listed(CUT, kept.parts)
    assert [(one["first_row"], one["rows"]) for one in parts[-2:]] == [(800, 100), (900, 50)]
    assert observed_in([kept.parts[number] for number in range(10)]) == {
        **OBSERVED, "batch": 10, "padded_rows": 45, "parts": 10, "answered_on": "A (10 parts)",
    }  # fmt: skip
    again = FakeEngine(lambda number, times: None)
    assert listed(CUT, answer(tmp_path, again).parts) == parts and again.begun == []


def test_kinds_of_processors_that_were_mixed_are_told(tmp_path: Path) -> None:
    kept = answer(tmp_path, FakeEngine(lambda number, times: answered(3, 100, cpu="B") if number == 3 else None))
    told = observed_in([kept.parts[number] for number in range(10)])
    assert told["answered_on"] == "A (9 parts), B (1 part)"
    assert told["answered_on_several"] == "2 kinds of CPU, whose last bits may differ"
    assert [one["cpu"] for one in listed(CUT, kept.parts)] == ["A"] * 3 + ["B"] + ["A"] * 6


def test_one_that_is_lost_is_answered_once_more(tmp_path: Path) -> None:
    said: list[str] = []
    engine = FakeEngine(lambda number, times: PieceOutcome(number, lost="it died") if times == 1 else None)
    answer(tmp_path, engine, said)
    assert sorted(engine.begun) == sorted([*range(10)] * 2)
    assert "again: node N1 lost" in said[-1]
    lost = FakeEngine(lambda number, times: PieceOutcome(number, lost="it died") if number == 2 else None)
    with pytest.raises(WorkerError, match="no answers of m on d for rows 200 to 299: they were lost twice: it died"):
        answer(tmp_path / "other", lost)


@pytest.mark.parametrize("seed", range(5))
def test_of_several_that_cant_be_answered_the_first_is_told(tmp_path: Path, seed: int) -> None:
    """Those before it are waited for, those after it are not begun; what was answered is kept."""

    def end(number: int, times: int) -> PieceOutcome | None:
        return PieceOutcome(number, error=InputError(f"no {number}")) if number in (4, 6) else None

    engine = FakeEngine(end, slots=10, seed=seed)
    with pytest.raises(InputError, match="no answers of m on d for rows 400 to 499: no 4"):
        answer(tmp_path, engine)
    alone = FakeEngine(end, slots=1, seed=seed)
    with pytest.raises(InputError, match="no 4"):
        answer(tmp_path / "alone", alone)
    assert alone.begun == [0, 1, 2, 3, 4]
    assert len(list((tmp_path / "alone").rglob("part-*.parquet"))) == 4


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"rows": 99}, "99 answers to rows 0 to 99 of the answers of m on d; the files changed meanwhile"),
        (
            {"observed": {**OBSERVED, "framework": "torch 1"}},
            "the model ran with framework torch 1, and here with torch 2; install the same on every node",
        ),
        ({"told": {"version": 1, "classes": ["b", "a"]}}, "their classes are not those of other rows"),
    ],
)
def test_answers_that_dont_go_with_the_others_are_refused(tmp_path: Path, other: dict[str, Any], why: str) -> None:
    first = 1 if "told" in other else 0

    def end(number: int, times: int) -> PieceOutcome | None:
        return answered(number, **{"rows": 100, **other}) if number == first else None

    with pytest.raises(EvalspecError, match=why):
        answer(tmp_path, FakeEngine(end, slots=1))
    assert not part_path(tmp_path / "predictions-m-d.parquet", first).exists()


def test_an_engine_that_is_gone_says_what_is_kept(tmp_path: Path) -> None:
    def end(number: int, times: int) -> PieceOutcome | None:
        if number == 3:
            raise EngineError("ray at HOST is gone")
        return None

    with pytest.raises(EngineError) as error:
        answer(tmp_path, FakeEngine(end, slots=1))
    assert str(error.value) == (
        "ray at HOST is gone; 3 of 10 parts of the answers of m on d are kept: start the cluster again, then pass "
        "--resume to go on"
    )
    engine = FakeEngine(lambda number, times: None)
    answer(tmp_path, engine)
    assert sorted(engine.begun) == [3, 4, 5, 6, 7, 8, 9]


def test_what_is_kept_is_what_its_line_says(tmp_path: Path) -> None:
    answers = tmp_path / "predictions-m-d.parquet"
    answer(tmp_path, FakeEngine(lambda number, times: None))
    part_path(answers, 2).write_bytes(b"other bytes")
    part_path(answers, 3).unlink()
    part_path(answers, 4).with_suffix(".parquet.partial").write_bytes(b"half of it")
    (journal,) = (tmp_path / "leaves").iterdir()
    lines = journal.read_bytes().splitlines()
    torn = next(index for index, line in enumerate(lines) if b'"number": 5' in line)
    journal.write_bytes(b"\n".join([*lines[:torn], *lines[torn + 1 :], lines[torn][:40]]))
    engine = FakeEngine(lambda number, times: None)
    answer(tmp_path, engine)
    assert sorted(engine.begun) == [2, 3, 5]
    assert sorted(path.name for path in part_path(answers, 0).parent.iterdir()) == [
        f"part-{number:05}.parquet" for number in range(10)
    ]
    # Of what rests on something else nothing is kept.
    with contextlib.closing(KeptParts(tmp_path, answers, "another key")) as other:
        assert other.parts == {} and list(part_path(answers, 0).parent.iterdir()) == []

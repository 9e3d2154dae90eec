"""Timed answers of every task are held against judged ones, and a server's at the start against those at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.answers.file import Answers, compared_numbers, write_answers
from evalspec.language.inputs import Samples
from evalspec.language.parts import CheckResult
from evalspec.language.predictions import Boxes, Task
from evalspec.measure.servable import item_order
from evalspec.running.guardrail import guarded
from evalspec.running.servers.fingerprint import different
from tests.running.test_samples import some

N = 700
CLASSES = ("a", "b", "c")


def of(**fields: Any) -> Answers:
    plain = dict.fromkeys(("probabilities", "predicted", "values", "lower", "upper"))
    return Answers(n=N, **{"classes": CLASSES, **plain, **fields})


def made(task: Task, seed: int, size: float = 1.0) -> Answers:
    """Answers of a task; those of another size differ by so much."""
    rng = np.random.default_rng(seed)
    if task == "text":
        texts = np.array([f"text {number}" for number in rng.integers(0, 1000, N)], dtype=object)
        return of(texts=texts if size == 1.0 else texts + "!", classes=None)
    if task == "labels":
        members = rng.random((N, 3)) < 0.5
        return of(members=members if size == 1.0 else ~members)
    if task == "boxes":
        row = np.sort(rng.integers(0, N, 3 * N))
        corners = np.sort(rng.random((len(row), 2, 2)), axis=1).reshape(-1, 4) * 100.0
        scores = rng.uniform(0.1, 1.0, len(row))
        return of(boxes=Boxes(row, size * corners, rng.integers(0, 3, len(row)), scores))
    masks = np.repeat(np.repeat(rng.integers(0, 3, (N, 6, 6)), 8, axis=1), 8, axis=2)
    masks[:, : round(20 * (size - 1.0))] = 0
    return of(masks=masks)


def timed(answers: Answers) -> Samples:
    rows = item_order(N, 5)[:, None]
    base = some("candidate", 0, N, 1)
    given = compared_numbers(answers)[rows]
    return replace(base, items=rows[:, 0], ok=np.ones(N, bool), answers=given, details={"order_seed": 5})


TASKS: tuple[Task, ...] = ("text", "labels", "boxes", "mask")


@pytest.mark.parametrize("task", TASKS)
def test_equal_answers_are_admissible_and_others_void_the_timing(tmp_path: Path, task: Task) -> None:
    write_answers(made(task, 1), tmp_path / "a.parquet")
    judged = {"candidate": tmp_path / "a.parquet"}
    same = guarded(CheckResult({}), [timed(made(task, 1))], judged, 0.95)
    assert same.invalid is None and "on all 700 rows that were compared" in same.notes[0]
    for other in (made(task, 2), made(task, 1, 1.2)):
        void = guarded(CheckResult({}), [timed(other)], judged, 0.95)
        assert void.invalid is not None and "rows differently from where quality is computed" in void.invalid


def test_rounding_of_boxes_is_no_other_answer(tmp_path: Path) -> None:
    write_answers(made("boxes", 1), tmp_path / "a.parquet")
    judged = {"candidate": tmp_path / "a.parquet"}
    assert guarded(CheckResult({}), [timed(made("boxes", 1, 1 + 1e-6))], judged, 0.95).invalid is None


@pytest.mark.parametrize("task", TASKS)
def test_a_server_that_answers_otherwise_at_the_end_is_noticed(task: Task) -> None:
    assert different(made(task, 1), made(task, 1)) == 0
    assert different(made(task, 1), made(task, 2)) > 0.4 * N
    assert different(made(task, 1), made(task, 1, 1.2)) > 0.4 * N
    assert different(made(task, 1), of(predicted=np.zeros(N, np.int64))) == N

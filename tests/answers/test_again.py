"""Rows that are asked twice: what counts as another answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evalspec.answers.again import otherwise, rows_again
from evalspec.answers.file import Answers
from evalspec.language.predictions import Boxes

N = 100
ROWS = np.arange(0, N, 10)
EMPTY = Answers(N, None, None, None, None, None, None)
RNG = np.random.default_rng(0)
BOXES = Boxes(np.arange(N), np.zeros((N, 4)), np.zeros(N, np.int64), np.ones(N))
SHARES = RNG.dirichlet([1.0, 1.0], N)
GIVEN = {
    "probabilities": (replace(EMPTY, probabilities=SHARES), replace(EMPTY, probabilities=SHARES[ROWS])),
    "classes": (replace(EMPTY, predicted=np.arange(N) % 3), replace(EMPTY, predicted=ROWS % 3)),
    "labels": (replace(EMPTY, members=SHARES > 0.5), replace(EMPTY, members=SHARES[ROWS] > 0.5)),
    "values": (replace(EMPTY, values=np.arange(N) / 10), replace(EMPTY, values=ROWS / 10)),
    "texts": (
        replace(EMPTY, texts=np.array([f"t{one}" for one in range(N)], object)),
        replace(EMPTY, texts=np.array([f"t{one}" for one in ROWS], object)),
    ),
    "masks": (
        replace(EMPTY, masks=np.zeros((N, 8, 8), np.int64)),
        replace(EMPTY, masks=np.zeros((10, 8, 8), np.int64)),
    ),
    "boxes": (replace(EMPTY, boxes=BOXES), replace(EMPTY, n=10, boxes=replace(BOXES, row=np.arange(10)))),
    "embeddings": (
        replace(EMPTY, embeddings=SHARES.astype(np.float32)),
        replace(EMPTY, embeddings=SHARES[ROWS].astype(np.float32)),
    ),
}


def moved(answers: Answers) -> Answers:
    """Another answer to the first two rows."""
    first = slice(0, 2)
    changes: dict[str, Any] = {}
    for name in ("probabilities", "embeddings"):
        if getattr(answers, name) is not None:
            changes[name] = getattr(answers, name).copy()
            changes[name][first] = changes[name][first, ::-1]
    if answers.members is not None:
        changes["members"] = answers.members ^ (np.arange(len(answers.members)) < 2)[:, None]
    for name, other in (("values", -9.0), ("masks", 1), ("texts", "?"), ("predicted", 7)):
        if getattr(answers, name) is not None:
            changes[name] = getattr(answers, name).copy()
            changes[name][first] = other
    if answers.boxes is not None:
        changes["boxes"] = replace(answers.boxes, row=np.sort(np.r_[np.arange(2, 10), 2, 3]))
    return replace(answers, **changes)


@pytest.mark.parametrize("kind", list(GIVEN))
def test_the_same_answers_are_the_same_and_others_are_counted(kind: str) -> None:
    first, second = GIVEN[kind]
    assert otherwise(first, ROWS, second) == 0
    # Two boxes went from two rows to two others.
    assert otherwise(first, ROWS, moved(second)) == (4 if kind == "boxes" else 2)


def test_noise_of_the_arithmetic_is_no_other_answer() -> None:
    first, second = GIVEN["probabilities"]
    assert second.probabilities is not None
    assert otherwise(first, ROWS, replace(second, probabilities=second.probabilities + 0.01)) == 0


@pytest.mark.parametrize(("rows", "again"), [(0, 0), (9, 0), (50, 5), (200, 20), (10_000, 64)])
def test_a_tenth_of_the_rows_are_asked_again(rows: int, again: int) -> None:
    chosen = rows_again(rows)
    assert len(chosen) == again
    assert len(np.unique(chosen)) == again

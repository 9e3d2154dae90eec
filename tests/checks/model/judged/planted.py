"""Planted defects of `judged`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.judged.spec import JudgedAnswers
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs, writer


def case(
    folder: Path, judge: np.ndarray, truth: np.ndarray, labels: int, sentence: str = "judged_pass >= 80 %"
) -> Case:
    """A judge's verdicts on all rows, people's on some drawn at random; shape (n,) each, or (n, 2) with seats."""
    rows = len(truth)
    drawn = np.random.default_rng(5).permutation(rows)[: min(labels, rows)]
    wins = judge.ndim == 2
    verdicts = {"first": judge[:, 0], "second": judge[:, 1]} if wins else {"good": judge}
    inputs = FakeInputs(
        evidence=folder,
        tables={
            "test": pa.table({"id": np.arange(rows)}),
            "judgements": pa.table({"id": np.arange(rows)[::-1]} | {name: one[::-1] for name, one in verdicts.items()}),
            "audited": pa.table({"id": drawn, "people": truth[drawn]}),
        },
        labels={"audited": "people"},
        answers={("test", "candidate"): writer([f"answer {row}" for row in range(rows)], None)},
    )
    columns = {"seats": ["first", "second"]} if wins else {"verdict": "good"}
    fields = {"dataset": "test", "key": "id", "judgements": "judgements", "human": "audited", "require": [sentence]}
    return inputs, JudgedAnswers.model_validate({"check": "judged"} | columns | fields)


def lenient(folder: Path, right: float, rows: int = 3000) -> Case:
    """A judge who passes 95 % of the answers, of which people pass a share."""
    draw = np.random.default_rng(1)
    truth = draw.random(rows) < right
    wanted = (0.95 - 0.99 * right) / (1.0 - right)
    judge = draw.random(rows) < np.where(truth, 0.99, max(0.0, wanted))
    return case(folder, judge, truth, 600)


def seated(folder: Path, better: float, rows: int = 3000) -> Case:
    """A judge who prefers the first seat, and longer answers; people say which is better."""
    draw = np.random.default_rng(3)
    truth = draw.choice([1.0, 0.5, 0.0], rows, p=[better - 0.1, 0.2, 0.9 - better])
    first, second = draw.random((2, rows))
    judge = np.stack([np.where(first < 0.5, 1.0, truth), np.where(second < 0.3, 0.0, truth)], axis=1)
    return case(folder, judge, truth, 600, "win_rate >= 65 %")


PLANTED = (
    Planted(
        "judged",
        "judged_pass",
        "judged_pass >= 80 %",
        lambda f: lenient(f, 0.92),
        lambda f: lenient(f, 0.7),
        lambda f, n: lenient(f, 0.92, n),
        "a judge who passes what people do not",
    ),
    Planted(
        "judged",
        "win_rate",
        "win_rate >= 65 %",
        lambda f: seated(f, 0.72),
        lambda f: seated(f, 0.4),
        lambda f, n: seated(f, 0.72, n),
        "a judge who likes the first seat",
    ),
)

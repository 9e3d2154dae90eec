"""Planted defects of `python`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.python.spec import OwnFunction
from tests.checks.planting import Case, Planted, confident
from tests.fakes import FakeInputs, classifier

OWN = """
import numpy as np


def blank_rate(rows):
    return [not text.strip() for text in rows["text"]]


def cost(rows, answers):
    wrong = answers["label"] != answers["truth"]
    return np.where(wrong, rows["amount"], 0.0)
"""


def _blank(folder: Path, share: float, rows: int = 2000) -> Case:
    (folder / "own.py").write_text(OWN)
    empty = np.arange(rows) + 1 <= share * rows
    texts = np.where(empty, "  ", "a word")
    inputs = FakeInputs(evidence=folder, tables={"test": pa.table({"text": pa.array(texts.tolist(), pa.string())})})
    check = {"check": "python", "dataset": "test", "function": "own.py:blank_rate", "require": ["blank_rate <= 1 %"]}
    return inputs, OwnFunction.under("data").model_validate(check)


def _cost(folder: Path, wrong: float, rows: int = 2000) -> Case:
    (folder / "own.py").write_text(OWN)
    rng = np.random.default_rng(1)
    truth = np.arange(rows) % 2
    right = rng.random(rows) >= wrong
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"amount": rng.uniform(1.0, 9.0, rows), "label": truth})},
        labels={"test": "label"},
        answers={("test", "candidate"): classifier(confident(truth, right, 2), truth)},
    )
    check = {"check": "python", "dataset": "test", "function": "own.py:cost", "require": ["cost <= 0.8"]}
    return inputs, OwnFunction.model_validate(check)


PLANTED = (
    Planted(
        "python",
        "blank_rate",
        "blank_rate <= 1 %",
        lambda f: _blank(f, 0.001),
        lambda f: _blank(f, 0.03),
        lambda f, n: _blank(f, 0.001, n),
        "3 texts in 100 hold nothing but blanks",
    ),
    Planted(
        "python",
        "cost",
        "cost <= 0.8",
        lambda f: _cost(f, 0.1),
        lambda f: _cost(f, 0.3),
        lambda f, n: _cost(f, 0.1, n),
        "3 answers in 10 are wrong, at the amount each",
    ),
)

"""Planted defects of `quality`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.quality.spec import Quality
from evalspec.language.predictions import Boxes
from tests.checks.planting import Case, Planted, fraud
from tests.fakes import FakeInputs, boxed, painter, regressor, tagger, writer


def _answered(folder: Path, wrong: float, rows: int = 600) -> Case:
    """Questions with an answer of four words, some of which the model gets wrong."""
    rng = np.random.default_rng(8)
    words = np.array(["red", "green", "blue", "old", "new", "big", "house", "tree", "river", "road"])
    truth = rng.choice(words, (rows, 4))
    said = np.where(rng.random((rows, 4)) < wrong, np.roll(truth, 1, axis=0) if rows else truth, truth)
    texts = [[" ".join(line) for line in lines.tolist()] for lines in (said, truth)]
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"question": [f"what is {row}?" for row in range(rows)], "answer": texts[1]})},
        labels={"test": "answer"},
        answers={("test", "candidate"): writer(texts[0], texts[1])},
    )
    require = ["exact_match >= 88 %", "token_f1 >= 85 %", "bleu >= 70"]
    return inputs, Quality.model_validate({"check": "quality", "dataset": "test", "require": require})


def _tagged(folder: Path, found: float, rows: int = 1200) -> Case:
    """Pages with any of three tags; of the rare one the model finds a share."""
    rng = np.random.default_rng(8)
    truth = rng.random((rows, 3)) < (0.5, 0.4, 0.15)
    missed = (rng.random((rows, 3)) > (0.95, 0.95, found)) & truth
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"page": np.arange(rows), "tags": [["a"]] * rows})},
        labels={"test": "tags"},
        answers={("test", "candidate"): tagger(truth & ~missed, truth, classes=("news", "sport", "law"))},
    )
    require = ["micro_f1 >= 90 %", "recall(law) >= 80 %"]
    return inputs, Quality.model_validate({"check": "quality", "dataset": "test", "require": require})


def _streets(folder: Path, moved: float, rows: int = 400) -> Case:
    """Pictures with cars and dogs, found at their place or beside it."""
    rng = np.random.default_rng(8)
    row = np.repeat(np.arange(rows), 2)
    corner = rng.uniform(0, 400, (len(row), 2))
    place = np.concatenate([corner, corner + rng.uniform(40, 60, corner.shape)], axis=1)
    kind = rng.integers(0, 2, len(row))
    off = np.tile(rng.normal(1.0, 0.3, (len(row), 1)) * moved, (1, 4))
    seen = rng.random(len(row)) < 0.95
    said = Boxes(row[seen], (place + off)[seen], kind[seen], rng.random(int(seen.sum())))
    answers = boxed(said, Boxes(row, place, kind), rows, classes=("car", "dog"))
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"name": np.arange(rows), "boxes": [""] * rows})},
        labels={"test": "boxes"}, answers={("test", "candidate"): answers},
    )  # fmt: skip
    check = {"check": "quality", "dataset": "test", "require": ["map_75 >= 60 %", "map_50 >= 60 %"]}
    return inputs, Quality.model_validate(check)


def _roads(folder: Path, missed: float, rows: int = 300) -> Case:
    """Pictures of road with a few pixels of people, of which the model misses a share."""
    rng = np.random.default_rng(8)
    truth = (rng.random((rows, 8, 8)) < 0.05).astype(np.int64)
    said = np.where(rng.random(truth.shape) < missed, 0, truth)
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"name": np.arange(rows), "mask": [""] * rows})},
        labels={"test": "mask"}, answers={("test", "candidate"): painter(said, truth, classes=("road", "person"))},
    )  # fmt: skip
    require = ["iou(person) >= 70 %", "pixel_accuracy >= 90 %"]
    return inputs, Quality.model_validate({"check": "quality", "dataset": "test", "require": require})


def _searched(folder: Path, noise: float, rows: int = 5000) -> Case:
    """500 searches of ten results, one of which is relevant."""
    rng = np.random.default_rng(8)
    query = np.arange(rows) // 10
    truth = (np.arange(rows) % 10 == query % 10).astype(np.float64)
    answers = regressor(truth + noise * rng.normal(size=rows), truth)
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"search": query, "clicked": truth})}, labels={"test": "clicked"},
        answers={("test", "candidate"): answers},
    )  # fmt: skip
    require = ["ndcg(5) >= 80 %", "mrr >= 80 %", "hit_rate(1) >= 70 %"]
    check = {"check": "quality", "dataset": "test", "query": "search", "require": require}
    return inputs, Quality.model_validate(check)


def _minutes(folder: Path, bias: float, rows: int = 1000) -> Case:
    """Waiting times in minutes, with a constant error beside the noise."""
    rng = np.random.default_rng(5)
    truth = rng.gamma(4.0, 5.0, rows)
    values = truth + rng.normal(0.0, 2.0, rows) + bias
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"load": rng.random(rows), "wait": truth})},
        labels={"test": "wait"},
        answers={("test", "candidate"): regressor(values, truth, label_unit="min")},
    )
    return inputs, Quality.model_validate({"check": "quality", "dataset": "test", "require": ["mae <= 3"]})


PLANTED = (
    Planted(
        "quality",
        "bleu",
        "bleu >= 70",
        lambda f: _answered(f, 0.02),
        lambda f: _answered(f, 0.3),
        lambda f, n: _answered(f, 0.02, n),
        "three words in ten are wrong",
    ),
    Planted(
        "quality",
        "exact_match",
        "exact_match >= 88 %",
        lambda f: _answered(f, 0.02),
        lambda f: _answered(f, 0.3),
        lambda f, n: _answered(f, 0.02, n),
        "a wrong word in most answers",
    ),
    Planted(
        "quality",
        "map_75",
        "map_75 >= 60 %",
        lambda f: _streets(f, 1.0),
        lambda f: _streets(f, 5.0),
        lambda f, n: _streets(f, 1.0, n),
        "boxes lie 5 pixels beside, which an overlap of a half hides",
    ),
    Planted(
        "quality",
        "iou",
        "iou(person) >= 70 %",
        lambda f: _roads(f, 0.1),
        lambda f: _roads(f, 0.7),
        lambda f, n: _roads(f, 0.1, n),
        "people are missed, at 96 % of right pixels",
    ),
    Planted(
        "quality",
        "ndcg",
        "ndcg(5) >= 80 %",
        lambda f: _searched(f, 0.3),
        lambda f: _searched(f, 1.0),
        lambda f, n: _searched(f, 0.3, n),
        "the relevant result stands far down",
    ),
    Planted(
        "quality",
        "recall",
        "recall(law) >= 80 %",
        lambda f: _tagged(f, 0.95),
        lambda f: _tagged(f, 0.4),
        lambda f, n: _tagged(f, 0.95, n),
        "a rare tag is missed, which micro F1 hides",
    ),
    Planted(
        "quality",
        "recall",
        "recall(fraud) >= 80 %",
        lambda f: fraud(f, 0.9),
        lambda f: fraud(f, 0.1),
        lambda f, n: fraud(f, 0.9, n),
        "9 frauds in 10 are missed, at 95 % accuracy",
    ),
    Planted(
        "quality",
        "mae",
        "mae <= 3",
        lambda f: _minutes(f, 0.0),
        lambda f: _minutes(f, 6.0),
        lambda f, n: _minutes(f, 0.0, n),
        "6 minutes too late, always",
    ),
)

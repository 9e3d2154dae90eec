"""Runs in memory: sound ones of many shapes, and the same with one thing planted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.evidence.screens import Screening
from evalspec.language.inputs import Predictions
from evalspec.language.yaml import read_text
from evalspec.language.yaml_text import write
from evalspec.loading import LoadOptions, load
from evalspec.planning import Plan, plan
from evalspec.running.children.jobs import CheckJob, SpecParts
from evalspec.running.children.process import Limits
from evalspec.running.children.screening import RunEvidence, ScreenJob
from evalspec.screens.evidence import MOST_ROWS
from evalspec.screens.level import look, screen_names, screening

SPEC = """evalspec: 1
name: screened
models:
  candidate: {kind: predictions, files: {test: a.parquet}, outputs: {label: said}, classes: [a, b, c]}
datasets:
  train: {kind: parquet, path: train.parquet, label: y, key: id}
  test: {kind: parquet, path: test.parquet, label: y, key: id}
  traffic: {kind: parquet, path: traffic.parquet, key: id}
model:
  - {check: quality, dataset: test, require: [accuracy >= 80 %]}
data:
  - {check: leakage, train: [train], test: test, group: patient, require: [group_overlap == 0 rows]}
  - {check: shift, reference: test, current: traffic, tolerance: 0.3, require: [drifted_columns <= 10 %]}
  - {check: agreement, dataset: test, raters: [anna, ben], require: [alpha >= 0.6]}
"""
CLASSES = ("a", "b", "c")
Columns = dict[str, NDArray[Any]]


@dataclass
class Rows:
    """Rows of the three datasets, and what the model said of the test set."""

    train: Columns
    test: Columns
    traffic: Columns
    said: NDArray[np.int64]
    truth: NDArray[np.int64]


class MemoryEvidence(RunEvidence):
    """`RunEvidence` over tables that are here."""

    def __init__(self, planned: Plan, tables: Mapping[str, pa.Table], said: Predictions) -> None:
        spec = planned.spec
        job = CheckJob(
            parts=SpecParts(dict(spec.models), dict(spec.datasets), {}, spec.access()), check=spec.checks[0],
            predictions={}, model_facts={}, confidence=0.95, alpha_fail=0.05, seed=0, draft=False,
            evidence=Path("evidence"), limits=Limits(), threads=1, environment={},
        )  # fmt: skip
        checks = tuple((one.check, one.datasets) for one in planned.checks)
        counts = {name: table.num_rows for name, table in tables.items()}
        super().__init__(ScreenJob(job, checks, (), counts, (("test", "candidate"),), Path("none")))
        self.tables, self.said = tables, said

    def rows(self, dataset: str) -> pa.Table:
        return self.tables[dataset].slice(0, MOST_ROWS)

    def features(self, dataset: str) -> tuple[str, ...]:
        aside = ("id", "y", "anna", "ben")
        return tuple(name for name in self.tables[dataset].column_names if name not in aside)

    def clusters(self, dataset: str) -> NDArray[np.int64] | None:
        return None

    def predictions(self, dataset: str, model: str) -> Predictions:
        return self.said


def planned(folder: Path, text: str = SPEC) -> Plan:
    """The plan of the spec; none of its files is there."""
    (folder / "evalspec.yaml").write_text(text)
    return plan(load(folder / "evalspec.yaml", options=LoadOptions(files=False)))


def _columns(shapes: list[Callable[[int], NDArray[Any]]], n: int, first: int) -> Columns:
    columns: Columns = {"id": np.arange(first, first + n)}
    columns |= {f"x{index}": shape(n) for index, shape in enumerate(shapes)}
    columns["patient"] = np.array([f"Patient-{one:05d}" for one in range(first, first + n)])
    return columns


def sound(rng: np.random.Generator) -> Rows:
    """A run in which nothing is wrong: 6 to 30 columns of many shapes, 150 to 2,000 rows a dataset."""
    kinds: list[Callable[[int], NDArray[Any]]] = [
        lambda n: rng.normal(3.0, 1.0, n),
        lambda n: rng.lognormal(0.0, 1.0, n),
        lambda n: rng.standard_t(2.0, n),
        lambda n: rng.poisson(2.0, n).astype(np.float64),
        lambda n: rng.choice(["red", "green", "blue"], n, p=[0.6, 0.3, 0.1]),
        lambda n: np.array([f"city {one}" for one in rng.zipf(1.6, n).clip(1, 60)]),
        lambda n: np.where(rng.random(n) < 0.05, np.nan, rng.normal(0.0, 1.0, n)),
        lambda n: rng.exponential(5.0, n).round(1),
    ]
    # The first ones are always there, so that something can be planted in them.
    more = rng.integers(0, len(kinds), rng.integers(24))
    shapes = [kinds[0], kinds[1], kinds[4], kinds[0], kinds[7], kinds[2], *(kinds[index] for index in more)]
    sizes = [int(one) for one in np.exp(rng.uniform(np.log(150), np.log(2000), 3))]
    starts = [0, *np.cumsum(sizes)[:2]]
    train, test, traffic = (_columns(shapes, n, int(start)) for n, start in zip(sizes, starts, strict=True))
    truth = rng.integers(0, 3, sizes[1])
    said = np.where(rng.random(sizes[1]) < 0.85, truth, rng.integers(0, 3, sizes[1]))
    test["anna"] = np.array(CLASSES)[truth]
    test["ben"] = np.array(CLASSES)[np.where(rng.random(sizes[1]) < 0.95, truth, rng.integers(0, 3, sizes[1]))]
    return Rows(train, test, traffic, said, truth)


def _unit(rows: Rows, rng: np.random.Generator) -> None:
    rows.traffic["x0"] = rows.traffic["x0"] * 2.54


def _missing(rows: Rows, rng: np.random.Generator) -> None:
    rows.traffic["x1"] = np.where(rng.random(len(rows.traffic["x1"])) < 0.6, np.nan, rows.traffic["x1"])


def _sentinel(rows: Rows, rng: np.random.Generator) -> None:
    rows.traffic["x3"] = np.where(rng.random(len(rows.traffic["x3"])) < 0.08, -999.0, rows.traffic["x3"])


def _category(rows: Rows, rng: np.random.Generator) -> None:
    rows.traffic["x2"] = np.where(rng.random(len(rows.traffic["x2"])) < 0.08, "violet", rows.traffic["x2"])


def _no_class(rows: Rows, rng: np.random.Generator) -> None:
    rows.truth[rows.truth == 2] = 0


def _never(rows: Rows, rng: np.random.Generator) -> None:
    rows.said[rows.said == 1] = 0


def _spelt(rows: Rows, rng: np.random.Generator) -> None:
    some = slice(0, min(len(rows.train["patient"]), len(rows.test["patient"])) // 4)
    rows.test["patient"][some] = [one.upper().replace("-0", " ") for one in rows.train["patient"][some]]


def _copied(rows: Rows, rng: np.random.Generator) -> None:
    n = len(rows.test["x0"])
    for name in [one for one in rows.test if one[0] == "x" or one == "patient"]:
        rows.test[name] = rows.test[name][np.arange(n) % (n // 2)]


def _jittered(rows: Rows, rng: np.random.Generator) -> None:
    n = len(rows.test["x0"])
    _copied(rows, rng)
    for name in [one for one in rows.test if one[0] == "x" and rows.test[one].dtype.kind == "f"]:
        values = rows.test[name]
        rows.test[name] = values + rng.normal(0.0, 0.001 * np.nanstd(values), n)


def _same_rows(rows: Rows, rng: np.random.Generator) -> None:
    n = len(rows.test["x0"])
    rows.traffic = {name: values[: n // 2].copy() for name, values in rows.test.items() if name not in ("anna", "ben")}


def _agree(rows: Rows, rng: np.random.Generator) -> None:
    rows.test["ben"] = rows.test["anna"]


PLANTED: Mapping[str, tuple[str, str, Callable[[Rows, np.random.Generator], None]]] = {
    "a unit that changed": ("columns", "x0", _unit),
    "cells that are missing": ("columns", "x1", _missing),
    "a sentinel": ("columns", "x3", _sentinel),
    "a new category": ("columns", "x2", _category),
    "a class without rows": ("classes", "c", _no_class),
    "a class that is never answered": ("classes", "b", _never),
    "patients in another spelling": ("spelling", "patient", _spelt),
    "rows that were copied": ("copies", "test", _copied),
    "rows that were copied with noise": ("copies", "test", _jittered),
    "traffic that is the test set": ("copies", "test and traffic", _same_rows),
    "raters who copied": ("raters", "anna and ben", _agree),
}
"""Story: the screen that sees it, about what, and how it is planted."""


def evidence(of: Plan, rows: Rows) -> MemoryEvidence:
    """What screens see of a run."""
    tables = {name: pa.table({key: pa.array(values, from_pandas=True) for key, values in getattr(rows, name).items()})
              for name in ("train", "test", "traffic")}  # fmt: skip
    for name, truth in (("test", rows.truth), ("train", None)):
        y = np.array(CLASSES)[truth] if truth is not None else np.full(tables[name].num_rows, "a")
        tables[name] = tables[name].append_column("y", pa.array(y))
    said = Predictions(
        model="candidate", dataset="test", n=len(rows.said), classes=CLASSES, probabilities=None, predicted=rows.said,
        values=None, lower=None, upper=None, truth=rows.truth, clusters=None, digest="",
    )  # fmt: skip
    return MemoryEvidence(of, tables, said)


def screened(of: Plan, rows: Rows, names: tuple[str, ...] = ()) -> Screening:
    """What may be said of a run; default: by all screens."""
    seen = evidence(of, rows)
    return screening({name: look(name, seen.for_screen(name)) for name in names or screen_names()}, {})


def with_suggestion(text: str, suggestion: str) -> str:
    """A spec with one more requirement."""
    spec, more = (read_text(one, "spec").value for one in (text, suggestion))
    assert isinstance(spec, dict)
    assert isinstance(more, dict)
    for dimension, checks in more.items():
        spec[dimension] = [*spec.get(dimension, []), *checks]  # type: ignore[misc]
    return write(spec)

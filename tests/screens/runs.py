"""Runs in memory: sound ones of many shapes, and the same with one thing planted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.answers.again import ROWS, UNLIKE
from evalspec.evidence.screens import Screening
from evalspec.language.inputs import Predictions, Samples
from evalspec.language.timings import Telemetry
from evalspec.language.yaml import read_text
from evalspec.language.yaml_text import write
from evalspec.loading import LoadOptions, load
from evalspec.planning import Plan, plan
from evalspec.running.children.jobs import CheckJob, ScreenJob, SpecParts
from evalspec.running.children.process import Limits
from evalspec.running.children.screening import RunEvidence
from evalspec.screens.evidence import MOST_ROWS
from evalspec.screens.level import look, screen_names, screening

SPEC = """evalspec: 1
name: screened
models:
  candidate: {kind: onnx, path: a.onnx, inputs: {x: x0}, outputs: {probabilities: p}, classes: [a, b, c]}
  baseline: {kind: onnx, path: b.onnx, inputs: {x: x0}, outputs: {probabilities: p}, classes: [a, b, c]}
datasets:
  train: {kind: parquet, path: train.parquet, label: y, key: id}
  test: {kind: parquet, path: test.parquet, label: y, key: id}
  traffic: {kind: parquet, path: traffic.parquet, key: id}
system:
  - {check: latency, dataset: test, require: [latency_p50 <= 20 ms]}
model:
  - {check: quality, dataset: test, require: [accuracy >= 50 %, accuracy >= baseline - 10 pp]}
data:
  - {check: leakage, train: [train], test: test, group: patient, require: [group_overlap == 0 rows]}
  - {check: shift, reference: test, current: traffic, tolerance: 0.3, require: [drifted_columns <= 10 %]}
  - {check: agreement, dataset: test, raters: [anna, ben], require: [alpha >= 0.6]}
"""
CLASSES = ("a", "b", "c")
Columns = dict[str, NDArray[Any]]


@dataclass
class Answer:
    """What a model says of every row of the test set, how sure it is, and facts of its answers."""

    said: NDArray[np.int64]
    sure: NDArray[np.float64]
    details: dict[str, int]

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """shape (n, 3)."""
        shares = np.repeat((1.0 - self.sure)[:, None] / 2, 3, axis=1)
        shares[np.arange(len(self.said)), self.said] = self.sure
        return shares


@dataclass
class Timed:
    """What was timed: of each process the first query, and the memory; of each row its latency."""

    first_ms: NDArray[np.float64]
    mib: NDArray[np.float64]
    latency_ms: NDArray[np.float64]
    noise: float = 0.0


@dataclass
class Rows:
    """Rows of the three datasets, and what the models said of the test set."""

    train: Columns
    test: Columns
    traffic: Columns
    truth: NDArray[np.int64]
    candidate: Answer
    baseline: Answer
    timed: Timed


class MemoryEvidence(RunEvidence):
    """`RunEvidence` over tables that are here."""

    def __init__(
        self, planned: Plan, tables: Mapping[str, pa.Table], said: Mapping[str, Predictions], timed: Sequence[Samples]
    ) -> None:
        spec = planned.spec
        slices = {one.name: one.where for one in spec.slices}
        job = CheckJob(
            parts=SpecParts(dict(spec.models), dict(spec.datasets), slices, spec.access()), check=spec.checks[0],
            predictions={}, model_facts={}, confidence=0.95, alpha_fail=0.05, seed=0, draft=False,
            evidence=Path("evidence"), limits=Limits(), threads=1, environment={},
        )  # fmt: skip
        checks = tuple((one.check, one.datasets) for one in planned.checks)
        counts = {name: table.num_rows for name, table in tables.items()}
        super().__init__(ScreenJob(job, checks, (), counts, tuple(("test", name) for name in said), Path("none")))
        self.tables, self.said, self.timed = tables, said, timed

    def rows(self, dataset: str) -> pa.Table:
        return self.tables[dataset].slice(0, MOST_ROWS)

    def features(self, dataset: str) -> tuple[str, ...]:
        aside = ("id", "y", "anna", "ben")
        return tuple(name for name in self.tables[dataset].column_names if name not in aside)

    @property
    def unnamed(self) -> tuple[str, ...]:
        return tuple(name for name in self.tables if name not in self.of.datasets)

    def stated_columns(self, dataset: str) -> tuple[str, ...]:
        return ()

    def clusters(self, dataset: str) -> NDArray[np.int64] | None:
        return None

    def predictions(self, dataset: str, model: str) -> Predictions:
        return self.said[model]

    def samples(self, check: str) -> Sequence[Samples]:
        return self.timed if check == "latency" else []


def planned(folder: Path, text: str = SPEC) -> Plan:
    """The plan of the spec; none of its files is there."""
    (folder / "evalspec.yaml").write_text(text)
    return plan(load(folder / "evalspec.yaml", options=LoadOptions(files=False)))


def _columns(shapes: list[Callable[[int], NDArray[Any]]], n: int, first: int) -> Columns:
    columns: Columns = {"id": np.arange(first, first + n)}
    columns |= {f"x{index}": shape(n) for index, shape in enumerate(shapes)}
    columns["note"] = np.array(["w" * length for length in _lengths(n, first)])
    columns["patient"] = np.array([f"Patient-{one:05d}" for one in range(first, first + n)])
    # Wards in which nothing is unlike the others.
    columns["ward_nr"] = np.random.default_rng(first + n).integers(100, 140, n)
    return columns


def _lengths(n: int, first: int) -> NDArray[np.int64]:
    """Of texts: one in sixteen is long."""
    rng = np.random.default_rng(first)
    return np.where(rng.random(n) < 1 / 16, rng.integers(150, 400, n), rng.integers(10, 60, n))


def _answer(rng: np.random.Generator, truth: NDArray[np.int64], sure: NDArray[np.float64]) -> Answer:
    """As often right as it is sure."""
    right = rng.random(len(truth)) < sure
    said = np.where(right, truth, (truth + rng.integers(1, 3, len(truth))) % 3)
    return Answer(said, sure, {ROWS: min(64, len(truth) // 10), UNLIKE: 0})


def _timings(rng: np.random.Generator, lengths: NDArray[np.int64]) -> Timed:
    """Five processes whose memory grows at first, and longer texts that take longer."""
    latency = rng.lognormal(np.log(4.0), 0.2, len(lengths)) + 0.01 * lengths
    rising = 1.0 - np.exp(-np.linspace(0.0, 6.0, 8))
    mib = rng.uniform(150, 400, (5, 1)) + rng.uniform(0, 60) * rising + rng.normal(0, 0.5, (5, 8))
    return Timed(rng.uniform(10, 200, 5), mib, latency)


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
    sure = 0.4 + 0.59 * rng.beta(4.0, 1.0, sizes[1])
    candidate, baseline = _answer(rng, truth, sure), _answer(rng, truth, np.minimum(0.995, sure + 0.02))
    # Models of one kind mostly err on the same rows.
    both = rng.random(sizes[1]) < 0.7
    baseline.said = np.where(both, candidate.said, baseline.said)
    lengths = np.array([len(one) for one in test["note"]])
    test["anna"] = np.array(CLASSES)[truth]
    test["ben"] = np.array(CLASSES)[np.where(rng.random(sizes[1]) < 0.95, truth, rng.integers(0, 3, sizes[1]))]
    return Rows(train, test, traffic, truth, candidate, baseline, _timings(rng, lengths))


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
    rows.candidate.said[rows.candidate.said == 1] = 0


def _hardly(rows: Rows, rng: np.random.Generator) -> None:
    said = rows.candidate.said
    rows.candidate.said = np.where((said == 1) & (rng.random(len(said)) < 0.8), 0, said)


def _mislabelled(rows: Rows, rng: np.random.Generator) -> None:
    """Half of the rows of one class are labelled as another."""
    rows.truth = np.where((rows.truth == 0) & (rng.random(len(rows.truth)) < 0.5), 2, rows.truth)


def _spelt(rows: Rows, rng: np.random.Generator) -> None:
    some = slice(0, min(len(rows.train["patient"]), len(rows.test["patient"])) // 4)
    rows.test["patient"][some] = [one.upper().replace("-0", " ") for one in rows.train["patient"][some]]


def _entities(rows: Rows, rng: np.random.Generator) -> None:
    """Rows of 60 people on both sides, whose class is the same again and again."""
    kinds = rng.integers(0, 3, 60)
    for side in (rows.train, rows.test):
        side["kunde_nr"] = rng.integers(0, 60, len(side["x0"]))
    rows.truth = np.where(rng.random(len(rows.truth)) < 0.8, kinds[rows.test["kunde_nr"]], rows.truth)
    rows.candidate.said, rows.baseline.said = rows.truth.copy(), rows.truth.copy()
    off = rng.random(len(rows.truth)) < 0.15
    for one in (rows.candidate, rows.baseline):
        one.said = np.where(off, (rows.truth + 1) % 3, rows.truth)
        one.sure = np.full(len(rows.truth), 0.85)


def _shared(rows: Rows, rng: np.random.Generator) -> None:
    """Rows of 50 people in the test set, each of whom is answered rightly or not."""
    n = len(rows.test["x0"])
    rows.test["case"] = np.array([f"case {one}" for one in rng.permutation(n) % 50])
    wrong = np.isin(rows.test["case"], [f"case {one}" for one in range(12)])
    for one in (rows.candidate, rows.baseline):
        one.said = np.where(wrong, (rows.truth + 1) % 3, rows.truth)
        one.sure = np.full(n, 0.76)


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


def _green(rows: Rows) -> NDArray[np.bool_]:
    return np.asarray(rows.test["x2"] == "green")


def _lost(rows: Rows, rng: np.random.Generator) -> None:
    wrong = _green(rows) & (rng.random(len(rows.truth)) < 0.7)
    rows.candidate.said = np.where(wrong, (rows.truth + 1) % 3, rows.candidate.said)
    rows.candidate.sure = np.where(_green(rows), 0.4, rows.candidate.sure)


def _too_sure(rows: Rows, rng: np.random.Generator) -> None:
    wrong = _green(rows) & (rng.random(len(rows.truth)) < 0.6)
    for one in (rows.candidate, rows.baseline):
        one.said = np.where(wrong, (rows.truth + 1) % 3, one.said)


def _softened(rows: Rows, rng: np.random.Generator) -> None:
    powers = np.exp(rows.candidate.probabilities)
    rows.candidate.sure = (powers / powers.sum(axis=1, keepdims=True)).max(axis=1)


def _broken(rows: Rows, rng: np.random.Generator) -> None:
    rows.baseline.said = rng.integers(0, 3, len(rows.truth))


def _copy(rows: Rows, rng: np.random.Generator) -> None:
    rows.baseline = rows.candidate


def _shifted(rows: Rows, rng: np.random.Generator) -> None:
    rows.candidate.said = np.roll(rows.candidate.said, 1)
    rows.candidate.sure = np.roll(rows.candidate.sure, 1)


def _renamed(rows: Rows, rng: np.random.Generator) -> None:
    rows.candidate.said = np.array([1, 0, 2])[rows.candidate.said]


def _dropout(rows: Rows, rng: np.random.Generator) -> None:
    rows.candidate.details[UNLIKE] = rows.candidate.details[ROWS] // 2


def _routed(rows: Rows, rng: np.random.Generator) -> None:
    rows.timed.noise = 0.3


def _compiled(rows: Rows, rng: np.random.Generator) -> None:
    rows.timed.first_ms = rows.timed.first_ms + 4000.0


def _quadratic(rows: Rows, rng: np.random.Generator) -> None:
    lengths = np.array([len(one) for one in rows.test["note"]])
    rows.timed.latency_ms = rows.timed.latency_ms + np.where(lengths > 100, lengths**2 / 500.0, 0.0)


def _leak(rows: Rows, rng: np.random.Generator) -> None:
    rows.timed.mib = rows.timed.mib + np.linspace(0.0, 200.0, 8)


def _agree(rows: Rows, rng: np.random.Generator) -> None:
    rows.test["ben"] = rows.test["anna"]


PLANTED: Mapping[str, tuple[str, str, Callable[[Rows, np.random.Generator], None]]] = {
    "a unit that changed": ("columns", "x0", _unit),
    "cells that are missing": ("columns", "x1", _missing),
    "a sentinel": ("columns", "x3", _sentinel),
    "a new category": ("columns", "x2", _category),
    "a class without rows": ("classes", "c", _no_class),
    "a class that is never answered": ("classes", "b", _never),
    "patients in a different spelling": ("spelling", "patient", _spelt),
    "a class that is hardly answered": ("class_errors", "b", _hardly),
    "wrong labels in one class": ("class_errors", "a", _mislabelled),
    "people on both sides": ("entities", "kunde_nr", _entities),
    "people with several rows": ("entities", "case", _shared),
    "rows that were copied": ("copies", "test", _copied),
    "rows that were copied with noise": ("copies", "test", _jittered),
    "traffic that is the test set": ("copies", "test and traffic", _same_rows),
    "raters who copied": ("raters", "anna and ben", _agree),
    "a group that was lost": ("lost_groups", "x2=green", _lost),
    "a group whose confidence is wrong": ("confidence", "x2=green", _too_sure),
    "softmax twice": ("confidence", "candidate on test", _softened),
    "a baseline that guesses": ("baseline", "baseline on test", _broken),
    "answers that are the baseline's": ("outputs", "candidate and baseline", _copy),
    "answers of the row before": ("alignment", "candidate on test", _shifted),
    "classes in another order": ("alignment", "candidate on test", _renamed),
    "answers that change": ("repeats", "candidate", _dropout),
    "answers that change under timing": ("repeats", "candidate", _routed),
    "a cold path": ("cold_path", "candidate", _compiled),
    "long inputs": ("input_length", "candidate on test", _quadratic),
    "memory that grows": ("memory_growth", "candidate", _leak),
}
"""Story: the screen that sees it, about what, and how it is planted."""


def evidence(of: Plan, rows: Rows) -> MemoryEvidence:
    """What screens see of a run."""
    tables = {name: pa.table({key: pa.array(values, from_pandas=True) for key, values in getattr(rows, name).items()})
              for name in ("train", "test", "traffic")}  # fmt: skip
    for name, truth in (("test", rows.truth), ("train", None)):
        y = np.array(CLASSES)[truth] if truth is not None else np.full(tables[name].num_rows, "a")
        tables[name] = tables[name].append_column("y", pa.array(y))
    said = {
        name: Predictions(
            model=name, dataset="test", n=len(one.said), classes=CLASSES, probabilities=one.probabilities,
            predicted=one.said, values=None, lower=None, upper=None, truth=rows.truth, clusters=None, digest="",
            details=one.details,
        )
        for name, one in (("candidate", rows.candidate), ("baseline", rows.baseline))
    }  # fmt: skip
    return MemoryEvidence(of, tables, said, list(_samples(rows)))


def _samples(rows: Rows) -> Iterator[Samples]:
    """Five processes in which each row is asked once, and one in two again."""
    n = len(rows.truth)
    for process, first in enumerate(rows.timed.first_ms):
        rng = np.random.default_rng(process)
        items = np.concatenate([rng.permutation(n), rng.permutation(n)[: n // 2]])
        spent = np.round(1e6 * rows.timed.latency_ms[items] * rng.lognormal(0.0, 0.05, len(items))).astype(np.int64)
        ends = np.cumsum(spent)
        other = rng.random(len(items)) < rows.timed.noise
        mib = rows.timed.mib[process]
        yield Samples(
            model="candidate", process=process, block=np.zeros(len(items), np.int64), intended_ns=ends - spent,
            sent_ns=ends - spent, end_ns=ends, items=items, batch=1, ok=np.ones(len(items), np.bool_), warmup=32,
            details={"warmup_first_ms": float(first), "in_process": True},
            answers=((rows.candidate.said[items] + other) % 3).astype(np.float64)[:, None],
            telemetry=Telemetry(np.linspace(0, ends[-1], len(mib)).astype(np.int64), {"resident_mib": mib}),
        )  # fmt: skip


def screened(of: Plan, rows: Rows, names: tuple[str, ...] = ()) -> Screening:
    """What may be said of a run; default: by all screens."""
    seen = evidence(of, rows)
    return screening({name: look(name, seen.for_screen(name)) for name in names or screen_names()}, {})


def with_suggestion(text: str, suggestion: str) -> str:
    """A spec with one more requirement."""
    spec, more = (read_text(one, "spec").value for one in (text, suggestion))
    assert isinstance(spec, dict)
    assert isinstance(more, dict)
    for name, added in more.items():
        before = spec.get(name, type(added)())
        spec[name] = {**before, **added} if isinstance(before, dict) else [*before, *added]  # type: ignore[misc]
    return write(spec)

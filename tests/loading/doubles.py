"""Kinds that stand in for real ones, and a spec that is right with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.language.parts import (
    Access,
    Check,
    DatasetName,
    Model,
    Need,
    NeedPredictions,
    NeedRows,
    NeedTiming,
    SpecNames,
)
from evalspec.language.registry import KindEntry, Registry
from evalspec.language.requirement import Requirement
from evalspec.language.units import Duration

ROWS = 50


class Score(Check):
    """How often a model is right."""

    dimension: ClassVar[Literal["model"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("accuracy", "fraction", "higher", "Share of right answers.", parts="slice", whole=True),
        Metric("ece", "fraction", "lower", "Calibration error."),
        Metric("mae", "label", "lower", "Mean absolute error."),
    )
    check: Literal["score"] = "score"
    dataset: DatasetName
    bins: int = Field(10, gt=1, description="Bins.")

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        return names.slices if metric.name == "accuracy" else None

    def needs(self) -> tuple[Need, ...]:
        return (NeedPredictions(self.dataset, self.model),)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        n = rows[self.dataset]
        if requirement.metric != "accuracy" or requirement.threshold <= 0.99 or n is None:
            return None
        shown = (1 - confidence) ** (1 / n)
        needed = math.ceil(math.log(1 - confidence) / math.log(requirement.threshold))
        return f"{n} rows, all right, show no more than {shown:.3f}; it takes {needed}" if n < needed else None


class Timing(Check):
    """How long an answer takes."""

    dimension: ClassVar[Literal["system"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("latency_p50", "ms", "lower", "Half of the answers are faster."),
        Metric("latency_p99", "ms", "lower", "99 in 100 answers are faster."),
        Metric("latency_mean", "ms", "lower", "Mean.", instead=("latency_p99",)),
    )
    check: Literal["timing"] = "timing"
    dataset: DatasetName
    duration_s: Duration = Field(60.0, alias="duration", description="How long to measure.")

    def needs(self) -> tuple[Need, ...]:
        return (NeedTiming(self.dataset, self.model, 1000, self.duration_s),)


class Overlap(Check):
    """Rows that stand in both."""

    dimension: ClassVar[Literal["data"]] = "data"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("duplicates", "rows", "lower", "Rows in both.", exact=True),
        Metric("near", "%", "lower", "Rows that are nearly in both.", exact=True),
        Metric("moved", "score", "lower", "How far a column moved.", parts="column"),
    )
    check: Literal["overlap"] = "overlap"
    train: tuple[DatasetName, ...]
    test: DatasetName
    column: str | None = None
    limits: dict[str, float] = Field(default_factory=dict)

    def needs(self) -> tuple[Need, ...]:
        columns = (*self.limits, *((self.column,) if self.column else ()))
        return tuple(NeedRows(name, columns) for name in (*self.train, self.test))


class FileModel(Model):
    """A model in a file."""

    kind: Literal["file"] = "file"
    path: str

    def files(self, access: Access) -> tuple[Path, ...]:
        return (access.path(self.path),)


class AbsentModel(FileModel):
    """A model whose package is not installed."""

    packages: ClassVar[tuple[str, ...]] = ("no_such_package_anywhere",)
    extra_name: ClassVar[str] = "absent"
    kind: Literal["absent"] = "absent"  # type: ignore[assignment]  # another kind is what this double is for


class CodeModel(FileModel):
    """A model that runs code which the spec names."""

    needs_trust: ClassVar[bool] = True
    kind: Literal["code"] = "code"  # type: ignore[assignment]  # likewise


def found(kind: str, attribute: str, dimension: str | None = None) -> KindEntry:
    return KindEntry(kind, __name__, attribute, "evalspec-gate", dimension)


REGISTRY = Registry(
    checks={
        "score": found("score", "Score", "model"),
        "timing": found("timing", "Timing", "system"),
        "overlap": found("overlap", "Overlap", "data"),
    },
    runtimes={
        "file": found("file", "FileModel"),
        "absent": found("absent", "AbsentModel"),
        "code": found("code", "CodeModel"),
    },
    sources={
        "parquet": KindEntry("parquet", "evalspec.sources.parquet", None, "evalspec-gate"),
        "csv": KindEntry("csv", "evalspec.sources.csv", None, "evalspec-gate"),
    },
)

SPEC = """\
evalspec: 1
name: demo
models:
  candidate: {kind: file, path: model.bin, inputs: {x: lux}}
  baseline: {kind: file, path: old.bin}
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
  train: {kind: parquet, path: train.parquet}
slices:
  - {name: dark, where: lux < 100}
system:
  - check: timing
    dataset: test
    duration: 10 s
    require: [latency_p99 <= 5 ms]
model:
  - check: score
    dataset: test
    require:
      - accuracy >= 90 %
      - accuracy(dark) >= 80 %
data:
  - check: overlap
    train: [train]
    test: test
    require: [duplicates == 0]
"""


def write_files(folder: Path) -> None:
    """The files that `SPEC` names."""
    (folder / "model.bin").write_bytes(b"candidate")
    (folder / "old.bin").write_bytes(b"baseline")
    table = pa.table({"lux": list(range(ROWS)), "site": ["lab"] * ROWS, "y": [0, 1] * (ROWS // 2)})
    pq.write_table(table, folder / "test.parquet")
    pq.write_table(table, folder / "train.parquet")

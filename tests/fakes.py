"""Stand-ins for what a check is handed, made of plain arrays: no files, no processes, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Measured, Parts, Side
from evalspec.evidence.frozen import Cell
from evalspec.language.header import choose
from evalspec.language.inputs import FIRST, Predictions, Probe, Samples, Schedule, SentTexts, SliceMask, Variant
from evalspec.language.likelihoods import TokenLikelihoods, Windows
from evalspec.language.parts import CheckResult
from evalspec.language.predictions import AnswerKind, Boxes
from evalspec.language.requirement import Requirement
from evalspec.language.scans import Scan, look

CANDIDATE = "candidate"

SamplesMaker = Callable[[str, Schedule], list[Samples]]
ProbeMaker = Callable[[str, str, Mapping[str, Cell]], list[Probe]]
PairMaker = Callable[[Schedule, str], tuple[list[Samples], list[Samples]]]


@dataclass
class FakeInputs:
    """Implements `evalspec.language.inputs.Inputs`.

    Args:
        evidence: Folder for raw samples (``tmp_path``).
        tables: Dataset: rows.
        labels: Dataset: label column.
        label_units: Dataset: unit of the label.
        features: Dataset: columns that the candidate reads; default: all that are not the label.
        cluster_of: Dataset: shape (n,), index of each row's cluster.
        answers: (dataset, model): predictions.
        slices: (slice, dataset): rows inside, shape (n,); or (rows inside, rows whose column is missing).
        wheres: Slice: what it says, for checks that count its rows themselves.
        samples: (model, schedule) -> timings; or model -> timings.
        pairs: (schedule, baseline) -> timings of both; default: ``samples`` of each.
        probes: (probe, model, options) -> what processes found; or probe -> that.
        facts: Model: its facts.
        origins: Dataset: its origin.
        answering: (rows, dataset, model) -> predictions of rows that the check made.
        likelihoods: (texts, windows, model, model beside) -> likelihoods of their tokens.
        keys: Dataset: column that names a row.
        today: The day of the run.
    """

    evidence: Path
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    label_units: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cluster_of: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    answers: Mapping[tuple[str, str], Predictions] = field(default_factory=dict)
    slices: Mapping[tuple[str, str], NDArray[np.bool_] | tuple[NDArray[np.bool_], int]] = field(default_factory=dict)
    wheres: Mapping[str, str] = field(default_factory=dict)
    samples: SamplesMaker | Mapping[str, list[Samples]] | None = None
    pairs: PairMaker | None = None
    probes: ProbeMaker | Mapping[str, list[Probe]] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict)
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    answering: Callable[[pa.Table, str, str], Predictions] | None = None
    likelihoods: Callable[[Sequence[str], Windows, str, str | None], TokenLikelihoods] | None = None
    batch_rows: int = 65_536
    model: str = CANDIDATE
    confidence: float = 0.95
    alpha_fail: float = 0.002
    draft: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    today: date = date(2026, 11, 20)
    seed: int = 7
    progressed: list[tuple[float, float, str]] = field(default_factory=list)
    schedules: list[Schedule] = field(default_factory=list)
    probed: list[tuple[str, dict[str, Cell]]] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    variants: list[Variant] = field(default_factory=list)
    sent: dict[str, SentTexts] = field(default_factory=dict)
    _rng: np.random.Generator | None = None

    @property
    def rng(self) -> np.random.Generator:
        """One Generator for the whole check."""
        if self._rng is None:
            self._rng = np.random.default_rng(self.seed)
        return self._rng

    def table(self, dataset: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows."""
        table = self.tables[dataset]
        return table if columns is None else table.select(choose(columns, table.column_names, f"dataset {dataset}"))

    def batches(self, dataset: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Rows, ``batch_rows`` at a time."""
        table = self.tables[dataset]
        table = table if columns is None else table.select(choose(columns, table.column_names, f"dataset {dataset}"))
        return (batch for batch in table.to_batches(self.batch_rows) if batch.num_rows)

    def scan(self, scans: Sequence[Scan]) -> list[Any]:
        """A pass for this check alone."""
        return look(scans, self.batches)

    def label(self, dataset: str) -> str | None:
        """Label column."""
        return self.labels.get(dataset)

    def key(self, dataset: str) -> str | None:
        """Column that names a row."""
        return self.keys.get(dataset)

    def label_unit(self, dataset: str) -> str | None:
        """Its unit."""
        return self.label_units.get(dataset)

    def origin(self, dataset: str) -> Mapping[str, str]:
        """Where it is from."""
        return self.origins.get(dataset, {})

    def column_names(self, dataset: str) -> tuple[str, ...]:
        """Its columns."""
        return tuple(self.tables[dataset].column_names)

    def has_clusters(self, dataset: str) -> bool:
        """The test gave clusters."""
        return dataset in self.cluster_of

    def feature_columns(self, dataset: str) -> tuple[str, ...]:
        """What the candidate reads."""
        if dataset in self.features:
            return self.features[dataset]
        return tuple(name for name in self.tables[dataset].column_names if name != self.label(dataset))

    def stated_columns(self, dataset: str) -> tuple[str, ...]:
        """What the candidate is said to read."""
        return self.features.get(dataset, ())

    def clusters(self, dataset: str) -> NDArray[np.int64] | None:
        """Clusters."""
        return self.cluster_of.get(dataset)

    def predictions(self, dataset: str, model: str | None = None) -> Predictions:
        """Predictions that the test made."""
        key = (dataset, model or self.model)
        if key not in self.answers:
            raise InputError(f"no predictions of {key[1]} on {key[0]}")
        return self.answers[key]

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str | None = None, *, variant: Variant = FIRST
    ) -> Predictions:
        """What the test's model says of these rows."""
        self.altered.append(name)
        if self.answering is None:
            raise NotRunError(f"{model or self.model} can't be asked about other rows")
        self.variants.append(variant)
        return self.answering(rows, dataset, model or self.model)

    def sent_texts(self, model: str) -> SentTexts | None:
        """What the test says that it is sent."""
        return self.sent.get(model)

    def token_likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str | None = None, *, beside: str | None = None
    ) -> TokenLikelihoods:
        """What the test's model says of these texts."""
        if self.likelihoods is None:
            raise NotRunError(f"{model or self.model} gives no likelihoods")
        return self.likelihoods(texts, windows, model or self.model, beside)

    def slice_names(self) -> tuple[str, ...]:
        """Names of slices."""
        return tuple(dict.fromkeys(name for name, _ in self.slices))

    def slice_where(self, name: str) -> str:
        """What the test says that it says; of one that is only a mask a column that is not there."""
        return self.wheres.get(name, f"`{name}` is None")

    def slice_mask(self, name: str, dataset: str) -> SliceMask:
        """Rows of a slice."""
        found = self.slices[name, dataset]
        return SliceMask(found[0], found[1]) if isinstance(found, tuple) else SliceMask(found, 0)

    def measure(self, schedule: Schedule, dataset: str, model: str | None = None) -> list[Samples]:
        """Timings that the test made."""
        self.schedules.append(schedule)
        return self._timings(schedule, model or self.model)

    def measure_paired(self, schedule: Schedule, dataset: str, baseline: str) -> tuple[list[Samples], list[Samples]]:
        """Timings of both."""
        self.schedules.append(schedule)
        if self.pairs is not None:
            return self.pairs(schedule, baseline)
        return self._timings(schedule, self.model), self._timings(schedule, baseline)

    def probe(
        self,
        probe: str,
        dataset: str,
        model: str | None = None,
        *,
        processes: int = 1,
        options: Mapping[str, Cell] | None = None,
        telemetry_s: float | None = None,
    ) -> list[Probe]:
        """What the test says that processes found."""
        self.probed.append((probe, dict(options or {})))
        if isinstance(self.probes, Mapping):
            if probe not in self.probes:
                raise NotRunError(f"{model or self.model} can't be asked for {probe}")
            return [one for one in self.probes[probe] if one.model == (model or self.model)]
        return self.probes(probe, model or self.model, options or {})

    def model_facts(self, model: str | None = None) -> Mapping[str, Cell]:
        """Facts of a model."""
        return self.facts.get(model or self.model, {})

    def code(self, path: str, what: str) -> Path:
        """Code lies in the folder for evidence."""
        return self.evidence / path

    def file(self, path: str) -> Path:
        """Files lie in the folder for evidence."""
        return self.evidence / path

    def files(self, dataset: str) -> tuple[Path, ...]:
        """One file, named as the dataset, in the folder for evidence."""
        return (self.evidence / f"{dataset}.parquet",)

    def progress(self, done: float, total: float, what: str) -> None:
        """Kept in ``progressed``."""
        self.progressed.append((done, total, what))

    def _timings(self, schedule: Schedule, model: str) -> list[Samples]:
        if self.samples is None:
            raise NotRunError(f"{model} can't be timed")
        return self.samples[model] if isinstance(self.samples, Mapping) else self.samples(model, schedule)


def classifier(
    probabilities: ArrayLike,
    truth: ArrayLike | None,
    *,
    dataset: str = "test",
    model: str = CANDIDATE,
    classes: Sequence[str] | None = None,
    clusters: NDArray[np.int64] | None = None,
) -> Predictions:
    """Predictions from probabilities.

    Args:
        probabilities: shape (n, C).
        truth: shape (n,), class index; None: the dataset has no label.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    return Predictions(
        model=model, dataset=dataset, n=len(p),
        classes=tuple(classes) if classes else tuple(str(i) for i in range(p.shape[1])),
        probabilities=p, predicted=p.argmax(axis=1).astype(np.int64), values=None, lower=None, upper=None,
        truth=None if truth is None else np.asarray(truth, dtype=np.int64), clusters=clusters,
        digest=f"{model}@{dataset}",
    )  # fmt: skip


def writer(
    texts: Sequence[str],
    truth: Sequence[str | tuple[str, ...]] | None,
    *,
    dataset: str = "test",
    model: str = CANDIDATE,
    clusters: NDArray[np.int64] | None = None,
    finish_reasons: Sequence[str] | None = None,
    tokens: ArrayLike | None = None,
    extracted: Sequence[str | None] | None = None,
    extracted_as: AnswerKind = "text",
) -> Predictions:
    """Predictions of texts.

    Args:
        texts: What was written.
        truth: What should have been, or several of it in a row; None: the dataset has no label.
        finish_reasons: Why each text ends; None: the model does not say.
        tokens: How many each has; None: the model does not say.
        extracted: The answer inside each, or None; None: whole texts are compared.
        extracted_as: How these are compared.
    """

    def objects(values: Sequence[object]) -> NDArray[np.object_]:
        found = np.empty(len(values), dtype=object)
        for index, one in enumerate(values):
            found[index] = one
        return found

    return Predictions(
        model=model, dataset=dataset, n=len(texts), classes=None, probabilities=None, predicted=None, values=None,
        lower=None, upper=None, truth=None if truth is None else objects(truth), clusters=clusters,
        digest=f"{model}@{dataset}", texts=objects(texts),
        finish_reasons=None if finish_reasons is None else objects(finish_reasons),
        tokens=None if tokens is None else np.asarray(tokens, dtype=np.int64),
        extracted=None if extracted is None else objects(extracted),
        extracted_as=None if extracted is None else extracted_as,
    )  # fmt: skip


def tagger(
    members: ArrayLike,
    truth: ArrayLike | None,
    *,
    probabilities: ArrayLike | None = None,
    dataset: str = "test",
    model: str = CANDIDATE,
    classes: Sequence[str] | None = None,
    clusters: NDArray[np.int64] | None = None,
) -> Predictions:
    """Predictions of any number of classes a row.

    Args:
        members: shape (n, C), bool.
        truth: The same; None: the dataset has no label.
        probabilities: shape (n, C), or None.
    """
    said = np.asarray(members, dtype=np.bool_)
    return Predictions(
        model=model, dataset=dataset, n=len(said),
        classes=tuple(classes) if classes else tuple(str(i) for i in range(said.shape[1])),
        probabilities=None if probabilities is None else np.asarray(probabilities, dtype=np.float64), predicted=None,
        values=None, lower=None, upper=None, truth=None if truth is None else np.asarray(truth, dtype=np.bool_),
        clusters=clusters, digest=f"{model}@{dataset}", members=said,
    )  # fmt: skip


def boxed(
    found: Boxes,
    true: Boxes | None,
    rows: int,
    *,
    classes: Sequence[str],
    dataset: str = "test",
    model: str = CANDIDATE,
    clusters: NDArray[np.int64] | None = None,
) -> Predictions:
    """Predictions of boxes in so many pictures."""
    return Predictions(
        model=model, dataset=dataset, n=rows, classes=tuple(classes), probabilities=None, predicted=None, values=None,
        lower=None, upper=None, truth=None, clusters=clusters, digest=f"{model}@{dataset}", boxes=found,
        true_boxes=true,
    )  # fmt: skip


def painter(
    masks: ArrayLike,
    truth: ArrayLike | None,
    *,
    classes: Sequence[str],
    dataset: str = "test",
    model: str = CANDIDATE,
    clusters: NDArray[np.int64] | None = None,
) -> Predictions:
    """Predictions of masks, shape (n, H, W)."""
    said = np.asarray(masks, dtype=np.int64)
    return Predictions(
        model=model, dataset=dataset, n=len(said), classes=tuple(classes), probabilities=None, predicted=None,
        values=None, lower=None, upper=None, truth=None if truth is None else np.asarray(truth, dtype=np.int64),
        clusters=clusters, digest=f"{model}@{dataset}", masks=said,
    )  # fmt: skip


def regressor(
    values: ArrayLike,
    truth: ArrayLike | None,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    dataset: str = "test",
    model: str = CANDIDATE,
    label_unit: str | None = None,
    clusters: NDArray[np.int64] | None = None,
) -> Predictions:
    """Predictions of numbers, each shape (n,)."""
    v = np.asarray(values, dtype=np.float64)
    return Predictions(
        model=model, dataset=dataset, n=len(v), classes=None, probabilities=None, predicted=None, values=v,
        lower=None if lower is None else np.asarray(lower, dtype=np.float64),
        upper=None if upper is None else np.asarray(upper, dtype=np.float64),
        truth=None if truth is None else np.asarray(truth, dtype=np.float64),
        clusters=clusters, digest=f"{model}@{dataset}", label_unit=label_unit,
    )  # fmt: skip


def samples(
    latencies_ms: ArrayLike,
    *,
    process: int = 0,
    model: str = CANDIDATE,
    block: ArrayLike | None = None,
    batch: int = 1,
    ok: ArrayLike | None = None,
    details: Mapping[str, Cell] | None = None,
) -> Samples:
    """Closed-loop timings: each query is sent when the one before it has ended.

    Args:
        latencies_ms: shape (q,).
        block: shape (q,); default: one block.
        ok: shape (q,); default: every query answered.
    """
    ns = np.round(np.asarray(latencies_ms, dtype=np.float64) * 1e6).astype(np.int64)
    end = np.cumsum(ns)
    sent = end - ns
    count = len(ns)
    return Samples(
        model=model, process=process,
        block=np.zeros(count, dtype=np.int64) if block is None else np.asarray(block, dtype=np.int64),
        intended_ns=sent.copy(), sent_ns=sent, end_ns=end, items=np.arange(count, dtype=np.int64) * batch, batch=batch,
        ok=np.ones(count, dtype=np.bool_) if ok is None else np.asarray(ok, dtype=np.bool_),
        warmup=32, details=dict(details or {}),
    )  # fmt: skip


def p_values(
    result: CheckResult, requirement: Requirement, part: str | None = None
) -> tuple[float | None, float | None]:
    """(p_pass, p_fail) of a requirement on a value, asked of the estimate itself."""
    found: Estimate | Fact | Parts | Measured = result.estimates[requirement.metric]
    if isinstance(found, Measured):
        found = found.estimate
    if isinstance(found, Parts):
        whole = found.parts[part] if part is not None else found.whole
        assert whole is not None
        found = whole
        if isinstance(found, Measured):
            found = found.estimate
        assert not isinstance(found, Parts)
    if isinstance(found, Fact):
        raise TypeError(f"{requirement.metric} is an exact fact")
    holds, fails = _sides(requirement)
    return found.p_value(requirement.threshold, holds), found.p_value(requirement.threshold, fails)


def comparison_p_values(result: CheckResult, requirement: Requirement) -> tuple[float | None, float | None]:
    """(p_pass, p_fail) of a requirement that names a model."""
    assert requirement.model is not None
    found: Comparison | ComparisonParts = result.comparisons[requirement.metric, requirement.model]
    if isinstance(found, ComparisonParts):
        assert found.whole is not None
        found = found.whole
    if requirement.is_ratio:
        estimate, threshold = found.ratio(), requirement.factor
        assert estimate is not None
    else:
        estimate, threshold = found.difference(requirement.factor, requirement.threshold), requirement.threshold
    holds, fails = _sides(requirement)
    return estimate.p_value(threshold, holds), estimate.p_value(threshold, fails)


def _sides(requirement: Requirement) -> tuple[Side, Side]:
    return ("upper", "lower") if requirement.upper else ("lower", "upper")

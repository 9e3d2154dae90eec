"""What a check is handed: rows, predictions, timings. Arrays are described here, made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Header:
    """What can be known of a dataset without reading its rows.

    Args:
        rows: Number of rows, or None where the format doesn't say before it is read.
        columns: Column: arrow type as text, in the file's order.
    """

    rows: int | None
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a model said of every row of a dataset, in the dataset's row order.

    Args:
        model: Name of the model in the spec.
        dataset: Name of the dataset.
        n: Rows.
        classes: Label of each class index, as text; None for regression.
        probabilities: shape (n, C), rows sum to 1; None where the model gives none.
        predicted: shape (n,), class index; None for regression.
        values: shape (n,), predicted value in the label's unit; None for classification.
        lower, upper: shape (n,), a stated prediction interval, or None.
        truth: shape (n,): class index (int64) or value (float64); None where the dataset has no label.
        clusters: shape (n,), index of each row's cluster; None where the dataset has no ``cluster:``.
        digest: Digest of model, preprocessing, dataset and batch that these came from.
        label_unit: Unit of ``values``, or None.
        details: Facts of the run: precision and provider observed, batch, padding, seconds.
    """

    model: str
    dataset: str
    n: int
    classes: tuple[str, ...] | None
    probabilities: NDArray[np.float64] | None
    predicted: NDArray[np.int64] | None
    values: NDArray[np.float64] | None
    lower: NDArray[np.float64] | None
    upper: NDArray[np.float64] | None
    truth: NDArray[Any] | None
    clusters: NDArray[np.int64] | None
    digest: str
    label_unit: str | None = None
    details: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)

    @property
    def is_classification(self) -> bool:
        """It has classes."""
        return self.classes is not None


@dataclass(frozen=True, slots=True)
class Samples:
    """Raw timings of one model in one fresh process, in the order in which they were made.

    Args:
        model: Name of the model.
        process: Index of the fresh process (pairs share it).
        block: shape (q,), index of the block (A B B A: 0..3; 0 where there are no blocks).
        intended_ns, sent_ns, end_ns: shape (q,), on the process's monotonic clock, from the start of measuring.
        items: shape (q,), row index of the first item of each query.
        batch: Items per query.
        ok: shape (q,), False where the query raised.
        warmup: Queries made before and not kept here.
        details: Threads, provider and precision observed, warm-up seconds, timer overhead.
        answers: shape (q, batch), class index or value that was answered, NaN where there was none; None: not kept.
    """

    model: str
    process: int
    block: NDArray[np.int64]
    intended_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    items: NDArray[np.int64]
    batch: int
    ok: NDArray[np.bool_]
    warmup: int
    details: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    answers: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a worker is asked to measure.

    Args:
        kind: ``single_stream``: one query after the other; ``offline``: batches back to back, until time and count.
        queries: Queries in each fresh process (for ``offline``: at the least).
        processes: Fresh processes (for a comparison: pairs of them).
        batch: Items per query.
        warmup_queries: At least so many queries before measuring.
        warmup_s: And at least so long.
        min_s: Measure at least so long in each process or block.
        seed: Order of the items.
        limit_s: Give up a process after so long.
    """

    kind: Literal["single_stream", "offline"]
    queries: int
    processes: int = 5
    batch: int = 1
    warmup_queries: int = 32
    warmup_s: float = 0.5
    min_s: float = 0.0
    seed: int = 0
    limit_s: float = 600.0


class Inputs(Protocol):
    """What a check may ask for while it runs."""

    @property
    def rng(self) -> np.random.Generator:
        """A Generator of this check's own, from the spec's seed and the check's id."""
        ...

    @property
    def confidence(self) -> float:
        """Of the policy."""
        ...

    @property
    def alpha_fail(self) -> float:
        """The strictest level Holm will ask for: resampling must reach beyond it."""
        ...

    @property
    def draft(self) -> bool:
        """Few rows, few queries."""
        ...

    @property
    def evidence(self) -> Path:
        """Folder for this check's raw samples (parquet)."""
        ...

    def table(self, dataset: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a dataset; None: all columns."""
        ...

    def label(self, dataset: str) -> str | None:
        """Name of the label column."""
        ...

    def label_unit(self, dataset: str) -> str | None:
        """Unit of a regression label."""
        ...

    def feature_columns(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate reads, or all that are neither label, key nor cluster."""
        ...

    def clusters(self, dataset: str) -> NDArray[np.int64] | None:
        """Index of each row's cluster, shape (n,); None where the dataset names no cluster."""
        ...

    def predictions(self, dataset: str, model: str | None = None) -> Predictions:
        """Predictions of a model (default: the check's own) on a dataset; made once and shared."""
        ...

    def slice_names(self) -> tuple[str, ...]:
        """Names in the spec's ``slices:``."""
        ...

    def slice_mask(self, name: str, dataset: str) -> SliceMask:
        """Rows of a named slice."""
        ...

    def measure(self, schedule: Schedule, dataset: str, model: str | None = None) -> list[Samples]:
        """Fresh processes, one after the other, each measured by this schedule."""
        ...

    def measure_paired(self, schedule: Schedule, dataset: str, baseline: str) -> tuple[list[Samples], list[Samples]]:
        """A B B A blocks of the check's model and a baseline in pairs of fresh processes."""
        ...

    def model_facts(self, model: str | None = None) -> Mapping[str, str | int | float | bool | None]:
        """Size, precision asked and observed, device, batch, preprocessing digest."""
        ...

    def code(self, path: str, what: str) -> Path:
        """A file of code that the spec names; ``what`` names it in the sentence where it may not run.

        Raises:
            InputError: It is not there, or code may not run.
        """
        ...

    def progress(self, done: float, total: float, what: str) -> None:
        """Tell how far the check has come."""
        ...


@dataclass(frozen=True, slots=True)
class SliceMask:
    """Rows inside a slice. A row whose column is missing belongs to neither side and is counted.

    Args:
        inside: shape (n,).
        missing: Rows whose column is missing.
    """

    inside: NDArray[np.bool_]
    missing: int

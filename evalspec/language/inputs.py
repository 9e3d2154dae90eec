"""Inputs of a check: rows, predictions, timings. Arrays are described here, made elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from evalspec.evidence.frozen import Cell
from evalspec.language.streams import Streams

if TYPE_CHECKING:
    import datetime

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.language.likelihoods import TokenLikelihoods, Windows
    from evalspec.language.scans import Scan


Cells = Mapping[str, Cell]
"""Facts by name."""


Task = Literal["classes", "values", "labels", "text", "boxes", "mask", "embedding"]
"""What a model gives for a row: one class, one value, any number of classes, a text, boxes, a class for each pixel, or
nothing but an embedding."""

AnswerKind = Literal["text", "number", "letter"]
"""How the answer inside a text is compared: as it is, by its decimal value, as one letter."""

GIVES: Mapping[Task, str] = {
    "classes": "classes", "values": "values", "labels": "several labels a row", "text": "texts", "boxes": "boxes",
    "mask": "masks", "embedding": "embeddings",
}  # fmt: skip
"""What a model of each task gives, as it stands in a sentence."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes in many pictures, those of one row after those of the row before.

    Args:
        row: shape (m,), rising: index of the row that each box is in.
        corners: shape (m, 4): left, top, right, bottom, in pixels.
        classes: shape (m,), class index.
        scores: shape (m,), how sure the model is; None: they are true.
        ignored: shape (m,), true boxes that count neither for nor against (COCO's crowds); None: none.
    """

    row: NDArray[np.int64]
    corners: NDArray[np.float64]
    classes: NDArray[np.int64]
    scores: NDArray[np.float64] | None = None
    ignored: NDArray[np.bool_] | None = None


class Answered(Protocol):
    """Answers that show by what is there which task they are of."""

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Label of each class index."""
        ...

    @property
    def values(self) -> NDArray[np.float64] | None:
        """Of values."""
        ...

    @property
    def members(self) -> NDArray[np.bool_] | None:
        """Of several labels a row."""
        ...

    @property
    def texts(self) -> NDArray[np.object_] | None:
        """Of texts."""
        ...

    @property
    def masks(self) -> NDArray[np.int64] | None:
        """Of masks."""
        ...

    @property
    def boxes(self) -> Boxes | None:
        """Of boxes."""
        ...


def task_of(answers: Answered) -> Task:
    """Task of a model: the kind of answer that it gives for a row.

    Args:
        answers: Its answers.
    """
    others: tuple[tuple[Task, object | None], ...] = (
        ("labels", answers.members), ("text", answers.texts), ("boxes", answers.boxes), ("mask", answers.masks),
    )  # fmt: skip
    given = next((task for task, found in others if found is not None), None)
    if given is not None:
        return given
    if answers.classes is not None:
        return "classes"
    return "embedding" if answers.values is None else "values"


@dataclass(frozen=True, slots=True)
class Predictions:
    """Answers of a model to every row of a dataset, in the dataset's row order.

    Args:
        model: Name of the model in the spec.
        dataset: Name of the dataset.
        n: Rows.
        classes: Label of each class index, as text; None where nothing has classes.
        probabilities: shape (n, C), rows sum to 1 (of ``labels``: each by itself); None where the model gives none.
        predicted: shape (n,), class index; None for another task.
        values: shape (n,), predicted value in the label's unit; None for another task.
        lower, upper: shape (n,), a stated prediction interval, or None.
        truth: None where the dataset has no label; else by task. ``classes``: shape (n,), class index (int64).
            ``values``: shape (n,), float64. ``labels``: shape (n, C), bool. ``text``: shape (n,), objects: a str, or
            a tuple of str where a row has several references. ``boxes``: None (see ``true_boxes``). ``mask``: shape
            (n, H, W), class index, -1 where nothing is judged.
        clusters: shape (n,), index of each row's cluster; None where the dataset has no ``cluster:``.
        digest: Digest of model, preprocessing, dataset and batch that these came from.
        label_unit: Unit of ``values``, or None.
        details: Facts of the run: precision and provider observed, batch, padding, seconds.
        members: ``labels``: shape (n, C), classes that the model says a row has.
        texts: ``text``: shape (n,), str objects, as the model wrote them.
        masks: ``mask``: shape (n, H, W), class index of each pixel.
        boxes: ``boxes``: what the model found.
        true_boxes: ``boxes``: what is there; None where the dataset has no label.
        embeddings: shape (n, d), float32: what the model makes of a row before it answers, or beside its answer; None:
            none is named in its ``outputs``.
        finish_reasons: ``text``: shape (n,), str objects: why the model stopped (``stop``, ``length``), or None.
        tokens: ``text``: shape (n,), how many tokens it wrote, or None.
        extracted: ``text``: shape (n,), the answer inside each text, as a str in the form in which it is compared, or
            None where a text has none; None: the model has no ``answer:``, and whole texts are compared.
        extracted_as: How these are compared; None: there are none.
        masses: ``classes`` of a model that chooses from options: shape (n,), probability that all of them together
            have; or None.
        again: Further answers to the same rows, each as good as these: other samples, or other orders of options.
        by_template: Answers by the other templates of the model's prompt, each with further ones of its own.
        written: Texts that a model which chooses from options writes beside, with further ones of their own; or None.
        asked: Answers to each row of the dataset, where all of them stand below each other; then ``n`` counts answers.
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
    details: Cells = field(default_factory=dict)
    members: NDArray[np.bool_] | None = None
    texts: NDArray[np.object_] | None = None
    masks: NDArray[np.int64] | None = None
    boxes: Boxes | None = None
    true_boxes: Boxes | None = None
    embeddings: NDArray[np.float32] | None = None
    finish_reasons: NDArray[np.object_] | None = None
    tokens: NDArray[np.int64] | None = None
    extracted: NDArray[np.object_] | None = None
    extracted_as: AnswerKind | None = None
    masses: NDArray[np.float64] | None = None
    again: tuple[Predictions, ...] = ()
    by_template: tuple[Predictions, ...] = ()
    written: Predictions | None = None
    asked: int = 1

    @property
    def task(self) -> Task:
        """Kind of answer that it gives for a row."""
        return task_of(self)

    @property
    def is_classification(self) -> bool:
        """True if it gives one class for a row."""
        return self.task == "classes"


OUTCOMES: tuple[str, ...] = (
    "answered",
    "failed",
    "timed out",
    "not connected",
    "connection broke",
    "refused (HTTP 4xx)",
    "server error (HTTP 5xx)",
    "answer not understood",
    "answer of another shape",
    "answer not finite",
    "not sent",
    "cut off",
    "error in the stream",
    "empty answer",
)
"""What became of a query; `Samples.outcome` is an index. "failed" is all that a model in process says."""
(
    ANSWERED, FAILED, TIMED_OUT, NOT_CONNECTED, BROKE, REFUSED, SERVER_ERROR, NOT_UNDERSTOOD, OTHER_SHAPE, NOT_FINITE,
    NOT_SENT, CUT_OFF, ERROR_IN_STREAM, EMPTY,
) = range(len(OUTCOMES))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Readings of the machine while something was measured, by a process beside it.

    Args:
        times_ns: shape (t,), on the clock of the samples beside it (0: start of measuring).
        series: Name with its unit (``gpu_power_w``, ``resident_mib``, ``cpu_steal_share``): shape (t,), NaN where a
            reading failed.
        sources: Name of a series: where it comes from (``NVML total energy counter``, ``/proc/stat``).
        missing: What could not be read: why.
    """

    times_ns: NDArray[np.int64]
    series: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowScores:
    """How good each answer is, as a check that requires something of answers scores them.

    Args:
        name: Of the metric.
        scores: shape (n,), in 0..1, larger is better.
        margin: Largest loss of the mean that the check lets pass against another model, as a fraction.
    """

    name: str
    scores: NDArray[np.float64]
    margin: float


@dataclass(frozen=True, slots=True)
class Samples:
    """Raw timings of one model in one fresh process, in the order in which they were made.

    Args:
        model: Name of the model.
        process: Index of the fresh process (pairs share it).
        block: shape (q,), index of the block (A B B A: 0..3; 0 where there are no blocks).
        intended_ns, sent_ns, end_ns: shape (q,), on the process's monotonic clock, from the start of measuring.
        items: shape (q,), row index of the first item of each query.
        batch: Items per query; where there are ``sizes``: of so many items of each the answers are kept.
        ok: shape (q,), False where the query raised.
        warmup: Queries made before and not kept here.
        details: Threads, provider and precision observed, warm-up seconds, timer overhead.
        answers: shape (q, batch), class index or value that was answered, NaN where there was none; None: not kept.
        first_ns: shape (q,), when the first byte of the answer came; None: with the rest of it.
        outcome: shape (q,), index into `OUTCOMES`; None: answered where ``ok``, else failed.
        together: shape (q,), queries that the server took together (dynamic batching); None: each by itself.
        telemetry: What was read of the machine meanwhile, or None.
        sizes: shape (q,), items of each query; None: ``batch`` in all of them.
        streams: Answers of the queries, where the model streams them.
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
    details: Cells = field(default_factory=dict)
    answers: NDArray[np.float64] | None = None
    first_ns: NDArray[np.int64] | None = None
    outcome: NDArray[np.int64] | None = None
    together: NDArray[np.int64] | None = None
    telemetry: Telemetry | None = None
    sizes: NDArray[np.int64] | None = None
    streams: Streams | None = None


PER_QUERY = (
    "block", "intended_ns", "sent_ns", "end_ns", "items", "ok", "answers", "first_ns", "outcome", "together", "sizes",
)  # fmt: skip
"""Fields of `Samples` that have one value, or one row, for each query."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Schedule of a measurement, for a worker.

    Args:
        kind: ``single_stream``: one query after the other; ``multi_stream``: one item of each of ``batch`` streams at
            a time, together; ``offline``: batches back to back, until time and count; ``open_loop``: queries at the
            times in ``arrivals_ns``, whether or not the ones before have ended.
        queries: Queries in each fresh process (for ``offline``: at the least).
        processes: Fresh processes (for a comparison: pairs of them).
        batch: Items per query.
        warmup_queries: At least so many queries before measuring.
        warmup_s: And at least so long.
        settle: And until latencies are steady, or too long.
        min_s: Measure at least so long in each process or block.
        seed: Order of the items.
        limit_s: Give up a process after so long.
        arrivals_ns: ``open_loop``: shape (queries,), rising, when each query is to be sent.
        items: ``open_loop``: shape (queries,), row of each query; None: the seeded order.
        interval_ns: ``multi_stream``: a query each so many ns, whether or not the one before has ended; None: one
            after the other.
        max_batch: ``open_loop`` in process: so many waiting queries are served together at the most.
        queue_delay_s: And a query waits at most so long for others to join it.
        timeout_s: A query that takes longer has failed.
        clients: Client processes that drive a server.
        connections: Connections of each client to a server. ``offline``: so many requests to it are always under way.
        repeats: Each item is asked for so many times in a row (1; 2 in an audit for caching: block 0 first, 1 again).
        telemetry_s: Read the machine's counters each so many seconds meanwhile; None: don't.
        background: Work that runs beside it: ``cpu``, ``memory``, ``gpu``; None: nothing.
        background_workers: Processes of it.
        sizes: ``open_loop``: shape (queries,), items of each query, handed to the model in one batch; then ``batch`` is
            so many of them whose answers are kept. None: ``batch`` in all of them.
    """

    kind: Literal["single_stream", "multi_stream", "offline", "open_loop"]
    queries: int
    processes: int = 5
    batch: int = 1
    warmup_queries: int = 32
    warmup_s: float = 0.5
    settle: bool = True
    min_s: float = 0.0
    seed: int = 0
    limit_s: float = 600.0
    arrivals_ns: NDArray[np.int64] | None = None
    items: NDArray[np.int64] | None = None
    interval_ns: int | None = None
    max_batch: int = 1
    queue_delay_s: float = 0.0
    timeout_s: float = 10.0
    clients: int = 1
    connections: int = 1
    repeats: int = 1
    telemetry_s: float | None = None
    background: str | None = None
    background_workers: int = 1
    sizes: NDArray[np.int64] | None = None

    @property
    def measuring_s(self) -> float:
        """Of ``limit_s``: what is left is for the answer of the process."""
        return 0.9 * self.limit_s


@dataclass(frozen=True, slots=True)
class Probe:
    """Findings of a probe in one fresh process: facts and series, no decision.

    Args:
        probe: Its name: a module of ``evalspec/measure/probes``.
        model: Name of the model that the process held.
        process: Index of the fresh process.
        facts: By name, the unit in the name; always ``start_s``, ``import_s`` and ``load_s`` of its process.
        series: By name, the unit in the name: shape (k,).
        texts: By name: lists of words that go with the series (names of stages, of operators).
        telemetry: What was read of the machine meanwhile, where it was asked for.
    """

    probe: str
    model: str
    process: int
    facts: Cells
    series: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    telemetry: Telemetry | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """How a language model is asked about a row.

    Args:
        template: Place in the list of texts of its prompt; the first is what ships.
        sample: Number of an answer that is drawn at random, from 0.
        order: Rotation in which options are shown; the first is what ships.
        writes: Of a model that chooses and writes: it writes.
    """

    template: int = 0
    sample: int = 0
    order: int = 0
    writes: bool = False


FIRST = Variant()
"""What ships."""


@dataclass(frozen=True, slots=True)
class SentTexts:
    """Texts that a language model is sent with every row, beside the row's own.

    Args:
        system: The system text as it stands; None: there is none.
        examples: Of each example the text in each place.
        answers: The answer of each example.
        places: Place: the column that feeds it.
        lettered: Columns of lists that are shown as A. B. C.; other lists are shown line by line.
        chooses: The model chooses from options.
        writes: It writes texts, also where it chooses.
    """

    system: str | None
    examples: tuple[Mapping[str, str], ...]
    answers: tuple[str, ...]
    places: Mapping[str, str]
    lettered: tuple[str, ...] = ()
    chooses: bool = False
    writes: bool = True


class Inputs(Protocol):
    """Inputs that a check may ask for while it runs."""

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
    def today(self) -> datetime.date:
        """The day on which the run began (UTC); where a record is verified, that of the record."""
        ...

    @property
    def evidence(self) -> Path:
        """Folder for this check's raw samples (parquet)."""
        ...

    def table(self, dataset: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a dataset; None: all columns."""
        ...

    def batches(self, dataset: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The same rows in the same order, some at a time, none of the batches empty; nothing is kept in memory.

        Each call begins with the first row. What is wrong with a row is raised when its batch is asked for.
        """
        ...

    def scan(self, scans: Sequence[Scan]) -> list[Any]:
        """The watchers of these scans, in their order, when all rows went by; nobody may change them.

        Each dataset is gone through once at most, for other checks of the spec as well (`Check.scans`).

        Raises:
            InputError: Rows can't be read, or hold what can't be looked at.
        """
        ...

    def label(self, dataset: str) -> str | None:
        """Name of the label column."""
        ...

    def key(self, dataset: str) -> str | None:
        """Name of the column that names a row."""
        ...

    def label_unit(self, dataset: str) -> str | None:
        """Unit of a regression label."""
        ...

    def origin(self, dataset: str) -> Mapping[str, str]:
        """Where and when a dataset was collected, as the spec states it."""
        ...

    def column_names(self, dataset: str) -> tuple[str, ...]:
        """Its columns, without reading rows where the format allows."""
        ...

    def has_clusters(self, dataset: str) -> bool:
        """Rows of it may share something, so that `clusters` will say what."""
        ...

    def feature_columns(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate reads, or all that are neither label, key nor cluster."""
        ...

    def stated_columns(self, dataset: str) -> tuple[str, ...]:
        """Columns that the spec says the candidate reads, of those that are there; none where it doesn't say."""
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

    def slice_where(self, name: str) -> str:
        """Condition of a slice of the spec, as it is written there."""
        ...

    def slice_mask(self, name: str, dataset: str) -> SliceMask:
        """Rows of a named slice."""
        ...

    def measure(self, schedule: Schedule, dataset: str, model: str | None = None) -> list[Samples]:
        """Fresh processes, one after the other, each measured by this schedule."""
        ...

    def measure_paired(self, schedule: Schedule, dataset: str, baseline: str) -> tuple[list[Samples], list[Samples]]:
        """A B B A blocks of the check's model and a baseline in pairs of fresh processes.

        A schedule's background runs beside the blocks of the check's model only, so that a model can be set against
        itself.
        """
        ...

    def probe(
        self,
        probe: str,
        dataset: str,
        model: str | None = None,
        *,
        processes: int = 1,
        options: Cells | None = None,
        telemetry_s: float | None = None,
    ) -> list[Probe]:
        """Ask fresh processes, one after the other, that hold the model and these rows.

        Args:
            probe: A module of ``evalspec/measure/probes``.
            dataset: Rows that it may serve.
            model: Default: the check's own.
            processes: How many.
            options: Handed to the probe.
            telemetry_s: Read the machine's counters each so many seconds meanwhile; None: don't.
        """
        ...

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str | None = None, *, variant: Variant = FIRST
    ) -> Predictions:
        """Answers of a model (default: the check's own) to rows that the check made, asked for now.

        Altered copies, or the rows of `table` as they are: then the model is asked a second time, in another process
        than the one that made `predictions`. Nothing is shared: the same rows under another name are asked about again.
        `NeedPredictions.copies` counts how often.

        Args:
            rows: With the columns of the dataset; its label and clusters are read from here.
            dataset: Where they come from.
            name: Of these rows, once for each check: ``blur 3``.
            model: Default: the check's own.
            variant: Wording and draw, of a language model.

        Raises:
            NotRunError: The model is read from files, which hold no answers to other rows.
        """
        ...

    def sent_texts(self, model: str) -> SentTexts | None:
        """Texts that a language model is sent with every row; None: it is sent no prompt.

        Raises:
            InputError: Examples of its prompt can't be read.
        """
        ...

    def token_likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str | None = None, *, beside: str | None = None
    ) -> TokenLikelihoods:
        """Likelihoods that a language model (default: the check's own) gives the tokens of texts, asked for now.

        Args:
            texts: Each by itself.
            name: Of these texts and windows, once for each check and model: ``heldout``.
            windows: As the texts are cut.
            model: Default: the check's own.
            beside: A model that the same process holds and asks about the same tokens; None: none.

        Raises:
            InputError: The model has no such context, or gives no finite likelihood.
            NotRunError: It gives no likelihoods, or the two have other tokens.
        """
        ...

    def model_facts(self, model: str | None = None) -> Cells:
        """Size, precision asked and observed, device, batch, preprocessing digest."""
        ...

    def code(self, path: str, what: str) -> Path:
        """A file of code that the spec names; ``what`` names it in the sentence where it may not run.

        Raises:
            InputError: It is not there, or code may not run.
        """
        ...

    def file(self, path: str) -> Path:
        """A file that the check names.

        Raises:
            InputError: It is not there, or lies outside the spec's folder and may not.
        """
        ...

    def files(self, dataset: str) -> tuple[Path, ...]:
        """The files that a dataset is read from; empty where it comes with a package."""
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

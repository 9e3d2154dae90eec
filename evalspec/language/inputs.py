"""Inputs of a check: all that it may ask for while it runs, in `Inputs`; nothing else is handed to it.

Rows come as Arrow tables. Answers of a model are `Predictions` (`evalspec.language.predictions`); timings, made by a
`Schedule`, are `Samples` and `Probe` (`evalspec.language.timings`). A check imports all of them from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evalspec.evidence.frozen import Cells
from evalspec.language.predictions import FIRST, Predictions, RowScores, Variant
from evalspec.language.timings import Probe, Samples, Schedule

if TYPE_CHECKING:
    import datetime

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.language.likelihoods import TokenLikelihoods, Windows
    from evalspec.language.scans import Scan

__all__ = [
    "FIRST", "Inputs", "Predictions", "Probe", "RowScores", "Samples", "Schedule", "SentTexts", "SliceMask", "Variant",
]  # fmt: skip


class Inputs(Protocol):
    """Everything that a check may request while it runs."""

    @property
    def rng(self) -> np.random.Generator:
        """Random generator of this check, seeded by the spec's seed and the check's id."""
        ...

    @property
    def confidence(self) -> float:
        """Confidence of the policy."""
        ...

    @property
    def alpha_fail(self) -> float:
        """The strictest level that Holm's correction may use; resampling must resolve smaller p-values."""
        ...

    @property
    def draft(self) -> bool:
        """True in a draft: few rows and few queries."""
        ...

    @property
    def today(self) -> datetime.date:
        """The day on which the run began (UTC); in a verification, the day of the record."""
        ...

    @property
    def evidence(self) -> Path:
        """Folder for this check's raw samples (parquet)."""
        ...

    def table(self, dataset: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a dataset, with these columns; None: all columns."""
        ...

    def batches(self, dataset: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of `table` in the same order, in batches that are never empty; nothing is kept in memory.

        Each call begins with the first row. An error in a row is raised with its batch.
        """
        ...

    def scan(self, scans: Sequence[Scan]) -> list[Any]:
        """The watchers of these scans, in their order, after all rows have passed; they must not be changed.

        Each dataset is read once at most, also for other checks of the spec (`Check.scans`).

        Raises:
            InputError: Rows can't be read, or hold values that can't be used.
        """
        ...

    def label(self, dataset: str) -> str | None:
        """Name of the label column."""
        ...

    def key(self, dataset: str) -> str | None:
        """Name of the key column."""
        ...

    def label_unit(self, dataset: str) -> str | None:
        """Unit of a regression label."""
        ...

    def origin(self, dataset: str) -> Mapping[str, str]:
        """Where and when a dataset was collected, as the spec states it."""
        ...

    def column_names(self, dataset: str) -> tuple[str, ...]:
        """Names of its columns; rows are read only if the format requires it."""
        ...

    def has_clusters(self, dataset: str) -> bool:
        """True if its rows may belong to clusters; `clusters` returns them."""
        ...

    def feature_columns(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate reads, or all that are neither label, key nor cluster."""
        ...

    def stated_columns(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate reads according to the spec, if the dataset has them; empty: it does not say."""
        ...

    def clusters(self, dataset: str) -> NDArray[np.int64] | None:
        """Index of each row's cluster, shape (n,); None: the dataset has none."""
        ...

    def predictions(self, dataset: str, model: str | None = None) -> Predictions:
        """Predictions of a model (default: the check's own) on a dataset; computed once and shared."""
        ...

    def slice_names(self) -> tuple[str, ...]:
        """Names in the spec's ``slices:``."""
        ...

    def slice_where(self, name: str) -> str:
        """Condition of a slice, as written in the spec."""
        ...

    def slice_mask(self, name: str, dataset: str) -> SliceMask:
        """Rows of a named slice."""
        ...

    def measure(self, schedule: Schedule, dataset: str, model: str | None = None) -> list[Samples]:
        """Measure fresh processes, one after the other, by this schedule."""
        ...

    def measure_paired(self, schedule: Schedule, dataset: str, baseline: str) -> tuple[list[Samples], list[Samples]]:
        """Measure the check's model and a baseline in A B B A blocks, in pairs of fresh processes.

        A schedule's background runs only during the blocks of the check's model, so a model can be compared with
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
        """Run a probe in fresh processes, one after the other, that hold the model and these rows.

        Args:
            probe: A module of ``evalspec/measure/probes``.
            dataset: Rows that it may serve.
            model: Default: the check's own.
            processes: Number of processes.
            options: Options of the probe.
            telemetry_s: Interval at which the machine's counters are read; None: they are not read.
        """
        ...

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str | None = None, *, variant: Variant = FIRST
    ) -> Predictions:
        """Answers of a model (default: the check's own) to rows that the check made, computed now.

        The rows are altered copies, or those of `table` unchanged. A different process answers them than for
        `predictions`, and nothing is shared: the same rows under another name are answered again.
        `NeedPredictions.copies` states the number of calls.

        Args:
            rows: Rows with the columns of the dataset; label and clusters are read from them.
            dataset: Dataset that they come from.
            name: Name of these rows, unique within the check: ``blur 3``.
            model: Default: the check's own.
            variant: Wording and draw, for a language model.

        Raises:
            NotRunError: The model's answers are in files, which have none for other rows.
        """
        ...

    def sent_texts(self, model: str) -> SentTexts | None:
        """Texts that a language model receives with every row; None: it has no prompt.

        Raises:
            InputError: Examples of its prompt can't be read.
        """
        ...

    def token_likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str | None = None, *, beside: str | None = None
    ) -> TokenLikelihoods:
        """Likelihoods of the tokens of texts by a language model (default: the check's own), computed now.

        Args:
            texts: Texts, each scored separately.
            name: Name of these texts and windows, unique for each check and model: ``heldout``.
            windows: How texts are cut into windows.
            model: Default: the check's own.
            beside: A second model that scores the same tokens in the same process; None: none.

        Raises:
            InputError: The model has no such context, or gives no finite likelihood.
            NotRunError: It gives no likelihoods, or the two models have different tokens.
        """
        ...

    def model_facts(self, model: str | None = None) -> Cells:
        """Size, precision (requested and observed), device, batch, digest of the preprocessing."""
        ...

    def code(self, path: str, what: str) -> Path:
        """A file of code that the spec names; ``what`` is its name in the error if code may not run.

        Raises:
            InputError: The file is missing, or code may not run.
        """
        ...

    def file(self, path: str) -> Path:
        """A file that the check names.

        Raises:
            InputError: The file is missing, or lies outside the spec's folder without permission.
        """
        ...

    def files(self, dataset: str) -> tuple[Path, ...]:
        """The files of a dataset; empty: it comes with a package."""
        ...

    def progress(self, done: float, total: float, what: str) -> None:
        """Report the progress of the check."""
        ...


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


@dataclass(frozen=True, slots=True)
class SliceMask:
    """Rows inside a slice. A row whose column is missing belongs to neither side and is counted.

    Args:
        inside: shape (n,).
        missing: Rows whose column is missing.
    """

    inside: NDArray[np.bool_]
    missing: int

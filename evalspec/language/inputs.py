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

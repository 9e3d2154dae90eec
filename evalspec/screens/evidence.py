"""Evidence that a screen is handed, and the look that it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from evalspec.evidence.screens import RowTrial, Suspicion

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.evidence.record import CheckRecord
    from evalspec.language.inputs import Predictions, Samples, SliceMask
    from evalspec.language.parts import Check, Dataset, Model

MOST_UNNAMED_BYTES = 64 * 2**20
"""Of the files of a dataset that no check names."""
MOST_ROWS = 20_000
"""Rows of a dataset that a screen is handed, evenly spread."""


@dataclass(frozen=True, slots=True)
class Look:
    """Observations of one screen.

    Args:
        suspicions: Those whose effect is large enough to matter, each with the p-value that it has by itself.
        questions: p-values that were computed in all, those of ``suspicions`` among them.
    """

    suspicions: tuple[Suspicion, ...] = ()
    questions: int = 0


class Evidence(Protocol):
    """Evidence of a run: rows, answers, timings and what checks wrote. Nothing is measured for a screen."""

    @property
    def rng(self) -> np.random.Generator:
        """Of this screen, from the spec's seed."""
        ...

    @property
    def checks(self) -> tuple[Check, ...]:
        """Of the spec, as it asks them."""
        ...

    @property
    def records(self) -> Mapping[str, CheckRecord]:
        """Check: what it wrote down in this run."""
        ...

    @property
    def datasets(self) -> tuple[str, ...]:
        """Those that the run has read, and `unnamed` ones."""
        ...

    @property
    def unnamed(self) -> tuple[str, ...]:
        """Datasets of the spec that no check and no model names."""
        ...

    @property
    def answers(self) -> tuple[tuple[str, str], ...]:
        """(dataset, model) of the answers that the run has."""
        ...

    def dataset(self, name: str) -> Dataset:
        """As the spec says it: label, key, cluster."""
        ...

    def model(self, name: str) -> Model:
        """As the spec says it."""
        ...

    def count(self, dataset: str) -> int:
        """All its rows."""
        ...

    def index(self, dataset: str) -> NDArray[np.int64]:
        """Rows of a dataset that `rows` gives: shape (k,), rising, k <= `MOST_ROWS`."""
        ...

    def rows(self, dataset: str) -> pa.Table:
        """Its rows, evenly spread, all columns.

        Raises:
            InputError: They can't be read.
        """
        ...

    def features(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate is said to read, or all that are neither label, key nor cluster."""
        ...

    def stated_columns(self, dataset: str) -> tuple[str, ...]:
        """Columns that the candidate is said to read, of those that are there; none where nothing is said."""
        ...

    def clusters(self, dataset: str) -> NDArray[np.int64] | None:
        """Cluster of each row of the whole dataset: shape (n,); None: rows stand for themselves."""
        ...

    def predictions(self, dataset: str, model: str) -> Predictions:
        """Answers to all rows of a dataset, beside the truth.

        Raises:
            InputError: They don't fit.
        """
        ...

    def slices(self) -> Mapping[str, str]:
        """Slice of the spec: which rows."""
        ...

    def slice_mask(self, name: str, dataset: str) -> SliceMask:
        """Rows of a slice of the spec."""
        ...

    def samples(self, check: str) -> Sequence[Samples]:
        """Every query that a check timed in this run; empty: it timed none."""
        ...

    def asks(self, metric: str, datasets: Sequence[str] = (), part: str | None = None, model: str = "") -> bool:
        """A requirement of the spec decides this already.

        Args:
            metric: Its metric.
            datasets: All of these are looked at by its check.
            part: The part that it asks; a requirement without a part asks all of them.
            model: The model that its check is about; empty: any.
        """
        ...

    @property
    def trials(self) -> tuple[RowTrial, ...]:
        """Models that were asked a few rows for the screens."""
        ...

    def suspicion(
        self, subject: str, sentence: str, suggestion: str, p_value: float | None = None, *, weakens: bool = False
    ) -> Suspicion:
        """One of this screen; ``weakens``: the verdict is weaker for it than it reads."""
        ...

    def requirement(
        self,
        dimension: Literal["system", "model", "data"],
        check: str,
        require: str,
        fields: Mapping[str, object],
    ) -> str:
        """The YAML of a check with one requirement, with an id that is free in the spec.

        Args:
            dimension: Of the check.
            check: Its kind.
            require: The sentence.
            fields: What else it needs: ``dataset``, ``reference``.
        """
        ...

    def slice_requirement(self, where: str, require: str, fields: Mapping[str, object]) -> str:
        """The YAML of a slice, and of a check of it with one requirement.

        Args:
            where: Rows of the slice.
            require: The sentence.
            fields: What else it needs: ``dataset``.
        """
        ...

    def same_files(self, model: str, other: str) -> bool:
        """Two models of the spec are the same artifact."""
        ...

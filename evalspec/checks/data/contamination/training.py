"""Rows of a training set while they go by: what each detector finds in a leaf of them, to be merged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import pyarrow as pa

from evalspec.checks.data.contamination.blank_rows import BlankCounts
from evalspec.checks.data.contamination.detector import Detector
from evalspec.checks.data.contamination.first_match import SetMatches
from evalspec.checks.data.contamination.keys import KeyMatches
from evalspec.checks.data.contamination.table_rows import NearMethod, TableDetector
from evalspec.errors import InputError
from evalspec.language.scans import Scan
from evalspec.language.states import State, Value, packed, under
from evalspec.sources.reading.open import rows_at
from evalspec.stats.sets.ngrams import NgramCounts
from evalspec.tables.looked_up import MOST_SENT_BYTES, Alone

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs

KINDS = (BlankCounts, SetMatches, NgramCounts, KeyMatches, NearMethod)
"""What detectors find, as it is merged."""


class TrainingFinding(Protocol):
    """Part of what a detector finds in some rows of a training set."""

    def merge(self, later: Any) -> None:
        """Take over what was found in rows that come after."""
        ...

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        ...


class LeafDetector(Detector, Protocol):
    """A detector that finds the same in a training set whoever looks at which leaf of it."""

    def fresh(self) -> Self:
        """The same one, without any training set; what was made of the test rows is shared."""
        ...

    @property
    def now(self) -> Sequence[TrainingFinding]:
        """Findings in the training set that goes by."""
        ...

    def take(self, found: Sequence[Any]) -> None:
        """Take over what was found in the training set that goes by."""
        ...


class TrainingRows:
    """Findings of detectors in rows of a training set; a `Summary`.

    Args:
        detectors: Made from the test set, and left as they are; none: no row will come.
        train_set: The training set.
        found: What each detector found.
    """

    exact: ClassVar[bool] = False
    most_bytes: ClassVar[int] = 2**29

    def __init__(self, detectors: Sequence[LeafDetector] = (), train_set: str = "") -> None:
        self._detectors = [one.fresh() for one in detectors]
        self._set = train_set
        for one in self._detectors:
            one.begin(train_set)
        self._merged: list[list[TrainingFinding]] | None = None

    @property
    def found(self) -> list[list[TrainingFinding]]:
        """Findings of each detector."""
        return [list(one.now) for one in self._detectors] if self._merged is None else self._merged

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows."""
        see(self._detectors, self._set, batch, first_row)

    def merge(self, later: TrainingRows) -> None:
        """Take over what was found in rows that come after."""
        self._merged = self.found
        for mine, theirs in zip(self._merged, later.found, strict=True):
            for one, other in zip(mine, theirs, strict=True):
                one.merge(other)

    def state(self) -> pa.Table:
        """One row."""
        found = self.found
        names = [",".join(type(part).__name__ for part in parts) for parts in found]
        fields: dict[str, Value] = {"detectors": names}
        for number, parts in enumerate(found):
            for place, part in enumerate(parts):
                fields |= under(f"{number} {place}", part.fields())
        return packed("training rows", 1, fields)

    @classmethod
    def restored(cls, state: pa.Table) -> TrainingRows:
        """The summary with this state."""
        fields, training = State.of(state, "training rows", 1), cls()
        kinds: dict[str, Any] = {kind.__name__: kind for kind in KINDS}
        training._merged = [
            [kinds[kind].of_fields(fields.at(f"{number} {place}")) for place, kind in enumerate(names.split(","))]
            for number, names in enumerate(fields.texts("detectors"))
        ]
        return training


class _Others:
    """Detectors that must see all rows one after the other; a `Watcher`."""

    def __init__(self, detectors: Sequence[Detector], train_set: str) -> None:
        self._detectors, self._set = detectors, train_set

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows."""
        see(self._detectors, self._set, batch, first_row)


def see(detectors: Sequence[Detector], train_set: str, batch: pa.RecordBatch, first_row: int) -> None:
    """Show some rows to detectors.

    Raises:
        InputError: They hold what can't be compared.
    """
    rows = _without_views(pa.Table.from_batches([batch]))
    with of_dataset(train_set):
        for detector in detectors:
            detector.see(rows, first_row)


def look(inputs: Inputs, check: str, train: Sequence[str], test: str, detectors: Sequence[Detector], size: int) -> None:
    """Let the rows of each training set pass before the detectors, once.

    Args:
        inputs: What gives the rows.
        check: Name of the check.
        train: Training sets.
        test: Name of the test set, for the progress.
        detectors: Made from the test set.
        size: Bytes of the test set.

    Raises:
        InputError: Rows can't be read, or hold what can't be compared.
    """
    by_leaf: list[Any] = [one for one in detectors if _is_by_leaf(one)]
    others = [one for one in detectors if one not in by_leaf]
    for done, name in enumerate(train):
        for detector in detectors:
            detector.begin(name)
        inputs.progress(done, len(train), f"comparing {test} with {name}")
        make: Any = partial(TrainingRows, tuple(one.fresh() for one in by_leaf), name)
        made = make if size <= MOST_SENT_BYTES else partial(Alone, make)
        scans = [Scan(name, f"copies of {test} for {check}", _columns(by_leaf), made)]
        if others:
            scans.append(Scan(name, f"others of {test} for {check}", _columns(others), partial(_Others, others, name)))
        seen: Any = inputs.scan(scans)[0]
        training: Any = seen.summary if isinstance(seen, Alone) else seen
        for detector, found in zip(by_leaf, training.found, strict=True):
            detector.take(found)
    inputs.progress(len(train), len(train), f"comparing {test}")


def named_rows(inputs: Inputs, name: str, numbers: Sequence[int], columns: Sequence[str]) -> Mapping[int, pa.Table]:
    """Rows of a dataset by their numbers.

    Args:
        inputs: What gives the rows.
        name: Of the dataset.
        numbers: Of the rows.
        columns: Of the rows.

    Raises:
        InputError: It has fewer rows.
    """
    with of_dataset(name):
        return {row: _without_views(one) for row, one in rows_at(inputs.batches(name, columns), numbers).items()}


def _is_by_leaf(detector: Detector) -> bool:
    return hasattr(detector, "fresh") and not (isinstance(detector, TableDetector) and detector.draws)


def _columns(detectors: Sequence[Detector]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for detector in detectors for column in detector.columns))


@contextmanager
def of_dataset(name: str) -> Iterator[None]:
    """Says in errors which dataset they are about."""
    try:
        yield
    except InputError as error:
        problem = error.problem
        message = f"dataset {name}: {problem.message}"
        raise InputError(message, remedy=problem.remedy, choices=problem.choices) from error


def _without_views(rows: pa.Table) -> pa.Table:
    # Rows can't be taken from views of strings.
    for index, column in enumerate(rows.schema):
        if pa.types.is_string_view(column.type):
            rows = rows.set_column(index, column.name, rows.column(index).cast(pa.large_string()))
    return rows

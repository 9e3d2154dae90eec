"""Rows of two datasets beside each other: columns whose values can be equal, rows that are equal or near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.answers.arrays import column_array
from evalspec.errors import InputError
from evalspec.sources.reading.open import missing_values
from evalspec.sources.reading.rows import row_digests
from evalspec.sources.reading.text import normalise, token_shingles, tokenised, words
from evalspec.stats.sets.duplicates import Accept, Matches, Rows, near_rows
from evalspec.stats.sets.hashing import Words
from evalspec.stats.sets.near_vectors import near_vectors, vectors_apart
from evalspec.stats.sets.packed_sets import Sets, jaccard
from evalspec.stats.sets.perceptual import SIDE
from evalspec.stats.sets.set_join import join_sets

Family = Literal["text", "number", "truth value", "time", "array", "other", "nothing"]

FREE_TEXT_WORDS = 3.0
CHANNELS = (1, 3)
STEPS_OF_GREY = 16


class Nearness(Protocol):
    """Nearness of rows: the fields of a check that says what counts as near."""

    @property
    def similarity(self) -> float:
        """Jaccard similarity of two texts' shingles."""
        ...

    @property
    def shingle_words(self) -> int:
        """Words in a shingle."""
        ...

    @property
    def tolerance(self) -> float:
        """Difference of numbers, as a share of their range."""
        ...


def family(kind: pa.DataType) -> Family:
    """Family of types whose values can be compared with each other."""
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "truth value"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_temporal(kind):
        return "time"
    if pa.types.is_dictionary(kind):
        return family(kind.value_type)
    return "array" if _is_array(kind) else "other"


def _is_array(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.FixedShapeTensorType):
        kind = kind.storage_type
    return pa.types.is_fixed_size_list(kind) and family(kind.value_type) == "number"


def is_picture(kind: pa.DataType) -> bool:
    """A column of pictures of at least 32 x 32 pixels, grey or with three colours, which come first or last."""
    if not isinstance(kind, pa.FixedShapeTensorType):
        return False
    shape = list(kind.shape)
    if len(shape) == 3:
        shape = shape[:2] if shape[2] in CHANNELS else shape[1:] if shape[0] in CHANNELS else []
    numbers = pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)
    return numbers and len(shape) == 2 and min(shape) >= SIDE


def check_comparable(train: pa.Table, test: pa.Table, columns: Sequence[str], name: str) -> None:
    """Refuse columns whose values could never be equal, which would read as no duplicates.

    Raises:
        InputError: A column holds another kind of value in training than in test.
    """
    for column in columns:
        ours, theirs = test.schema.field(column).type, train.schema.field(column).type
        families = {family(ours), family(theirs)} - {"nothing"}
        sizes = {_size(kind) for kind in (ours, theirs) if family(kind) == "array"}
        # Lists of several lengths may still hold rows of the other's length.
        if len(sizes) > 1 and is_picture(ours) and is_picture(theirs):
            continue
        unlike = len(families) > 1 and families != {"array", "other"}
        if unlike or len(sizes) > 1 or _written_otherwise(ours, theirs):
            raise InputError(
                f"column {column!r} is {theirs} in {name} and {ours} in the test set: such rows can never be equal",
                remedy="give both the same type, or compare other columns",
            )


def _written_otherwise(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Equal values of these types are not known as equal.

    Days and times, times with and without a zone, decimals and binary numbers, binary numbers of several widths.
    """
    one, other = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (ours, theirs))
    families = {family(one), family(other)}
    if families == {"time"}:
        return _time(one) != _time(other)
    if families != {"number"}:
        return False
    if pa.types.is_decimal(one) or pa.types.is_decimal(other):
        return not (pa.types.is_decimal(one) and pa.types.is_decimal(other) and one.scale == other.scale)
    return bool(pa.types.is_floating(one) and pa.types.is_floating(other) and one.bit_width != other.bit_width)


def _time(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "a time without a zone" if kind.tz is None else "a time with a zone"
    return "a day" if pa.types.is_date(kind) else "a duration" if pa.types.is_duration(kind) else "a time of day"


def _size(kind: pa.DataType) -> int:
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return int(storage.list_size)


def comparable(table: pa.Table, columns: Sequence[str], like: pa.Table | None = None) -> pa.Table:
    """The compared columns, texts normalised; columns without any value get the types they have in ``like``."""
    picked = table.select(list(columns))
    for index, column in enumerate(picked.schema):
        if like is not None and family(column.type) == "nothing" and family(like.schema.field(index).type) != "array":
            kind = like.schema.field(index).type
            picked = picked.set_column(index, column.name, picked.column(index).cast(kind))
        elif family(column.type) == "text":
            picked = picked.set_column(index, column.name, normalise(picked.column(index).cast(pa.string())))
    return picked


def empty_rows(table: pa.Table) -> NDArray[np.bool_]:
    """Rows that hold nothing to compare: every value missing, or an empty text; shape (n,)."""
    empty = np.ones(table.num_rows, bool)
    for column in table.columns:
        blank = missing_values(column)
        if family(column.type) == "text":
            blank = blank | np.asarray(pc.fill_null(pc.equal(column, ""), True).to_numpy())
        empty &= blank
    return empty


@dataclass
class RowComparison:
    """Train and test rows, column by column, in the form in which pairs of them are judged.

    Args:
        train: Comparable columns, n rows.
        test: The same columns, m rows.
        nearness: What counts as near.
        ranges: Test rows that limits are taken from: all, also where ``test`` holds only some of them.
    """

    train: pa.Table
    test: pa.Table
    nearness: Nearness
    ranges: pa.Table
    texts: list[tuple[Sets, Sets]] = field(default_factory=list)
    arrays: list[tuple[NDArray[Any], NDArray[Any], float, float]] = field(default_factory=list)
    equal: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for column in self.test.schema:
            kind = family(column.type)
            if kind == "text" and self._is_free(column.name):
                self.texts.append((self._sets(self.train, column.name), self._sets(self.test, column.name)))
            elif kind == "array" and self._as_long(column):
                self.arrays.append(self._array(column.name))
            elif kind == "number":
                self.numbers.append(column.name)
            else:
                self.equal.append(column.name)

    def _as_long(self, column: pa.Field) -> bool:
        """The other side holds arrays of the same size; pictures of another one can't be equal value by value."""
        theirs = self.train.schema.field(column.name).type
        return family(theirs) == "array" and _size(theirs) == _size(column.type)

    def near(self, rng: np.random.Generator) -> Matches:
        """For each test row a near train row."""
        judges = self._judges()
        if self.texts:
            first, second = self.texts[0]
            return join_sets(first, second, similarity=self.nearness.similarity, accept=_all_of(judges[1:]))
        if self.arrays:
            train, test, limit, step = self.arrays[0]
            return near_vectors(train, test, limit=limit, step=step, rng=rng, accept=_all_of(judges[1:]))
        train_numbers, test_numbers = self._matrix(self.train), self._matrix(self.test)
        return near_rows(
            np.nan_to_num(train_numbers),
            np.nan_to_num(test_numbers),
            self._limits(),
            self._keys(self.train, train_numbers),
            self._keys(self.test, test_numbers),
        )

    def _judges(self) -> list[Accept]:
        """One for each text and array, after the first of them one for what must be equal and one for all numbers."""
        judges: list[Accept] = [self._text_judge(train, test) for train, test in self.texts]
        judges += [self._array_judge(*array) for array in self.arrays]
        fast: list[Accept] = []
        if self.equal:
            train, test = row_digests(self.train, self.equal), row_digests(self.test, self.equal)
            fast.append(lambda test_rows, train_rows: (test[test_rows] == train[train_rows]).all(axis=1))
        if self.numbers:
            fast.append(self._number_judge())
        return [*judges[:1], *fast, *judges[1:]]

    def _text_judge(self, train: Sets, test: Sets) -> Accept:
        return lambda test_rows, train_rows: (
            jaccard(test, train, test_rows, train_rows) >= self.nearness.similarity - 1e-12
        )

    @staticmethod
    def _array_judge(train: NDArray[Any], test: NDArray[Any], limit: float, step: float) -> Accept:
        return lambda test_rows, train_rows: vectors_apart(train, test, train_rows, test_rows, limit, step)[1]

    def _number_judge(self) -> Accept:
        train, test, limits = self._matrix(self.train), self._matrix(self.test), self._limits() * (1 + 1e-9)

        def judge(test_rows: Rows, train_rows: Rows) -> NDArray[np.bool_]:
            a, b = test[test_rows], train[train_rows]
            return np.asarray(((np.abs(a - b) <= limits) | (np.isnan(a) & np.isnan(b))).all(axis=1))

        return judge

    def _is_free(self, name: str) -> bool:
        """Free text, where a changed word leaves the rest; a few words are a category, which agrees or doesn't."""
        if self.test.num_columns == 1:
            return True
        counts = pc.list_value_length(words(self.ranges.column(name)))
        return (pc.mean(counts).as_py() or 0.0) > FREE_TEXT_WORDS

    def _sets(self, table: pa.Table, name: str) -> Sets:
        return token_shingles(tokenised(table.column(name)).tokens, self.nearness.shingle_words)

    def _array(self, name: str) -> tuple[NDArray[Any], NDArray[Any], float, float]:
        train, test = _flat(self.train, name), _flat(self.test, name)
        spread = _spread(self.ranges.column(name))
        whole = all(values.dtype.kind in "ui" for values in (train, test))
        # Noise of one grey level in a picture of few levels is more than the tolerance, and still the same picture.
        step = 1.0 if whole and spread >= STEPS_OF_GREY and self.nearness.tolerance > 0 else 0.0
        return train, test, spread * self.nearness.tolerance, step

    def _matrix(self, table: pa.Table) -> NDArray[np.float64]:
        columns = [np.asarray(table.column(name).cast(pa.float64()).to_numpy()) for name in self.numbers]
        return np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0))

    def _limits(self) -> NDArray[np.float64]:
        numbers = self._matrix(self.ranges)
        limits = np.zeros(numbers.shape[1])
        for index, column in enumerate(numbers.T):
            finite = column[np.isfinite(column)]
            if len(finite):
                low, high = np.quantile(finite, [0.01, 0.99])
                limits[index] = (high - low) * self.nearness.tolerance
        return limits

    def _keys(self, table: pa.Table, numbers: NDArray[np.float64]) -> Words:
        """Keys that must be equal besides numbers: of other columns, and of which numbers are missing."""
        keyed = row_digests(table, self.equal)[:, 0] if self.equal else np.zeros(table.num_rows, np.uint64)
        if not numbers.shape[1]:
            return keyed
        missing = pa.table({str(index): column for index, column in enumerate(np.isnan(numbers).T)})
        return keyed ^ row_digests(missing)[:, 1]


def _flat(table: pa.Table, name: str) -> NDArray[Any]:
    values = column_array(table, name)
    return values.reshape(len(values), -1)


def _spread(column: pa.ChunkedArray) -> float:
    """Largest minus smallest of all values of an array column; the values are looked at where they lie."""
    parts = [getattr(chunk, "storage", chunk).flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    parts = [part[np.isfinite(part)] if part.dtype.kind == "f" else part for part in parts]
    parts = [part for part in parts if part.size]
    return float(max(part.max() for part in parts)) - float(min(part.min() for part in parts)) if parts else 0.0


def _all_of(judges: Sequence[Accept]) -> Accept | None:
    if not judges:
        return None

    def judge(test_rows: Rows, train_rows: Rows) -> NDArray[np.bool_]:
        good = np.ones(len(test_rows), bool)
        for one in judges:
            good[good] = one(test_rows[good], train_rows[good])
        return good

    return judge

"""Rows of a dataset counted by condition, by value, and by value and class together, while they go by once.

Memory grows with the values and the cells of the tables, not with the rows; only where rows have clusters the value of
each is kept, as a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.language.states import State, Value, packed, under
from evalspec.language.where import Not, Where, mask, parse_where
from evalspec.sources.reading.open import missing_values
from evalspec.tables.comparable import family

MOST_KNOWN = 10_000
"""Values of a column that are counted; a column with more has no groups and no classes."""
MOST_NUMBERS = 20
"""A label of more distinct numbers is a value, not a class."""
ENCODED = ("text", "truth value", "number", "time")
"""Families of types whose values can be groups or classes."""


class MatchingRows:
    """Rows of which a ``where`` holds.

    Args:
        where: What is to hold; its columns are there.
        keep: Which rows these are is kept as well.
        inside: Rows of which it holds.
        outside: Rows of which it doesn't; of all others it can't be said.
        rows: All of them.
    """

    def __init__(self, where: Where, keep: bool) -> None:
        self.inside = self.outside = self.rows = 0
        self._where = where
        self._not = Where(where.text, Not(where.term), where.columns)
        self._keep = keep
        self._kept: list[tuple[NDArray[np.bool_], NDArray[np.bool_]]] = []
        self._empty = dict.fromkeys(where.columns, True)

    def update(self, rows: pa.Table) -> None:
        """More rows.

        Raises:
            InputError: A column holds something else than what it is held against.
        """
        inside, outside = mask(rows, self._where).inside, mask(rows, self._not).inside
        self.rows += rows.num_rows
        self.inside += int(np.count_nonzero(inside))
        self.outside += int(np.count_nonzero(outside))
        for name in [name for name, empty in self._empty.items() if empty]:
            self._empty[name] = bool(missing_values(rows.column(name)).all())
        if self._keep:
            self._kept.append((inside, inside | outside))

    def merge(self, later: MatchingRows) -> None:
        """Take over what another one has seen, of the rows that come after."""
        self.inside += later.inside
        self.outside += later.outside
        self.rows += later.rows
        self._empty = {name: empty and later._empty[name] for name, empty in self._empty.items()}
        self._kept += later._kept

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        kept = self.kept()
        fields: dict[str, Value] = {
            "where": self._where.text, "keep": self._keep, "inside": self.inside, "outside": self.outside,
            "rows": self.rows, "empty": [name for name, empty in self._empty.items() if empty],
        }  # fmt: skip
        return fields if kept is None else fields | {"kept_inside": kept[0], "kept_known": kept[1]}

    @classmethod
    def of_fields(cls, fields: State) -> MatchingRows:
        """The rows of which these are the fields."""
        found = cls(parse_where(fields.scalar("where")), fields.scalar("keep"))
        found.inside, found.outside, found.rows = (fields.scalar(name) for name in ("inside", "outside", "rows"))
        empty = fields.texts("empty")
        found._empty = {name: name in empty for name in found._empty}
        if found._keep:
            found._kept = [(fields.numbers("kept_inside"), fields.numbers("kept_known"))]
        return found

    @property
    def empty(self) -> str | None:
        """The first of its columns without a value in any row."""
        return next((name for name, empty in self._empty.items() if empty), None)

    def kept(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
        """Rows inside, and rows of which it can be said, shape (n,) each; None: they are not kept."""
        if not self._keep:
            return None
        if not self._kept:
            return np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        inside, known = zip(*self._kept, strict=True)
        return np.concatenate(inside), np.concatenate(known)


class Values:
    """How often each value of a column occurs.

    Args:
        keep: Which value each row has is kept as well.
        type: Of the column; None: no row was seen.
        missing: Rows without a value: null or NaN.
        over: There are more values than are counted; then none is.
    """

    def __init__(self, keep: bool) -> None:
        self.type: pa.DataType | None = None
        self.missing = 0
        self.over = False
        self._keep = keep
        self._known: pa.Array | None = None
        self._counts = np.zeros(0, np.int64)
        self._kept: list[NDArray[np.int32]] = []

    def update(self, column: pa.Array) -> NDArray[np.int64]:
        """More rows.

        Returns:
            shape (n,), the place of each row's value among those seen so far; -1: there is none, or too many are known.
        """
        self.type = column.type
        encoded = family(column.type) in ENCODED
        if encoded:
            column = _plain(column)
        missing = missing_values(pa.chunked_array([column]))
        self.missing += int(missing.sum())
        codes = np.full(len(column), -1, np.int64)
        if encoded and not self.over:
            codes = self._coded(column, missing)
        if self._keep:
            self._kept.append(codes.astype(np.int32))
        return codes

    def _coded(self, column: pa.Array, missing: NDArray[np.bool_]) -> NDArray[np.int64]:
        encoded = column.dictionary_encode()
        codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)).astype(np.int64)
        codes[missing] = -1
        counts = np.bincount(codes[codes >= 0], minlength=len(encoded.dictionary))
        used = np.flatnonzero(counts)
        places = self._places(encoded.dictionary.take(pa.array(used)))
        self._counts[places] += counts[used]
        if len(self._counts) > MOST_KNOWN:
            self._give_up()
            return np.full(len(codes), -1, np.int64)
        place = np.full(len(encoded.dictionary) + 1, -1, np.int64)
        place[used] = places
        return place[codes]

    def _places(self, values: pa.Array) -> NDArray[np.int64]:
        """Where these values stand among all, new ones at the end."""
        if self._known is None:
            self._known = values.slice(0, 0)
        found = pc.index_in(values, value_set=self._known)
        new = np.asarray(found.is_null())
        places = np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False)).astype(np.int64)
        places[new] = len(self._known) + np.arange(np.count_nonzero(new))
        self._known = pa.concat_arrays([self._known, values.filter(pa.array(new))])
        self._counts = np.append(self._counts, np.zeros(np.count_nonzero(new), np.int64))
        return places

    def merge(self, later: Values) -> NDArray[np.int64]:
        """Take over what another one has seen, of the rows that come after.

        Returns:
            shape (k + 1,), the place here of each of its values; the last one is -1, and all are where too many are
            known.
        """
        self.type = self.type if later.type is None else later.type
        self.missing += later.missing
        known = 0 if later._known is None else len(later._known)
        place = np.full(known + 1, -1, np.int64)
        if later.over:
            self._give_up()
        elif later._known is not None and not self.over:
            places = self._places(later._known)
            self._counts[places] += later._counts
            if len(self._counts) > MOST_KNOWN:
                self._give_up()
            else:
                place[:-1] = places
        # Rows before a column had too many values have places that nobody knows any more.
        gone = later.over
        self._kept += [np.full_like(one, -1) if gone else place[one].astype(np.int32) for one in later._kept]
        return place

    def _give_up(self) -> None:
        self.over, self._known, self._counts = True, None, np.zeros(0, np.int64)

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        fields: dict[str, Value] = {"missing": self.missing, "over": self.over, "keep": self._keep}
        if self.type is not None:
            fields["schema"] = pa.schema([pa.field("", self.type)]).serialize().to_pybytes()
        if self._known is not None:
            fields |= {"known": self._known, "counts": self._counts}
        if self._kept:
            fields["codes"] = np.concatenate(self._kept)
        return fields

    @classmethod
    def of_fields(cls, fields: State) -> Values:
        """The values of which these are the fields."""
        found = cls(fields.scalar("keep"))
        found.missing, found.over = fields.scalar("missing"), fields.scalar("over")
        if "schema" in fields:
            found.type = pa.ipc.read_schema(pa.py_buffer(fields.scalar("schema"))).field(0).type
        if "known" in fields:
            found._known, found._counts = fields.values("known"), fields.numbers("counts")
        if "codes" in fields:
            found._kept = [fields.numbers("codes")]
        return found

    @property
    def many_numbers(self) -> bool:
        """They are more numbers than classes would be."""
        assert self.type is not None
        return family(self.type) == "number" and (self.over or len(self._counts) > MOST_NUMBERS)

    def sorted(self) -> tuple[pa.Array, NDArray[np.int64], NDArray[np.int64]]:
        """The values in their order, how often each occurs, and their places among those seen; shape (k,) each."""
        if self._known is None:
            return pa.array([], pa.string()), np.zeros(0, np.int64), np.zeros(0, np.int64)
        order = np.asarray(pc.sort_indices(self._known).to_numpy()).astype(np.int64)
        return self._known.take(pa.array(order)), self._counts[order], order

    def kept(self) -> NDArray[np.int64] | None:
        """Place of each row's value among the sorted ones, shape (n,), -1 where there is none; None: not kept."""
        if not self._keep or self.over:
            return None
        order = self.sorted()[2]
        place = np.full(len(order) + 1, -1, np.int64)
        place[order] = np.arange(len(order))
        return place[np.concatenate(self._kept)] if self._kept else np.zeros(0, np.int64)


def _plain(values: pa.Array) -> pa.Array:
    """Without dictionaries and views, in types that can be encoded, and with one zero."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if pa.types.is_string_view(kind):
        return values.cast(pa.large_string())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_float16(kind):
        values = values.cast(pa.float32())
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(kind) else values


@dataclass(frozen=True, slots=True)
class CountedColumns:
    """Columns whose values are counted.

    Args:
        columns: All but the label.
        label: The one with the classes; None: there are none.
        crossed: Columns whose values are counted by class as well.
        keep: Which condition and value each row has is kept.
    """

    columns: tuple[str, ...]
    label: str | None = None
    crossed: tuple[str, ...] = ()
    keep: bool = False

    @property
    def every(self) -> tuple[str, ...]:
        """The label too."""
        return tuple(dict.fromkeys((*self.columns, *((self.label,) if self.label else ()))))


class Tally:
    """Counts the rows of a dataset; a `Summary`.

    Args:
        wheres: Condition: what must hold.
        counted: Columns whose values are counted.
        there: All columns of the dataset.
        rows: All rows.
    """

    exact: ClassVar[bool] = True
    most_bytes: ClassVar[int] = 2**29

    def __init__(self, wheres: Mapping[str, Where], counted: CountedColumns, there: Sequence[str]) -> None:
        self.rows = 0
        self.there = tuple(there)
        self.conditions = {name: MatchingRows(where, counted.keep) for name, where in wheres.items()}
        self.columns = {name: Values(counted.keep) for name in counted.every}
        self._label = counted.label
        self._cells: dict[str, dict[tuple[int, int], int]] = {
            name: {} for name in counted.crossed if counted.label is not None and name in self.columns
        }

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows."""
        table = pa.Table.from_batches([batch])
        self.rows += batch.num_rows
        for held in self.conditions.values():
            held.update(table)
        codes = {name: one.update(batch.column(name)) for name, one in self.columns.items()}
        for name, cells in self._cells.items():
            if self._label is not None and not self.columns[self._label].many_numbers:
                _count_cells(cells, codes[self._label], codes[name])

    def merge(self, later: Tally) -> None:
        """Take over what another one has seen, of the rows that come after."""
        self.rows += later.rows
        for name, held in self.conditions.items():
            held.merge(later.conditions[name])
        places = {name: one.merge(later.columns[name]) for name, one in self.columns.items()}
        for name, cells in self._cells.items():
            assert self._label is not None
            first, second = places[self._label], places[name]
            for (one, other), count in later._cells[name].items():
                # A value whose column has too many by now has no place, and the table is asked for no more.
                if one + 1 < len(first) and other + 1 < len(second) and first[one] >= 0 and second[other] >= 0:
                    place = int(first[one]), int(second[other])
                    cells[place] = cells.get(place, 0) + count

    def state(self) -> pa.Table:
        """One row."""
        fields: dict[str, Value] = {
            "rows": self.rows, "there": self.there, "conditions": list(self.conditions), "columns": list(self.columns),
            "label": self._label, "crossed": list(self._cells),
        }  # fmt: skip
        for place, held in enumerate(self.conditions.values()):
            fields |= under(f"condition{place}", held.fields())
        for place, values in enumerate(self.columns.values()):
            fields |= under(f"column{place}", values.fields())
        for place, cells in enumerate(self._cells.values()):
            counts = np.array([(*pair, count) for pair, count in cells.items()], np.int64)
            fields[f"cells{place}"] = counts
        return packed("tally", 1, fields)

    @classmethod
    def restored(cls, state: pa.Table) -> Tally:
        """The tally with this state."""
        fields = State.of(state, "tally", 1)
        tally = cls({}, CountedColumns((), fields.scalar("label")), fields.texts("there"))
        tally.rows = fields.scalar("rows")
        tally.conditions = {
            name: MatchingRows.of_fields(fields.at(f"condition{place}"))
            for place, name in enumerate(fields.texts("conditions"))
        }
        tally.columns = {
            name: Values.of_fields(fields.at(f"column{place}")) for place, name in enumerate(fields.texts("columns"))
        }
        for place, name in enumerate(fields.texts("crossed")):
            counts = fields.numbers(f"cells{place}").reshape(-1, 3).tolist()
            tally._cells[name] = {(one, other): count for one, other, count in counts}
        return tally

    def table(self, column: str) -> NDArray[np.int64]:
        """Rows of each class in each value of a column, both in their order, shape (classes, values)."""
        assert self._label is not None
        places = []
        for name in (self._label, column):
            order = self.columns[name].sorted()[2]
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            places.append(place)
        found = np.zeros((len(places[0]), len(places[1])), np.int64)
        for (one, other), count in self._cells[column].items():
            found[places[0][one], places[1][other]] = count
        return found


def _count_cells(cells: dict[tuple[int, int], int], first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
    known = (first >= 0) & (second >= 0)
    pairs, counts = np.unique(first[known] * MOST_KNOWN + second[known], return_counts=True)
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        place = divmod(pair, MOST_KNOWN)
        cells[place] = cells.get(place, 0) + count

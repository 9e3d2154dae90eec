"""Rows of a dataset held against rules, and looked at for others that are equal; parts of it can be merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from evalspec.checks.data.integrity.repeats import Mixed, Repeats, all_differ, may_name
from evalspec.checks.data.integrity.rules import Broken, ColumnState, Facts
from evalspec.errors import InputError
from evalspec.language.states import State, Value, packed, under
from evalspec.tables.buckets import Buckets, held_rows
from evalspec.tables.row_hashes import RowHashes

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.checks.data.integrity.spec import ColumnRule


@dataclass(frozen=True)
class RowRules:
    """Rules for rows, and columns in which they may be equal.

    Args:
        dataset: Its name.
        folder: Where digests that don't fit into memory are written.
        rules: Column: what must hold.
        only: Columns without a rule are violations.
        duplicates_by: Columns that count; none: all but the key.
        split: Column that names the split; None: there is none.
        key: Column that names a row, likewise.
    """

    dataset: str
    folder: Path
    rules: Mapping[str, ColumnRule] = field(default_factory=dict)
    only: bool = False
    duplicates_by: tuple[str, ...] = ()
    split: str | None = None
    key: str | None = None


class IntegritySummary:
    """All that is seen of rows that go by; a `Summary`.

    Args:
        looked: What they are looked at for; None: no row will come.
        rows: That went by.
        columns: In their order.
        absent: (column, what is broken), of those that are not there, or are too many.
        aside: The key, where duplicates are equal but for it; empty: it is not left out.
        repeats: Digests of rows; None: why not stands in ``no_duplicates``.
        unique: Column whose values must differ: their digests.
        mixed: Digests of rows, with their splits; None: nobody asks.
        names: Columns that may name rows: their digests.
    """

    exact: ClassVar[bool] = True
    most_bytes: ClassVar[int] = 2**30

    def __init__(self, looked: RowRules | None = None) -> None:
        self._looked = looked
        self.rows = 0
        self.columns: dict[str, ColumnState] = {}
        self.absent: list[tuple[str, Broken]] = []
        self.aside = ""
        self.repeats: Repeats | None = None
        self.no_duplicates = ""
        self.unique: dict[str, Repeats] = {}
        self.mixed: Mixed | None = None
        self.names: dict[str, Repeats] = {}

    def _begin(self, looked: RowRules, schema: pa.Schema) -> None:
        if not schema.names:
            raise InputError(f"{looked.dataset} has no columns")
        rules = looked.rules
        self.columns = {one.name: ColumnState(one.name, Facts(str(one.type)), rules.get(one.name)) for one in schema}
        self.absent = [(name, Broken("the column is not there", 1)) for name in rules if name not in schema.names]
        if looked.only:
            extra = [name for name in schema.names if name not in rules]
            self.absent += [(name, Broken("the schema does not name the column", 1)) for name in extra]
        names = looked.duplicates_by or self._but_the_key(looked, schema.names)
        unique = [name for name, rule in rules.items() if rule.unique and name in schema.names]
        others = [one for one in schema if one.name != looked.split and one.name in names]
        naming = [one.name for one in others if may_name(one.type)] if looked.split is not None else []
        if looked.duplicates_by or len(others) < 2:
            naming = []
        held = held_rows(1 + len(unique) + len(naming) + (looked.split is not None))
        self.repeats = Repeats(names, Buckets(2, looked.folder, held))
        self.unique = {name: Repeats([name], Buckets(2, looked.folder, held), value=True) for name in unique}
        if looked.split is not None:
            self.mixed = Mixed(looked.split, names, Buckets(3, looked.folder, held))
        self.names = {name: Repeats([name], Buckets(2, looked.folder, held), value=True) for name in naming}

    def _but_the_key(self, looked: RowRules, names: Sequence[str]) -> Sequence[str]:
        """All columns but the key, which tells copies apart; all of them where nothing else is there."""
        others = [name for name in names if name not in (looked.key, looked.split)]
        if looked.key not in names or not others:
            return names
        self.aside = str(looked.key)
        return [name for name in names if name != looked.key]

    def update(self, batch: pa.RecordBatch, first_row: int) -> None:
        """More rows."""
        if not self.rows:
            assert self._looked is not None
            self._begin(self._looked, batch.schema)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self.columns[name].update(column, first_row)
        self.rows += batch.num_rows
        hashes = RowHashes(batch, {*self.unique, *self.names})
        if self.repeats is not None:
            try:
                self.repeats.update(hashes)
            except InputError as error:
                self.repeats, self.no_duplicates = None, str(error)
        for repeats in self.unique.values():
            repeats.update(hashes)
        for name in [name for name in self.names if not all_differ(batch.column(name))]:
            del self.names[name]
        for repeats in self.names.values():
            repeats.update(hashes)
        if self.mixed is not None:
            self.mixed.update(hashes)

    def merge(self, later: IntegritySummary) -> None:
        """Take over what another one has seen, of the rows that come after."""
        if not later.rows:
            return
        if not self.rows:
            vars(self).update(vars(later))
            return
        self.rows += later.rows
        for name, column in self.columns.items():
            column.merge(later.columns[name])
        if self.repeats is None or later.repeats is None:
            self.repeats, self.no_duplicates = None, self.no_duplicates or later.no_duplicates
        else:
            self.repeats.merge(later.repeats)
        for name, repeats in self.unique.items():
            repeats.merge(later.unique[name])
        self.names = {name: one for name, one in self.names.items() if name in later.names}
        for name, repeats in self.names.items():
            repeats.merge(later.names[name])
        if self.mixed is not None and later.mixed is not None:
            self.mixed.merge(later.mixed)

    def state(self) -> pa.Table:
        """One row."""
        if not self.rows:
            return packed("integrity", 1, {})
        fields: dict[str, Value] = {
            "rows": self.rows, "columns": np.arange(len(self.columns)), "aside": self.aside,
            "no duplicates": self.no_duplicates,
            "absent": [name for name, _ in self.absent], "why": [one.rule for _, one in self.absent],
            "unique": list(self.unique), "names": list(self.names),
        }  # fmt: skip
        parts: dict[str, ColumnState | Repeats | Mixed | None] = {"repeats": self.repeats, "mixed": self.mixed}
        parts |= {f"column {place}": one for place, one in enumerate(self.columns.values())}
        parts |= {f"unique {place}": one for place, one in enumerate(self.unique.values())}
        parts |= {f"name {place}": one for place, one in enumerate(self.names.values())}
        for place, one in parts.items():
            fields |= {} if one is None else under(place, one.fields())
        return packed("integrity", 1, fields)

    @classmethod
    def restored(cls, state: pa.Table) -> IntegritySummary:
        """The summary with this state."""
        fields, found = State.of(state, "integrity", 1), cls()
        if not fields:
            return found
        found.rows, found.aside = fields.scalar("rows"), fields.scalar("aside")
        found.no_duplicates = fields.scalar("no duplicates")
        absent = zip(fields.texts("absent"), fields.texts("why"), strict=True)
        found.absent = [(name, Broken(rule, 1)) for name, rule in absent]
        columns = [ColumnState.of_fields(fields.at(f"column {place}")) for place in fields.numbers("columns").tolist()]
        found.columns = {one.name: one for one in columns}
        repeats, mixed = fields.at("repeats"), fields.at("mixed")
        found.repeats = Repeats.of_fields(repeats) if repeats else None
        found.mixed = Mixed.of_fields(mixed) if mixed else None
        for kept, name in ((found.unique, "unique"), (found.names, "name")):
            listed = fields.texts("unique" if name == "unique" else "names")
            kept |= {one: Repeats.of_fields(fields.at(f"{name} {place}")) for place, one in enumerate(listed)}
        return found

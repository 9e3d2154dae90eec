"""Columns that stand in the paths of files alone: ``dt=2026-11-01/site=lab/part-0.parquet``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import unquote

from evalspec.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

MISSING = "__HIVE_DEFAULT_PARTITION__"
"""What stands in a path for a value that is missing."""
Scheme = Literal["hive", "none"]
_PART = re.compile(r"([^=/]+)=([^/]*)")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True)
class Partitions:
    """Values of columns in the paths of files.

    Args:
        types: Column: its type, as text: ``int64`` where all values are whole numbers, else ``string``.
        values: Of each file, one a column; None: missing.
    """

    types: Mapping[str, str]
    values: Sequence[tuple[str | None, ...]]

    def fields(self) -> list[pa.Field]:
        """The columns as Arrow has them."""
        import pyarrow as pa

        kinds = {"int64": pa.int64(), "string": pa.string()}
        return [pa.field(name, kinds[kind]) for name, kind in self.types.items()]

    def filled(self, rows: Rows, file: int) -> Rows:
        """Rows of a file with the columns of its path after their own."""
        import pyarrow as pa

        for field, text in zip(self.fields(), self.values[file], strict=True):
            value = int(text) if text is not None and pa.types.is_integer(field.type) else text
            rows = rows.append_column(field, pa.repeat(pa.scalar(value, field.type), rows.num_rows))
        return rows


NONE = Partitions({}, ())


def partitions_of(inside: Sequence[str], scheme: Scheme | None, own: Sequence[str], what: str) -> Partitions:
    """Columns in the paths of a dataset's files.

    Args:
        inside: Path of each file, from the folder or the prefix of the dataset.
        scheme: As the spec says it; None: it says nothing.
        own: Columns that the files themselves have.
        what: The files, in words.

    Raises:
        InputError: The paths don't all have the same columns, one is in the files too, or the paths have columns and
            nobody said whether they are to be read.
    """
    if scheme == "none":
        return NONE
    found = [dict(_columns(path)) for path in inside]
    names = tuple(found[0]) if found else ()
    if scheme is None:
        lost = next((name for one in found for name in one if name not in own), None)
        if lost is None:
            return NONE
        raise InputError(
            f"the folders of {what} hold a column that its files don't: {lost!r}",
            remedy="say `partitions: hive` to read it, or `partitions: none` to leave it out",
        )
    odd = next((path for path, one in zip(inside, found, strict=True) if tuple(one) != names), None)
    if odd is not None:
        raise InputError(f"the folders of {what} don't have the same columns: {inside[0]!r} and {odd!r}")
    if not names:
        raise InputError(
            f"`partitions: hive` finds no folder such as dt=2026-11-01 in {what}",
            remedy="name the folder above, or remove it",
        )
    twice = next((name for name in names if name in own), None)
    if twice is not None:
        remedy = "say `partitions: none`: then it is read from the files"
        raise InputError(f"column {twice!r} of {what} stands both in its files and in their folders", remedy=remedy)
    values = tuple(tuple(one.values()) for one in found)
    whole = [all(one is None or _WHOLE.fullmatch(one) for one in column) for column in zip(*values, strict=True)]
    some = [any(one is not None for one in column) for column in zip(*values, strict=True)]
    kinds = ("int64" if number and there else "string" for number, there in zip(whole, some, strict=True))
    return Partitions(dict(zip(names, kinds, strict=True)), values)


def _columns(path: str) -> Iterator[tuple[str, str | None]]:
    for part in PurePosixPath(path).parts[:-1]:
        match = _PART.fullmatch(part)
        if match is not None:
            value = unquote(match[2])
            yield unquote(match[1]), None if value == MISSING else value

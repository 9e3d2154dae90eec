"""Kind of a dataset by its content, and the roles of its columns."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.cells import values_of
from evalspec.errors import InputError
from evalspec.language.parts import Access, Dataset
from evalspec.language.registry import Registry
from evalspec.loading.column_roles import ENTITIES, KEYS, ColumnRoles, called, column_roles
from evalspec.loading.files import other_delimiter
from evalspec.loading.scan_folder import LABELS

if TYPE_CHECKING:
    import pyarrow as pa

PICTURES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"))
TIMES = ("time", "date", "timestamp", "datetime", "created_at", "created", "day")
TESTS, TRAINS = ("test", "validation", "valid", "dev", "eval"), ("train",)
SAMPLE_ROWS = 2_000
"""Rows that are looked at."""
MOST_ROWS = 10_000_000
"""Of a dataset whose labels are all read."""
MOST_CLASSES = 50
FLOATS = ("float", "double", "halffloat")
NUMBERS = re.compile("u?int|float|double|half|bool|decimal")
Field = str | bool | int | list[str]


@dataclass(frozen=True, slots=True)
class LabelHints:
    """Facts of a loaded model that tell which column is the truth.

    Args:
        takes: Columns that it reads by name.
        classes: Its own, as text.
        numbers: It gives numbers.
    """

    takes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    numbers: bool = False


NO_HINTS = LabelHints()


@dataclass(frozen=True, slots=True)
class RowsSketch:
    """A dataset as it was seen.

    Args:
        fields: Of its entry in a spec.
        columns: Column: its type.
        rows: How many; None: not known before it is read.
        label: Column with the truth; empty: none was seen.
        guess: The label is a guess.
        names: That the data give to the labels 0, 1, ...; empty: none.
        values: Of the label, as text, in order; empty: they are numbers or too many.
        roles: Of the other columns.
        counts: Value of the label, as text: its rows; none where `values` has none.
    """

    fields: Mapping[str, Field]
    columns: Mapping[str, str]
    rows: int | None
    label: str
    guess: bool = False
    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    roles: ColumnRoles = field(default_factory=ColumnRoles)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def times(self) -> tuple[str, ...]:
        """Columns that say when."""
        return tuple(
            name
            for name, kind in self.columns.items()
            if name.lower() in TIMES or kind.startswith(("timestamp", "date", "time"))
        )

    def features(self) -> tuple[str, ...]:
        """Columns that are neither the label nor name a row, a time or whose row it is."""
        aside = {self.label, self.roles.key, self.roles.cluster, *self.times}
        return tuple(name for name in self.columns if name not in aside)


def recognize_rows(path: Path, shown: str) -> dict[str, Field]:
    """Fields of a dataset's entry, without its path.

    Args:
        path: Where it is.
        shown: As the user named it.

    Raises:
        InputError: It is no dataset that can be read.
    """
    if path.is_dir():
        return _folder(path, shown)
    with path.open("rb") as file:
        start = file.read(2**16)
    if start.startswith(b"PAR1"):
        return {"kind": "parquet"}
    if start.startswith(b"ARROW1"):
        return {"kind": "arrow"}
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(name.endswith(".npy") for name in archive.namelist()):
                return {"kind": "npz"}
        raise InputError(f"{shown!r} is a zip archive, not a dataset", remedy="unpack it and give the file or folder")
    if b"\0" in start:
        raise InputError(
            f"{shown!r} is not a dataset in a known format", remedy="save it as parquet, csv, jsonl, arrow or npz"
        )
    text = start.decode("utf-8", errors="replace").lstrip("\ufeff \r\n\t")
    if text.startswith("["):
        raise InputError(f"{shown!r} is one JSON list", remedy="write it as jsonl: one object per line")
    if text.startswith("{"):
        return {"kind": "jsonl"}
    header = text.partition("\n")[0].rstrip("\r")
    other = other_delimiter((header,)) if "," not in header else None
    return {"kind": "csv", "delimiter": other} if other else {"kind": "csv"}


def _folder(path: Path, shown: str) -> dict[str, Field]:
    if (path / "dataset_dict.json").is_file():
        return {"kind": "huggingface", "split": _split(_splits(path), TESTS, shown)}
    if (path / "dataset_info.json").is_file() or (path / "state.json").is_file():
        return {"kind": "huggingface"}
    names = [one for one in (*path.iterdir(), *path.glob("*/*"))]
    for kind, suffixes in (("images", PICTURES), ("parquet", {".parquet"}), ("arrow", {".arrow", ".feather"})):
        if any(one.suffix.lower() in suffixes for one in names):
            return {"kind": kind}
    raise InputError(f"{shown!r} is a folder without readable rows", remedy="give a file, or a folder of files")


def _splits(path: Path) -> list[str]:
    try:
        found = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [str(one) for one in found.get("splits", [])] if isinstance(found, dict) else []


def _split(splits: Sequence[str], wanted: Iterable[str], shown: str) -> str:
    found = next((one for name in wanted for one in splits if name in one.lower()), None)
    if found is None and len(splits) != 1:
        raise InputError(f"{shown!r} has several splits, and none is named test", choices=splits)
    return splits[0] if found is None else found


def training_split(path: Path) -> dict[str, Field] | None:
    """Fields of the training rows that lie in the same folder as the test set; None: there are none."""
    if not (path / "dataset_dict.json").is_file():
        return None
    found = next((one for one in _splits(path) if any(name in one.lower() for name in TRAINS)), None)
    return None if found is None else {"kind": "huggingface", "split": found}


def sketch_rows(
    fields: Mapping[str, Field], registry: Registry, access: Access, label: str | None, hints: LabelHints = NO_HINTS
) -> tuple[RowsSketch, pa.Table]:
    """A dataset's columns and their roles, and its first rows.

    Args:
        fields: Of its entry, the path among them.
        registry: The kinds there are.
        access: Where it may be read from.
        label: Its label, as the user named it; None: it is looked for.
        hints: What the model tells.

    Raises:
        InputError: It can't be read, or there is no such label.
    """
    plain = _source(fields, registry)
    header = plain.header(access)
    if label is not None and label not in header.columns:
        raise InputError(f"{fields['path']} has no column {label!r}", choices=header.columns)
    table = _first_rows(plain, access)
    named = label or _label(table, header.columns, hints)
    dataset = _source({**fields, "label": named} if named else fields, registry)
    names = dataset.label_names(access) if named else ()
    truth = _truth(dataset, access, table, header.rows, named)
    values = _values(truth, named)
    sketch = RowsSketch(
        fields=fields,
        columns=header.columns,
        rows=header.rows,
        label=named,
        guess=label is None and named.lower() not in LABELS and not names,
        names=names,
        values=names or values,
        roles=column_roles(dataset, access, named),
        counts=_counts(truth, named, names) if values else {},
    )
    return sketch, table


def _source(fields: Mapping[str, Field], registry: Registry) -> Dataset:
    return registry.source(str(fields["kind"])).model_validate(fields)


def _first_rows(dataset: Dataset, access: Access) -> pa.Table:
    import pyarrow as pa

    batch = next(iter(dataset.batches(access, None, SAMPLE_ROWS)), None)
    if batch is None or not batch.num_rows:
        raise InputError("the dataset has no rows")
    return pa.Table.from_batches([batch]).slice(0, SAMPLE_ROWS)


def _truth(dataset: Dataset, access: Access, table: pa.Table, rows: int | None, label: str) -> pa.Table:
    """The column of labels in all rows: of a sorted file the first ones hold some classes only."""
    whole = not label or (rows is not None and rows <= len(table))
    return table if whole or (rows or 0) > MOST_ROWS else dataset.read(access, [label])


def _counts(table: pa.Table, label: str, names: Sequence[str]) -> dict[str, int]:
    """How often there is each value of the label, as its name where the data give it one."""
    import pyarrow.compute as pc

    from evalspec.answers.classes import label_text

    counts: dict[str, int] = {}
    counted = pc.value_counts(table.column(label))
    for value, count in zip(values_of(counted.field("values")), counted.field("counts").to_pylist(), strict=True):
        text = label_text(value)
        known = text.isdigit() and int(text) < len(names)
        counts[names[int(text)] if known else text] = int(count)
    return counts


def _label(table: pa.Table, columns: Mapping[str, str], hints: LabelHints) -> str:
    """The column with the truth: called as labels are, else the one that fits the model, else the last that may be.

    Empty: there is none.
    """
    takes = hints.takes if set(hints.takes) <= set(columns) else ()
    rest = [name for name in columns if name not in takes]
    named = [name for one in LABELS for name in rest if name.lower() == one]
    named += [name for name in rest if name.lower().rpartition("_")[2] in LABELS]
    aside = (*KEYS, *ENTITIES, *TIMES)
    rest = [name for name in rest if not called(name, aside)] or rest
    likely = [name for name in rest if 1 < len(_values(table, name)) <= MOST_CLASSES]
    numbers = [name for name in rest if NUMBERS.match(columns[name])]
    if hints.classes:
        own = [name for name in likely if set(_values(table, name)) <= set(hints.classes)]
        named = [name for name in named if name in own] or own or named
    elif hints.numbers:
        fitting = [name for name in named if name in numbers]
        named = fitting or ([name for name in numbers if columns[name] in FLOATS] or numbers)[-1:]
    if named:
        return named[0]
    last = [name for name in rest[-1:] if name in likely or name in numbers]
    return next(iter((*last, *likely[-1:])), "")


def _values(table: pa.Table, column: str) -> tuple[str, ...]:
    """Values of a column as text, in order; none where they are numbers of any size, lists, or too many."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from evalspec.answers.classes import label_text

    if column not in table.column_names:
        return ()
    values = table.column(column)
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    countable = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind)
    if not countable and not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        return ()
    found = pc.unique(values.cast(kind)).drop_null().to_pylist()
    if len(found) > MOST_CLASSES or any(isinstance(one, float) and not one.is_integer() for one in found):
        return ()
    if not countable and (len(found) > max(2, len(table) // 10) or min(found, default=0) < -1):
        return ()
    return tuple(dict.fromkeys(label_text(one) for one in sorted(found)))

"""Roles of columns in a spec, by their values and names: the key, what rows share, groups, the label's classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.cells import values_of
from evalspec.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.parts import Access, Dataset

KEYS = ("id", "key", "index", "uuid", "row", "row_id", "sample_id", "example_id", "image_id", "request_id")
ENTITIES = (
    *(
        "patient",
        "subject",
        "person",
        "user",
        "customer",
        "client",
        "member",
        "account",
        "household",
        "speaker",
        "author",
    ),
    *("writer", "driver", "session", "device", "machine", "sensor", "vehicle", "camera", "document", "video", "scene"),
)
"""Who or what several rows may be of, where their values alone don't say so."""
NO_GROUPS = ("audited", "reader_1", "reader_2", "prediction", "predicted")
MOST_BYTES = 64 * 2**20
"""Of a file that is looked at: a new spec is there at once."""
MOST_GROUPS, MOST_CLASSES, MOST_COLUMNS = 20, 20, 3
"""Values of a column of groups, classes of a label, and columns of groups that are named."""
MOST_CODES = 12
"""Values of a column of whole numbers that may be codes of groups."""
FEWEST = 2
"""Rows of a group, on average, below which its column is no group of rows."""


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """Columns of a test set that a spec names.

    Args:
        key: Names each row; empty: no column does.
        cluster: Names what several rows share, such as a patient; empty: none does.
        groups: Hold few values each.
        classes: Values of the label, in order; none where it is a number or holds too many.
        has_categories: Some columns beside the label hold words that repeat.
        is_read: Rows were looked at; False: nothing is known of them.
    """

    key: str = ""
    cluster: str = ""
    groups: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    has_categories: bool = False
    is_read: bool = False


def column_roles(dataset: Dataset, access: Access, label: str) -> ColumnRoles:
    """Roles of the columns of a dataset, by its first rows; none where it is large or can't be read.

    Args:
        dataset: A test set.
        access: Where it may be read from.
        label: Its label's column.
    """
    try:
        if sum(path.stat().st_size for path in dataset.files(access)) > MOST_BYTES:
            return ColumnRoles()
        rows = next(iter(dataset.batches(access)), None)
    except (InputError, OSError):
        return ColumnRoles()
    if rows is None or rows.num_rows < FEWEST:
        return ColumnRoles()
    counts = _counts(rows)
    names = [name for name in counts if name != label]
    key = _key(rows, names)
    others = [name for name in names if name != key]
    cluster = _cluster(rows, others, counts)
    few = [name for name in others if name != cluster and _is_few(rows, name, counts)]
    # Words first: whole numbers may be codes of groups, or amounts.
    groups = sorted(few, key=lambda name: not _is_words(rows, name))
    classes = _classes(rows, label, counts)
    return ColumnRoles(key, cluster, tuple(groups[:MOST_COLUMNS]), classes, _has_categories(rows, others, counts), True)


def _key(rows: pa.RecordBatch, names: Sequence[str]) -> str:
    """The column with another value in each row: one that is called so, else one that is a counter or holds codes."""
    from evalspec.tables.entities import called_as_code
    from evalspec.tables.row_names import row_names

    named = row_names((_table(rows),), names, (), (rows.num_rows,)) if len(names) > 1 else ()
    unique = [name for name in names if _count(rows, name) == rows.num_rows]
    first = [name for name in unique if called(name, KEYS)] + [name for name in unique if called_as_code(name)]
    return next(iter((*first, *(name for name in unique if name in named))), "")


def _cluster(rows: pa.RecordBatch, names: Sequence[str], counts: Mapping[str, int]) -> str:
    """The column that is called as entities are, else the one that tells most of the others."""
    from evalspec.tables.entities import called_as_code, entity_columns

    shared = [name for name in names if MOST_CODES < counts[name] < rows.num_rows]
    by_name = next((name for name in shared if called(name, ENTITIES)), "")
    entities = list(entity_columns(_table(rows), names))
    entities.sort(key=lambda one: (-len(one.attributes), not called_as_code(one.name)))
    told = next((one.name for one in entities if one.attributes or called_as_code(one.name)), "")
    return by_name or told


def _is_few(rows: pa.RecordBatch, name: str, counts: Mapping[str, int]) -> bool:
    """A column of few values, each of which has rows."""
    words = _is_words(rows, name)
    most = MOST_GROUPS if words else MOST_CODES
    return 1 < counts[name] <= most and counts[name] * FEWEST <= rows.num_rows and name.lower() not in NO_GROUPS


def _has_categories(rows: pa.RecordBatch, names: Sequence[str], counts: Mapping[str, int]) -> bool:
    """Words that repeat."""
    return any(_is_words(rows, name) and 1 < counts[name] <= rows.num_rows / FEWEST for name in names)


def called(name: str, words: Collection[str]) -> bool:
    """True if it is one of these names, or one with ``_id`` or ``id`` behind it."""
    plain = name.lower()
    return plain in words or plain.removesuffix("id").rstrip("_") in words


def _is_words(rows: pa.RecordBatch, name: str) -> bool:
    import pyarrow as pa

    kind = rows.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind))


def _table(rows: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches([rows])


def _counts(rows: pa.RecordBatch) -> dict[str, int]:
    """Column of words, truth values or whole numbers: its different values."""
    import pyarrow as pa

    return {
        field.name: _count(rows, field.name)
        for field in rows.schema
        if _is_words(rows, field.name) or pa.types.is_integer(field.type)
    }


def _count(rows: pa.RecordBatch, name: str) -> int:
    import pyarrow.compute as pc

    return int(pc.count_distinct(rows.column(rows.schema.get_field_index(name))).as_py())


def _classes(rows: pa.RecordBatch, label: str, counts: dict[str, int]) -> tuple[str, ...]:
    if not 1 < counts.get(label, 0) <= MOST_CLASSES:
        return ()
    values = values_of(rows.column(rows.schema.get_field_index(label)).unique().drop_null())
    # A time with nanoseconds is a text beside others that are none.
    return tuple(str(one) for one in sorted(values, key=lambda one: (isinstance(one, str), one)))

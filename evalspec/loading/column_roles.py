"""Roles of columns in a spec, by their names and first rows: the key, what rows share, groups, the label's classes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
"""Who or what several rows may be of."""
NO_GROUPS = ("audited", "reader_1", "reader_2", "prediction", "predicted")
MOST_BYTES = 64 * 2**20
"""Of a file that is looked at: a new spec is there at once."""
MOST_GROUPS, MOST_CLASSES, MOST_COLUMNS = 12, 20, 3
"""Values of a column of groups, classes of a label, and columns of groups that are named."""
FEWEST = 2
"""Rows of a group, on average, below which its column is no group of rows."""


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """Columns of a test set that a spec names.

    Args:
        key: Names each row; empty: no column does.
        cluster: Names what several rows share, such as a patient; empty: none is called so.
        groups: Hold few values each.
        classes: Values of the label, in order; none where it is a number or holds too many.
    """

    key: str = ""
    cluster: str = ""
    groups: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


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
    key = next((name for name in names if counts[name] == rows.num_rows and called(name, KEYS)), "")
    shared = [name for name in names if name != key and MOST_GROUPS < counts[name] < rows.num_rows]
    cluster = next((name for name in shared if called(name, ENTITIES)), "")
    groups = tuple(
        name
        for name in names
        if 1 < counts[name] <= MOST_GROUPS
        and counts[name] * FEWEST <= rows.num_rows
        and name.lower() not in NO_GROUPS
        and (_is_words(rows, name) or name.lower() == "group")
    )
    return ColumnRoles(key, cluster, groups[:MOST_COLUMNS], _classes(rows, label, counts))


def called(name: str, words: Collection[str]) -> bool:
    """True if it is one of these names, or one with ``_id`` or ``id`` behind it."""
    plain = name.lower()
    return plain in words or plain.removesuffix("id").rstrip("_") in words


def _is_words(rows: pa.RecordBatch, name: str) -> bool:
    import pyarrow as pa

    kind = rows.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind))


def _counts(rows: pa.RecordBatch) -> dict[str, int]:
    """Column of words, truth values or whole numbers: its different values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return {
        field.name: pc.count_distinct(rows.column(index)).as_py()
        for index, field in enumerate(rows.schema)
        if _is_words(rows, field.name) or pa.types.is_integer(field.type)
    }


def _classes(rows: pa.RecordBatch, label: str, counts: dict[str, int]) -> tuple[str, ...]:
    if not 1 < counts.get(label, 0) <= MOST_CLASSES:
        return ()
    values = rows.column(rows.schema.get_field_index(label)).unique().drop_null().to_pylist()
    return tuple(str(one) for one in sorted(values))

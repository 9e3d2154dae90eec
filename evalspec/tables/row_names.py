"""Columns that name a row, told by their values: such a column says nothing of what stands in the row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

FEWEST_ROWS = 50
MOST_CHARACTERS = 64
# White space, and letters of scripts that put none between words: with them a short string may be a text.
_OF_TEXT = r"[\s\p{Z}\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"


def row_names(
    tables: Sequence[pa.Table], columns: Sequence[str], stated: Sequence[str], sizes: Sequence[int] | None = None
) -> tuple[str, ...]:
    """Columns that name a row in every table; none where nothing else would be left.

    Args:
        tables: Each with these columns; of fewer than 50 rows the first one tells nothing.
        columns: Columns looked at.
        stated: Columns that a model is said to read, which are never taken for names.
        sizes: Rows of the datasets that the tables are drawn from. With it, whole numbers name rows only where they lie
            as close as a counter's, within twice as many: where leaving out an income would hide that it moved. None:
            wherever all differ.
    """
    if tables[0].num_rows < FEWEST_ROWS:
        return ()
    within: Sequence[int | None] = [None] * len(tables) if sizes is None else [2 * size for size in sizes]
    names = tuple(
        name
        for name in columns
        if name not in stated
        and all(_all_differ(one.column(name), most) for one, most in zip(tables, within, strict=True))
    )
    return names if len(names) < len(columns) else ()


def row_names_note(name: str, rows: str, field: str) -> str:
    """Note on a column that is left out.

    Args:
        name: Of the column.
        rows: Where it differs: ``test``.
        field: Field of the check that names what is compared.
    """
    return (
        f"{name!r} has another value in each row of {rows}: taken for a name of the row and not compared; name it in "
        f"`{field}:` to compare it, or in `key:` to say so."
    )


def _all_differ(column: pa.ChunkedArray, within: int | None) -> bool:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if column.null_count or not (text or pa.types.is_integer(kind)):
        return False
    values = column.cast(pa.large_string()) if text else column.cast(kind)
    if text:
        sizes = pc.min_max(pc.utf8_length(values)).as_py()
        if (sizes["min"] or 0) < 1 or sizes["max"] > MOST_CHARACTERS:
            return False
        if pc.any(pc.match_substring_regex(values, _OF_TEXT)).as_py():
            return False
    elif within is not None:
        ends = pc.min_max(values).as_py()
        if ends["max"] - ends["min"] >= within:
            return False
    return bool(pc.count_distinct(values).as_py() == len(values))

"""Rows of two sets side by side, to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from evalspec.cells import value_of
from evalspec.checks.data.contamination.detector import RowPair, TestSide
from evalspec.evidence.blocks import Example, Examples
from evalspec.evidence.frozen import Cell
from evalspec.scoring.thumbnails import picture, png

PAIRS_SHOWN = 8
FIELDS_SHOWN = 8
LETTERS_SHOWN = 400
SIDE_SHOWN = 64
"""Pixels of a thumbnail: sixteen photographs of more would be most of the report."""


def example(
    asked: TestSide,
    table: pa.Table,
    row: int,
    found: str,
    *,
    name: str | None = None,
    number: int | None = None,
    text: str | None = None,
) -> Example:
    """A row to look at.

    Args:
        asked: What is compared, and what names a row.
        table: Rows.
        row: Which of them.
        found: What it was found as.
        name: Of the set; None: the test set.
        number: Of the row in its set, where ``table`` holds some of its rows only.
        text: The part of its text to show; None: its beginning.
    """
    fields: dict[str, Cell] = {"found": found}
    image = None
    for column in asked.columns:
        value = table.column(column)[row]
        if isinstance(value, pa.ExtensionScalar):
            value = value.type.wrap_array(pa.array([value.value], value.type.storage_type)).to_numpy_ndarray()[0]
        cell = value_of(value) if isinstance(value, pa.Scalar) else value
        pixels = picture(cell) if image is None else None
        if pixels is not None:
            step = -(-max(pixels.shape[:2]) // SIDE_SHOWN)
            image = png(pixels[::step, ::step])
        elif isinstance(cell, str) and text is None:
            text = cell if len(cell) <= LETTERS_SHOWN else cell[:LETTERS_SHOWN] + " ..."
        elif len(fields) <= FIELDS_SHOWN and not (isinstance(cell, str) and cell[:LETTERS_SHOWN] == text):
            fields[column] = _cell(cell)
    which = value_of(table.column(asked.key)[row]) if asked.key else f"row {row if number is None else number:,}"
    return Example(title=f"{name or asked.name}, {which}", fields=fields, text=text, image=image)


def with_fields(one: Example, fields: Mapping[str, Cell]) -> Example:
    """The same with more fields."""
    return one.model_copy(update={"fields": {**one.fields, **fields}})


def _cell(value: Any) -> Cell:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value[:LETTERS_SHOWN]
    return str(value)[:60]


def side_by_side(pairs: Sequence[RowPair], test: str, total: int) -> tuple[Examples, ...]:
    """Pairs of all levels in turn, so that each level that found some is seen.

    Args:
        pairs: In the order of levels.
        test: Name of the test set.
        total: Test rows that were found.
    """
    by_level: dict[str, list[RowPair]] = {}
    for pair in pairs:
        by_level.setdefault(pair.level, []).append(pair)
    if not by_level:
        return ()
    share = -(-PAIRS_SHOWN // len(by_level))
    chosen = [pair for some in by_level.values() for pair in some[:share]]
    rest = [pair for some in by_level.values() for pair in some[share:]]
    chosen = [*chosen, *rest[: max(PAIRS_SHOWN - len(chosen), 0)]]
    return (
        Examples(
            title="Duplicate pairs, side by side",
            caption=f"Left the row of {test}, right the training row it was found in.",
            examples=tuple(one for pair in chosen for one in (pair.test, pair.train)),
            total=total,
            pairs=True,
        ),
    )

"""Rows of text to look at: those that overlap least with their references."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import Example, Examples
from evalspec.scoring.show import EXAMPLES_SHOWN, TEXT_SHOWN, cells_of
from evalspec.scoring.text import rows as text

if TYPE_CHECKING:
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs
    from evalspec.scoring.scored_rows import Scored


def worst_texts(inputs: Inputs, rows: Scored) -> Examples | None:
    """Rows whose texts differ from every reference, the least overlap first; None where there is none.

    Args:
        inputs: What the check is handed.
        rows: The candidate's rows, all of the dataset.
    """
    overlap = text.token_overlap(rows)
    wrong = np.flatnonzero(~text.exact_hits(rows))
    if not len(wrong):
        return None
    shown = wrong[np.argsort(overlap[wrong], kind="stable")[:EXAMPLES_SHOWN]]
    numbers = rows.number(shown).tolist()
    cells = cells_of(inputs, rows.dataset, numbers)
    written, expected = text.said(rows), text.references(rows)
    examples = []
    for row, number, inside in zip(shown.tolist(), numbers, cells, strict=True):
        fields: dict[str, Cell] = {
            "row": number,
            "token_f1": round(float(overlap[row]), 4),
            "expected": _short(expected[row][0]),
            "written": _short(written[row]),
        }
        if rows.extracted is not None and rows.texts is not None:
            fields |= {"written": written[row] or "no answer", "whole text": _short(rows.texts[row])}
        asked = [value for value in inside.values() if isinstance(value, str)]
        longest = max(asked, key=len)[:TEXT_SHOWN] if asked else None
        examples.append(Example(title=f"row {number}", fields=fields, text=longest))
    return Examples(
        title="Rows furthest off", caption="Least overlap of words first.", examples=tuple(examples), total=len(wrong)
    )


def _short(value: str) -> str:
    return value if len(value) <= TEXT_SHOWN else value[: TEXT_SHOWN - 1] + "…"

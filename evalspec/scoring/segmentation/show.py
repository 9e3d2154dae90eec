"""Masks to look at: a table of classes, and the pictures with the most wrong pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import Column, Examples, Table
from evalspec.scoring.segmentation.counts import Pixels
from evalspec.scoring.show import CLASSES_SHOWN, EXAMPLES_SHOWN, cells_of, example

if TYPE_CHECKING:
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs
    from evalspec.scoring.scored_rows import Scored


def class_pixels(rows: Scored, found: Pixels) -> Table:
    """Pixels and intersection over union of every class, the lowest first.

    Args:
        rows: The candidate's rows.
        found: Its pixels.
    """
    names = rows.classes or ()
    right, true, said = (one.sum(axis=0) for one in (found.right, found.true, found.said))
    union = true + said - right
    iou = np.divide(right, union, out=np.full(len(names), np.nan), where=union > 0)
    order = np.argsort(iou, kind="stable")
    pictures = (found.true > 0).sum(axis=0)

    def share(above: int, below: int) -> Cell:
        return above / below if below else None

    cells = tuple(
        (names[c], int(pictures[c]), int(true[c]), int(said[c]), share(int(right[c]), int(union[c])),
         share(2 * int(right[c]), int(true[c] + said[c])), share(int(right[c]), int(true[c])))
        for c in order[:CLASSES_SHOWN].tolist()
    )  # fmt: skip
    columns = (
        Column(name="class"), Column(name="pictures"), Column(name="true pixels"), Column(name="said pixels"),
        *(Column(name=name, unit="fraction") for name in ("iou", "dice", "recall")),
    )  # fmt: skip
    more = f" The {CLASSES_SHOWN} lowest of {len(names)}." if len(names) > CLASSES_SHOWN else ""
    caption = f"Pixels of all pictures summed; lowest overlap first, empty where it is 0/0.{more}"
    return Table(title="Classes", caption=caption, columns=columns, rows=cells)


def poor_masks(inputs: Inputs, rows: Scored, found: Pixels) -> Examples | None:
    """Pictures with the largest share of wrong pixels; None: there are none.

    Args:
        inputs: What the check is handed.
        rows: The candidate's rows, all of the dataset.
        found: Its pixels.
    """
    judged = found.true.sum(axis=1)
    wrong = judged - found.right.sum(axis=1)
    total = int((wrong > 0).sum())
    if total == 0:
        return None
    share = wrong / np.maximum(judged, 1)
    shown = np.argsort(-share, kind="stable")[: min(total, EXAMPLES_SHOWN)]
    cells = cells_of(inputs, rows.dataset, shown.tolist())
    classes = rows.classes or ()
    missed = (found.true - found.right)[shown].argmax(axis=1).tolist()
    examples = tuple(
        example(row, {"row": row, "wrong pixels": round(float(share[row]), 4), "most missed": classes[worst]}, inside)
        for row, worst, inside in zip(shown.tolist(), missed, cells, strict=True)
    )
    return Examples(
        title="Pictures with the most wrong pixels", caption="By their share of the judged pixels.", examples=examples,
        total=total,
    )  # fmt: skip

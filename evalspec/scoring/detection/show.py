"""Boxes to look at: a table of classes, and the pictures with the most mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import Column, Examples, Table
from evalspec.scoring.show import CLASSES_SHOWN, EXAMPLES_SHOWN, cells_of, example

if TYPE_CHECKING:
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs
    from evalspec.scoring.detection.match import BoxMatches, Scores
    from evalspec.scoring.scored_rows import Scored


def box_table(rows: Scored, found: BoxMatches, scores: Scores) -> Table:
    """Objects, boxes found and average precision of every class, the lowest first.

    Args:
        rows: The candidate's rows.
        found: Which boxes found an object.
        scores: Of all classes.
    """
    names = rows.classes or ()
    said = np.bincount(found.codes, minlength=len(names))
    objects = found.objects.sum(axis=0)
    precision, recall = scores.precision, scores.recall[0]
    order = np.argsort(precision.mean(axis=1), kind="stable")

    def cell(value: float) -> Cell:
        return float(value) if np.isfinite(value) else None

    cells = tuple(
        (names[c], int(objects[c]), int(scores.pictures[c]), int(said[c]), cell(precision[c].mean()),
         cell(precision[c, 0]), cell(recall[c].mean()))
        for c in order[:CLASSES_SHOWN].tolist()
    )  # fmt: skip
    columns = (
        Column(name="class"), Column(name="objects"), Column(name="pictures"), Column(name="boxes found"),
        *(Column(name=name, unit="fraction") for name in ("ap", "ap at 0.50", "recall")),
    )  # fmt: skip
    more = f" The {CLASSES_SHOWN} lowest of {len(names)}." if len(names) > CLASSES_SHOWN else ""
    caption = f"Lowest average precision first; empty where a class has no objects.{more}"
    return Table(title="Classes", caption=caption, columns=columns, rows=cells)


def poor_pictures(inputs: Inputs, rows: Scored, found: BoxMatches) -> Examples | None:
    """Pictures with the most objects missed and boxes that found none, at an overlap of 0.50; None: there are none.

    Args:
        inputs: What the check is handed.
        rows: The candidate's rows, all of the dataset.
        found: Which boxes found an object.
    """
    objects = found.objects.sum(axis=1)
    hits = np.bincount(found.row[found.hits[0]], minlength=rows.n)
    wrong = np.bincount(found.row[~found.hits[0] & ~found.ignored[0]], minlength=rows.n)
    missed = objects - hits
    mistakes = missed + wrong
    total = int((mistakes > 0).sum())
    if total == 0:
        return None
    shown = np.argsort(-mistakes, kind="stable")[: min(total, EXAMPLES_SHOWN)]
    cells = cells_of(inputs, rows.dataset, shown.tolist())
    examples = tuple(
        example(
            row,
            {"row": row, "objects": int(objects[row]), "missed": int(missed[row]), "found nothing": int(wrong[row])},
            inside,
        )
        for row, inside in zip(shown.tolist(), cells, strict=True)
    )
    return Examples(
        title="Pictures with the most mistakes",
        caption="Objects missed and boxes that found none, all of them however unsure, at an overlap of 0.50.",
        examples=examples,
        total=total,
    )

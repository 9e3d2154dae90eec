"""Boxes in pictures: what a model finds, and what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.answers.arrays import column, plain_array
from evalspec.answers.classes import class_indices, missing_mask
from evalspec.answers.ragged import flattened, is_listed, listed, unlisted
from evalspec.errors import InputError
from evalspec.language.predictions import Boxes

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.parts import OutputName

    Counts = NDArray[np.int64]
    Array = NDArray[Any]

PLACES = ("box", "bbox")
"""Field of a true box: [left, top, right, bottom], or COCO's [x, y, width, height]."""
NAMES = ("label", "category")
CROWD = "iscrowd"
SHOULD = "a list of structs, or a struct of lists, with box: [left, top, right, bottom] (or COCO's bbox) and label"


def found_boxes(named: Mapping[OutputName, Array], labels: Sequence[str], first_row: int) -> Boxes:
    """Boxes that a model finds in the pictures of one batch.

    A box with a score of 0, or with a label below 0, is padding and dropped.

    Args:
        named: ``boxes``: shape (n, K, 4), or (n,) objects with shape (k, 4) each; ``scores`` and, where there are
            several classes, ``label``: shape (n, K), or (n,) objects with shape (k,) each.
        labels: The classes; whole numbers are their indices, unless the classes are numbers themselves.
        first_row: Index of the first row in its dataset, for sentences.

    Raises:
        InputError: They do not belong together, are no boxes, or have a label that no class has.
    """
    counts, flat = flattened(named["boxes"], "the output for 'boxes'", first_row)
    rows = np.repeat(np.arange(len(counts)), counts)
    corners = _fours(flat, "the output for 'boxes'")
    scores = _beside(counts, flattened(named["scores"], "the output for 'scores'", first_row), "scores")
    _check_scores(scores, rows, first_row)
    kept = scores > 0.0
    if "label" in named:
        values = _beside(counts, flattened(named["label"], "the output for 'label'", first_row), "label")
        if values.dtype.kind in "if":
            kept &= values >= 0
        classes = _classes(values[kept], labels, "the output for 'label'")
    elif len(labels) == 1:
        classes = np.zeros(int(kept.sum()), dtype=np.int64)
    else:
        raise InputError(
            f"`outputs` names boxes and scores, but not which of the {len(labels)} classes a box has",
            remedy="add label: the output with the class of each box",
        )
    _check_corners(corners[kept], rows[kept], "the output for 'boxes'", first_row)
    return Boxes(row=rows[kept], corners=corners[kept], classes=classes, scores=scores[kept])


def true_boxes(table: pa.Table, label: str, classes: Sequence[str]) -> Boxes:
    """The label column of boxes.

    Args:
        table: The rows.
        label: The column: a list of structs, or a struct of lists, in each row.
        classes: Labels of the classes.

    Raises:
        InputError: No such column, another type, lists that do not belong together, no boxes, or a label that no class
            has.
    """
    what = f"the label column {label!r}"
    counts, fields = _fields(column(table, label), what)
    rows = np.repeat(np.arange(len(counts)), counts)
    place, name = _one_of(fields, PLACES, what), _one_of(fields, NAMES, what)
    corners = _fours(_filled(fields[place], f"{what}, field {place!r}"), f"{what}, field {place!r}")
    if place == "bbox":
        corners = np.concatenate([corners[:, :2], corners[:, :2] + corners[:, 2:]], axis=1)
    _check_corners(corners, rows, what, 0)
    codes = _classes(_filled(fields[name], f"{what}, field {name!r}"), classes, f"{what}, field {name!r}")
    ignored = None
    if CROWD in fields:
        ignored = np.nan_to_num(_filled(fields[CROWD], f"{what}, field {CROWD!r}").astype(np.float64)) > 0
    return Boxes(row=rows, corners=corners, classes=codes, ignored=ignored)


def joined_boxes(parts: Sequence[tuple[int, Boxes]]) -> Boxes:
    """Boxes of several batches, one after the other.

    Args:
        parts: Rows of each batch, and its boxes.
    """
    firsts = np.cumsum([0, *(n for n, _ in parts)])
    batches = [boxes for _, boxes in parts]
    return Boxes(
        row=np.concatenate([boxes.row + first for boxes, first in zip(batches, firsts[:-1], strict=True)]),
        corners=np.concatenate([boxes.corners for boxes in batches]),
        classes=np.concatenate([boxes.classes for boxes in batches]),
        scores=np.concatenate([boxes.scores for boxes in batches if boxes.scores is not None]),
    )


def _fields(values: pa.ChunkedArray, what: str) -> tuple[Counts, dict[str, pa.ChunkedArray]]:
    """Number of boxes of each row, and each field of all of them."""
    import pyarrow.types as types

    kind = values.type
    if is_listed(kind) and types.is_struct(kind.value_type):
        counts, flat = unlisted(values, what)
        return counts, _children(flat)
    if is_listed(kind) and types.is_null(kind.value_type):
        counts, _ = unlisted(values, what)
        raise InputError(f"{what} has no box in any of its {len(counts)} rows")
    if not types.is_struct(kind) or not all(is_listed(field.type) for field in kind):
        raise InputError(f"{what} holds {kind} but the model gives boxes", remedy=f"label: a column with {SHOULD}")
    lists = {name: unlisted(child, f"{what}, field {name!r}") for name, child in _children(values).items()}
    counts = next(iter(lists.values()))[0]
    for name, (others, _) in lists.items():
        if not np.array_equal(others, counts):
            row = int(np.argmax(others != counts))
            raise InputError(f"{what} has different numbers of {name!r} and boxes in row {row} (counted from 0)")
    return counts, {name: flat for name, (_, flat) in lists.items()}


def _children(values: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    import pyarrow as pa

    names = [field.name for field in values.type]
    # Flattened, a struct that is missing has missing fields; its fields as they lie may hold anything.
    chunks = [chunk.flatten() for chunk in values.chunks]
    return {
        name: pa.chunked_array([chunk[at] for chunk in chunks], type=values.type.field(at).type)
        for at, name in enumerate(names)
    }


def _one_of(fields: Mapping[str, Any], names: Sequence[str], what: str) -> str:
    there = [name for name in names if name in fields]
    if len(there) != 1:
        told = "neither" if not there else "both"
        between = " nor " if not there else " and "
        raise InputError(f"{what} has {told} {between.join(map(repr, names))}", choices=tuple(fields), remedy=SHOULD)
    return there[0]


def _filled(values: pa.ChunkedArray, what: str) -> Array:
    if not len(values):
        return np.empty(0)
    if is_listed(values.type):
        counts, flat = listed(values, what)
        if (counts != counts[0]).any():
            raise InputError(f"{what} has a box of {int(counts[counts != counts[0]][0])} numbers, not of 4")
        return flat.reshape(len(counts), -1)
    return plain_array(values, what)


def _fours(flat: Array, what: str) -> NDArray[np.float64]:
    if not len(flat):
        return np.empty((0, 4))
    if flat.ndim != 2 or flat.shape[1] != 4 or flat.dtype.kind not in "biuf":
        raise InputError(f"{what} holds {flat.dtype} of shape {list(flat.shape[1:])} for each box, not 4 numbers")
    return flat.astype(np.float64)


def _beside(counts: Counts, other: tuple[Counts, Array], kind: str) -> Array:
    """Values that belong to each box, shape (m,)."""
    others, flat = other
    if not np.array_equal(others, counts) or (len(flat) and flat.ndim != 1):
        raise InputError(f"the model gives boxes and {kind} of different shapes: each box needs one of the {kind}")
    return flat


def _check_scores(scores: Array, rows: Counts, first_row: int) -> None:
    if len(scores) and scores.dtype.kind not in "biuf":
        raise InputError(f"the output for 'scores' holds {scores.dtype}, not numbers")
    # A NaN is not within either.
    bad = ~((scores >= 0.0) & (scores <= 1.0))
    if bad.any():
        at = int(np.argmax(bad))
        raise InputError(
            f"the score {scores[at]:.6g} of a box in row {first_row + rows[at]} (counted from 0) is not in 0..1",
            remedy="give probabilities, 0 for padding",
        )


def _check_corners(corners: NDArray[np.float64], rows: Counts, what: str, first_row: int) -> None:
    bad = ~np.isfinite(corners).all(axis=1) | (corners[:, 2] < corners[:, 0]) | (corners[:, 3] < corners[:, 1])
    if bad.any():
        at = int(np.argmax(bad))
        shown = ", ".join(f"{number:.6g}" for number in corners[at])
        raise InputError(
            f"{what} has the box [{shown}] in row {first_row + rows[at]} (counted from 0), which has no area",
            remedy="a box is [left, top, right, bottom] in pixels; of labels, bbox is [x, y, width, height]",
        )


def _classes(values: Array, classes: Sequence[str], what: str) -> NDArray[np.int64]:
    """Class index of each box: whole numbers are indices, unless the classes are numbers themselves."""
    if not len(values):
        return np.empty(0, dtype=np.int64)
    if values.dtype.kind not in "iuf" or all(_is_whole(name) for name in classes) or missing_mask(values).any():
        return class_indices(values, classes, what)
    outside = (values < 0) | (values >= len(classes)) | (values != np.floor(values))
    if outside.any():
        worst = values[int(np.argmax(outside))]
        raise InputError(
            f"{what}: {worst:g} ({int(outside.sum())} of {len(values)} boxes) is not a class index",
            remedy=f"there are {len(classes)} `classes`, so indices are 0 to {len(classes) - 1}; or give their names",
        )
    return values.astype(np.int64)


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal()

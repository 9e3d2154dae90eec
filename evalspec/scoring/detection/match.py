"""Boxes found and true, matched by pycocotools once; average precision without each group of pictures in turn."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.predictions import Boxes
    from evalspec.scoring.scored_rows import Scored

OVERLAPS: NDArray[np.float64] = np.linspace(0.5, 0.95, 10)
"""Least overlaps (intersection over union) of a match, as COCO has them."""
RECALLS: NDArray[np.float64] = np.linspace(0.0, 1.0, 101)
MOST_A_PICTURE = 100
"""Boxes of one class in a picture that count: the surest."""
_ANY_AREA = (0.0, 1e10)
_CELLS = 2_000_000
"""Numbers that are held at once."""


@dataclass(frozen=True, eq=False)
class BoxMatches:
    """Matches of boxes with objects, surest first within each class.

    Args:
        row: shape (d,), picture of each box found.
        codes: shape (d,), rising: its class.
        hits: shape (T, d), it found an object at each overlap.
        ignored: shape (T, d), it counts neither for nor against: it lies on a crowd.
        objects: shape (n, C), objects that count.
    """

    row: NDArray[np.int64]
    codes: NDArray[np.int64]
    hits: NDArray[np.bool_]
    ignored: NDArray[np.bool_]
    objects: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of every class as pycocotools accumulates them: of all pictures, then without each group of them.

    Args:
        precision: shape (C, T), average precision over 101 recalls, NaN where a class has no object.
        area: shape (1 + G, C, T), the whole area under the same curve: what the steps of recall hide.
        recall: shape (1 + G, C, T).
        half_step: shape (C, T), half of what one of the 101 recalls more or less would change.
        pictures: shape (C,), pictures, or clusters of them, with objects of each class.
    """

    precision: NDArray[np.float64]
    area: NDArray[np.float64]
    recall: NDArray[np.float64]
    half_step: NDArray[np.float64]
    pictures: NDArray[np.int64]


def matched(rows: Scored) -> BoxMatches:
    """COCO's matching of a model's boxes, by pycocotools.

    Args:
        rows: Rows with boxes.
    """
    from pycocotools.cocoeval import COCOeval

    boxes, true = rows.boxes, rows.true_boxes
    assert boxes is not None and true is not None
    names = len(rows.classes or ())
    ours = COCOeval(iouType="bbox")
    ours.params.iouThrs, ours.params.maxDets = OVERLAPS, [MOST_A_PICTURE]
    ours._gts, ours._dts = _annotations(true), _annotations(boxes)
    pairs = sorted((code, row) for row, code in {*ours._gts, *ours._dts})
    kept: list[tuple[int, int, dict[str, Any]]] = []
    for code, row in pairs:
        ours.ious[row, code] = ours.computeIoU(row, code)
        kept.append((row, code, ours.evaluateImg(row, code, list(_ANY_AREA), MOST_A_PICTURE)))
    counted = ~true.ignored if true.ignored is not None else np.ones(len(true.row), dtype=np.bool_)
    objects = np.bincount(true.row[counted] * names + true.classes[counted], minlength=rows.n * names)
    return _sorted(kept, objects.reshape(rows.n, names).astype(np.int64))


def _annotations(boxes: Boxes) -> defaultdict[tuple[int, int], list[dict[str, Any]]]:
    """Boxes of each picture and class, as pycocotools takes them."""
    left, top, right, bottom = boxes.corners.T
    sides = np.stack([left, top, right - left, bottom - top], axis=1)
    areas = (sides[:, 2] * sides[:, 3]).tolist()
    count = len(boxes.row)
    crowd = [0] * count if boxes.ignored is None else boxes.ignored.astype(int).tolist()
    scores = [0.0] * count if boxes.scores is None else boxes.scores.tolist()
    boxes_at: defaultdict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    places = zip(boxes.row.tolist(), boxes.classes.tolist(), strict=True)
    # An id of 0 would read as "not matched".
    for at, (place, sides_of) in enumerate(zip(places, sides.tolist(), strict=True)):
        boxes_at[place].append(
            {"id": at + 1, "bbox": sides_of, "area": areas[at], "iscrowd": crowd[at], "ignore": crowd[at],
             "score": scores[at]}
        )  # fmt: skip
    return boxes_at


def _sorted(kept: list[tuple[int, int, dict[str, Any]]], objects: NDArray[np.int64]) -> BoxMatches:
    """Sort by class, then by falling score; boxes of equal score as pycocotools has them, picture by picture."""
    sizes = [len(one["dtScores"]) for _, _, one in kept]
    row = np.repeat(np.array([row for row, _, _ in kept], dtype=np.int64), sizes)
    codes = np.repeat(np.array([code for _, code, _ in kept], dtype=np.int64), sizes)
    count = len(OVERLAPS)
    scores = np.concatenate([np.empty(0), *(np.asarray(one["dtScores"], dtype=np.float64) for _, _, one in kept)])
    nothing = np.zeros((count, 0), dtype=np.bool_)
    hits = np.concatenate([nothing, *(one["dtMatches"] != 0 for _, _, one in kept)], axis=1)
    ignored = np.concatenate([nothing, *(one["dtIgnore"].astype(np.bool_) for _, _, one in kept)], axis=1)
    order = np.lexsort((-scores, codes))
    return BoxMatches(row[order], codes[order], (hits & ~ignored)[:, order], ignored[:, order], objects)


def scores(found: BoxMatches, group: NDArray[np.int64] | None, units: NDArray[np.int64] | None = None) -> Scores:
    """Average precision and recall, as pycocotools accumulates them; areas and recall without each group too.

    Args:
        found: The matching.
        group: shape (n,), group of each picture; None: of all pictures only.
        units: shape (n,), cluster of each picture; None: each picture by itself.
    """
    n, names = found.objects.shape
    left_out = 0 if group is None else int(group.max(initial=-1)) + 1
    weights = np.ones((1 + left_out, n))
    if group is not None:
        weights[1 + group, np.arange(n)] = 0.0
    objects = weights @ found.objects
    kinds = (names, len(found.hits))
    precision, half_step = np.full(kinds, np.nan), np.full(kinds, np.nan)
    area, recall = np.full((1 + left_out, *kinds), np.nan), np.full((1 + left_out, *kinds), np.nan)
    ends = np.searchsorted(found.codes, np.arange(names + 1))
    for code in np.flatnonzero(found.objects.any(axis=0)).tolist():
        inside = slice(int(ends[code]), int(ends[code + 1]))
        hits, counted = found.hits[:, inside], ~found.ignored[:, inside]
        pairs = [average_precision(*curve, int(objects[0, code])) for curve in zip(hits, counted, strict=True)]
        precision[code], half_step[code] = zip(*pairs, strict=True)
        area[:, code], recall[:, code] = areas(weights, found.row[inside], hits, counted, objects[:, code])
    seen = found.objects > 0
    if units is not None:
        seen = np.stack([np.bincount(units, weights=column) > 0 for column in seen.T], axis=1)
    return Scores(precision, area, recall, half_step, seen.sum(axis=0))


def average_precision(hits: NDArray[np.bool_], counted: NDArray[np.bool_], objects: int) -> tuple[float, float]:
    """Average precision of one class at one overlap, over COCO's 101 recalls; and half of a recall's part in it.

    Args:
        hits: shape (d,), a box found an object; surest first.
        counted: shape (d,), it counts for or against.
        objects: How many there are, at least one.
    """
    right = np.arange(1, np.count_nonzero(hits) + 1)
    if not len(right):
        return 0.0, 0.0
    # Precision is highest where an object is found: what lies between changes no maximum.
    precision = right / (np.cumsum(counted)[hits] + np.spacing(1.0))
    highest = np.maximum.accumulate(precision[::-1])[::-1]
    reached = np.searchsorted(RECALLS, right / objects, side="right")
    steps = np.diff(reached, prepend=0)
    return float((highest * steps).sum() / len(RECALLS)), float(precision[-1] / (2 * len(RECALLS)))


def areas(
    weights: NDArray[np.float64],
    row: NDArray[np.int64],
    hits: NDArray[np.bool_],
    counted: NDArray[np.bool_],
    objects: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Area under the curve of one class at each overlap, and recall; shape (B, T) each, NaN without objects.

    Args:
        weights: shape (B, n), 1 for pictures that count.
        row: shape (d,), picture of each box, surest first.
        hits: shape (T, d), it found an object.
        counted: shape (T, d), it counts for or against.
        objects: shape (B,).
    """
    step = max(1, _CELLS // max(1, len(row)))
    parts = [
        _areas(weights[start : start + step][:, row], hits, counted, objects[start : start + step])
        for start in range(0, len(weights), step)
    ]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _areas(
    drawn: NDArray[np.float64], hits: NDArray[np.bool_], counted: NDArray[np.bool_], objects: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    below = np.where(objects > 0, objects, np.nan)
    every = np.cumsum(drawn, axis=1)
    area, recall = np.empty((len(drawn), len(hits))), np.empty((len(drawn), len(hits)))
    for at, hit in enumerate(hits):
        own = drawn[:, hit]
        said = every if counted[at].all() else np.cumsum(drawn * counted[at], axis=1)
        precision = np.cumsum(own, axis=1) / (said[:, hit] + np.spacing(1.0))
        highest = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        area[:, at] = np.einsum("ij,ij->i", highest, own) / below
        recall[:, at] = own.sum(axis=1) / below
    return area, recall

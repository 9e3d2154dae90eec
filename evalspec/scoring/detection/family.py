"""Boxes: how their metrics are scored, what is shown."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evalspec.scoring.catalogue.boxes import BOXES as DECLARED
from evalspec.scoring.catalogue.boxes import NAMES, missing_detection
from evalspec.scoring.detection.jackknife import Left, PairedLeft
from evalspec.scoring.detection.match import MOST_A_PICTURE, OVERLAPS, BoxMatches, Scores, matched, scores
from evalspec.scoring.detection.show import box_table, poor_pictures
from evalspec.scoring.family import Family, QualityContext
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.scores import Score
from evalspec.stats.resampling.bootstrap import FEWEST_OF_A_CLASS
from evalspec.stats.resampling.jackknife import GROUPS
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.estimate import Comparison, Estimate
    from evalspec.evidence.frozen import Cell
    from evalspec.scoring.family import ScoringFields
    from evalspec.scoring.scores import Estimators

    Pick = Callable[[Scores, NDArray[np.int64]], Left]


def _precision(class_scores: Scores, classes: NDArray[np.int64], overlap: int | None = None) -> Left:
    """Mean average precision of some classes."""
    chosen = slice(None) if overlap is None else slice(overlap, overlap + 1)
    value = float(class_scores.precision[classes, chosen].mean())
    area = class_scores.area[:, classes, chosen].mean(axis=(1, 2))
    # Where one class's recall lies between two steps says nothing of where another's does.
    slack = float(class_scores.half_step[classes, chosen].mean()) / math.sqrt(len(classes))
    return Left(value, area, slack)


def _recall(class_scores: Scores, classes: NDArray[np.int64]) -> Left:
    recall = class_scores.recall[:, classes].mean(axis=(1, 2))
    return Left(float(recall[0]), recall, 0.0)


_PICKED: dict[str, Pick] = {
    "map": _precision,
    "map_50": partial(_precision, overlap=0),
    "map_75": partial(_precision, overlap=5),
    "average_recall": _recall,
    "ap": _precision,
}


@dataclass(frozen=True, slots=True)
class OfBoxes:
    """A mean over classes of what pycocotools accumulates.

    Args:
        metric: Its name.
        pick: Takes it from the scores of all classes.
        index: The only class that counts; None: all that have objects.
    """

    metric: str
    pick: Pick
    index: int | None = None

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """The jackknife over groups of pictures, or of clusters of them."""
        left, reason = self._left(rows, tools)
        return left.estimate(rows.n) if reason is None else ValueOnly(left.value, rows.n, reason)

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """The jackknife of the difference: both without the same groups of pictures."""
        first, reason = self._left(candidate, tools)
        second, _ = self._left(baseline, tools)
        return PairedLeft(first, second, candidate.n, reason)

    def _left(self, rows: Scored, tools: Estimators) -> tuple[Left, str | None]:
        """Scores of all pictures and without each group; and the reason why there is no bound."""
        class_scores = kept_scores(rows, tools)
        classes = np.flatnonzero(class_scores.pictures)
        if not len(classes):
            raise Undefined(f"{rows.where} has no objects: {self.metric} is 0/0")
        if self.index is not None:
            if not class_scores.pictures[self.index]:
                raise Undefined(f"class {rows.class_name(self.index)} has no objects in {rows.where}: its AP is 0/0")
            classes = np.array([self.index])
        return self.pick(class_scores, classes), _why_no_bound(rows, class_scores, classes)


def _why_no_bound(rows: Scored, class_scores: Scores, classes: NDArray[np.int64]) -> str | None:
    units = rows.n if rows.clusters is None else len(np.unique(rows.clusters))
    if units < GROUPS:
        return f"no bound: the jackknife has one with at least {GROUPS} pictures or clusters, and there are {units}"
    rare = int(classes[np.argmin(class_scores.pictures[classes])])
    if class_scores.pictures[rare] < FEWEST_OF_A_CLASS:
        held = int(class_scores.pictures[rare])
        return (
            f"no bound: class {rows.class_name(rare)} has objects in {held} pictures or clusters, "
            f"and the jackknife needs {FEWEST_OF_A_CLASS} of every class that counts"
        )
    return None


def kept_matched(rows: Scored, tools: Estimators) -> BoxMatches:
    """The matching, made once for all metrics of the same boxes."""
    key = f"matched boxes {_digest(rows)}"
    if key not in tools.kept:
        tools.kept[key] = matched(rows)
    matches = tools.kept[key]
    assert isinstance(matches, BoxMatches)
    return matches


def kept_scores(rows: Scored, tools: Estimators) -> Scores:
    """Scores of all classes, made once for all metrics of the same boxes.

    Args:
        rows: Rows with boxes.
        tools: Deal the pictures to groups: those of two models on the same rows alike.
    """
    key = f"scores of boxes {_digest(rows)}"
    if key not in tools.kept:
        group, units = _groups(rows, tools)
        tools.kept[key] = scores(kept_matched(rows, tools), group, units)
    class_scores = tools.kept[key]
    assert isinstance(class_scores, Scores)
    return class_scores


def _groups(rows: Scored, tools: Estimators) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Group of each picture (None: too few for a bound), and its cluster (None: each by itself), shape (n,) each."""
    units, count = None, rows.n
    if rows.clusters is not None:
        seen, units = np.unique(rows.clusters, return_inverse=True)
        count = len(seen)
    if count < GROUPS:
        return None, units
    dealt = tools.rng("boxes").permutation(count) % GROUPS
    return (dealt if units is None else dealt[units]), units


def _digest(rows: Scored) -> str:
    """Digest of the boxes found and true."""
    digest = hashlib.blake2b(str(rows.n).encode())
    for boxes in (rows.boxes, rows.true_boxes):
        assert boxes is not None
        for array in (boxes.row, boxes.corners, boxes.classes, boxes.scores, boxes.ignored):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    digest.update(b"-" if rows.clusters is None else np.ascontiguousarray(rows.clusters).tobytes())
    return digest.hexdigest()


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """Score as `evalspec.scoring.tasks.score`."""
    missing = missing_detection(metric)
    if missing is not None:
        raise Undefined(missing)
    if rows.boxes is None or rows.true_boxes is None or rows.boxes.scores is None:
        raise Undefined(f"model {rows.model!r} gives boxes without scores, and {metric} ranks them")
    return OfBoxes(metric, _PICKED[metric], None if part is None else rows.named_class(part))


def listed(rows: Scored, check: ScoringFields) -> tuple[str, ...]:
    """Names of all metrics, where pycocotools is installed."""
    return tuple(name for name in NAMES if missing_detection(name) is None)


def notes(seen: QualityContext) -> Sequence[str]:
    """Pictures without objects; crowds; boxes beyond the hundredth."""
    rows, sentences = seen.rows, []
    true = rows.true_boxes
    if true is None or not seen.found.estimates:
        return ()
    counted = np.ones(len(true.row), dtype=np.bool_) if true.ignored is None else ~true.ignored
    empty = rows.n - len(np.unique(true.row[counted]))
    if empty:
        sentences.append(f"{empty:,} of {rows.n:,} pictures have no objects: each box in them counts against the model")
    if not counted.all():
        sentences.append(f"{int((~counted).sum()):,} crowds count neither for nor against the model")
    return sentences


def weakens(seen: QualityContext) -> Sequence[str]:
    """Classes without objects: a mean of the others says nothing of them."""
    rows = seen.rows
    if rows.true_boxes is None or not any(name in seen.found.estimates for name in NAMES):
        return ()
    true = rows.true_boxes
    there = set((true.classes if true.ignored is None else true.classes[~true.ignored]).tolist())
    absent = [name for code, name in enumerate(rows.classes or ()) if code not in there]
    return (f"classes without objects count in no mean: {', '.join(absent[:10])}",) if absent else ()


def conditions(seen: QualityContext) -> Mapping[str, Cell]:
    """Conditions under which boxes were matched."""
    if not any(name in seen.found.estimates for name in NAMES):
        return {}
    from importlib.metadata import version

    return {
        "boxes": f"pycocotools {version('pycocotools')}, overlaps {OVERLAPS[0]:.2f} to {OVERLAPS[-1]:.2f}, "
        f"the {MOST_A_PICTURE} surest boxes of each class in a picture, all sizes"
    }


def blocks(seen: QualityContext) -> Sequence[AnyBlock]:
    """A table of classes, and the pictures with the most mistakes."""
    rows = seen.rows
    if missing_detection("map") is not None or rows.boxes is None or rows.boxes.scores is None:
        return ()
    matches = kept_matched(rows, seen.tools)
    shown: list[AnyBlock] = [box_table(rows, matches, kept_scores(rows, seen.tools))]
    examples = poor_pictures(seen.inputs, rows, matches) if seen.check.show_examples else None
    return shown if examples is None else [*shown, examples]


BOXES = Family(DECLARED, score, listed, blocks=blocks, weakens=weakens, notes=notes, conditions=conditions)

"""Masks: how their metrics are scored, what one class everywhere would score, what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from evalspec.scoring.catalogue.masks import MASKS as DECLARED
from evalspec.scoring.family import Family, QualityContext, blind_sentence
from evalspec.scoring.on_demand import OnDemand
from evalspec.scoring.resampled import OfSums
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.scores import Score
from evalspec.scoring.segmentation.counts import Pixels, accuracy_of, dice_of, iou_of, pixels, seen_classes
from evalspec.scoring.segmentation.show import class_pixels, poor_masks
from evalspec.stats.resampling.bootstrap import bca, paired_statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.estimate import Comparison, Estimate
    from evalspec.scoring.family import ScoringFields
    from evalspec.scoring.scores import Estimators

_OF = {"mean_iou": iou_of, "mean_dice": dice_of, "pixel_accuracy": accuracy_of, "iou": iou_of}
NAMES = tuple(metric.name for metric in DECLARED)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Counts, and what they were made from while it is still there."""

    masks: ref[NDArray[np.int64]]
    truth: ref[NDArray[np.int64]]
    found: Pixels


@dataclass(frozen=True, slots=True)
class OfPixels:
    """A function of the pixels of all pictures, summed.

    Args:
        metric: Its name.
        index: The only class that counts; None: all that are there or are said to be.
    """

    metric: str
    index: int | None = None

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """The value; its BCa bootstrap over pictures, or clusters of them, when somebody asks for it."""
        counts = kept_pixels(rows, tools)
        classes = self._counting(rows, counts)
        statistic, columns = self._statistic(classes), self._columns(counts, classes)
        value = float(statistic((columns,), np.ones((1, rows.n)))[0])
        return OnDemand(
            value,
            rows.n,
            lambda: bca(
                statistic, (columns,), rng=tools.rng(self.metric), alpha=tools.alpha, clusters=rows.clusters,
                smallest_class=self._fewest(counts, classes, rows.clusters),
            ),
        )  # fmt: skip

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Paired BCa over the same pictures and the classes that count for both."""
        first, second = kept_pixels(candidate, tools), kept_pixels(baseline, tools)
        # A class that only one model says, and that is nowhere, has no value in the other's mean.
        classes = np.intersect1d(self._counting(candidate, first), self._counting(baseline, second))
        return paired_statistic(
            self._statistic(classes), (self._columns(first, classes),), (self._columns(second, classes),),
            rng=tools.rng(self.metric, "paired"), alpha=tools.alpha, clusters=candidate.clusters,
            smallest_class=self._fewest(first, classes, candidate.clusters),
        )  # fmt: skip

    def _counting(self, rows: Scored, counts: Pixels) -> NDArray[np.int64]:
        """Indices of the classes that count."""
        seen = seen_classes(counts)
        if not counts.true.any():
            raise Undefined(f"no pixel of {rows.where} is judged: {self.metric} is 0/0")
        if self.index is None:
            return np.flatnonzero(seen)
        if not seen[self.index]:
            raise Undefined(
                f"class {rows.class_name(self.index)} has no pixels in {rows.where} and is never said: its IoU is 0/0"
            )
        return np.array([self.index], dtype=np.int64)

    def _statistic(self, classes: NDArray[np.int64]) -> OfSums:
        return OfSums(lambda rows: self._columns(pixels(rows), classes), _OF[self.metric])

    def _columns(self, counts: Pixels, classes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Pixels of each picture, shape (n, 3 x classes): right, true, said."""
        if self.metric == "pixel_accuracy":
            parts = [one.sum(axis=1, keepdims=True) for one in (counts.right, counts.true, counts.said)]
        else:
            parts = [one[:, classes] for one in (counts.right, counts.true, counts.said)]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def _fewest(self, counts: Pixels, classes: NDArray[np.int64], clusters: NDArray[np.int64] | None) -> int | None:
        """Pictures, or clusters, of the class that has the fewest."""
        if self.metric == "pixel_accuracy":
            return None
        there = (counts.true + counts.said)[:, classes] > 0
        if clusters is None:
            return int(there.sum(axis=0).min())
        return min(len(np.unique(clusters[column])) for column in there.T)


def kept_pixels(rows: Scored, tools: Estimators) -> Pixels:
    """Counts of pixels, made once for all metrics of the same masks.

    Args:
        rows: Rows with masks.
        tools: Of the check that runs.
    """
    masks, truth = rows.masks, rows.truth
    key = f"pixels {id(masks)} {id(truth)}"
    kept = tools.kept.get(key)
    # An address is used again as soon as its array is gone, and arrays of masks are too large to be kept.
    if isinstance(kept, _Kept) and kept.masks() is masks and kept.truth() is truth:
        return kept.found
    counts = pixels(rows)
    assert masks is not None
    tools.kept[key] = _Kept(ref(masks), ref(truth), counts)
    return counts


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """Score as `evalspec.scoring.tasks.score`; `iou` without a class is that of all classes."""
    return OfPixels(metric, None if part is None else rows.named_class(part))


def listed(rows: Scored, check: ScoringFields) -> tuple[str, ...]:
    """Names of all metrics."""
    return NAMES


def majority(rows: Scored, metric: str, part: str | None = None) -> float | None:
    """Score of the most frequent class for every pixel.

    Args:
        rows: Rows with masks.
        metric: Name of the metric.
        part: A class, or None.
    """
    if metric not in NAMES or rows.masks is None or rows.classes is None:
        return None
    true = np.bincount(rows.truth[rows.truth >= 0], minlength=len(rows.classes)).astype(np.float64)
    if not true.any():
        return None
    answer = int(true.argmax())
    right, said = np.zeros_like(true), np.zeros_like(true)
    right[answer], said[answer] = true[answer], true.sum()
    chosen = np.flatnonzero(true) if part is None else np.array([rows.named_class(part)])
    if metric == "pixel_accuracy":
        return float(true[answer] / true.sum())
    if not true[chosen].all():
        return None
    return float(_OF[metric](np.concatenate([right[chosen], true[chosen], said[chosen]])))


def weakens(seen: QualityContext) -> Sequence[str]:
    """Classes that do not count; that the model is not shown to be better than the most frequent class everywhere."""
    return (*_absent(seen), *_blind(seen))


def _absent(seen: QualityContext) -> Sequence[str]:
    """Classes without a pixel: a mean of the others says nothing of them."""
    there = seen_classes(kept_pixels(seen.rows, seen.tools))
    absent = [name for name, seen_there in zip(seen.rows.classes or (), there, strict=True) if not seen_there]
    return (f"classes without a pixel, true or said, count in no mean: {', '.join(absent[:10])}",) if absent else ()


def _blind(seen: QualityContext) -> Sequence[str]:
    rows, metric = seen.rows, "mean_iou"
    estimate, blind = seen.whole(metric, OfPixels(metric)), seen.blind("majority", majority, metric)
    if estimate is None or estimate.value is None or blind is None:
        return ()
    bound = estimate.bound(seen.inputs.confidence, "lower")
    if bound is not None and bound > blind:
        return ()
    answer = rows.class_name(int(np.bincount(rows.truth[rows.truth >= 0]).argmax()))
    worse = estimate.value <= blind
    return (blind_sentence(metric, estimate.value, blind, f"{answer} for every pixel", worse=worse),)


def notes(seen: QualityContext) -> Sequence[str]:
    """Pixels that are not judged."""
    rows, sentences = seen.rows, []
    unjudged = int((rows.truth < 0).sum())
    if unjudged:
        sentences.append(f"{unjudged:,} of {rows.truth.size:,} pixels are not judged")
    return sentences


def blocks(seen: QualityContext) -> Sequence[AnyBlock]:
    """A table of classes, and the pictures with the most wrong pixels."""
    counts = kept_pixels(seen.rows, seen.tools)
    shown: list[AnyBlock] = [class_pixels(seen.rows, counts)]
    examples = poor_masks(seen.inputs, seen.rows, counts) if seen.check.show_examples else None
    return shown if examples is None else [*shown, examples]


MASKS = Family(
    DECLARED,
    score,
    listed,
    blind={"majority": majority},
    blind_caption="majority: the most frequent class for every pixel.",
    blocks=blocks,
    weakens=weakens,
    notes=notes,
)

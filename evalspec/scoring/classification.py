"""One class a row: how its metrics are scored, what is computed unasked, what is shown beside the scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.estimate import Measured, Parts
from evalspec.scoring import dummies, show
from evalspec.scoring import resampled as statistics
from evalspec.scoring.catalogue.metrics import CLASSIFICATION, LARGEST_LOG_LOSS
from evalspec.scoring.family import Family, QualityContext, blind_sentence, plain_parts
from evalspec.scoring.losses import brier_limits
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.scores import (
    F1,
    Area,
    Macro,
    MacroArea,
    MeanLoss,
    Resampled,
    Score,
    Share,
    Statistic,
    both_sides,
    each_seen,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.scoring.family import ScoringFields

RANKED = ("roc_auc", "average_precision")
CLASSES_RANKED = 30
"""Above so many classes the one-vs-rest areas are computed only when they are asked for."""


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """Score as `evalspec.scoring.tasks.score`."""
    classes, _ = rows.labels()
    if metric in ("precision", "recall", "f1"):
        index = class_index(rows, metric, part)
        if metric == "f1":
            return F1(index, statistics.f1_of([index]))
        return recall(index) if metric == "recall" else precision(index, statistics.precision_of([index]))
    if metric in ("roc_auc", "average_precision"):
        return _ranked(metric, rows)
    if metric == "top_k_accuracy":
        return _top_k(int(part or 1), rows)
    if metric in ("log_loss", "brier"):
        rows.shares()
        return _LOSSES[metric]
    if metric == "accuracy":
        return ACCURACY
    every = range(len(classes))
    if metric == "macro_f1":
        return Resampled(metric, statistics.f1_of(every), partial(each_seen, classes=every))
    if metric == "macro_precision":
        precisions = tuple(precision(index, statistics.precision_of([index])) for index in every)
        return Macro(metric, precisions, statistics.precision_of(every), by_truth=False)
    recalls = tuple(recall(index) for index in every)
    return Macro(metric, recalls, statistics.recall_of(every), by_truth=True)


def all_rows(rows: Scored) -> NDArray[np.bool_]:
    """Every row counts, shape (n,)."""
    return np.ones(rows.n, dtype=np.bool_)


def _right(rows: Scored) -> NDArray[np.bool_]:
    right: NDArray[np.bool_] = rows.labels()[1] == rows.truth
    return right


def _no_rows(rows: Scored, index: int) -> str:
    return f"class {rows.class_name(index)} has no rows in {rows.where}: its recall is 0/0"


def _never_said(rows: Scored, index: int) -> str:
    return f"class {rows.class_name(index)} is never predicted on {rows.where}: its precision is 0/0"


def no_rows(rows: Scored) -> str:
    """Reason why there is no share of no rows."""
    return f"no rows of {rows.where} are left to score"


ACCURACY = Share("accuracy", _right, all_rows, no_rows)
_LOSSES = {
    "log_loss": MeanLoss("log_loss", statistics.log_losses, lambda rows: (0.0, LARGEST_LOG_LOSS)),
    "brier": MeanLoss("brier", statistics.brier_losses, lambda rows: brier_limits(rows.shares().shape[1])),
}


def class_index(rows: Scored, metric: str, part: str | None) -> int:
    """The class that a metric is asked of; None: the positive one.

    Raises:
        Undefined: There is no such class, or none that is positive.
    """
    if part is not None:
        return rows.named_class(part)
    if rows.positive is None:
        raise Undefined(f"{metric} is of one class, and {rows.model!r} has more than two; name it: `positive:`")
    return rows.positive


def recall(index: int) -> Share:
    """Share of a class's rows that are said to be of it.

    Args:
        index: Of the class.
    """
    return Share(
        "recall", partial(_is_said, index=index), partial(_is_true, index=index), partial(_no_rows, index=index)
    )


def precision(index: int, by_answers: Statistic) -> Share:
    """Share of the rows said to be of a class that are of it.

    Args:
        index: Of the class.
        by_answers: The same, to be resampled: two models say it of different rows.
    """
    true, said = partial(_is_true, index=index), partial(_is_said, index=index)
    return Share("precision", true, said, partial(_never_said, index=index), by_answers)


def _is_true(rows: Scored, index: int) -> NDArray[np.bool_]:
    return rows.is_of(index)


def _is_said(rows: Scored, index: int) -> NDArray[np.bool_]:
    return rows.is_said(index)


def _top_k(k: int, rows: Scored) -> Score:
    classes, _ = rows.labels()
    rows.shares()
    if k >= len(classes):
        raise Undefined(f"top_k_accuracy({k}) is always 1 with {len(classes)} classes")
    return Share(f"top_k_accuracy({k})", partial(statistics.top_k_hits, k=k), all_rows, no_rows)


def _ranked(metric: str, rows: Scored) -> Score:
    rows.shares()
    count = len(rows.labels()[0])
    chosen = tuple(range(count)) if rows.positive is None else (rows.positive,)
    if metric == "roc_auc":
        return Area(rows.positive) if rows.positive is not None else MacroArea(chosen)
    return Resampled(metric, statistics.OfPrecision(chosen), partial(both_sides, classes=chosen), chosen)


def listed(rows: Scored, check: ScoringFields) -> tuple[str, ...]:
    """Metrics that the model gives enough for, and that say something with so many classes."""
    count = len(rows.labels()[0])
    skipped = set() if any(k < count for k in check.top_k) else {"top_k_accuracy"}
    if count > CLASSES_RANKED and rows.positive is None:
        skipped |= set(RANKED)
    if rows.probabilities is None:
        skipped |= {*RANKED, "top_k_accuracy", "log_loss", "brier"}
    return tuple(metric.name for metric in CLASSIFICATION if metric.name not in skipped)


def parts(metric: str, rows: Scored, check: ScoringFields) -> Sequence[str]:
    """Every class; each k that is less than the classes, or all where none is."""
    names = plain_parts(metric, rows, check)
    if metric != "top_k_accuracy":
        return names
    return [k for k in names if int(k) < len(rows.labels()[0])] or names


def weakens(seen: QualityContext) -> Sequence[str]:
    """Sentence that the model does no better than the most frequent class; empty where it is shown to."""
    estimate = seen.whole("accuracy", ACCURACY)
    blind = dummies.majority(seen.rows, "accuracy")
    if estimate is None or estimate.value is None or blind is None:
        return ()
    bound = estimate.bound(seen.inputs.confidence, "lower")
    if bound is not None and bound > blind:
        return ()
    worse = estimate.value <= blind
    return (blind_sentence("accuracy", estimate.value, blind, "the most frequent class", worse=worse),)


def notes(seen: QualityContext) -> Sequence[str]:
    """Gain of top-k over top-1."""
    first, tops = seen.found.estimates.get("accuracy"), seen.found.estimates.get("top_k_accuracy")
    if first is None or isinstance(first, Parts) or first.value is None or not isinstance(tops, Parts):
        return ()
    gaps = [
        f"top-{k} is {100 * (top.value - first.value):.3g} pp above top-1"
        for k, top in tops.parts.items()
        if k != "1" and not isinstance(top, Measured) and top.value is not None
    ]
    return ("; ".join(gaps),) if gaps else ()


def blocks(seen: QualityContext) -> Sequence[AnyBlock]:
    """Tables of classes and mistakes, and wrong rows."""
    shown: list[AnyBlock] = [show.class_table(seen.rows, seen.found.parts()), show.confusion(seen.rows)]
    shown += show.curves(seen.rows)
    examples = show.wrong_rows(seen.inputs, seen.rows) if seen.check.show_examples else None
    return [*shown, examples] if examples is not None else shown


CLASSES = Family(
    CLASSIFICATION,
    score,
    listed,
    parts,
    blind={"majority": dummies.majority, "chance": dummies.chance},
    blind_caption="majority: the most frequent class for every row; chance: classes drawn evenly.",
    blocks=blocks,
    weakens=weakens,
    notes=notes,
)

"""Any number of classes a row: how their metrics are scored, what blind answers score, what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import Examples
from evalspec.scoring import resampled as statistics
from evalspec.scoring import show
from evalspec.scoring.catalogue.metrics import LABELS
from evalspec.scoring.classification import CLASSES_RANKED, RANKED, all_rows, class_index, no_rows, precision, recall
from evalspec.scoring.family import Family, QualityContext, blind_sentence
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.scores import (
    F1,
    Area,
    MacroArea,
    MeanLoss,
    Resampled,
    Score,
    Share,
    Statistic,
    both_sides,
    each_seen,
    of_shares,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.frozen import Cell
    from evalspec.scoring.family import ScoringFields


def _members(rows: Scored) -> NDArray[np.bool_]:
    assert rows.members is not None
    return rows.members


def _all_right(rows: Scored) -> NDArray[np.bool_]:
    right: NDArray[np.bool_] = (_members(rows) == rows.truth).all(axis=1)
    return right


def _wrong_share(rows: Scored) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = (_members(rows) != rows.truth).mean(axis=1)
    return shares


def _any_seen(rows: Scored) -> None:
    if not rows.truth.any() and not _members(rows).any():
        raise Undefined(f"no row of {rows.where} has a class, and none is said to: its F1 is 0/0")


HAMMING = MeanLoss("hamming_loss", _wrong_share, of_shares)
SUBSET = Share("subset_accuracy", _all_right, all_rows, no_rows)


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """Score as `evalspec.scoring.tasks.score`."""
    every = tuple(range(len(rows.classes or ())))
    if metric == "hamming_loss":
        return HAMMING
    if metric == "subset_accuracy":
        return SUBSET
    if metric == "micro_f1":
        return Resampled(metric, statistics.micro_f1(), _any_seen, ())
    if metric == "macro_f1":
        return Resampled(metric, statistics.member_f1(every), partial(each_seen, classes=every))
    if metric in RANKED:
        return _ranked(metric, rows, every)
    index = class_index(rows, metric, part)
    if metric == "f1":
        return F1(index, statistics.member_f1((index,)))
    return recall(index) if metric == "recall" else precision(index, statistics.member_precision(index))


def _ranked(metric: str, rows: Scored, every: tuple[int, ...]) -> Score:
    rows.shares()
    chosen = every if rows.positive is None else (rows.positive,)
    if metric == "roc_auc":
        return Area(rows.positive) if rows.positive is not None else MacroArea(chosen)
    return Resampled(metric, statistics.OfPrecision(chosen), partial(both_sides, classes=chosen), chosen)


def listed(rows: Scored, check: ScoringFields) -> tuple[str, ...]:
    """Metrics that the model gives enough for, and that say something with so many classes."""
    many = len(rows.classes or ()) > CLASSES_RANKED and rows.positive is None
    skipped = RANKED if rows.probabilities is None or many else ()
    return tuple(metric.name for metric in LABELS if metric.name not in skipped)


def _constant(rows: Scored, metric: str, answer: NDArray[np.bool_]) -> float | None:
    """Score of the same classes for every row."""
    blind = replace(rows, members=np.broadcast_to(answer, rows.truth.shape))
    if metric in ("micro_f1", "macro_f1"):
        every = range(rows.truth.shape[1])
        statistic: Statistic = statistics.micro_f1() if metric == "micro_f1" else statistics.member_f1(every)
        constant_score = float(statistic(statistic.arrays(blind), np.ones((1, rows.n)))[0])
        return constant_score if np.isfinite(constant_score) else None
    if metric == "subset_accuracy":
        return float(_all_right(blind).mean())
    return float(_wrong_share(blind).mean()) if metric == "hamming_loss" else None


def majority(rows: Scored, metric: str, part: str | None = None) -> float | None:
    """Score of saying of every row the classes that most rows have; with the classes' shares as probabilities.

    Args:
        rows: Rows with their truth.
        metric: Name of the metric.
        part: Class metrics have no such baseline here.
    """
    shares = rows.truth.mean(axis=0)
    chosen = shares if rows.positive is None else shares[[rows.positive]]
    if metric == "roc_auc":
        return 0.5
    return float(chosen.mean()) if metric == "average_precision" else _constant(rows, metric, shares > 0.5)


def everything(rows: Scored, metric: str, part: str | None = None) -> float | None:
    """Score of saying all classes of every row.

    Args:
        rows: Rows with their truth.
        metric: Name of the metric.
        part: Class metrics have no such baseline here.
    """
    return None if metric in RANKED else _constant(rows, metric, np.ones(rows.truth.shape[1], dtype=np.bool_))


def weakens(seen: QualityContext) -> Sequence[str]:
    """Sentence that the model is not shown to get fewer pairs wrong than a blind answer; empty where it is."""
    estimate, blind = seen.whole("hamming_loss", HAMMING), majority(seen.rows, "hamming_loss")
    if estimate is None or estimate.value is None or blind is None:
        return ()
    bound = estimate.bound(seen.inputs.confidence, "upper")
    if bound is not None and bound < blind:
        return ()
    worse = estimate.value >= blind
    return (blind_sentence("hamming_loss", estimate.value, blind, "the classes that most rows have", worse=worse),)


def blocks(seen: QualityContext) -> Sequence[AnyBlock]:
    """The table of classes, and the rows with most wrong classes."""
    shown: list[AnyBlock] = [show.class_table(seen.rows, seen.found.parts())]
    examples = _worst(seen) if seen.check.show_examples else None
    return [*shown, examples] if examples is not None else shown


def _worst(seen: QualityContext) -> Examples | None:
    rows, names = seen.rows, np.array(seen.rows.classes)
    members, truth = _members(rows), rows.truth
    wrong = (members != truth).sum(axis=1)
    total = int(np.count_nonzero(wrong))
    if total == 0:
        return None
    shown = np.argsort(-wrong, kind="stable")[: min(total, show.EXAMPLES_SHOWN)]
    cells = show.cells_of(seen.inputs, rows.dataset, shown.tolist())
    examples = []
    for row, inside in zip(shown.tolist(), cells, strict=True):
        fields: dict[str, Cell] = {
            "row": row,
            "missed": ", ".join(names[truth[row] & ~members[row]]),
            "too many": ", ".join(names[members[row] & ~truth[row]]),
        }
        examples.append(show.example(row, fields, inside))
    return Examples(title="Wrong rows", caption="Most wrong classes first.", examples=tuple(examples), total=total)


MULTILABEL = Family(
    LABELS,
    score,
    listed,
    blind={"majority": majority, "all": everything},
    blind_caption="majority: for every row the classes that most rows have; all: every class for every row.",
    blocks=blocks,
    weakens=weakens,
)

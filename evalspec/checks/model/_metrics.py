"""How each quality metric is scored, by its name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model import _statistics as statistics
from evalspec.checks.model._scored import Scored, Undefined
from evalspec.checks.model._scores import (
    F1,
    Area,
    Macro,
    MacroArea,
    MeanLoss,
    Resampled,
    RootMeanSquare,
    Score,
    Share,
    both_sides,
    each_seen,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """How to score a metric.

    Args:
        metric: Its name.
        part: A class's name, or k; None for class metrics: the positive class.
        rows: The candidate's rows, for the classes they have.

    Raises:
        Undefined: The model gives nothing that it could be made from, or there is no such class.
    """
    if metric in _VALUES:
        rows.errors()
        return _VALUES[metric]
    classes, _ = rows.labels()
    if metric in ("precision", "recall", "f1"):
        index = _class_index(rows, metric, part)
        return F1(index) if metric == "f1" else _share(metric, index)
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
        precisions = tuple(_share("precision", index) for index in every)
        return Macro(metric, precisions, statistics.precision_of(every), by_truth=False)
    recalls = tuple(_share("recall", index) for index in every)
    return Macro(metric, recalls, statistics.recall_of(every), by_truth=True)


def _all_rows(rows: Scored) -> NDArray[np.bool_]:
    return np.ones(rows.n, dtype=np.bool_)


def _right(rows: Scored) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = rows.labels()[1] == rows.truth
    return found


def _is_true(rows: Scored, index: int) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = rows.truth == index
    return found


def _is_said(rows: Scored, index: int) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = rows.labels()[1] == index
    return found


def _no_rows(rows: Scored, index: int) -> str:
    return f"class {rows.labels()[0][index]!r} has no rows in {rows.where}: its recall is 0/0"


def _never_said(rows: Scored, index: int) -> str:
    return f"class {rows.labels()[0][index]!r} is never predicted on {rows.where}: its precision is 0/0"


def _nothing(rows: Scored) -> str:
    return f"no rows of {rows.where} are left to score"


ACCURACY = Share("accuracy", _right, _all_rows, _nothing)
_LOSSES = {
    "log_loss": MeanLoss("log_loss", statistics.log_losses),
    "brier": MeanLoss("brier", statistics.brier_losses),
}


def _varies(rows: Scored) -> None:
    if rows.n < 2 or float(np.ptp(rows.truth)) == 0.0:
        raise Undefined(f"the label of {rows.where} doesn't vary: r2 is 0/0")


_VALUES: dict[str, Score] = {
    "mae": MeanLoss("mae", lambda rows: np.abs(rows.errors())),
    "rmse": RootMeanSquare(),
    "r2": Resampled("r2", statistics.explained(), _varies),
}


def _class_index(rows: Scored, metric: str, part: str | None) -> int:
    if part is not None:
        return rows.named_class(part)
    if rows.positive is None:
        raise Undefined(f"{metric} is of one class, and {rows.model!r} has more than two; name it: `positive:`")
    return rows.positive


def _share(metric: str, index: int) -> Share:
    true, said = partial(_is_true, index=index), partial(_is_said, index=index)
    if metric == "recall":
        return Share("recall", said, true, partial(_no_rows, index=index))
    return Share("precision", true, said, partial(_never_said, index=index), statistics.precision_of([index]))


def _top_k(k: int, rows: Scored) -> Score:
    classes, _ = rows.labels()
    rows.shares()
    if k >= len(classes):
        raise Undefined(f"top_k_accuracy({k}) is always 1 with {len(classes)} classes")
    return Share(f"top_k_accuracy({k})", partial(statistics.top_k_hits, k=k), _all_rows, _nothing)


def _ranked(metric: str, rows: Scored) -> Score:
    rows.shares()
    count = len(rows.labels()[0])
    chosen = tuple(range(count)) if rows.positive is None else (rows.positive,)
    if metric == "roc_auc":
        return Area(rows.positive) if rows.positive is not None else MacroArea(chosen)
    return Resampled(metric, statistics.OfPrecision(chosen), partial(both_sides, classes=chosen), chosen)

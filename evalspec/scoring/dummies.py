"""Scores of answers that never look at the row: always the majority, or by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.scoring.scored_rows import Scored

WORDS = {
    "majority": "always the most frequent answer",
    "chance": "answers drawn at random",
    "constant": "always the same answer",
    "all": "every class for every row",
    "random": "a random order",
}
"""Names of answers that never look at the row, each in words for a sentence."""


def majority(rows: Scored, metric: str, part: str | None = None) -> float | None:
    """Score of an answer that is the same for every row and the best of its kind, chosen with the labels in view.

    Classes: always the most frequent class, with the class shares as probabilities. Values: always the median for
    ``mae``, the mean for ``rmse`` and ``r2``.

    Args:
        rows: Rows with their truth.
        metric: Name of the metric.
        part: k of ``top_k_accuracy``; class metrics have no such baseline here.

    Returns:
        The score, or None where it is not defined (the precision of a class that is never predicted).
    """
    if rows.classes is None:
        return _constant(rows.truth.astype(np.float64), metric)
    shares = np.bincount(rows.truth, minlength=len(rows.classes)) / rows.n
    seen = shares[shares > 0]
    largest = float(shares.max())
    if metric == "top_k_accuracy":
        return float(np.sort(shares)[::-1][: _k(part)].sum())
    if metric == "average_precision":
        return _positive_share(rows, shares)
    scores = {
        "accuracy": largest,
        "balanced_accuracy": 1.0 / len(shares),
        "macro_recall": 1.0 / len(shares),
        "macro_f1": 2.0 * largest / (1.0 + largest) / len(shares),
        "roc_auc": 0.5,
        "log_loss": float(-(seen * np.log(seen)).sum()),
        "brier": _halved(1.0 - float((shares**2).sum()), len(shares)),
    }
    return scores.get(metric)


def chance(rows: Scored, metric: str, part: str | None = None) -> float | None:
    """Expected score of a class drawn evenly for every row (probabilities: all alike).

    Args:
        rows: Rows with their truth.
        metric: Name of the metric.
        part: k of ``top_k_accuracy``.

    Returns:
        The score, or None where there is no such baseline (values).
    """
    if rows.classes is None:
        return None
    count = len(rows.classes)
    if metric == "top_k_accuracy":
        return min(1.0, _k(part) / count)
    shares = np.bincount(rows.truth, minlength=count) / rows.n
    if metric == "average_precision":
        return _positive_share(rows, shares)
    scores = {
        "accuracy": 1.0 / count,
        "balanced_accuracy": 1.0 / count,
        "macro_recall": 1.0 / count,
        "macro_precision": 1.0 / count,
        "roc_auc": 0.5,
        "log_loss": float(np.log(count)),
        "brier": _halved(1.0 - 1.0 / count, count),
    }
    return scores.get(metric)


def _k(part: str | None) -> int:
    return int(part) if part is not None else 1


def _halved(value: float, classes: int) -> float:
    return value / 2.0 if classes == 2 else value


def _positive_share(rows: Scored, shares: NDArray[np.float64]) -> float:
    return float(shares[rows.positive]) if rows.positive is not None else float(shares.mean())


def _constant(truth: NDArray[np.float64], metric: str) -> float | None:
    scores = {
        "mae": float(np.abs(truth - np.median(truth)).mean()),
        "rmse": float(truth.std()),
        "r2": 0.0,
    }
    return scores.get(metric)

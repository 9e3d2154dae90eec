"""Curves of a model that ranks rows by one class: what each threshold would give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import Curve, Reference, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.scoring.scored_rows import Scored

POINTS = 120
"""Thresholds of a curve; of more values evenly spread ones."""
EVEN = 0.5


def curves(rows: Scored) -> Sequence[AnyBlock]:
    """ROC, precision against recall, and both against the threshold, for the positive class.

    Args:
        rows: Rows of a classifier.

    Returns:
        Blocks; none where no class is positive, nothing is ranked, or one side has no row.
    """
    if rows.positive is None or rows.probabilities is None:
        return ()
    true = rows.is_of(rows.positive)
    if true.all() or not true.any():
        return ()
    thresholds, caught, alarms = _counts(rows.shares()[:, rows.positive], true)
    recall, false_alarms = caught / true.sum(), alarms / (~true).sum()
    precision, name = caught / (caught + alarms), rows.labels()[0][rows.positive]
    whole = np.zeros(1)
    return (
        Curve(
            title=f"ROC of {name}", caption="Each point is a threshold; the diagonal is an order by chance.",
            x_label="false positive rate", y_label="recall", x_unit="fraction", y_unit="fraction",
            series=(_series(rows.model, np.append(whole, false_alarms), np.append(whole, recall)),),
            references=(Reference(label="by chance", axis="diagonal"),),
        ),
        Curve(
            title=f"Precision and recall of {name}", caption="Each point is a threshold.",
            x_label="recall", y_label="precision", x_unit="fraction", y_unit="fraction",
            series=(_series(rows.model, recall, precision),),
            references=(Reference(label=f"share of {name}", value=float(true.mean()), axis="y"),),
        ),
        Curve(
            title=f"Thresholds of {name}", caption="What each threshold on the probability of the class would give.",
            x_label="threshold", y_label="share", x_unit="fraction", y_unit="fraction",
            series=(
                _series("recall", thresholds, recall), _series("precision", thresholds, precision),
                _series(f"rows called {name}", thresholds, (caught + alarms) / rows.n),
            ),
            references=(Reference(label="even odds", value=EVEN, axis="x"),),
        ),
    )  # fmt: skip


def _counts(
    scores: NDArray[np.float64], true: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Thresholds from the strictest on, and rows at or above each: those of the class, and the others."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    if len(last) > POINTS:
        last = last[np.unique(np.linspace(0, len(last) - 1, POINTS).astype(np.int64))]
    caught = np.cumsum(true[order])[last].astype(np.float64)
    return ranked[last], caught, last + 1.0 - caught


def _series(name: str, x: NDArray[np.float64], y: NDArray[np.float64]) -> Series:
    return Series(name=name, x=tuple(np.round(x, 5).tolist()), y=tuple(np.round(y, 5).tolist()))

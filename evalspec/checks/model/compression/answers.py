"""Answers of models that are compared, in one form for models with one class a row and with any number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.scoring.scored_rows import Scored


def answered(rows: Scored) -> NDArray[np.int64]:
    """Answers for each row: shape (n, 1), its class, or shape (n, C), 1 for each class that it is given."""
    return rows.labels()[1][:, None] if rows.members is None else rows.members.astype(np.int64)


def truth(rows: Scored) -> NDArray[np.int64]:
    """True classes of each row, in the form of `answered`."""
    return np.asarray(rows.truth[:, None] if rows.members is None else rows.truth, dtype=np.int64)


def right(rows: Scored) -> NDArray[np.bool_]:
    """True where every class of the answer is right and none is missing, shape (n,)."""
    return np.asarray((answered(rows) == truth(rows)).all(axis=1))


def changed(rows: Scored, baseline: Scored) -> NDArray[np.bool_]:
    """True where the answer differs from the baseline's, shape (n,)."""
    return np.asarray((answered(rows) != answered(baseline)).any(axis=1))


def named(rows: Scored, codes: NDArray[np.int64]) -> str:
    """Names of the classes in one row of `answered` or `truth`."""
    classes = rows.classes or ()
    if rows.members is None:
        return classes[int(codes[0])]
    return ", ".join(classes[at] for at in np.flatnonzero(codes)) or "none"


def sureness(rows: Scored) -> NDArray[np.float64] | None:
    """Confidence of each answer, shape (n,) (of several classes, the least); None where it is not known."""
    each = confidences(rows)
    return None if each is None else np.asarray(each.min(axis=1))


def confidences(rows: Scored) -> NDArray[np.float64] | None:
    """Probability of each entry of `answered`, in its shape; None where the model gives labels only."""
    if rows.probabilities is None:
        return None
    if rows.members is None:
        return np.asarray(rows.probabilities[np.arange(rows.n), rows.labels()[1]][:, None])
    return np.asarray(np.where(rows.members, rows.probabilities, 1.0 - rows.probabilities))

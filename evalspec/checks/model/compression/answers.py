"""What models that are held against each other say of each row, whether that is one class or any number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.scoring.scored_rows import Scored


def answered(rows: Scored) -> NDArray[np.int64]:
    """What is said of each row: shape (n, 1), its class, or shape (n, C), 1 for each class that it has."""
    return rows.labels()[1][:, None] if rows.members is None else rows.members.astype(np.int64)


def truth(rows: Scored) -> NDArray[np.int64]:
    """What is true of each row, as `answered`."""
    return np.asarray(rows.truth[:, None] if rows.members is None else rows.truth, dtype=np.int64)


def right(rows: Scored) -> NDArray[np.bool_]:
    """Rows of which just what is true is said, shape (n,)."""
    return np.asarray((answered(rows) == truth(rows)).all(axis=1))


def changed(rows: Scored, baseline: Scored) -> NDArray[np.bool_]:
    """Rows of which something else is said than by the baseline, shape (n,)."""
    return np.asarray((answered(rows) != answered(baseline)).any(axis=1))


def named(rows: Scored, codes: NDArray[np.int64]) -> str:
    """One row of `answered` or `truth` in words."""
    classes = rows.classes or ()
    if rows.members is None:
        return classes[int(codes[0])]
    return ", ".join(classes[at] for at in np.flatnonzero(codes)) or "none"


def sureness(rows: Scored) -> NDArray[np.float64] | None:
    """How sure each answer is, shape (n,) (of several classes the least sure of them); None: not known."""
    each = confidences(rows)
    return None if each is None else np.asarray(each.min(axis=1))


def confidences(rows: Scored) -> NDArray[np.float64] | None:
    """Probability of each thing that is said, shape as `answered`; None: there are labels only."""
    if rows.probabilities is None:
        return None
    if rows.members is None:
        return np.asarray(rows.probabilities[np.arange(rows.n), rows.labels()[1]][:, None])
    return np.asarray(np.where(rows.members, rows.probabilities, 1.0 - rows.probabilities))

"""Answers to the same rows, given twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.answers.file import Answers

ROWS, UNLIKE = "rows_asked_again", "rows_answered_otherwise"
"""Facts of answers: so many rows were asked a second time, and so many of them were then answered otherwise."""
MOST_ROWS = 64
SHARE = 0.1
"""Of the rows of a dataset, at the most."""
PROBABILITY = 0.05
"""A probability that moves by so much is another one; less, batches of another size can do."""
SPREAD = 0.05
"""The same of values, in parts of their standard deviation."""
PIXELS = 0.01
ANGLE = 0.99
"""Cosine between two embeddings of a row from which on they are alike."""


def rows_again(rows: int) -> NDArray[np.int64]:
    """Rows to ask a second time, evenly spread; none of few."""
    count = min(MOST_ROWS, int(SHARE * rows))
    return np.unique(np.linspace(0, rows - 1, count).astype(np.int64)) if count else np.empty(0, np.int64)


def otherwise(first: Answers, rows: NDArray[np.int64], second: Answers) -> int:
    """Number of rows that are answered otherwise.

    Args:
        first: To all rows.
        rows: shape (k,), those that were asked a second time.
        second: To these.
    """
    unlike = np.zeros(len(rows), dtype=np.bool_)
    if first.probabilities is not None and second.probabilities is not None:
        unlike |= (np.abs(first.probabilities[rows] - second.probabilities) > PROBABILITY).any(axis=1)
    elif first.predicted is not None and second.predicted is not None:
        unlike |= first.predicted[rows] != second.predicted
    elif first.members is not None and second.members is not None:
        unlike |= (first.members[rows] != second.members).any(axis=1)
    if first.values is not None and second.values is not None:
        least = SPREAD * float(np.nanstd(first.values))
        unlike |= ~np.isclose(first.values[rows], second.values, rtol=1e-3, atol=least, equal_nan=True)
    if first.texts is not None and second.texts is not None:
        unlike |= first.texts[rows] != second.texts
    if first.masks is not None and second.masks is not None:
        unlike |= (first.masks[rows] != second.masks).mean(axis=(1, 2)) > PIXELS
    if first.boxes is not None and second.boxes is not None:
        before = np.bincount(first.boxes.row, minlength=first.n)[rows]
        unlike |= before != np.bincount(second.boxes.row, minlength=len(rows))
    if first.embeddings is not None and second.embeddings is not None:
        ours, theirs = (np.asarray(one, np.float64) for one in (first.embeddings[rows], second.embeddings))
        norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
        unlike |= (ours * theirs).sum(axis=1) < ANGLE * norms
    return int(unlike.sum())

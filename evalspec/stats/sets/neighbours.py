"""Rows whose embeddings point nearly the same way: all pairs, in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.stats.sets.duplicates import Rows

OURS_AT_A_TIME, THEIRS_AT_A_TIME = 1024, 4096
ROUNDING = 1e-5
"""More than products of 4-byte numbers of length 1 are off by."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """For each row the row of the other set that is nearest in direction.

    Args:
        row: shape (m,), -1 where there is none.
        similarity: shape (m,), cosine; NaN where there is none.
        near: shape (m,), rows of the other set that are at least as similar as was asked.
        compared: Pairs that were compared.
    """

    row: Rows
    similarity: NDArray[np.float64]
    near: NDArray[np.int64]
    compared: int

    @property
    def pairs(self) -> int:
        """Pairs that are at least as similar as was asked."""
        return int(self.near.sum())

    @property
    def pair_share(self) -> float:
        """Similar pairs as a share of those that were compared."""
        return self.pairs / self.compared if self.compared else 0.0


def directions(embeddings: NDArray[Any]) -> NDArray[np.float32]:
    """Embeddings at length 1; those of length 0 have no direction and stay 0.

    Args:
        embeddings: shape (n, d).

    Returns:
        shape (n, d).

    Raises:
        InputError: They are no vectors, or hold values that aren't finite.
    """
    if embeddings.ndim != 2 or not embeddings.shape[1]:
        raise InputError(f"embeddings of shape {list(embeddings.shape)} are not vectors, one per row")
    unit = np.empty(embeddings.shape, np.float32)
    for start in range(0, len(unit), THEIRS_AT_A_TIME):
        part = embeddings[start : start + THEIRS_AT_A_TIME].astype(np.float64)
        if not np.isfinite(part).all():
            row = start + int(np.argmin(np.isfinite(part).all(axis=1)))
            raise InputError(f"the embedding of row {row} isn't finite")
        # Scaled first, so that squares neither overflow nor vanish.
        part = part / np.maximum(np.abs(part).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        length = np.sqrt(np.einsum("ij,ij->i", part, part))[:, None]
        unit[start : start + THEIRS_AT_A_TIME] = part / np.where(length > 0, length, 1.0)
    return unit


def neighbours(
    theirs: NDArray[np.float32], ours: NDArray[np.float32], similarity: float, *, same: bool = False
) -> Neighbours:
    """The nearest row for each of ours, and how many are near. All pairs are compared: recall 100 %.

    Memory is that of the two arrays and one block of 1,024 x 4,096 pairs.

    Args:
        theirs: shape (n, d), as `directions` gives them.
        ours: shape (m, d).
        similarity: Cosine from which on a pair is near.
        same: Both are the same rows, and no row is its own neighbour.

    Raises:
        InputError: The vectors are of different lengths.
    """
    if theirs.shape[1] != ours.shape[1]:
        raise InputError(f"embeddings of {theirs.shape[1]} and of {ours.shape[1]} numbers can't be compared")
    m, n = len(ours), len(theirs)
    row, best, near = np.full(m, -1, np.int64), np.full(m, -np.inf), np.zeros(m, np.int64)
    for start in range(0, m, OURS_AT_A_TIME):
        block = ours[start : start + OURS_AT_A_TIME]
        here = np.arange(len(block))
        for at in range(0, n, THEIRS_AT_A_TIME):
            some = theirs[at : at + THEIRS_AT_A_TIME]
            cosines = block @ some.T
            if same:
                own = start + here - at
                inside = (own >= 0) & (own < len(some))
                cosines[here[inside], own[inside]] = -np.inf
            near[start : start + len(block)] += _counted(cosines, block, some, similarity)
            first = cosines.argmax(axis=1)
            # Of equals the first row stays, whatever the size of a block.
            better = np.flatnonzero(cosines[here, first] > best[start + here])
            best[start + better] = cosines[better, first[better]]
            row[start + better] = at + first[better]
    some_row = np.flatnonzero(np.isfinite(best))
    exact = np.full(m, np.nan)
    for start in range(0, len(some_row), THEIRS_AT_A_TIME):
        part = some_row[start : start + THEIRS_AT_A_TIME]
        exact[part] = _cosines(ours[part], theirs[row[part]])
    return Neighbours(np.where(np.isfinite(best), row, -1), exact, near, m * (n - 1) if same else m * n)


def _counted(
    cosines: NDArray[np.float32], ours: NDArray[np.float32], theirs: NDArray[np.float32], similarity: float
) -> NDArray[np.int64]:
    """Near ones of each of our rows in a block; those that rounding leaves open are computed again in 8 bytes."""
    near = np.count_nonzero(cosines > similarity + ROUNDING, axis=1).astype(np.int64)
    rows, columns = np.nonzero(np.abs(cosines - similarity) <= ROUNDING)
    for start in range(0, len(rows), THEIRS_AT_A_TIME):
        part = slice(start, start + THEIRS_AT_A_TIME)
        hit = _cosines(ours[rows[part]], theirs[columns[part]]) >= similarity - 1e-7
        near += np.bincount(rows[part][hit], minlength=len(near))
    return np.asarray(near, np.int64)


def _cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(np.einsum("ij,ij->i", first.astype(np.float64), second.astype(np.float64)))

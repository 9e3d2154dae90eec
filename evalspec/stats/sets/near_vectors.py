"""Near duplicates among arrays (images, signals, embeddings): small differences in all their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.sets.duplicates import Accept, Matches, Rows, Search

AXES = 24
SAMPLE_ROWS = 512
VALUES_AT_A_TIME = 1 << 22
TEST_ROWS_AT_A_TIME = 1024


def near_vectors(
    train: NDArray[Any],
    test: NDArray[Any],
    *,
    limit: float,
    step: float = 0.0,
    rng: np.random.Generator,
    accept: Accept | None = None,
) -> Matches:
    """Test rows with a train row whose values differ little: by root mean square, or by one step each at most.

    The search is exact: distances between projections on orthonormal axes are never larger than the true ones, so rows
    that are further apart there can be left out, and all others are measured. Rows with NaN have no near duplicate.

    Args:
        train: shape (n, d).
        test: shape (m, d).
        limit: Largest root mean square difference.
        step: A pair no value of which differs by more is a duplicate too; 0: not used.
        rng: Draws the rows that the axes are fitted to (they decide the speed, not the result).
        accept: What else must agree.

    Returns:
        Closeness is the root mean square difference.
    """

    def judge(test_rows: Rows, train_rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        apart, good = vectors_apart(train, test, train_rows, test_rows, limit, step)
        if accept is not None:
            good[good] = accept(test_rows[good], train_rows[good])
        return apart, good

    search = Search(len(test), judge)
    method = "root mean square difference within the limit, all pairs (recall 100 %)"
    axes = _axes(train, rng)
    if axes is None:
        return Matches(search.train_row, search.closeness, 1.0, method)
    train_at, test_at = _projected(train, axes), _projected(test, axes)
    train_rows = np.flatnonzero(np.isfinite(train_at).all(axis=1))
    test_rows = np.flatnonzero(np.isfinite(test_at).all(axis=1))
    train_rows = train_rows[np.argsort(train_at[train_rows, 0], kind="stable")]
    test_rows = test_rows[np.argsort(test_at[test_rows, 0], kind="stable")]
    reach = max(limit, step) * np.sqrt(train.shape[1])
    # Projections are rounded; their errors grow with the values, not with the distances.
    reach = reach * (1 + 1e-6) + 1e-6 * max(float(np.abs(train_at[train_rows]).max(initial=0.0)), 1e-300)
    first = train_at[train_rows, 0]
    for start in range(0, len(test_rows), TEST_ROWS_AT_A_TIME):
        some = test_rows[start : start + TEST_ROWS_AT_A_TIME]
        left = np.searchsorted(first, test_at[some[0], 0] - reach, side="left")
        right = np.searchsorted(first, test_at[some[-1], 0] + reach, side="right")
        _search_block(search, train_at, test_at, train_rows[left:right], some, reach)
    return Matches(search.train_row, search.closeness, 1.0, method)


def _search_block(
    search: Search, train_at: NDArray[np.float64], test_at: NDArray[np.float64], train: Rows, test: Rows, reach: float
) -> None:
    width = max(1, VALUES_AT_A_TIME // max(len(test), 1))
    for start in range(0, len(train), width):
        some = train[start : start + width]
        open_rows = test[search.train_row[test] < 0]
        if not len(open_rows):
            return
        # The middle of the portion as origin keeps the differences of squares exact enough.
        origin = train_at[some].mean(axis=0)
        a, b = test_at[open_rows] - origin, train_at[some] - origin
        squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * (a @ b.T)
        slack = 1e-9 * ((a * a).sum(axis=1).max() + (b * b).sum(axis=1).max())
        near = squares <= reach**2 + slack
        nearest = squares.argmin(axis=1)
        # The nearest first: where it is a duplicate, the others of that row need no look.
        lead = np.flatnonzero(near[np.arange(len(open_rows)), nearest])
        search.pairs(open_rows[lead], some[nearest[lead]])
        near[search.train_row[open_rows] >= 0] = False
        rows, columns = np.nonzero(near)
        search.pairs(open_rows[rows], some[columns])


def vectors_apart(
    train: NDArray[Any], test: NDArray[Any], train_rows: Rows, test_rows: Rows, limit: float, step: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Root mean square difference of pairs of rows, and whether it, or every single one, is small enough.

    Args:
        train: shape (n, d).
        test: shape (m, d).
        train_rows: shape (p,).
        test_rows: shape (p,).
        limit: Largest root mean square difference.
        step: Largest single difference that makes a pair a duplicate as well; 0: not used.

    Returns:
        Two arrays of shape (p,).
    """
    apart = np.empty(len(test_rows))
    good = np.empty(len(test_rows), bool)
    portion = max(1, VALUES_AT_A_TIME // max(train.shape[1], 1))
    for start in range(0, len(test_rows), portion):
        part = slice(start, start + portion)
        difference = test[test_rows[part]].astype(np.float64) - train[train_rows[part]].astype(np.float64)
        apart[part] = np.sqrt(np.square(difference).mean(axis=1))
        good[part] = apart[part] <= limit * (1 + 1e-9)
        if step > 0:
            good[part] |= np.abs(difference).max(axis=1) <= step * (1 + 1e-9)
    return apart, good


def _axes(train: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64] | None:
    """Orthonormal axes along which the rows spread most; shape (d, k). None: there is nothing to project."""
    if not len(train) or not train.shape[1]:
        return None
    portion = max(2, min(SAMPLE_ROWS, VALUES_AT_A_TIME // train.shape[1]))
    rows = np.sort(rng.choice(len(train), min(portion, len(train)), replace=False))
    sample = train[rows].astype(np.float64)
    sample = sample[np.isfinite(sample).all(axis=1)]
    if len(sample):
        sample = sample - sample.mean(axis=0)
    k = min(AXES, train.shape[1], max(len(sample) - 1, 1))
    _, vectors = np.linalg.eigh(sample @ sample.T) if len(sample) else (None, np.zeros((0, 0)))
    spread = sample.T @ vectors[:, ::-1][:, :k]
    # Axes without spread are filled up by any others: QR needs full rank only to be orthonormal, which it always is.
    if spread.shape[1] < k or not np.isfinite(spread).all():
        spread = rng.normal(size=(train.shape[1], k))
    return np.asarray(np.linalg.qr(spread)[0])


def _projected(rows: NDArray[Any], axes: NDArray[np.float64]) -> NDArray[np.float64]:
    portion = max(1, VALUES_AT_A_TIME // max(rows.shape[1], 1))
    at = np.empty((len(rows), axes.shape[1]))
    for start in range(0, len(rows), portion):
        with np.errstate(invalid="ignore"):
            at[start : start + portion] = rows[start : start + portion].astype(np.float64) @ axes
    return at

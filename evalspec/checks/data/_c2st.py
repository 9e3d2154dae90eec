"""A classifier that tries to tell the rows of two datasets apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.data._shift_columns import Compared, Side
from evalspec.evidence.estimate import Estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ROWS = 5_000
"""Rows a side; more are drawn down to it."""
SMALLEST_N = 100
"""Rows a side below which half of them judge nothing."""
MOST_CATEGORIES = 200
SETTINGS: dict[str, Any] = {
    "max_iter": 60, "learning_rate": 0.1, "max_leaf_nodes": 8, "min_samples_leaf": 10, "l2_regularization": 1.0,
    "early_stopping": False,
}  # fmt: skip
CLASSIFIER = "gradient boosting (scikit-learn HistGradientBoosting, 60 trees of 8 leaves, rate 0.1)"


@dataclass(frozen=True)
class Told:
    """What the classifier made of it.

    Args:
        auc: On held-out rows.
        rows: Rows a side, training and held-out halves together.
        gain: Column: how much the AUC falls when that column is shuffled.
        planted: AUC on the planted shift.
        found: The planted shift was found.
    """

    auc: Estimate
    rows: int
    gain: dict[str, float]
    planted: Estimate
    found: bool


@dataclass(frozen=True)
class Pool:
    """Rows of both sides as numbers.

    Args:
        values: shape (2k, d), NaN where missing; the first k rows are the reference's.
        units: shape (2k,), what a row is split by: its cluster, or itself.
        clustered: Rows share units.
        names: Of the d columns.
        categorical: shape (d,).
    """

    values: NDArray[np.float64]
    units: NDArray[np.int64]
    clustered: bool
    names: tuple[str, ...]
    categorical: NDArray[np.bool_]


def make_pool(
    columns: Sequence[Compared],
    sizes: tuple[int, int],
    clusters: tuple[NDArray[np.int64] | None, NDArray[np.int64] | None],
    rng: np.random.Generator,
) -> Pool:
    """As many rows of either side, at most 5,000.

    Args:
        columns: At least one.
        sizes: Rows of reference and current data.
        clusters: Of each side's rows, shape (n,) or None.
        rng: Draws the rows.
    """
    k = min(*sizes, MOST_ROWS)
    first, second = rng.permutation(sizes[0])[:k], rng.permutation(sizes[1])[:k]
    encoded = [_encode(column, sizes) for column in columns]
    values = np.stack([np.concatenate((a[first], b[second])) for a, b in encoded], axis=1)
    one, two = (
        np.arange(n) if c is None else np.unique(c, return_inverse=True)[1]
        for n, c in zip(sizes, clusters, strict=True)
    )
    units = np.concatenate((one[first], two[second] + one.max() + 1))
    categorical = np.array([column.kind == "category" for column in columns])
    clustered = any(c is not None for c in clusters)
    return Pool(values, units.astype(np.int64), clustered, tuple(c.name for c in columns), categorical)


def _encode(column: Compared, sizes: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both sides as numbers, shape (n,) and (m,); categories by frequency, rare ones as one."""
    if column.kind == "number":
        return _spread(column.reference, sizes[0]), _spread(column.current, sizes[1])
    pooled = np.concatenate((column.reference.values, column.current.values))
    names, inverse, counts = np.unique(pooled, return_inverse=True, return_counts=True)
    place = np.empty(len(names), dtype=np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(len(names))
    codes = np.minimum(place, MOST_CATEGORIES)[inverse].astype(np.float64)
    split = len(column.reference.values)
    sides = (column.reference, codes[:split], sizes[0]), (column.current, codes[split:], sizes[1])
    first, second = (_spread(Side(values, side.rows, side.missing), n) for side, values, n in sides)
    return first, second


def _spread(side: Side, n: int) -> NDArray[np.float64]:
    full = np.full(n, np.nan)
    full[side.rows] = side.values
    return full


def tell_apart(pool: Pool, tolerance: float, confidence: float, rng: np.random.Generator) -> Told:
    """Trains on one half, judges on the other; then does the same with a planted shift.

    Args:
        pool: Rows of both sides.
        tolerance: AUC that the planted shift has, over 0.5.
        confidence: At which the planted shift must be found to be one.
        rng: The source of randomness.
    """
    from evalspec.stats.auc import roc_auc

    current = np.repeat([False, True], len(pool.values) // 2)
    held = _held_out(pool.units, rng)
    model = _fit(pool, pool.values[~held], current[~held], rng)
    clusters = pool.units[held] if pool.clustered else None
    auc = roc_auc(_scores(model, pool.values[held]), current[held], clusters)
    gain = _gain(pool, model, pool.values[held], current[held], rng)
    values, side, units, apart = _plant(pool, tolerance, rng)
    other = _fit(pool, values[~apart], side[~apart], rng)
    # The planted sample holds rows more than once.
    planted = roc_auc(_scores(other, values[apart]), side[apart], units[apart])
    p = planted.p_value(0.5, "lower")
    return Told(auc, len(current) // 2, gain, planted, p is not None and p <= 1.0 - confidence)


def _held_out(units: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Half of the units, shape (rows,)."""
    half = rng.permutation(int(units.max()) + 1) % 2 == 0
    held: NDArray[np.bool_] = half[units]
    return held


def _fit(pool: Pool, rows: NDArray[np.float64], side: NDArray[np.bool_], rng: np.random.Generator) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    seed = int(rng.integers(2**31))
    model = HistGradientBoostingClassifier(**SETTINGS, categorical_features=pool.categorical, random_state=seed)
    return model.fit(rows, side)


def _scores(model: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    scores: NDArray[np.float64] = model.predict_proba(rows)[:, 1]
    return scores


def _gain(
    pool: Pool, model: Any, rows: NDArray[np.float64], side: NDArray[np.bool_], rng: np.random.Generator
) -> dict[str, float]:
    """How much the AUC on held-out rows falls when one column is shuffled, for each column."""
    from evalspec.stats.auc import roc_auc

    whole = roc_auc(_scores(model, rows), side).value
    gain: dict[str, float] = {}
    for index, name in enumerate(pool.names):
        shuffled = rows.copy()
        shuffled[:, index] = rng.permutation(shuffled[:, index])
        without = roc_auc(_scores(model, shuffled), side).value
        if whole is not None and without is not None:
            gain[name] = whole - without
    return gain


def _plant(
    pool: Pool, tolerance: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64], NDArray[np.bool_]]:
    """Two samples of the pooled rows, one of which ranks higher in one column, so that its AUC is the tolerance.

    Ranks u of the shifted sample have density a u^(a-1), whose AUC against even ranks is a / (a + 1). Rows are only
    drawn again, so no new value gives the shift away; rows to train on and to judge on are drawn from separate halves.

    Returns:
        Rows, whether they are shifted, their units, and whether they are held out.
    """
    distinct = [len(np.unique(column)) for column in pool.values.T]
    column = pool.values[:, int(np.argmax(distinct))]
    # Ties and missing cells get an order of their own.
    order = np.lexsort((rng.random(len(column)), column))
    rank = np.empty(len(column))
    rank[order] = (np.arange(len(column)) + 0.5) / len(column)
    units = pool.units
    part = (rng.permutation(int(units.max()) + 1) % 4)[units]
    power = (1.0 - tolerance) / tolerance
    rows, shifted, held = [], [], []
    for is_held, is_shifted in ((False, False), (False, True), (True, False), (True, True)):
        source = np.flatnonzero(part == 2 * is_held + is_shifted)
        if is_shifted:
            source = source[np.argsort(rank[source], kind="stable")]
            ranks = ((np.arange(len(source)) + rng.random()) / max(1, len(source))) ** power
            source = source[(ranks * len(source)).astype(np.int64)]
        rows.append(source)
        shifted.append(np.full(len(source), is_shifted))
        held.append(np.full(len(source), is_held))
    drawn = np.concatenate(rows)
    return pool.values[drawn], np.concatenate(shifted), units[drawn], np.concatenate(held)

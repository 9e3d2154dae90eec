"""A classifier that tries to tell the rows of two datasets apart."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.units import from_unit
from evalspec.evidence.words import plural, verb
from evalspec.imports import hidden, sklearn_alone
from evalspec.tables.columns import ColumnPair, Side

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.requirement import Requirement

DEFAULT_AUC = 0.6
"""What a planted shift is held against where no requirement says."""
COMPONENTS = 64
"""Principal components that stand for an embedding."""
MOST_WIDE = 1_024
"""Numbers of an embedding beyond which it is projected at random first."""
MOST_ROWS = 5_000
"""Rows a side; more are drawn down to it."""
SMALLEST_N = 100
"""Rows a side below which half of them judge nothing."""
MOST_CATEGORIES = 200
GAIN_ROWS = 1_000
"""Held-out rows on which is found out what each column adds, which is shown and decides nothing."""
COLUMNS_AT_A_TIME = 16
"""Of which is found out together what each adds."""
SETTINGS: dict[str, Any] = {
    "max_iter": 60, "learning_rate": 0.1, "max_leaf_nodes": 8, "min_samples_leaf": 10, "l2_regularization": 1.0,
    "early_stopping": False,
}  # fmt: skip
CLASSIFIER = "gradient boosting (scikit-learn HistGradientBoosting, 60 trees of 8 leaves, rate 0.1)"


@dataclass(frozen=True)
class ClassifierResult:
    """Result of the classifier.

    Args:
        auc: On held-out rows.
        rows: Rows a side, training and held-out halves together.
        gain: Column: how much the AUC falls when that column is shuffled.
        planted: AUC on the planted shift.
        found: The planted shift was found.
        surpassed: It was told apart better than the rows themselves.
    """

    auc: Estimate
    rows: int
    gain: dict[str, float]
    planted: Estimate
    found: bool
    surpassed: bool = True

    def withhold(self, tolerance: float) -> str | None:
        """Why a low AUC shows nothing; None: it does.

        Args:
            tolerance: AUC of the planted shift.
        """
        if self.found and self.surpassed:
            return None
        planted = "no value" if self.planted.value is None else f"an AUC of {self.planted.value:.3f}"
        if not self.found:
            return (
                f"a planted shift with an AUC of {tolerance:g} was not found by this classifier on {self.rows:,} rows "
                f"a side ({planted}), so a low AUC shows nothing"
            )
        return (
            f"a planted shift with an AUC of {tolerance:g} was not detected any better ({planted}) than these rows by "
            f"this classifier on {self.rows:,} rows a side, so they may have moved as far"
        )


@dataclass(frozen=True)
class Pool:
    """Rows of both sides as numbers.

    Args:
        values: shape (2k, d), NaN where missing; the first k rows are the reference's.
        units: shape (2k,), what a row is split by: its cluster, or itself.
        clustered: Rows share units.
        names: Of the d columns.
        categorical: shape (d,).
        rows: shape (k,) each, which rows of the reference and of the current data they are; None: not known.
        unlike: shape (k,), which of the current rows have a category, or lack a value, as next to none of the
            reference's do; None: not known.
    """

    values: NDArray[np.float64]
    units: NDArray[np.int64]
    clustered: bool
    names: tuple[str, ...]
    categorical: NDArray[np.bool_]
    rows: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    unlike: NDArray[np.bool_] | None = None


def why_not(smaller: int) -> str | None:
    """Why there is no classifier; None: there is one.

    Args:
        smaller: Rows of the smaller side.
    """
    if importlib.util.find_spec("sklearn") is None:
        return "scikit-learn is not installed: pip install 'evalspec-gate[sklearn]'"
    if smaller < SMALLEST_N:
        few = f"{plural(smaller, 'row')} on one side {verb(smaller, 'is', 'are')} too few"
        return f"{few} for a classifier, {SMALLEST_N} are needed"
    return None


def planted_at(requirements: Sequence[Requirement], metric: str) -> float:
    """AUC of the shift to plant: the strictest that a requirement names.

    Args:
        requirements: Of the check.
        metric: Whose AUC.
    """
    required = [from_unit(r.threshold, r.unit) for r in requirements if r.metric == metric]
    tolerance = min(required, default=DEFAULT_AUC)
    return tolerance if 0.5 < tolerance < 1.0 else DEFAULT_AUC


def make_pool(
    columns: Sequence[ColumnPair],
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
    names = tuple(c.name for c in columns)
    return Pool(values, units.astype(np.int64), clustered, names, categorical, (first, second))


def embedding_pool(
    reference: NDArray[np.floating],
    current: NDArray[np.floating],
    clusters: tuple[NDArray[np.int64] | None, NDArray[np.int64] | None],
    rng: np.random.Generator,
) -> Pool:
    """As many rows of either side, at most 5,000, by the leading principal components of both sides together.

    Args:
        reference: shape (n, d).
        current: shape (m, d).
        clusters: Of each side's rows, shape (n,) and (m,), or None.
        rng: Draws the rows.

    Raises:
        InputError: The embeddings differ in width, or hold numbers that are not finite.
    """
    if reference.shape[1] != current.shape[1]:
        raise InputError(f"embeddings of {reference.shape[1]} numbers beside {current.shape[1]}")
    k = min(len(reference), len(current), MOST_ROWS)
    rows = rng.permutation(len(reference))[:k], rng.permutation(len(current))[:k]
    values = np.concatenate((reference[rows[0]], current[rows[1]])).astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError("an embedding holds numbers that are not finite")
    codes = [np.arange(k) if c is None else np.unique(c[some], return_inverse=True)[1]
             for c, some in zip(clusters, rows, strict=True)]  # fmt: skip
    units = np.concatenate((codes[0], codes[1] + codes[0].max(initial=-1) + 1)).astype(np.int64)
    values = _components(values, rng)
    names = tuple(f"component {index + 1}" for index in range(values.shape[1]))
    clustered = any(c is not None for c in clusters)
    return Pool(values, units, clustered, names, np.zeros(values.shape[1], dtype=np.bool_), rows)


def _components(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Leading principal components, shape (rows, at most 64); which side a row is of plays no part."""
    centred = values - values.mean(axis=0)
    if centred.shape[1] > MOST_WIDE:
        centred = centred @ rng.standard_normal((centred.shape[1], MOST_WIDE))
    _, axes = np.linalg.eigh(centred.T @ centred)
    found: NDArray[np.float64] = centred @ axes[:, ::-1][:, :COMPONENTS]
    return found


def _encode(column: ColumnPair, sizes: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both sides as numbers, shape (n,) and (m,); categories by frequency, rare ones as one."""
    if column.kind == "number":
        return _spread(column.reference, sizes[0]), _spread(column.current, sizes[1])
    pooled = np.concatenate((column.reference.values, column.current.values))
    names, inverse, counts = _counted(pooled)
    place = np.empty(len(names), dtype=np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(len(names))
    codes = np.minimum(place, MOST_CATEGORIES)[inverse].astype(np.float64)
    split = len(column.reference.values)
    sides = (column.reference, codes[:split], sizes[0]), (column.current, codes[split:], sizes[1])
    first, second = (_spread(Side(values, side.rows, side.missing), n) for side, values, n in sides)
    return first, second


def _counted(texts: NDArray[Any]) -> tuple[NDArray[np.str_], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct texts with places and counts, as `np.unique` has them; no more than the distinct ones are sorted."""
    import pyarrow as pa

    encoded = pa.array(texts, pa.string()).dictionary_encode()
    first = np.array(encoded.dictionary.to_pylist(), dtype=np.str_)
    names, place = np.unique(first, return_inverse=True)
    inverse = place[encoded.indices.to_numpy()]
    return names, inverse, np.bincount(inverse, minlength=len(names))


def _spread(side: Side, n: int) -> NDArray[np.float64]:
    full = np.full(n, np.nan)
    full[side.rows] = side.values
    return full


def tell_apart(
    pool: Pool, tolerance: float, confidence: float, rng: np.random.Generator, *, gains: bool = True
) -> ClassifierResult:
    """Trains on one half, judges on the other; then does the same with a planted shift.

    From few rows a classifier learns only a part of what there is, so its AUC lies below the best one, and with a limit
    of 0.6 rows of a best AUC of 0.61 would come out below it in a third of samples of 500 rows a side. What is planted
    is learnt as badly: the rows are like each other only where the planted shift is told apart better than they are.

    Args:
        pool: Rows of both sides.
        tolerance: AUC that the planted shift has, over 0.5.
        confidence: At which the planted shift must be found to be one.
        rng: The source of randomness.
        gains: Find out what each column adds.
    """
    from evalspec.stats.means.auc import roc_auc
    from evalspec.stats.shares.macro import mover_difference

    current = np.repeat([False, True], len(pool.values) // 2)
    held = _held_out(pool.units, rng)
    model = fit(pool, pool.values[~held], current[~held], rng)
    clusters = pool.units[held] if pool.clustered else None
    auc = roc_auc(scores(model, pool.values[held]), current[held], clusters)
    gain = _gain(pool, model, pool.values[held], current[held], rng) if gains else {}
    values, side, units, apart = _plant(pool, tolerance, rng)
    other = fit(pool, values[~apart], side[~apart], rng)
    # The planted sample holds rows more than once.
    planted = roc_auc(scores(other, values[apart]), side[apart], units[apart])
    # A classifier that was trained on few rows finds less than there is: in the planted shift as in the real one.
    p, beyond = planted.p_value(0.5, "lower"), mover_difference(planted, auc).bound(confidence, "lower")
    found, surpassed = p is not None and p <= 1.0 - confidence, beyond is not None and beyond >= 0.0
    return ClassifierResult(auc, len(current) // 2, gain, planted, found, surpassed)


def _held_out(units: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Half of the units, shape (rows,)."""
    half = rng.permutation(int(units.max()) + 1) % 2 == 0
    held: NDArray[np.bool_] = half[units]
    return held


def fit(
    pool: Pool,
    rows: NDArray[np.float64],
    side: NDArray[np.bool_],
    rng: np.random.Generator,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """The classifier, trained to tell rows of the current data.

    Args:
        pool: Says which columns are categories.
        rows: shape (n, d).
        side: shape (n,), rows of the current data.
        rng: Its seed.
        settings: Of the boosting; default: `SETTINGS`.
    """
    sklearn_alone()
    from sklearn.ensemble import HistGradientBoostingClassifier

    seed = int(rng.integers(2**31))
    chosen = SETTINGS if settings is None else settings
    model = HistGradientBoostingClassifier(**chosen, categorical_features=pool.categorical, random_state=seed)
    # Else it would import pandas, to look for missing values of pandas in an array of numbers.
    with hidden("pandas"):
        return model.fit(with_values(rows), side)


def with_values(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows, with zeros in columns that have no value in any of them: the boosting can't bin such a column.

    Args:
        rows: shape (n, d).
    """
    return np.where(np.isfinite(rows).any(axis=0), rows, 0.0)


def scores(model: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chance that a row is of the current data, as `fit` has it, shape (n,)."""
    with hidden("pandas"):
        chance: NDArray[np.float64] = model.predict_proba(rows)[:, 1]
    return chance


def _gain(
    pool: Pool, model: Any, rows: NDArray[np.float64], side: NDArray[np.bool_], rng: np.random.Generator
) -> dict[str, float]:
    """How much the AUC on held-out rows falls when one column is shuffled, for each column."""
    from evalspec.stats.means.auc import roc_auc

    if len(rows) > GAIN_ROWS:
        some = rng.permutation(len(rows))[:GAIN_ROWS]
        rows, side = rows[some], side[some]
    whole = roc_auc(scores(model, rows), side).value
    gain: dict[str, float] = {}
    for start in range(0, len(pool.names), COLUMNS_AT_A_TIME):
        together = range(start, min(start + COLUMNS_AT_A_TIME, len(pool.names)))
        # What comes before the trees costs as much for one table as for many below each other.
        copies = np.repeat(rows[None], len(together), axis=0)
        for copy, index in zip(copies, together, strict=True):
            copy[:, index] = rng.permutation(copy[:, index])
        said = scores(model, copies.reshape(-1, rows.shape[1])).reshape(len(together), len(rows))
        for index, chance in zip(together, said, strict=True):
            without = roc_auc(chance, side).value
            if whole is not None and without is not None:
                gain[pool.names[index]] = whole - without
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

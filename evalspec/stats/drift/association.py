"""Conventions of the field for how two samples differ in a column: Cramer's V and the population stability index.

They are shown and decide nothing: neither has a bound against a tolerance here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalspec.errors import InputError
from evalspec.stats.shares.contingency import association
from evalspec.stats.types import FloatArray, IntArray

DECILES = 10


def cramers_v(reference: IntArray, current: IntArray) -> float | None:
    """Cramer's V of category by side, corrected for its bias: 0 on average where both sides are alike.

    Args:
        reference: shape (C,), rows of each category.
        current: shape (C,), rows of each category.

    Returns:
        0..1; None where a side is empty or there is one category only.

    Raises:
        InputError: The two name different numbers of categories.

    References:
        Bergsma (2013), A bias-correction for Cramer's V and Tschuprow's T, Journal of the Korean
        Statistical Society 42.
    """
    return association(_table(reference, current))


@dataclass(frozen=True, slots=True)
class Stability:
    """A population stability index.

    Args:
        value: The index less ``by_chance``, at least 0.
        plain: The index itself.
        by_chance: What two samples of this size from one population have on average: (B - 1) (1/n + 1/m).
        cells: B.
    """

    value: float
    plain: float
    by_chance: float
    cells: int


def stability_of_numbers(reference: FloatArray, current: FloatArray) -> Stability | None:
    """Population stability index over the deciles of the reference.

    Args:
        reference: shape (n,), finite.
        current: shape (m,), finite.

    Returns:
        The index; None where a side is empty or the reference has one value only. Ties make fewer cells than ten.

    References:
        Yurdakul and Naranjo (2020), Statistical properties of the population stability index, Journal of Risk Model
        Validation 14 (its mean by chance).
    """
    x, y = np.asarray(reference, dtype=np.float64), np.asarray(current, dtype=np.float64)
    if not len(x) or not len(y):
        return None
    inner = np.unique(np.quantile(x, np.linspace(0.0, 1.0, DECILES + 1)[1:-1]))
    counts = [np.bincount(np.searchsorted(inner, side, side="left"), minlength=len(inner) + 1) for side in (x, y)]
    held = counts[0] > 0
    # A cell without a row of the reference is no decile of it: its rows belong to the one before.
    cell = np.maximum(np.cumsum(held) - 1, 0)
    return stability(*(np.bincount(cell, weights=side).astype(np.int64) for side in counts))


def stability(reference: IntArray, current: IntArray) -> Stability | None:
    """Population stability index over cells or categories; half a row is added to each, so that none is empty.

    Args:
        reference: shape (B,), rows in each cell.
        current: shape (B,), rows in each cell.

    Returns:
        The index; None where a side is empty or there is one cell only.

    Raises:
        InputError: The two have different numbers of cells.
    """
    table = _table(reference, current)
    n, m = (float(side) for side in table.sum(axis=1))
    cells = table.shape[1]
    if min(n, m) <= 0 or cells < 2:
        return None
    a, b = ((side + 0.5) / (total + 0.5 * cells) for side, total in zip(table, (n, m), strict=True))
    plain = float(((b - a) * np.log(b / a)).sum())
    by_chance = (cells - 1) * (1.0 / n + 1.0 / m)
    return Stability(max(0.0, plain - by_chance), plain, by_chance, cells)


def _table(reference: IntArray, current: IntArray) -> FloatArray:
    """Counts of both sides, shape (2, C), without categories that have no row."""
    if np.shape(reference) != np.shape(current):
        raise InputError(f"{len(reference)} categories beside {len(current)}")
    table = np.stack((np.asarray(reference, dtype=np.float64), np.asarray(current, dtype=np.float64)))
    return np.asarray(table[:, table.sum(axis=0) > 0])

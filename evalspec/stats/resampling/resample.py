"""Resamples as weights: blocks of bounded size, and the jackknife beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from evalspec.stats.types import FloatArray, IntArray

Weighted = Callable[[FloatArray], FloatArray]
"""Weights, shape (r, n), to the statistics of each resample, shape (r, s)."""

_BLOCK_ELEMENTS = 4_000_000
_MOST_GROUPS = 1_000


@dataclass(frozen=True, eq=False)
class ResamplingPlan:
    """Plan of the rows that are drawn.

    Args:
        rows: Entries of a weight vector.
        multiplicity: shape (rows,), how many equal rows each entry stands for, or None: one each.
        codes: shape (rows,), cluster of each row, or None.
        groups: Number of clusters.
        strata: shape (units,), stratum of each unit (row or cluster), or None.
    """

    rows: int
    multiplicity: IntArray | None = None
    codes: IntArray | None = None
    groups: int = 0
    strata: IntArray | None = None

    @property
    def whole(self) -> FloatArray:
        """Weights of the sample itself, shape (1, rows)."""
        return np.ones((1, self.rows)) if self.multiplicity is None else self.multiplicity[None, :].astype(np.float64)

    @property
    def units(self) -> int:
        """Number of units that are drawn: rows or clusters."""
        return self.groups if self.codes is not None else self.rows


def replicates(statistic: Weighted, plan: ResamplingPlan, resamples: int, rng: np.random.Generator) -> FloatArray:
    """The statistics of bootstrap resamples.

    Args:
        statistic: Of weighted rows.
        plan: How rows are drawn.
        resamples: B.
        rng: Drawn from in blocks, so that B fixes the result.

    Returns:
        shape (B, s).
    """
    block = max(1, _BLOCK_ELEMENTS // max(plan.rows, 1))
    sizes = [min(block, resamples - start) for start in range(0, resamples, block)]
    return np.concatenate([statistic(_spread(_draw(plan, size, rng), plan)) for size in sizes])


def jackknife(statistic: Weighted, plan: ResamplingPlan, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """The statistics with one unit (or, of more than 1,000, one of 1,000 random groups of units) left out.

    Args:
        statistic: Of weighted rows.
        plan: How rows are drawn.
        rng: Makes the groups.

    Returns:
        Statistics, shape (j, s), and how many units each stands for, shape (j,).
    """
    units = plan.units
    if plan.multiplicity is not None:
        blocks = [_without_one(plan.multiplicity, part) for part in _parts(np.arange(units), plan.rows)]
        return np.concatenate([statistic(w) for w in blocks]), plan.multiplicity.astype(np.float64)
    groups = min(units, _MOST_GROUPS)
    member = rng.permutation(units) % groups if groups < units else np.arange(units)
    blocks = [
        _spread((member != part[:, None]).astype(np.float64), plan) for part in _parts(np.arange(groups), plan.rows)
    ]
    return np.concatenate([statistic(w) for w in blocks]), np.ones(groups)


def _parts(indices: IntArray, width: int) -> Iterator[IntArray]:
    step = max(1, _BLOCK_ELEMENTS // max(width, 1))
    for start in range(0, len(indices), step):
        yield indices[start : start + step]


def _without_one(multiplicity: IntArray, part: IntArray) -> FloatArray:
    weights = np.repeat(multiplicity[None, :].astype(np.float64), len(part), axis=0)
    weights[np.arange(len(part)), part] -= 1.0
    return weights


def _spread(weights: FloatArray, plan: ResamplingPlan) -> FloatArray:
    return weights if plan.codes is None else weights[:, plan.codes]


def _draw(plan: ResamplingPlan, size: int, rng: np.random.Generator) -> FloatArray:
    """Weights of the units in ``size`` resamples, shape (size, units)."""
    if plan.multiplicity is not None:
        total = int(plan.multiplicity.sum())
        return rng.multinomial(total, plan.multiplicity / total, size=size).astype(np.float64)
    if plan.strata is None:
        return _counts(plan.units, size, rng)
    weights = np.empty((size, plan.units))
    for stratum in np.unique(plan.strata):
        members = np.flatnonzero(plan.strata == stratum)
        weights[:, members] = _counts(len(members), size, rng)
    return weights


def _counts(units: int, size: int, rng: np.random.Generator) -> FloatArray:
    picks = rng.integers(0, units, size=(size, units), dtype=np.int64)
    picks += (np.arange(size) * units)[:, None]
    return np.bincount(picks.ravel(), minlength=size * units).reshape(size, units).astype(np.float64)

"""Any score of rows, with an interval: the jackknife over groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats._types import FloatArray, IntArray
from evalspec.stats.mean import mean
from evalspec.stats.value_only import ValueOnly

GROUPS = 200
"""Groups that are left out in turn: as many values as the mean of rows needs."""


@dataclass(frozen=True, slots=True)
class Jackknifed:
    """A score of rows, with the bounds of the mean of its pseudo-values.

    Args:
        value: The score of all rows.
        n: Rows.
        pseudo: The mean of the pseudo-values.
    """

    value: float
    n: int
    pseudo: Estimate

    @property
    def method(self) -> str:
        """How the bounds are made, or why there are none."""
        how = self.pseudo.method.replace("rows", f"groups of {max(1, round(self.n / self.pseudo.n))} rows")
        return f"jackknife over {self.pseudo.n} groups; {how}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """As `Estimate.bound`."""
        return self.pseudo.bound(confidence, side)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """As `Estimate.p_value`."""
        return self.pseudo.p_value(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows: groups grow with them."""
        groups = self.pseudo.n_to_decide(threshold, alpha)
        return None if groups is None else round(groups * self.n / self.pseudo.n)


def jackknife(
    score: Callable[[IntArray], float], n: int, *, rng: np.random.Generator, clusters: IntArray | None = None
) -> Estimate:
    """A score that is a smooth function of many rows, such as a mean, a ratio or a correlation.

    Rows (or whole clusters) are dealt to 200 groups; the score is computed once of all rows and once without each
    group, and the pseudo-values ``G s - (G - 1) s_g`` are averaged like item losses. Not for scores that hang on few
    rows: a maximum, a percentile.

    Args:
        score: Row indices, shape (k,), to the score of these rows.
        n: Rows.
        rng: Deals the rows.
        clusters: shape (n,), cluster of each row, or None where rows are independent.

    Returns:
        The estimate, in the score's unit; without bounds below 200 rows (or clusters).

    Raises:
        InputError: The score is not a finite number.

    References:
        Tukey (1958), Annals of Mathematical Statistics 29; Shao and Tu (1995), The Jackknife and Bootstrap, 2.3.
    """
    everyone = np.arange(n)
    whole = _finite(score(everyone))
    units, count = (everyone, n) if clusters is None else _units(clusters)
    if count < GROUPS:
        return ValueOnly(
            whole, n, f"no bound: the jackknife has one from {GROUPS} rows or clusters on, here are {count}"
        )
    group = (rng.permutation(count) % GROUPS)[units]
    without = np.array([_finite(score(np.flatnonzero(group != one))) for one in range(GROUPS)])
    return from_groups(whole, without, n)


def from_groups(whole: float, without: FloatArray, n: int) -> Jackknifed:
    """The bounds of a score from what it is without each group.

    Args:
        whole: The score of all rows.
        without: shape (groups,), the score without each group.
        n: Rows.
    """
    groups = len(without)
    return Jackknifed(whole, n, mean(groups * whole - (groups - 1) * without))


def _units(clusters: IntArray) -> tuple[IntArray, int]:
    found, codes = np.unique(clusters, return_inverse=True)
    return codes, len(found)


def _finite(value: float) -> float:
    if not np.isfinite(value):
        raise InputError(f"the score of some of the rows is {value}, not a number")
    return float(value)

"""Change of a score by rows that the model was trained on: the score of all rows less that of the clean ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.resampling.bootstrap import Arrays, Statistic, bca
from evalspec.stats.shares.two_shares import apart
from evalspec.stats.types import BoolArray, FloatArray, IntArray
from evalspec.stats.value_only import ValueOnly

FEWEST_DIRTY = 50
"""Dirty rows, and clean ones, from which on a statistic that is no mean is resampled."""
MOST_LEFT_OUT = 300
"""Rows of either group that are left out in turn."""
_BLOCK_ELEMENTS = 4_000_000


@dataclass(frozen=True, slots=True)
class CleanChange(Estimate):
    """The mean of all rows less that of the clean ones, where the mean of each row lies in 0..1.

    All rows hold the clean ones, so the two are no separate samples; but what they differ by is

        share of dirty rows x (mean of dirty rows - mean of clean rows),

    and those two are. The share is a fact of the file: nothing is drawn in it. Bounds are those of the difference,
    times the share. Whatever the rows say, the change is no more than the share.

    Args:
        dirty: The mean of the dirty rows.
        clean: That of the clean ones.
        share: Dirty rows among all that count, in the open interval 0..1.

    References:
        Miettinen and Nurminen (1985), Statistics in Medicine 4; Zou and Donner (2008), Statistics in Medicine 27, of
        the difference (`evalspec.stats.shares.two_shares.apart`).
    """

    dirty: Estimate
    clean: Estimate
    share: float

    @property
    def apart(self) -> Estimate:
        """Dirty less clean."""
        return apart(self.dirty, self.clean)

    @property
    def value(self) -> float | None:
        """The change, between -share and share."""
        value = self.apart.value
        return None if value is None else self.share * value

    @property
    def n(self) -> int:
        """Rows of both."""
        return self.dirty.n + self.clean.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"{100.0 * self.share:.3g} % of the rows x (dirty less clean): {self.apart.method}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound: of the difference, times the share; the share itself where that has none."""
        limit = -self.share if side == "lower" else self.share
        if self.value is None:
            return None
        inner = self.apart.bound(confidence, side)
        if inner is None:
            return limit
        return max(limit, self.share * inner) if side == "lower" else min(limit, self.share * inner)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value of the difference at threshold / share; 0 beyond what the share allows."""
        if self.value is None:
            return None
        at = threshold / self.share
        if (at <= -1.0 and side == "lower") or (at >= 1.0 and side == "upper"):
            return 0.0
        inner = self.apart.p_value(at, side)
        return 1.0 if inner is None else inner

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows, in this share of dirty ones, that decide with 80 % power; more than 20 times n is given too."""
        at = threshold / self.share
        return None if abs(at) >= 1.0 else self.apart.n_to_decide(at, alpha)


@dataclass(frozen=True, slots=True)
class FullLessClean:
    """A statistic of all rows less the same of the clean ones, both of the same resample.

    Args:
        statistic: Of weighted rows, as `evalspec.stats.resampling.bootstrap.bca` takes it.
        fewest_carrying: Rows' worth of deviations that must carry the variance.
    """

    statistic: Statistic
    fewest_carrying: float

    def __call__(self, arrays: Arrays, weights: FloatArray) -> FloatArray:
        """Values of the resamples, shape (r,); the last of the arrays says which rows are dirty."""
        rows, dirty = arrays[:-1], arrays[-1]
        kept = weights * (~dirty).astype(weights.dtype)
        return np.asarray(self.statistic(rows, weights) - self.statistic(rows, kept), dtype=np.float64)


def clean_change(dirty: Estimate, clean: Estimate, share: float) -> CleanChange:
    """The change of a share or of a mean of values in 0..1.

    Args:
        dirty: Of the dirty rows.
        clean: Of the clean ones.
        share: Dirty rows among all that count.

    Raises:
        InputError: The share is not between 0 and 1.
    """
    if not 0.0 < share < 1.0:
        raise InputError(f"a share of {share:g} of dirty rows leaves nothing to compare")
    return CleanChange(dirty, clean, share)


def resampled_change(
    statistic: Statistic,
    arrays: Sequence[NDArray[Any]],
    dirty: BoolArray,
    *,
    rng: np.random.Generator,
    alpha: float,
    clusters: IntArray | None = None,
    smallest_class: int | None = None,
) -> Estimate:
    """The change of a statistic that is no mean, such as macro F1, by BCa over rows.

    Dirty rows are drawn among the dirty and clean ones among the clean, so that their share stays what it is in the
    file. Clusters may hold both and are drawn whole; then the share varies too, which makes bounds wider.

    Args:
        statistic: As in `evalspec.stats.resampling.bootstrap.bca`.
        arrays: Each with n rows.
        dirty: shape (n,), rows seen in training.
        rng: Of the resamples.
        alpha: The strictest level that will be asked for.
        clusters: shape (n,), or None.
        smallest_class: Clean rows of the smallest class that counts, where the statistic is one of classes.

    Returns:
        The estimate, in the statistic's unit; without a bound below 50 dirty or 50 clean rows.

    Raises:
        InputError: The arrays differ in length.

    References:
        Efron (1987), JASA 82; Davison and Hinkley (1997), Bootstrap Methods and their Application, 3.2 (strata).
    """
    rows = np.asarray(dirty, dtype=np.bool_)
    difference = FullLessClean(statistic, float(getattr(statistic, "fewest_carrying", 10.0)))
    fewest = int(min(rows.sum(), (~rows).sum()))
    if fewest < FEWEST_DIRTY:
        if not fewest:
            return ValueOnly(None, len(rows), "no value: all rows are dirty, or none is")
        sample = (*(np.asarray(array) for array in arrays), rows)
        value = float(difference(sample, np.ones((1, len(rows))))[0])
        reason = f"no bound: BCa of a change has one from {FEWEST_DIRTY} dirty and {FEWEST_DIRTY} clean rows on"
        return ValueOnly(value if np.isfinite(value) else None, len(rows), reason)
    estimate = bca(
        difference, (*arrays, rows), rng=rng, alpha=alpha, clusters=clusters,
        strata=rows.astype(np.int64) if clusters is None else None, smallest_class=smallest_class,
        method="BCa of full less clean",
    )  # fmt: skip
    if isinstance(estimate, ValueOnly):
        return estimate
    carried = _carried(difference, tuple(np.asarray(array) for array in arrays), rows, rng)
    if carried >= difference.fewest_carrying:
        return estimate
    reason = (
        "no bound: one more wrong row among the few dirty (or clean) ones would change too much; like these it has one "
        f"from about {len(rows) * difference.fewest_carrying / max(carried, 0.1):,.0f} rows on"
    )
    return ValueOnly(estimate.value, len(rows), reason)


def _carried(
    difference: FullLessClean, arrays: Sequence[NDArray[Any]], dirty: BoolArray, rng: np.random.Generator
) -> float:
    """Rows' worth of deviations that carry the variance, had either group one more of them than it shows.

    Where no dirty row is wrong, resamples know no wrong dirty row, and a bound that only clean rows carry is too tight.
    What such a row would do is taken from the other group: what those do that carry its variance, by the groups' sizes.

    Args:
        difference: The change.
        arrays: Each with n rows.
        dirty: shape (n,).
        rng: Chooses the rows that are left out, where there are many.
    """
    groups = [np.flatnonzero(dirty), np.flatnonzero(~dirty)]
    sums: list[tuple[float, float]] = []
    for group in groups:
        chosen = group if len(group) <= MOST_LEFT_OUT else rng.choice(group, MOST_LEFT_OUT, replace=False)
        parts = np.array_split(chosen, max(1, len(chosen) * len(dirty) // _BLOCK_ELEMENTS))
        left = np.concatenate(
            [
                difference((*arrays, dirty), (np.arange(len(dirty)) != part[:, None]).astype(np.float64))
                for part in parts
            ]
        )
        squares = (left - left.mean()) ** 2
        sums.append((float(squares.mean()) * len(group), float((squares**2).mean()) * len(group)))
    second, fourth = sums[0][0] + sums[1][0], sums[0][1] + sums[1][1]
    degrees = []
    for own, other in ((0, 1), (1, 0)):
        ratio = len(groups[other]) / len(groups[own])
        one = sums[other][1] / sums[other][0] * ratio**2 if sums[other][0] > 0 else 0.0
        degrees.append((second + one) ** 2 / (fourth + one**2) if fourth + one > 0 else 0.0)
    return min(degrees)

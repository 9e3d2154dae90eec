"""Overhead as a mean log ratio of pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.means.mean import TMean

LEAST_DEVIATION = 1e-6


@dataclass(frozen=True)
class Overhead(Estimate):
    """How much longer one of a pair takes than the other, in fractions, by Student's t on logarithms.

    Args:
        logs: Mean of the logarithms of the ratios.
    """

    logs: TMean

    @property
    def value(self) -> float:
        """The geometric mean of the ratios, less 1."""
        return math.expm1(self.logs.value)

    @property
    def n(self) -> int:
        """Pairs."""
        return self.logs.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"t on log ratios of {self.n} pairs"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound."""
        found = self.logs.bound(confidence, side)
        return None if found is None else math.expm1(found)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """One-sided t test."""
        if threshold <= -1.0:
            return 0.0 if side == "lower" else 1.0
        return self.logs.p_value(math.log1p(threshold), side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Pairs at which the t test has 80 % power."""
        return None if threshold <= -1.0 else self.logs.n_to_decide(math.log1p(threshold), alpha)


def t_mean(values: ArrayLike, least: float = LEAST_DEVIATION) -> TMean:
    """Mean of few values, with Student's t.

    Args:
        values: shape (n,), two at least.
        least: Standard deviation at the least: how coarsely the values are known.

    Raises:
        ValueError: There are fewer than two.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < 2:
        raise ValueError("Student's t needs two values")
    return TMean(float(numbers.mean()), max(float(numbers.std(ddof=1)), least), len(numbers))


def overhead(longer: ArrayLike, shorter: ArrayLike) -> Overhead:
    """How much longer the first of each pair takes.

    Args:
        longer: shape (n,), positive.
        shorter: shape (n,), positive, of the same pairs.
    """
    ratios = np.log(np.asarray(longer, dtype=np.float64)) - np.log(np.asarray(shorter, dtype=np.float64))
    return Overhead(t_mean(ratios))

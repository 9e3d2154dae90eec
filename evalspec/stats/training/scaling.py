"""Efficiency of scaling, as a ratio of geometric means with Welch's t on logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalspec.evidence.estimate import Side
from evalspec.evidence.words import plural
from evalspec.stats.invert import NByScaling

FEWEST = 3
"""Runs on each side, below which the spread of a side is hardly known."""


@dataclass(frozen=True)
class LogRatio(NByScaling):
    """``factor`` x geometric mean of one group / geometric mean of another.

    Args:
        above: shape (n,), positive.
        below: shape (m,), positive.
        factor: What the ratio is multiplied by.
        lost: Runs of either group that have no value: with them there is no bound.
        coarse: Of each group the least deviation of a logarithm: how coarsely its values are known.

    References:
        Welch (1947), Biometrika 34; Satterthwaite (1946) for the degrees of freedom.
    """

    above: NDArray[np.float64]
    below: NDArray[np.float64]
    factor: float
    lost: int = 0
    coarse: tuple[float, float] = (0.0, 0.0)

    @property
    def n(self) -> int:
        """Runs of both groups."""
        return len(self.above) + len(self.below)

    @cached_property
    def value(self) -> float | None:
        """The ratio; None where a group is empty."""
        if not len(self.above) or not len(self.below):
            return None
        return self.factor * math.exp(float(np.log(self.above).mean() - np.log(self.below).mean()))

    @property
    def bounded(self) -> bool:
        """True if it has bounds."""
        return min(len(self.above), len(self.below)) >= FEWEST and not self.lost

    @property
    def method(self) -> str:
        """Method of the bounds."""
        groups = f"{len(self.below)} and {plural(len(self.above), 'run')}"
        if self.lost:
            return f"Welch's t on logarithms of {groups}; no bound: {plural(self.lost, 'run')} did not get there"
        if not self.bounded:
            return f"Welch's t on logarithms of {groups}; no bound: it needs {FEWEST} runs on each side"
        return f"Welch's t on logarithms of {groups}"

    @cached_property
    def _spread(self) -> tuple[float, float]:
        """Standard error on the scale of logarithms, and degrees of freedom."""
        parts = [
            (max(float(np.log(one).var(ddof=1)), least**2) / len(one), len(one) - 1)
            for one, least in zip((self.above, self.below), self.coarse, strict=True)
        ]
        total = sum(variance for variance, _ in parts)
        if total <= 0.0:
            return 0.0, float(self.n - 2)
        return math.sqrt(total), total**2 / sum(variance**2 / degrees for variance, degrees in parts)

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound of the ratio."""
        from scipy.special import stdtrit

        if self.value is None or not self.bounded:
            return None
        error, degrees = self._spread
        reach = error * float(stdtrit(degrees, confidence))
        return self.value * math.exp(reach if side == "upper" else -reach)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Student's t of the distance on the scale of logarithms."""
        from scipy.special import stdtr

        if self.value is None or not self.bounded:
            return None
        if threshold <= 0.0:
            return 0.0 if side == "lower" else 1.0
        error, degrees = self._spread
        away = math.log(self.value / threshold) * (1.0 if side == "lower" else -1.0)
        if error == 0.0:
            return 0.0 if away >= 0.0 else 1.0
        return float(stdtr(degrees, -away / error))


def log_ratio(
    above: ArrayLike,
    below: ArrayLike,
    factor: float = 1.0,
    lost: int = 0,
    coarse: tuple[float, float] = (0.0, 0.0),
) -> LogRatio:
    """``factor`` x geometric mean of ``above`` / geometric mean of ``below``.

    Args:
        above: shape (n,), positive.
        below: shape (m,), positive.
        factor: Multiplies the ratio.
        lost: Runs of either group without a value.
        coarse: Least deviations of logarithms, of ``above`` and of ``below``: of runs that all stop at one evaluation
            it is known only between which two.

    Raises:
        ValueError: A value is not positive and finite.
    """
    a, b = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    if not all(np.isfinite(one).all() and (one > 0.0).all() for one in (a, b)):
        raise ValueError("a geometric mean needs numbers above 0")
    return LogRatio(a, b, factor, lost, coarse)

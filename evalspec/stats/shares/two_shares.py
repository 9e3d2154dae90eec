"""The difference of two shares of separate rows, by a score test; of other estimates by MOVER."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TypeGuard

import numpy as np

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.invert import POWER, far_side
from evalspec.stats.roots import brentq
from evalspec.stats.shares.macro import mover_difference
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.types import FloatArray

FEW_ROWS = 20
"""Rows of a group below which a normal score errs more often."""


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Rows that count, and rows, of two groups, shape (k,) each; without an axis where it is one pair.

    Args:
        first: Rows of the first group that count.
        first_n: Its rows.
        second: Rows of the second group that count.
        second_n: Its rows.
    """

    first: FloatArray
    first_n: FloatArray
    second: FloatArray
    second_n: FloatArray


@dataclass(frozen=True, slots=True)
class SharesApart(Estimate):
    """The first share less the second, of separate, independent rows.

    Args:
        first: The first share.
        second: The second share.

    References:
        Miettinen and Nurminen (1985), Statistics in Medicine 4; Gart and Nam (1990), Biometrics 46, and Laud (2017),
        Pharmaceutical Statistics 16 (skewness).
    """

    first: Proportion
    second: Proportion

    @property
    def value(self) -> float | None:
        """The difference, in -1..1."""
        if self.first.value is None or self.second.value is None:
            return None
        return self.first.value - self.second.value

    @property
    def n(self) -> int:
        """Rows of both."""
        return self.first.n + self.second.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return "Miettinen and Nurminen's score interval, corrected for skewness and continuity"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, by inversion of the score test; the limit where nothing short of it is shown."""
        value, alpha = self.value, 1.0 - confidence
        if value is None:
            return None
        limit = -1.0 if side == "lower" else 1.0
        near, far = (value, limit) if self._p(value, side) > alpha else (-limit, value)
        just_inside = far + (near - far) * 1e-9
        if self._p(just_inside, side) > alpha:
            return far
        return brentq(lambda at: self._p(at, side) - alpha, near * (1.0 - 1e-9), just_inside, xtol=1e-10)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The score test at the threshold."""
        return None if self.value is None else self._p(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows of both, in these shares of groups, for 80 % power; more than 20 times n is given too."""
        from scipy.special import ndtri

        value = self.value
        if far_side(value, threshold) is None or value is None or not -1.0 < threshold < 1.0:
            return None
        counts = self._counts
        null = math.sqrt(float(_variance(counts, *likeliest(counts, threshold))))
        shares = counts.first / counts.first_n, counts.second / counts.second_n
        here = math.sqrt(float(_variance(counts, *shares)))
        reach = -float(ndtri(alpha)) * null + float(ndtri(POWER)) * here
        distance = abs(value - threshold)
        return math.ceil(self.n * ((reach / distance) ** 2 + 2.0 * float(_steps(counts)) / distance))

    @property
    def _counts(self) -> GroupCounts:
        pair = (self.first.successes, self.first.n, self.second.successes, self.second.n)
        return GroupCounts(*(np.asarray(number, dtype=np.float64) for number in pair))

    def _p(self, threshold: float, side: Side) -> float:
        return float(score_p(self._counts, threshold, side))


@dataclass(frozen=True, eq=False)
class Pairs:
    """The differences of many pairs of shares of independent rows, all tested at once.

    Args:
        firsts: shape (k,), the first share of each pair.
        seconds: shape (k,), the second one.
    """

    firsts: Sequence[Proportion]
    seconds: Sequence[Proportion]
    _known: dict[tuple[str, float, Side], FloatArray] = field(default_factory=dict, repr=False)

    @cached_property
    def counts(self) -> GroupCounts:
        """Counts of all pairs."""
        numbers = [(a.successes, a.n, b.successes, b.n) for a, b in zip(self.firsts, self.seconds, strict=True)]
        return GroupCounts(*np.array(numbers, dtype=np.float64).reshape(-1, 4).T)

    def p_values(self, threshold: float, side: Side) -> FloatArray:
        """The score tests at one threshold, shape (k,)."""
        key = ("p", threshold, side)
        if key not in self._known:
            self._known[key] = score_p(self.counts, threshold, side)
        return self._known[key]

    def bounds(self, confidence: float, side: Side) -> FloatArray:
        """One-sided bounds at one confidence, shape (k,), by bisection of the score tests."""
        key = ("bound", confidence, side)
        if key not in self._known:
            self._known[key] = self._bounds(1.0 - confidence, side)
        return self._known[key]

    def _bounds(self, alpha: float, side: Side) -> FloatArray:
        shown = np.full(len(self.firsts), -1.0 if side == "lower" else 1.0)
        not_shown = -shown
        for _ in range(34):
            middle = 0.5 * (shown + not_shown)
            cleared = score_p(self.counts, middle, side) <= alpha
            shown, not_shown = np.where(cleared, middle, shown), np.where(cleared, not_shown, middle)
        return shown


@dataclass(frozen=True, eq=False, slots=True)
class OfPair(Estimate):
    """One of many pairs. As `SharesApart`.

    Args:
        pairs: All of them.
        index: Which.
    """

    pairs: Pairs
    index: int

    @property
    def alone(self) -> SharesApart:
        """The same by itself."""
        return SharesApart(self.pairs.firsts[self.index], self.pairs.seconds[self.index])

    @property
    def value(self) -> float | None:
        """The difference, in -1..1."""
        return self.alone.value

    @property
    def n(self) -> int:
        """Rows of both."""
        return self.alone.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return self.alone.method

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound, by inversion of the score test."""
        return float(self.pairs.bounds(confidence, side)[self.index])

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The score test at the threshold."""
        return float(self.pairs.p_values(threshold, side)[self.index])

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows of both for 80 % power."""
        return self.alone.n_to_decide(threshold, alpha)


def every_pair(parts: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """The differences of all pairs of some estimates of separate rows, named ``a - b``.

    Args:
        parts: The estimates.
    """
    names = list(combinations(parts, 2))
    shares = [part for part in parts.values() if _independent(part) and part.n > 0]
    if len(shares) < len(parts):
        return {f"{a} - {b}": apart(parts[a], parts[b]) for a, b in names}
    known = {name: part for name, part in parts.items() if isinstance(part, Proportion)}
    pairs = Pairs([known[a] for a, _ in names], [known[b] for _, b in names])
    return {f"{a} - {b}": OfPair(pairs, index) for index, (a, b) in enumerate(names)}


def _independent(part: Estimate) -> TypeGuard[Proportion]:
    return isinstance(part, Proportion) and part.clusters is None


def apart(first: Estimate, second: Estimate) -> Estimate:
    """The difference of two estimates of separate rows (rows in both only make its bounds wider than needed).

    Args:
        first: Of one group.
        second: Of another.

    Returns:
        By a score test where both are shares of independent rows, else by MOVER over their bounds.

    References:
        Miettinen and Nurminen (1985), Statistics in Medicine 4; Zou and Donner (2008), Statistics in Medicine 27.
    """
    if _independent(first) and _independent(second):
        return SharesApart(first, second)
    return mover_difference(first, second)


def score_p(counts: GroupCounts, difference: float | FloatArray, side: Side) -> FloatArray:
    """P-values of the score test that first - second lies beyond ``difference``.

    The variance is that of the likeliest shares with this difference; the statistic gives up a quarter of a row of
    each group for continuity and is corrected for skewness. Of all pairs of 20 to 1,000 rows that were tried (shares
    from 0.5 to 0.99, every outcome counted) it errs in at most 5.0 % at 95 % and in 0.19 % at 99.8 %; without the
    quarter rows in 7.6 %. A group of under 20 rows gives up three eighths of one: beside up to 1,000 rows it errs in
    4.0 % and 0.16 %, with a quarter in 6.7 %.

    Args:
        counts: shape (k,) each, or numbers.
        difference: The threshold: a number, or shape (k,).
        side: ``lower``: evidence that it lies above; ``upper``: below.

    Returns:
        shape (k,), or a number.
    """
    from scipy.special import ndtr

    sign = 1.0 if side == "lower" else -1.0
    limited = np.clip(difference, -1.0, 1.0)
    p1, p2 = likeliest(counts, limited)
    variance = _variance(counts, p1, p2)
    third = p1 * (1 - p1) * (1 - 2 * p1) / counts.first_n**2 - p2 * (1 - p2) * (1 - 2 * p2) / counts.second_n**2
    seen = counts.first / counts.first_n - counts.second / counts.second_n
    surplus = sign * (seen - limited) - _steps(counts)
    varies = variance > 1e-15
    safe = np.where(varies, variance, 1.0)
    z = _unskewed(surplus / np.sqrt(safe), sign * third / safe**1.5 / 6.0)
    tails = np.where(varies, ndtr(-z), np.where(surplus > 0.0, 0.0, 1.0))
    # That a difference lies within -1..1 needs no rows.
    known = np.asarray(difference) <= -1.0 if side == "lower" else np.asarray(difference) >= 1.0
    never = np.asarray(difference) >= 1.0 if side == "lower" else np.asarray(difference) <= -1.0
    return np.where(known, 0.0, np.where(never, 1.0, tails))


def likeliest(counts: GroupCounts, difference: float | FloatArray) -> tuple[FloatArray, FloatArray]:
    """The likeliest two shares whose difference is given, by the closed form of the cubic.

    Args:
        counts: shape (k,) each, or numbers.
        difference: first - second, inside -1..1: a number, or shape (k,).

    Returns:
        Both shares, shape (k,) each.

    References:
        Miettinen and Nurminen (1985), Statistics in Medicine 4, appendix; Farrington and Manning (1990), ibid. 9.
    """
    gap = np.asarray(difference)
    x2, n2 = counts.second, counts.second_n
    n, x = counts.first_n + n2, counts.first + x2
    a2 = (n + n2) * gap - n - x
    a1 = (n2 * gap - n - 2 * x2) * gap + x
    a0 = x2 * gap * (1.0 - gap)
    q = (a2 / (3 * n)) ** 3 - a1 * a2 / (6 * n**2) + a0 / (2 * n)
    p = np.where(q >= 0, 1.0, -1.0) * np.sqrt(np.maximum((a2 / (3 * n)) ** 2 - a1 / (3 * n), 0.0))
    ratio = np.where(p == 0.0, 0.0, q / np.where(p == 0.0, 1.0, p**3))
    angle = (np.pi + np.arccos(np.clip(ratio, -1.0, 1.0))) / 3.0
    second = np.clip(2 * p * np.cos(angle) - a2 / (3 * n), np.maximum(0.0, -gap), np.minimum(1.0, 1.0 - gap))
    return np.clip(second + gap, 0.0, 1.0), second


def _variance(counts: GroupCounts, first: FloatArray, second: FloatArray) -> FloatArray:
    n = counts.first_n + counts.second_n
    plain = first * (1 - first) / counts.first_n + second * (1 - second) / counts.second_n
    return np.asarray(plain * n / (n - 1.0))


def _steps(counts: GroupCounts) -> FloatArray:
    """A part of what one row of each group moves the difference: a quarter, and three eighths in groups of few rows."""
    first, second = (np.where(rows < FEW_ROWS, 0.375, 0.25) / rows for rows in (counts.first_n, counts.second_n))
    return np.asarray(first + second)


def _unskewed(z: FloatArray, sixth: FloatArray) -> FloatArray:
    """Scores as `without_skewness`, over arrays."""
    skewed = np.abs(sixth) >= 1e-9
    discriminant = 1.0 + 4.0 * sixth * (z + sixth)
    root = 2.0 * (z + sixth) / (1.0 + np.sqrt(np.maximum(discriminant, 0.0)))
    beyond = -0.5 / np.where(skewed, sixth, 1.0)
    return np.where(skewed, np.where(discriminant > 0.0, root, beyond), z)

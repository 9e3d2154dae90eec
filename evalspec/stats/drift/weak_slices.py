"""Number of weak slices: candidates of one half of the rows, confirmed on the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.drift.discovery import CANDIDATES, LEAST, PARENT_Z, luck_z

IMPRECISE = 0.9
"""A search cuts a slice not quite as it is: that much of its gap is taken to be left."""
SMALLER = 0.67
"""And it may find but so much of its rows: where a test needs some number of rows, that many must do."""
ROWS_MOST = 10**9


@dataclass(frozen=True, slots=True)
class Planted:
    """A weak slice that a search should find, and the search.

    Args:
        share: Of the rows, in 0..1.
        gap: How much higher its mean loss is than that of the rest.
        tolerance: A slice is weak where its mean loss is higher than that of the rest by more than this.
        inside: Standard deviation of its losses.
        outside: Standard deviation of the losses of the rest.
        columns: That are looked through.
        crosses: Every two of them are crossed.
        design_effect: Of the losses; 1 where rows are independent.
        fewest: Rows that a slice must have in the confirming half to be tested at all.
    """

    share: float
    gap: float
    tolerance: float
    inside: float
    outside: float
    columns: int
    crosses: bool
    design_effect: float = 1.0
    fewest: int = 0

    def power(self, n: int, alpha: float, others: int = 1) -> float:
        """Chance that it is found on one half of the rows and confirmed on the other, by normal approximation.

        The slice is taken for a cross where crosses are looked for: these are harder to find.

        Args:
            n: Rows, of both halves.
            alpha: Level over all candidates.
            others: Candidates beside it.
        """
        from scipy.special import ndtr, ndtri

        rows = 0.5 * n * self.share / self.design_effect
        rest = 0.5 * n * (1.0 - self.share) / self.design_effect
        if rows < max(1.0, self.fewest / SMALLER) or not self.columns:
            return 0.0
        gap = IMPRECISE * self.gap
        overall = math.sqrt((1.0 - self.share) * self.outside**2 + self.share * self.inside**2)
        scale = math.sqrt(self.inside**2 / rows + self.outside**2 / rest)
        under = overall * math.sqrt(1.0 / rows + 1.0 / rest)
        if scale <= 0.0:
            return 0.0
        crossed = self.crosses and self.columns > 1
        families = self.columns * (self.columns - 1) // 2 if crossed else self.columns
        needed = LEAST + float(luck_z(families, np.asarray(self.share)))
        chance = float(ndtr((gap - needed * under) / scale))
        if crossed:
            # Beside a part twice as large, of which half is left.
            halves = math.sqrt(self.inside**2 / rows + self.outside**2 / rows)
            chance *= float(ndtr((gap - PARENT_Z * overall * math.sqrt(2.0 / rows)) / halves))
        level = alpha / min(CANDIDATES, others + 1)
        confirmed = float(ndtr((gap - self.tolerance + float(ndtri(level)) * under) / scale))
        return chance * confirmed

    def rows_for(self, power: float, alpha: float, others: int = 1) -> int | None:
        """Rows from which on the power is reached; None: beyond all that could be collected."""
        low, high = 2, 4
        while self.power(high, alpha, others) < power:
            low, high = high, 2 * high
            if high > ROWS_MOST:
                return None
        while high - low > max(1, low // 200):
            middle = (low + high) // 2
            low, high = (middle, high) if self.power(middle, alpha, others) < power else (low, middle)
        return high


@dataclass(frozen=True, slots=True)
class WeakSlices(Estimate):
    """Number of weak slices.

    That there are more than some number is shown by the candidates' p-values on rows that did not find them (Holm).
    That there are not is shown by having found no more, where a weak slice of a stated size would have been found:
    the chance to miss one is the p-value.

    Args:
        p_values: Of the candidates, each that it is weak, on the confirming half; None: its rows show nothing.
        n: Rows of both halves.
        planted: The weak slice that must not be missed.
        what: The same in words.
        confidence: At which slices are counted.

    References:
        Holm (1979), Scandinavian Journal of Statistics 6; Cox (1975), Biometrika 62 (one half finds, the other tests).
    """

    p_values: tuple[float | None, ...]
    n: int
    planted: Planted
    what: str
    confidence: float

    @property
    def value(self) -> float:
        """Confirmed slices."""
        return float(len(self.confirmed(self.confidence)))

    @property
    def power(self) -> float:
        """Chance that a weak slice of the stated size is confirmed."""
        return self.planted.power(self.n, 1.0 - self.confidence, self._others)

    @property
    def method(self) -> str:
        """Method of the decision."""
        count = len(self.p_values)
        candidates = f"{count} candidate{'' if count == 1 else 's'}"
        text = f"Holm over {candidates} on the half of the rows that did not find them"
        if self.untested:
            words = "its rows carry" if self.untested == 1 else "their rows carry"
            return f"{text}; no bound: {self.untested} of them can't be tested, {words} no bound"
        if 1.0 - self.power <= 1.0 - self.confidence:
            return text
        return f"{text}; no bound: {self.chance()}"

    @property
    def untested(self) -> int:
        """Candidates of which nothing is known."""
        return self.p_values.count(None)

    def chance(self) -> str:
        """Chance that the search finds a weak slice, in words."""
        text = f"{self.what} would be found in {math.floor(100.0 * self.power)} % of runs"
        rows = self.planted.rows_for(self.confidence, 1.0 - self.confidence, self._others)
        if self.power >= self.confidence or rows is None:
            return text
        return f"{text}; about {_two_digits(rows):,} rows find it in {100.0 * self.confidence:g} %"

    def confirmed(self, confidence: float) -> tuple[int, ...]:
        """Indices of the candidates that Holm's procedure confirms, best first."""
        alpha, k = 1.0 - confidence, len(self.p_values)
        order = sorted(range(k), key=self._p)
        short = next((i for i, index in enumerate(order) if self._p(index) > alpha / (k - i)), k)
        return tuple(order[:short])

    def adjusted(self) -> tuple[float, ...]:
        """Holm's p-values, one for each candidate; 1 where nothing is known of it."""
        k, highest = len(self.p_values), 0.0
        p_values = [1.0] * k
        for i, index in enumerate(sorted(range(k), key=self._p)):
            highest = max(highest, min(1.0, (k - i) * self._p(index)))
            p_values[index] = highest
        return tuple(p_values)

    def bound(self, confidence: float, side: Side) -> float | None:
        """``lower``: slices confirmed at this confidence. ``upper``: the same, where one more would not be missed."""
        count = float(len(self.confirmed(confidence)))
        if side == "lower":
            return count
        return self.value if self.p_value(self.value, "upper") <= 1.0 - confidence else None

    def p_value(self, threshold: float, side: Side) -> float:
        """``lower``: evidence that there are more than ``threshold``; ``upper``: that there are not."""
        allowed = math.floor(threshold + 1e-9)
        if allowed < 0:
            return 0.0 if side == "lower" else 1.0
        if side == "lower":
            ranked = sorted(self.adjusted())
            return ranked[allowed] if allowed < len(ranked) else 1.0
        if self.untested:
            # Each of them may be weak.
            return 1.0
        missed = (allowed + 1) * (1.0 - self.power)
        return min(1.0, missed) if self.value <= allowed else 1.0

    def _p(self, index: int) -> float:
        p = self.p_values[index]
        return 1.0 if p is None else p

    @property
    def _others(self) -> int:
        return max(1, len(self.p_values))


def _two_digits(number: int) -> int:
    """Rounded up to two digits."""
    step = int(10 ** max(0, len(str(number)) - 2))
    return math.ceil(number / step) * step

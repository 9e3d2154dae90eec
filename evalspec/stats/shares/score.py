"""The score test of a mean over four kinds of pair: Tango's for a difference, and the same for any factor."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evalspec.evidence.estimate import Side


@dataclass(frozen=True, slots=True)
class PairTable:
    """Pairs by what both models did; not whole numbers where they were divided by a design effect.

    Args:
        both: Both are right.
        candidate_only: Only the candidate is right.
        baseline_only: Only the baseline is right.
        neither: Both are wrong.
    """

    both: float
    candidate_only: float
    baseline_only: float
    neither: float

    @property
    def n(self) -> float:
        """Pairs."""
        return self.both + self.candidate_only + self.baseline_only + self.neither

    def scaled(self, by: float) -> PairTable:
        """Table with all counts times a number."""
        return PairTable(self.both * by, self.candidate_only * by, self.baseline_only * by, self.neither * by)

    def difference(self, factor: float) -> float:
        """Share of right answers of the candidate minus ``factor`` times that of the baseline."""
        right = self.both + self.candidate_only
        return (right - factor * (self.both + self.baseline_only)) / self.n

    def cells(self, factor: float) -> tuple[tuple[float, float], ...]:
        """(score, pairs) of the four kinds."""
        return (
            (1.0 - factor, self.both),
            (1.0, self.candidate_only),
            (-factor, self.baseline_only),
            (0.0, self.neither),
        )


@dataclass(frozen=True, slots=True)
class Moments:
    """Variance and third central moment of one pair's score under the hypothesis."""

    variance: float
    third: float


def moments_under(table: PairTable, factor: float, difference: float) -> Moments:
    """Moments of a pair's score at the likeliest shares whose mean score is ``difference``.

    Args:
        table: The pairs.
        factor: K of candidate - K x baseline.
        difference: The mean score under the hypothesis, inside (-factor, 1).

    Returns:
        Variance and third central moment.
    """
    cells = [(score - difference, count) for score, count in table.cells(factor)]
    lowest, highest = -factor - difference, 1.0 - difference
    multiplier = _multiplier(cells, -1.0 / highest, -1.0 / lowest)
    variance = third = mass = 0.0
    for score, count in cells:
        if count > 0:
            share = count / (table.n * max(1.0 + multiplier * score, 1e-300))
            mass += share
            variance += share * score**2
            third += share * score**3
    # What is left belongs to a kind of pair that was not seen, at the end that the hypothesis needs.
    edge = highest if multiplier < 0 else lowest
    rest = max(0.0, 1.0 - mass)
    return Moments(variance + rest * edge**2, third + rest * edge**3)


def _multiplier(cells: list[tuple[float, float]], low: float, high: float) -> float:
    """Lagrange's multiplier of the constraint on the mean: root of a falling function, by Newton inside a bracket."""
    seen = [(score, count) for score, count in cells if count > 0]

    def slope(multiplier: float) -> tuple[float, float]:
        total = steepness = 0.0
        for score, count in seen:
            part = score / max(1.0 + multiplier * score, 1e-12)
            total += count * part
            steepness += count * part * part
        return total, steepness

    if slope(high)[0] >= 0:
        return high
    if slope(low)[0] <= 0:
        return low
    lowest, highest, at = low, high, 0.0
    for _ in range(100):
        total, steepness = slope(at)
        low, high = (at, high) if total > 0 else (low, at)
        following = at + total / steepness
        inside = low <= following <= high
        if not inside:
            following = 0.5 * (low + high)
        # Newton doubles the digits: after such a step there is nothing left to gain.
        near = min(following - lowest, highest - following)
        if abs(following - at) <= (1e-9 if inside else 1e-16) * near:
            return following
        at = following
    return at


def score_z(table: PairTable, factor: float, difference: float, side: Side) -> float:
    """Normal score of the evidence that candidate - factor x baseline lies beyond ``difference``.

    The score statistic has half a pair of continuity correction and Cornish and Fisher's correction for skewness;
    without them its error at small levels is up to three times too large where few pairs are discordant.

    Args:
        table: The pairs.
        factor: K.
        difference: The threshold.
        side: ``lower``: evidence that it lies above; ``upper``: below.

    Returns:
        z: large where the evidence is strong.

    References:
        Tango (1998), Statistics in Medicine 17; Nam and Blackwelder (2002), Statistics in Medicine 21;
        Gart and Nam (1990), Biometrics 46 (skewness); Laud (2017), Pharmaceutical Statistics 16.
    """
    sign = 1.0 if side == "lower" else -1.0
    if difference <= -factor:
        return sign * math.inf
    if difference >= 1.0:
        return -sign * math.inf
    n = table.n
    moments = moments_under(table, factor, difference)
    surplus = sign * n * (table.difference(factor) - difference) - 0.5
    if moments.variance <= 0.0 or n <= 1.0:
        return -math.inf
    spread = math.sqrt(n * moments.variance * n / (n - 1.0))
    return without_skewness(surplus / spread, sign * moments.third / moments.variance**1.5 / (6.0 * math.sqrt(n)))


def without_skewness(z: float, sixth: float) -> float:
    """Normal score of a standardised sum with a sixth of its skewness ``sixth``: solves z = x + sixth (x^2 - 1).

    Where there is no solution z lies beyond what the expansion can tell, and its vertex is the cautious answer.
    """
    if abs(sixth) < 1e-9:
        return z
    discriminant = 1.0 + 4.0 * sixth * (z + sixth)
    if discriminant <= 0.0:
        return -0.5 / sixth
    # The form that does not cancel for small skewness.
    return 2.0 * (z + sixth) / (1.0 + math.sqrt(discriminant))

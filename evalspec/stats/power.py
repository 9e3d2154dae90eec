"""Power of a requirement before it is measured: headroom, violation, chance of PASS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from evalspec.evidence.estimate import Side
from evalspec.stats.invert import POWER, Falling
from evalspec.stats.shares.proportion import binomial_power
from evalspec.stats.shares.score import PairTable, moments_under

Better = Literal["lower", "higher"]


class Design(Protocol):
    """A planned measurement: how likely its one-sided test is significant if the parameter has a true value."""

    @property
    def assumed(self) -> str:
        """The nuisance values that it rests on, in words."""
        ...

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest value that the parameter may have."""
        ...

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that ``side`` of ``threshold`` is shown at level alpha."""
        ...


@dataclass(frozen=True, slots=True)
class Detectable:
    """Headroom and violation that a requirement can detect.

    Args:
        headroom: How far on the good side of the threshold the truth must lie for PASS to come out with the wanted
            chance; None: no possible truth is far enough.
        violation: How far on the bad side for FAIL to come out in 80 % after Holm; None likewise.
        pass_chance: The wanted chance.
        assumed: The nuisance values that both rest on.
    """

    headroom: float | None
    violation: float | None
    pass_chance: float
    assumed: str


@dataclass(frozen=True, slots=True)
class ProportionDesign:
    """A share of n rows, by the binomial test (exact).

    Args:
        n: Rows.
        design_effect: Variance over that of independent rows.
    """

    n: int
    design_effect: float = 1.0

    @property
    def assumed(self) -> str:
        """The design effect."""
        return "independent rows" if self.design_effect == 1.0 else f"design effect {self.design_effect:.3g}"

    @property
    def limits(self) -> tuple[float, float]:
        """0..1."""
        return (0.0, 1.0)

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that the binomial test is significant on this side, from the binomial distribution itself."""
        import numpy as np

        from evalspec.stats.binomial import above, rarely_above

        n = math.floor(self.n / self.design_effect)
        if n < 1 or not 0.0 < threshold < 1.0:
            return 0.0
        if (truth > threshold) == (side == "lower") and truth != threshold:
            return float(binomial_power(np.array([float(n)]), truth, threshold, alpha)[0])
        if side == "lower":
            return float(above(rarely_above(alpha, n, threshold), n, truth))
        return float(above(rarely_above(alpha, n, 1.0 - threshold), n, 1.0 - truth))


@dataclass(frozen=True, slots=True)
class PairedDesign:
    """A difference of two shares of the same n rows, by the score test.

    Args:
        n: Rows.
        discordance: Share of rows on which exactly one model is right, at a difference of 0; it is taken to be at
            least as large as the difference.
        design_effect: Variance over that of independent rows.
    """

    n: int
    discordance: float
    design_effect: float = 1.0

    @property
    def assumed(self) -> str:
        """Discordance and design effect."""
        text = f"discordance {100 * self.discordance:.3g} %"
        return text if self.design_effect == 1.0 else f"{text}, design effect {self.design_effect:g}"

    @property
    def limits(self) -> tuple[float, float]:
        """-1..1."""
        return (-1.0, 1.0)

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that the score test is significant, by its normal approximation."""
        from scipy.special import ndtr, ndtri

        n = self.n / self.design_effect
        if n < 2 or not -1.0 < threshold < 1.0:
            return 0.0
        discordant = max(self.discordance, abs(truth))
        table = PairTable(0.0, n * (discordant + truth) / 2, n * (discordant - truth) / 2, n * (1.0 - discordant))
        null = math.sqrt(moments_under(table, 1.0, threshold).variance / n)
        spread = math.sqrt(max(discordant - truth**2, 1e-12) / n)
        distance = (truth - threshold) * (1.0 if side == "lower" else -1.0) - 0.5 / n
        return float(ndtr((distance + float(ndtri(alpha)) * null) / spread))


@dataclass(frozen=True, slots=True)
class NormalDesign:
    """Any estimate whose error is roughly normal: a mean, an AUC, a resampled statistic.

    Args:
        standard_error: At the planned n.
        source: Where the standard error comes from, in words.
        lowest: Smallest value that the parameter may have.
        highest: Largest.
        passes: The side that a PASS shows.
        beyond_error: The standard error on the other side: skewed losses have unlike ones; None: the same.
    """

    standard_error: float
    source: str
    lowest: float = -math.inf
    highest: float = math.inf
    passes: Side = "lower"
    beyond_error: float | None = None

    @property
    def assumed(self) -> str:
        """Standard error, and where it comes from."""
        return f"standard error {self.standard_error:.3g} ({self.source})"

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest value of the parameter."""
        return (self.lowest, self.highest)

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that Wald's test is significant."""
        from scipy.special import ndtr, ndtri

        error = self.standard_error if side == self.passes or self.beyond_error is None else self.beyond_error
        if error <= 0:
            return 0.0
        distance = (truth - threshold) * (1.0 if side == "lower" else -1.0)
        return float(ndtr(distance / error + float(ndtri(alpha))))


def chance_of_pass(design: Design, truth: float, threshold: float, better: Better, alpha: float) -> float:
    """Chance of PASS if the parameter is ``truth``.

    Args:
        design: What will be measured.
        truth: The assumed true value.
        threshold: The requirement's.
        better: The metric's direction.
        alpha: 1 - confidence.
    """
    return design.power(truth, threshold, "lower" if better == "higher" else "upper", alpha)


def chance_of_fail(design: Design, truth: float, threshold: float, better: Better, alpha: float) -> float:
    """Chance of FAIL at level alpha (Holm's strictest) if the parameter is ``truth``."""
    return design.power(truth, threshold, "upper" if better == "higher" else "lower", alpha)


def detectable(
    design: Design, threshold: float, better: Better, *, alpha_pass: float, alpha_fail: float, family: int
) -> Detectable:
    """Headroom at which PASS comes out with probability 1 - 0.1/m, violation at which FAIL comes out in 80 %.

    Args:
        design: What will be measured.
        threshold: The requirement's.
        better: The metric's direction.
        alpha_pass: 1 - confidence.
        alpha_fail: Level of a FAIL, Holm's strictest: (1 - confidence) / m.
        family: m, the requirements decided from samples.

    Returns:
        Both distances from the threshold, in the parameter's unit.
    """
    wanted = 1.0 - 0.1 / max(family, 1)
    good = 1.0 if better == "higher" else -1.0

    def passes(truth: float) -> float:
        return chance_of_pass(design, truth, threshold, better, alpha_pass)

    def fails(truth: float) -> float:
        return chance_of_fail(design, truth, threshold, better, alpha_fail)

    headroom = _distance(design, threshold, good, wanted, passes)
    violation = _distance(design, threshold, -good, POWER, fails)
    return Detectable(headroom, violation, wanted, design.assumed)


def t_power(effect: float, n: float, alpha: float) -> float:
    """Chance that a one-sided t test over n values is significant.

    Args:
        effect: Distance of the truth from the threshold, in standard deviations; negative on the wrong side.
        n: Values.
        alpha: One-sided level.

    References:
        Cohen (1988), Statistical Power Analysis, chapter 2.
    """
    from scipy.special import nctdtr, ndtr, stdtrit

    # Beyond a noncentrality of 35 nctdtr loses its digits; the normal distribution is exact enough there.
    noncentrality = max(-35.0, min(35.0, effect * math.sqrt(n)))
    critical = float(stdtrit(n - 1.0, 1.0 - alpha))
    below = float(nctdtr(n - 1.0, noncentrality, critical))
    return 1.0 - below if math.isfinite(below) else float(ndtr(noncentrality - critical))


def values_for_t(effect: float, alpha: float, power: float = POWER) -> int:
    """Values at which a one-sided t test has the wanted power.

    Args:
        effect: Distance of the truth from the threshold, in standard deviations, positive.
        alpha: One-sided level.
        power: Wanted chance of significance.
    """
    from scipy.special import ndtri

    about = ((float(ndtri(power)) - float(ndtri(alpha))) / effect) ** 2
    if about > 1e4:
        return math.ceil(about)
    low, high = 1, max(4, 2 * math.ceil(about) + 40)
    while t_power(effect, high, alpha) < power and high < 10**7:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if middle >= 2 and t_power(effect, middle, alpha) >= power:
            high = middle
        else:
            low = middle
    return high


def _distance(
    design: Design, threshold: float, direction: float, wanted: float, chance: Callable[[float], float]
) -> float | None:
    """The smallest distance from the threshold from which on the chance is at least as wanted."""
    limit = design.limits[1] if direction > 0 else design.limits[0]
    far = abs(limit - threshold) if math.isfinite(limit) else _reach(threshold, direction, wanted, chance)
    if far is None or far <= 0 or chance(threshold + direction * far) < wanted:
        return None
    short = Falling(lambda at: wanted - chance(threshold + direction * at)).crossing(0.0)
    short.close_in(0.0, far, float, far * 2.0**-50)
    near = 0.0
    for _ in range(50):
        middle = 0.5 * (near + far)
        near, far = (near, middle) if short.reached(middle) else (middle, far)
    return far


def _reach(threshold: float, direction: float, wanted: float, chance: Callable[[float], float]) -> float | None:
    """A distance that is far enough where the parameter has no limit."""
    far = max(abs(threshold), 1e-6) * 1e-3
    for _ in range(80):
        if chance(threshold + direction * far) >= wanted:
            return far
        far *= 2.0
    return None

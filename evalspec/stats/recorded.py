"""Design of a share's measurement, inferred from an earlier record."""

from __future__ import annotations

import math

from evalspec.errors import InputError
from evalspec.stats.power import ProportionDesign


def recorded_proportion(value: float, bound: float, confidence: float, n: int) -> ProportionDesign:
    """A design of a share from its value and one of its one-sided bounds in an earlier record.

    The design effect is what makes the bound that of Clopper and Pearson: n by the independent rows that would give it.

    Args:
        value: The recorded share, 0..1.
        bound: Its bound, 0..1.
        confidence: Of the bound.
        n: Rows or queries, then and planned.

    Raises:
        InputError: The confidence, n or the numbers can't be.
    """
    if not 0.5 < confidence < 1.0 or n < 1 or not (0.0 <= value <= 1.0 and 0.0 <= bound <= 1.0):
        raise InputError(f"no design from the share {value:g} with the bound {bound:g} at {confidence:g}, n {n}")
    # From above a share is what its complement is from below.
    share, edge = (value, bound) if bound > value else (1.0 - value, 1.0 - bound)
    few, many = 1.0, float(n)
    if _upper(share, many, confidence) >= edge:
        return ProportionDesign(n)
    for _ in range(60):
        middle = math.sqrt(few * many)
        if _upper(share, middle, confidence) > edge:
            few = middle
        else:
            many = middle
    return ProportionDesign(n, n / many)


def _upper(share: float, n: float, confidence: float) -> float:
    """Clopper and Pearson's upper bound of a share of n rows, which need not be whole."""
    from scipy.special import betaincinv

    return 1.0 if share >= 1.0 else float(betaincinv(share * n + 1.0, (1.0 - share) * n, confidence))

"""The change of a number from one run to another, from the value and the bounds that each of them recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass

LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, slots=True)
class Bounded:
    """A number as one run recorded it.

    Args:
        value: The number.
        lower, upper: Its one-sided bounds, each at ``confidence``; None: there is none.
        confidence: Of each bound.
        degrees: Degrees of freedom of its spread; None: many.
    """

    value: float
    lower: float | None
    upper: float | None
    confidence: float
    degrees: float | None = None

    def reach(self, alpha: float, *, down: bool, log: bool) -> float | None:
        """Distance of the bound at level ``alpha`` from the value, on the side asked for; None: there is none."""
        from scipy.special import ndtri, stdtrit

        bound = self.lower if down else self.upper
        if bound is None or not 0.5 < self.confidence < 1.0 or (log and (bound <= 0.0 or self.value <= 0.0)):
            return None
        apart = abs(math.log(bound / self.value)) if log else abs(bound - self.value)
        if self.degrees is None:
            return apart * float(ndtri(1.0 - alpha) / ndtri(self.confidence))
        if self.degrees < 1.0:
            return None
        return apart * float(stdtrit(self.degrees, 1.0 - alpha) / stdtrit(self.degrees, self.confidence))


@dataclass(frozen=True, slots=True)
class Change:
    """Change from one run to another.

    Args:
        value: Difference, or ratio.
        lower, upper: One-sided bounds at the level asked for; None: there is none.
        is_ratio: After by before.
    """

    value: float
    lower: float | None
    upper: float | None
    is_ratio: bool

    @property
    def none(self) -> float:
        """No change at all."""
        return 1.0 if self.is_ratio else 0.0


def change(before: Bounded, after: Bounded, alpha: float, *, ratio: bool) -> Change:
    """Difference or ratio of two independent numbers, by MOVER over the recorded bounds.

    Bounds are carried to another level by the ratio of normal quantiles, or of Student's where the degrees of freedom
    are known.

    Args:
        before: Of the earlier run.
        after: Of the later run.
        alpha: One-sided level of each bound of the change.
        ratio: After by before, on the logarithm; both values must be positive.

    References:
        Zou and Donner (2008), Construction of confidence limits about effect measures, Statistics in Medicine 27.
    """
    down = _joined(after.reach(alpha, down=True, log=ratio), before.reach(alpha, down=False, log=ratio))
    up = _joined(after.reach(alpha, down=False, log=ratio), before.reach(alpha, down=True, log=ratio))
    if ratio:
        value = after.value / before.value
        lower = None if down is None else value * math.exp(-down)
        # Beyond what a float holds there is no bound.
        upper = None if up is None or up > LARGEST_EXPONENT else value * math.exp(up)
        return Change(value, lower, upper, is_ratio=True)
    value = after.value - before.value
    return Change(value, None if down is None else value - down, None if up is None else value + up, is_ratio=False)


def _joined(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else math.hypot(one, other)

"""Requirements over many parts: partial conjunction of the parts' p-values, and bounds as its inversion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.evidence.words import plural
from evalspec.stats.shares.two_shares import every_pair

Better = Literal["lower", "higher"]


def partial_conjunction(p_values: Sequence[float], holding: int) -> float:
    """Evidence that at least so many of the claims hold, whatever their dependence.

    Args:
        p_values: One for each claim.
        holding: u, the claims that must hold.

    Returns:
        (K - u + 1) x the u-th smallest p-value, at most 1; 0 where nothing must hold.

    References:
        Benjamini and Heller (2008), Screening for partial conjunction hypotheses, Biometrics 64.
    """
    if holding <= 0:
        return 0.0
    if holding > len(p_values):
        return 1.0
    return min(1.0, (len(p_values) - holding + 1) * sorted(p_values)[holding - 1])


def must_hold(parts: int, share: float) -> int:
    """u: parts that must hold where at most ``share`` of them (0..1) may not."""
    # 1e-9: 0.29 x 100 is 28.999...
    return parts - math.floor(share * parts + 1e-9)


@dataclass(frozen=True)
class AllParts(Estimate):
    """The worst of several parts: a ``worst_`` metric, or a sentence without PART over a metric that has parts.

    That it is better than a threshold is shown when every part is (the largest p-value); that it is worse, when some
    part is (Bonferroni). A part without bounds keeps the first from being shown and counts as 1 in the second.

    Args:
        parts: The estimates, at least one.
        better: The metric's direction; the worst part is the smallest where higher is better.

    References:
        Benjamini and Heller (2008), Biometrics 64.
    """

    parts: Mapping[str, Estimate] = field()
    better: Better

    def __post_init__(self) -> None:
        """Refuse an empty set of parts."""
        _at_least_one(self.parts)

    @property
    def part_threshold(self) -> float | None:
        """No threshold of its own: each part is held against the requirement's."""
        return None

    @property
    def holding_side(self) -> Side:
        """The side of evidence that a part holds."""
        return "lower" if self.better == "higher" else "upper"

    @cached_property
    def worst(self) -> str | None:
        """Name of the part with the worst value; None where none has a value."""
        known = {name: part.value for name, part in self.parts.items() if part.value is not None}
        if not known:
            return None
        return (min if self.better == "higher" else max)(known, key=lambda name: known[name])

    @property
    def value(self) -> float | None:
        """Value of the worst part."""
        return None if self.worst is None else self.parts[self.worst].value

    @property
    def n(self) -> int:
        """Rows of the worst part."""
        return 0 if self.worst is None else self.parts[self.worst].n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        parts = plural(len(self.parts), "part")
        return f"worst of {parts} (all must hold; Bonferroni for a violation): {_methods(self.parts)}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound of the worst part's parameter."""
        inner = min if self.better == "higher" else max
        if side == self.holding_side:
            limits = [part.bound(confidence, side) for part in self.parts.values()]
            known = [limit for limit in limits if limit is not None]
            return inner(known) if len(known) == len(limits) else None
        stricter = 1.0 - (1.0 - confidence) / len(self.parts)
        limits = [part.bound(stricter, side) for part in self.parts.values()]
        known = [limit for limit in limits if limit is not None]
        return inner(known) if known else None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Evidence that all parts hold, or that one does not."""
        p_values = [part.p_value(threshold, side) for part in self.parts.values()]
        known = [p for p in p_values if p is not None]
        if not known:
            return None
        if side == self.holding_side:
            return max(known) if len(known) == len(p_values) else None
        return partial_conjunction([*known, *[1.0] * (len(p_values) - len(known))], 1)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows of the part that needs most to hold, or (where one is violated) least to show it.

        Parts are taken to be decided one by one; holding, each at the power whose product is 80 %, is told roughly.
        """
        if self.value is None or self.value == threshold:
            return None
        higher = self.better == "higher"
        if (self.value > threshold) == higher:
            needed = [part.n_to_decide(threshold, alpha) for part in self.parts.values()]
            known = [n for n in needed if n is not None]
            return max(known) if len(known) == len(needed) else None
        violated = [p for p in self.parts.values() if p.value is not None and (p.value > threshold) != higher]
        known = [n for p in violated if (n := p.n_to_decide(threshold, alpha / len(self.parts))) is not None]
        return min(known) if known else None


@dataclass(frozen=True)
class ShareOfParts(Estimate):
    """The share of parts that don't hold: ``drifted_columns <= 10 %``.

    Args:
        parts: The estimates, at least one.
        part_threshold: What each part is held against, in the parts' unit.
        better: Direction of the parts.

    References:
        Benjamini and Heller (2008), Biometrics 64.
    """

    parts: Mapping[str, Estimate] = field()
    part_threshold: float = field()
    better: Better = "lower"

    def __post_init__(self) -> None:
        """Refuse an empty set of parts."""
        _at_least_one(self.parts)

    @property
    def value(self) -> float | None:
        """Share, in 0..1, of parts whose value is beyond the threshold; None where a part has no value."""
        values = [part.value for part in self.parts.values()]
        if any(value is None for value in values):
            return None
        return sum(self._violated(value) for value in values if value is not None) / len(values)

    @property
    def n(self) -> int:
        """Rows of the smallest part."""
        return min(part.n for part in self.parts.values())

    @property
    def method(self) -> str:
        """Method of the bounds."""
        against = f"partial conjunction over {plural(len(self.parts), 'part')} compared with {self.part_threshold:g}"
        return f"{against}: {_methods(self.parts)}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound of the share of parts that are violated, in 0..1."""
        alpha, k = 1.0 - confidence, len(self.parts)
        p_values = self._p_values(side)
        if p_values is None:
            return None
        if side == "upper":
            return next(j / k for j in range(k + 1) if partial_conjunction(p_values, k - j) <= alpha)
        return next(j / k for j in range(k, -1, -1) if partial_conjunction(p_values, j) <= alpha)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """``upper``: evidence that at most this share is violated; ``lower``: that more are."""
        p_values = self._p_values(side)
        if p_values is None:
            return None
        holding = must_hold(len(self.parts), threshold)
        return partial_conjunction(p_values, holding if side == "upper" else len(self.parts) - holding + 1)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Rows at which as many parts as are needed are decided, each at its corrected level."""
        value, k = self.value, len(self.parts)
        if value is None:
            return None
        holding = must_hold(k, threshold)
        # A share on the threshold holds: the sentence says "at most".
        holds = value * k <= k - holding + 1e-9
        claims = holding if holds else k - holding + 1
        level = alpha / (k - claims + 1) if claims else alpha
        ready = [p for p in self.parts.values() if p.value is not None and self._violated(p.value) != holds]
        needed = sorted(n for p in ready if (n := p.n_to_decide(self.part_threshold, level)) is not None)
        return needed[claims - 1] if 0 < claims <= len(needed) else None

    def _violated(self, value: float) -> bool:
        return value > self.part_threshold if self.better == "lower" else value < self.part_threshold

    def _p_values(self, side: Side) -> list[float] | None:
        """p-values of the parts' claims: ``upper``: each holds; ``lower``: each is violated. None: none can say."""
        towards: Side = side if self.better == "lower" else ("lower" if side == "upper" else "upper")
        p_values = [part.p_value(self.part_threshold, towards) for part in self.parts.values()]
        if all(p is None for p in p_values):
            return None
        return [1.0 if p is None else p for p in p_values]


@dataclass(frozen=True, slots=True)
class AbsoluteDifference(Estimate):
    """Distance between two parts, in either direction.

    Args:
        signed: Their difference.
    """

    signed: Estimate

    @property
    def value(self) -> float | None:
        """The distance."""
        return None if self.signed.value is None else abs(self.signed.value)

    @property
    def n(self) -> int:
        """Rows of both."""
        return self.signed.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"{self.signed.method}, either direction"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound; from below each direction has half the level."""
        level = confidence if side == "upper" else 1.0 - (1.0 - confidence) / 2.0
        above, below = self.signed.bound(level, "upper"), self.signed.bound(level, "lower")
        if above is None or below is None:
            return None
        return max(above, -below, 0.0) if side == "upper" else max(below, -above, 0.0)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Closer than the threshold: both directions are shown; further: one is, at half the level."""
        if threshold < 0.0:
            return None if self.signed.value is None else float(side == "upper")
        beyond: Side = "lower" if side == "lower" else "upper"
        opposite: Side = "upper" if side == "lower" else "lower"
        first, second = self.signed.p_value(threshold, beyond), self.signed.p_value(-threshold, opposite)
        if first is None or second is None:
            return None
        return max(first, second) if side == "upper" else min(1.0, 2.0 * min(first, second))

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Number that decides the difference, in the direction in which it lies."""
        if self.value is None or self.signed.value is None or self.value == threshold:
            return None
        level = alpha if self.value < threshold else alpha / 2.0
        return self.signed.n_to_decide(math.copysign(threshold, self.signed.value), level)


class Gap(AllParts):
    """The largest difference between two parts; its own parts are the pairs, named ``a - b``.

    Args:
        parts: The estimates of the parts, at least two.

    Raises:
        InputError: There are fewer than two parts.
    """

    def __init__(self, parts: Mapping[str, Estimate]) -> None:
        """Make the pairs."""
        if len(parts) < 2:
            raise InputError(f"a gap needs two parts, here are {len(parts)}")
        super().__init__({name: AbsoluteDifference(pair) for name, pair in every_pair(parts).items()}, "lower")


def _at_least_one(parts: Mapping[str, Estimate]) -> None:
    if not parts:
        raise InputError("there are no parts to hold", remedy="name slices or columns that exist")


def _methods(parts: Mapping[str, Estimate]) -> str:
    kinds = list(dict.fromkeys(part.method for part in parts.values()))
    return kinds[0] if len(kinds) == 1 else f"{kinds[0]} and {len(kinds) - 1} other"

"""Ratings of a system under load: the highest rate within an objective, goodput, the factor of a spike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.invert import p_from_bounds

_OTHER: dict[Side, Side] = {"lower": "upper", "upper": "lower"}


@dataclass(frozen=True)
class MaxRate(Estimate):
    """The highest rate at which a latency objective holds.

    That it is at least R is the claim that the objective holds at R, and is decided by the run at R alone. Bounds in
    print go up (down) from rate to rate as long as each shows that the objective holds (is missed), a fixed sequence,
    so that several rates take no share of the level from each other.

    Args:
        at: Rate in qps: the latency there, in ms; at least one.
        limit_ms: The objective.
        found: A rate that a search found and a run on fresh queries confirmed, or None.
    """

    at: Mapping[float, Estimate]
    limit_ms: float
    found: float | None = None

    @property
    def value(self) -> float | None:
        """The highest rate below the first at which the objective was missed in the run; None where there is none."""
        held = {rate: one.value is not None and one.value <= self.limit_ms for rate, one in self.at.items()}
        missed = min((rate for rate, holds in held.items() if not holds), default=math.inf)
        rates = [rate for rate, holds in held.items() if holds and rate < missed]
        if self.found is not None and self.found < missed:
            rates.append(self.found)
        return max(rates, default=None)

    @property
    def n(self) -> int:
        """Queries of all planned runs."""
        return sum(one.n for one in self.at.values())

    @property
    def method(self) -> str:
        """Method of the decision."""
        kinds = "; ".join(dict.fromkeys(one.method for one in self.at.values()))
        return f"the objective of {self.limit_ms:g} ms on the planned queries at the rate: {kinds}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """The last rate of the sequence at which the objective is shown to hold (lower) or to be missed (upper)."""
        reached = None
        if self.value is None:
            return None
        for rate in sorted(self.at, reverse=side == "upper"):
            p = self.at[rate].p_value(self.limit_ms, _OTHER[side])
            if p is None or p > 1.0 - confidence:
                break
            reached = rate
        return reached

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value of the objective at the nearest rate that says something of the threshold: the same, or beyond it."""
        rate = self._rate(threshold, side)
        return None if rate is None else self.at[rate].p_value(self.limit_ms, _OTHER[side])

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Queries of a run at the threshold."""
        rate = next((rate for rate in self.at if math.isclose(rate, threshold)), None)
        return None if rate is None else self.at[rate].n_to_decide(self.limit_ms, alpha)

    def _rate(self, threshold: float, side: Side) -> float | None:
        same = next((rate for rate in self.at if math.isclose(rate, threshold)), None)
        if same is not None:
            return same
        if side == "lower":
            return min((rate for rate in self.at if rate > threshold), default=None)
        return max((rate for rate in self.at if rate < threshold), default=None)


@dataclass(frozen=True)
class Goodput(Estimate):
    """Queries a second that are answered in time: the rate times the share that is.

    Args:
        rate_qps: Asked.
        late: Share of queries that failed or came late.
    """

    rate_qps: float
    late: Estimate

    @property
    def value(self) -> float | None:
        """Queries a second in time."""
        return None if self.late.value is None else self.rate_qps * (1.0 - self.late.value)

    @property
    def n(self) -> int:
        """Queries."""
        return self.late.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"rate times the share in time: {self.late.method}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound from the opposite bound of the share that is late."""
        share = self.late.bound(confidence, _OTHER[side])
        return None if share is None else self.rate_qps * (1.0 - share)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value of the share that is late."""
        return self.late.p_value(1.0 - threshold / self.rate_qps, _OTHER[side])

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Queries."""
        return self.late.n_to_decide(1.0 - threshold / self.rate_qps, alpha)


@dataclass(frozen=True)
class Factor(Estimate):
    """One percentile by another of the same run.

    Each bound is a quotient of opposite bounds at half the level each (Bonferroni): the two stretches of a run are not
    independent.

    Args:
        above: Such as the p99 in a spike, ms.
        below: Such as the p99 before it, ms.
    """

    above: Estimate
    below: Estimate

    @property
    def value(self) -> float | None:
        """The quotient."""
        above, below = self.above.value, self.below.value
        return above / below if above is not None and below else None

    @property
    def n(self) -> int:
        """Queries of the shorter stretch."""
        return min(self.above.n, self.below.n)

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"quotient of bounds at half the level each: {self.above.method}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound; None where either has none."""
        half = 1.0 - (1.0 - confidence) / 2.0
        above, below = self.above.bound(half, side), self.below.bound(half, _OTHER[side])
        return above / below if above is not None and below else None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value by inversion of the bound."""
        if self.value is None:
            return None
        p = p_from_bounds(self.bound, threshold, side)
        return None if p == 1.0 and self.bound(0.5, side) is None else p

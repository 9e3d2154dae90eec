"""Estimates whose interval is made when it is asked for, and comparisons that can't be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.stats.value_only import ValueOnly

_SHOWN = ContextVar("_SHOWN", default=True)


def shown() -> bool:
    """False while a check is made again for its tests alone, and what is only told is not looked for."""
    return _SHOWN.get()


@contextmanager
def nothing_shown() -> Iterator[None]:
    """Tables have no bounds meanwhile: the check is made again for its tests alone."""
    before = _SHOWN.set(False)
    try:
        yield
    finally:
        _SHOWN.reset(before)


@dataclass(frozen=True)
class OnDemand(Estimate):
    """A cheap value whose interval costs a bootstrap: it is made once, when a bound or a p-value is asked for.

    Args:
        value: The value.
        n: Rows.
        make: Makes the full estimate of the same value.
    """

    value: float | None
    n: int
    make: Callable[[], Estimate]

    @cached_property
    def full(self) -> Estimate:
        """The estimate with its interval."""
        return self.make()

    @property
    def method(self) -> str:
        """The full estimate's."""
        return self.full.method

    def bound(self, confidence: float, side: Side) -> float | None:
        """The full estimate's bound."""
        return self.full.bound(confidence, side)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """The full estimate's p-value."""
        return self.full.p_value(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """The full estimate's n."""
        return self.full.n_to_decide(threshold, alpha)


@dataclass(frozen=True)
class NoComparison(Comparison):
    """A comparison that can't be made on these rows: both values where they are known, no difference.

    Args:
        baseline_value: The other model's value.
        n: Rows.
        reason: Why.
    """

    baseline_value: float | None
    n: int
    reason: str
    same_candidate: ClassVar[bool] = True

    def difference(self, factor: float, margin: float) -> Estimate:
        """An estimate without a value."""
        return ValueOnly(None, self.n, self.reason)


def shown_bounds(estimate: Estimate, confidence: float, required: bool = True) -> tuple[float | None, float | None]:
    """Lower and upper bound for a table or a chart; None where they'd cost a bootstrap that nobody required.

    None of a check that is made again for its tests alone (`nothing_shown`) has any.

    Args:
        estimate: What is shown.
        confidence: Of each bound by itself.
        required: A requirement is about it.
    """
    if not shown() or (isinstance(estimate, OnDemand) and not required):
        return None, None
    return estimate.bound(confidence, "lower"), estimate.bound(confidence, "upper")


def known(estimate: Estimate) -> float:
    """The value of an estimate that rests on rows: one without a value would be drawn as 0, which it is not."""
    assert estimate.value is not None, f"no value: {estimate.method}"
    return estimate.value


def band(estimate: Estimate, confidence: float) -> tuple[float, float]:
    """Two-sided bounds of a share; where there are none, all that a share can be.

    Args:
        estimate: The share, in 0..1.
        confidence: Of both sides together.
    """
    side = 1.0 - (1.0 - confidence) / 2.0
    low, high = estimate.bound(side, "lower"), estimate.bound(side, "upper")
    return 0.0 if low is None else low, 1.0 if high is None else high

"""Estimates and facts that a check returns for a metric: an estimate can give its bounds and p-values.

Estimates live only while a check runs; what is kept of them is a `evalspec.evidence.test.Test`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

Side = Literal["lower", "upper"]


class Needed(int):
    """How much would decide, and of what: ``Needed(38, "processes", 5)``.

    Args:
        count: So many in all.
        unit: Of what: queries, processes, pairs, blocks.
        now: So many there were.
    """

    unit: str
    now: int

    def __new__(cls, count: int, unit: str, now: int) -> Needed:
        """A count with its unit."""
        needed = super().__new__(cls, count)
        needed.unit, needed.now = unit, now
        return needed


class Estimate(ABC):
    """A statistic of a sample. Fractions are in 0..1, everything else is in the metric's unit.

    Beside bounds and p-values it has

    - ``value``: the estimate itself; None where the sample says nothing (then bounds and p-values are None too).
    - ``n``: rows, queries or processes that it rests on.
    - ``method``: how its bounds are made, or why there are none.
    - ``exact``: it is decided by itself, not by bounds; ``in_this_run``: it is about one run, not about a file.
    - ``reason``: why there is no upper bound; ``by_processes``: processes were held to it, since queries don't count.
    - ``notes``: sentences for the reader.
    - ``parts``: where it is over several (the worst slice, the share of drifted columns), each by name; each is
      compared with ``part_threshold``, or where that is None against the requirement's own threshold.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        @abstractmethod
        def value(self) -> float | None: ...
        @property
        @abstractmethod
        def n(self) -> int: ...
        @property
        @abstractmethod
        def method(self) -> str: ...
        @property
        def exact(self) -> bool: ...
        @property
        def in_this_run(self) -> bool: ...
        @property
        def reason(self) -> str | None: ...
        @property
        def by_processes(self) -> bool: ...
        @property
        def notes(self) -> tuple[str, ...]: ...
        @property
        def parts(self) -> Mapping[str, Estimate]: ...
        @property
        def part_threshold(self) -> float | None: ...

    else:
        # No properties: a dataclass could not set a field of that name.
        exact = in_this_run = by_processes = False
        reason = part_threshold = None
        notes: tuple[str, ...] = ()
        parts: Mapping[str, Estimate] = {}

    @abstractmethod
    def bound(self, confidence: float, side: Side) -> float | None:
        """The one-sided bound at this confidence, or None where the method gives none."""

    @abstractmethod
    def p_value(self, threshold: float, side: Side) -> float | None:
        """The smallest a at which ``bound(1 - a, side)`` clears the threshold; None where there is no bound.

        ``side="lower"`` is evidence that the parameter lies above the threshold (its lower bound is at or above it),
        ``side="upper"`` that it lies below.
        """

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """The n at which the side on which ``value`` lies is shown at level alpha in 80 % of samples.

        None where value is on the threshold, or the method can't say. A `Needed` where it is not more of what ``n``
        counts.
        """
        return None


@dataclass(frozen=True, slots=True)
class Fact:
    """Counted over the whole file, or seen in this run: no interval.

    Args:
        value: Fractions in 0..1, everything else in the metric's unit.
        n: What it was counted over.
        method: How it was counted.
        in_this_run: It is a fact about one run (an observed maximum), not about a file.
        first: What was counted, the first one or two of it by name; said where it is too much.
    """

    value: float
    n: int
    method: str = "counted"
    in_this_run: bool = False
    first: str = field(default="", compare=False)
    parts: ClassVar[Mapping[str, Fact]] = {}


@dataclass(frozen=True, slots=True)
class Parts:
    """A metric with parts. ``whole`` is its value without a part, where it has one of its own.

    A part that was measured by itself (a rate) may have its own reasons to mistrust it.
    """

    parts: Mapping[str, Estimate | Fact | Measured]
    whole: Estimate | Fact | None = None


class Comparison(ABC):
    """A candidate beside another model on the same items, or in the same paired processes.

    ``baseline_value`` is the other model's value, ``candidate_value`` the candidate's. Where ``same_candidate`` holds,
    that is the value which the metric has without the other model.
    """

    __slots__ = ()
    same_candidate: ClassVar[bool] = False

    if TYPE_CHECKING:

        @property
        @abstractmethod
        def baseline_value(self) -> float | None: ...
        @property
        def candidate_value(self) -> float | None: ...

    else:
        candidate_value = None

    @abstractmethod
    def difference(self, factor: float, margin: float) -> Estimate:
        """Estimate of candidate - factor x baseline; ``margin`` is where it will be held (score intervals need it)."""

    def ratio(self) -> Estimate | None:
        """Estimate of candidate / baseline, or None where only differences are defined."""
        return None


@dataclass(frozen=True, slots=True)
class ComparisonParts:
    """Comparisons by part, and reasons to mistrust their measurement, as in `Measured`."""

    parts: Mapping[str, Comparison]
    whole: Comparison | None = None
    invalid: str | None = None
    withhold: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """An estimate or fact with reasons to mistrust its measurement.

    ``invalid`` is what the harness or the surroundings did (it voids the measurement); ``withhold`` is behaviour of
    the system itself (no steady state, drift): it can keep a requirement from PASS, never from FAIL.
    """

    estimate: Estimate | Fact | Parts
    invalid: str | None = None
    withhold: str | None = None
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, found: Estimate | Fact | Parts | Measured) -> Measured:
        """Wrap an estimate or fact as one of these, with no reason where it comes without."""
        return found if isinstance(found, Measured) else cls(found)

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

    Besides bounds and p-values it has

    - ``value``: the estimate itself; None if the sample gives none (bounds and p-values are then None too).
    - ``n``: number of rows, queries or processes behind it.
    - ``method``: how its bounds are computed, or why there are none.
    - ``exact``: its value decides, not its bounds. ``in_this_run``: it is about one run, not about a file.
    - ``reason``: why there is no upper bound. ``by_processes``: processes decide, since queries are not independent.
    - ``notes``: sentences for the reader.
    - ``parts``: estimates by name, if it combines several (the worst slice, the share of drifted columns). Each is
      compared with ``part_threshold``, or with the requirement's own threshold if that is None.
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
        """The one-sided bound at this confidence; None: the method gives none."""

    @abstractmethod
    def p_value(self, threshold: float, side: Side) -> float | None:
        """The smallest a at which ``bound(1 - a, side)`` clears the threshold; None: there is no bound.

        ``side="lower"`` is evidence that the parameter lies above the threshold (its lower bound is at or above it),
        ``side="upper"`` that it lies below.
        """

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """The n that shows in 80 % of samples, at level alpha, on which side of the threshold ``value`` lies.

        None: the value is on the threshold, or the method gives no n. A `Needed`: it counts something else than
        ``n``.
        """
        return None


@dataclass(frozen=True, slots=True)
class Fact:
    """A count over the whole file, or an observation of this run: no interval.

    Args:
        value: Fractions in 0..1, everything else in the metric's unit.
        n: Number of items over which it was counted.
        method: How it was counted.
        in_this_run: It is a fact about one run (an observed maximum), not about a file.
        first: The first one or two counted items by name; shown if the count is too high.
    """

    value: float
    n: int
    method: str = "counted"
    in_this_run: bool = False
    first: str = field(default="", compare=False)
    parts: ClassVar[Mapping[str, Fact]] = {}


@dataclass(frozen=True, slots=True)
class Parts:
    """A metric with parts. ``whole`` is its value without a part, if it has one.

    A part that was measured separately (a rate) may have its own reasons to mistrust it.
    """

    parts: Mapping[str, Estimate | Fact | Measured]
    whole: Estimate | Fact | None = None


class Comparison(ABC):
    """A comparison of the candidate with another model on the same items, or in paired processes.

    ``baseline_value`` is the other model's value, ``candidate_value`` the candidate's. ``same_candidate``: the latter
    equals the metric's value without the other model.
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
        """Estimate of candidate - factor x baseline; ``margin`` is its threshold (score intervals need it)."""

    def ratio(self) -> Estimate | None:
        """Estimate of candidate / baseline; None: only differences are defined."""
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

    ``invalid`` is a fault of the harness or the surroundings, which voids the measurement. ``withhold`` is behaviour
    of the system itself (no steady state, drift), which can prevent PASS, never FAIL.
    """

    estimate: Estimate | Fact | Parts
    invalid: str | None = None
    withhold: str | None = None
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, found: Estimate | Fact | Parts | Measured) -> Measured:
        """Wrap an estimate or fact, without reasons if it has none."""
        return found if isinstance(found, Measured) else cls(found)

"""The ratio that `sustained` decides on: the end of a process by its start, before the machine was warm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.sustained.spec import LEAST_PROCESSES
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.means.mean import t_mean
from evalspec.stats.timing.processes import OverUnits
from evalspec.stats.value_only import ValueOnly
from evalspec.timing import concurrency, device
from evalspec.timing import samples as timing_samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples

WINDOW = 0.2
"""Share of a process at its start, and at its end."""
LEAST_BATCHES = 2
"""That a window must hold."""


@dataclass(frozen=True)
class Ends:
    """How fast a process was at its start and at its end: items a second over each window."""

    start: float
    end: float


def both_ends(samples: Samples) -> Ends | None:
    """Throughput in the first and in the last fifth of a process; None where they hold too few batches.

    Args:
        samples: Of one process.
    """
    if len(samples.end_ns) < 2 * LEAST_BATCHES:
        return None
    window = concurrency.full(samples) if concurrency.lanes(samples) > 1 else None
    if window is not None:
        return _while_busy(samples, *window)
    begin, stop = device.span(samples)
    length = WINDOW * (stop - begin)
    first, last = samples.end_ns <= begin + length, samples.sent_ns >= stop - length
    if min(first.sum(), last.sum()) < LEAST_BATCHES:
        return None
    return Ends(start=timing_samples.rate(samples, first), end=timing_samples.rate(samples, last))


def _while_busy(samples: Samples, begin: int, stop: int) -> Ends | None:
    """As `both_ends`, of a server: over the time in which all connections carried a request."""
    length = int(WINDOW * (stop - begin))
    first, last = (concurrency.within(samples, at, at + length) for at in (begin, stop - length))
    if min(first.sum(), last.sum()) < LEAST_BATCHES:
        return None
    start, end = (float(shares[samples.ok].sum()) * samples.batch / (length / 1e9) for shares in (first, last))
    return Ends(start=start, end=end)


@dataclass(frozen=True)
class FromTheColdStart(Estimate):
    """How fast processes are at their ends, by how fast the machine is when it is cold.

    A machine that is still warm from the process before begins slow, and the end by a process's own start would hide
    what it has lost. So that it is sustained is shown against the fastest start of all processes: the largest of
    several starts is, if anything, too large, which makes the ratio too small. That it is not sustained is shown by
    either of two that can only make the ratio too large, each at half the level: every end by its own start; or the
    ends by the start of the first process. Where all are held against one start, its error counts as that of one more
    process (t of a prediction): perhaps no other process began cold.

    Args:
        starts: shape (k,), logarithms of items a second, in the order in which the processes ran.
        ends: shape (k,).
    """

    starts: NDArray[np.float64]
    ends: NDArray[np.float64]

    @property
    def n(self) -> int:
        """Processes."""
        return len(self.ends)

    @cached_property
    def _fastest(self) -> OverUnits:
        return self._against(self.starts.max())

    @cached_property
    def _own(self) -> OverUnits:
        return OverUnits(t_mean(self.ends - self.starts), "processes (log ratios)", log=True)

    @cached_property
    def _first(self) -> OverUnits:
        return self._against(self.starts[0])

    def _against(self, start: float) -> OverUnits:
        """Mean of the ends less one start: variance s^2 (1/k + 1), as when one more is predicted."""
        centre = self.ends.mean()
        wider = centre + (self.ends - centre) * np.sqrt(len(self.ends) + 1.0)
        return OverUnits(t_mean(wider - start), "processes (log ratios)", log=True)

    @property
    def value(self) -> float | None:
        """Geometric mean of the ends by the fastest start."""
        return self._fastest.value

    @property
    def method(self) -> str:
        """How the bounds are made."""
        return (
            f"{self._fastest.method}: ends by the fastest start; for a violation by their own, or by the first "
            "process's, each at half the level"
        )

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound."""
        if side == "lower":
            return self._fastest.bound(confidence, side)
        half = 1.0 - (1.0 - confidence) / 2.0
        bounds = [one.bound(half, side) for one in (self._own, self._first)]
        return min((bound for bound in bounds if bound is not None), default=None)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """As the bounds."""
        if side == "lower":
            return self._fastest.p_value(threshold, side)
        found = [one.p_value(threshold, side) for one in (self._own, self._first)]
        known = [p for p in found if p is not None]
        return min(1.0, 2.0 * min(known)) if known else None

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Processes, as the ends by the fastest start say."""
        return self._fastest.n_to_decide(threshold, alpha)


def sustained_ratio(ends: Sequence[Ends], least: int = LEAST_PROCESSES) -> Estimate:
    """The end by the start, over processes; without bounds where there are fewer than ``least``.

    Blocks of one process are no sample: noise that lasts longer than a block looks like a change, and nothing in one
    process tells how long it lasts.

    Args:
        ends: At least one, in the order in which processes ran.
        least: Processes that a bound needs: fewer at an early look, which holds it to a far stricter level.
    """
    found = FromTheColdStart(_log([one.start for one in ends]), _log([one.end for one in ends]))
    if found.n >= least:
        return found
    return ValueOnly(found.value, found.n, f"no bound from {found.n} of at least {least} processes")


def _log(rates: Sequence[float]) -> NDArray[np.float64]:
    """Logarithms; a window in which nothing was answered is as slow as one can be told to be."""
    logs: NDArray[np.float64] = np.log(np.maximum(rates, 1e-9))
    return logs

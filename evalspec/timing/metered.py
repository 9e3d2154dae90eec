"""Energy of the answers of a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import InvalidError
from evalspec.measure.energy import EnergyWindow, energy
from evalspec.timing import concurrency
from evalspec.timing import samples as timing_samples
from evalspec.timing.budget import SETTLING
from evalspec.timing.token_rates import arrived

if TYPE_CHECKING:
    from evalspec.language.inputs import Samples


@dataclass(frozen=True)
class Metered:
    """One process and what it used.

    Args:
        energy: Of its window.
        items: Answered in that window.
        tokens: That arrived in it; None: nothing is streamed, or nobody counts them.
    """

    energy: EnergyWindow
    items: int
    tokens: float | None = None

    @property
    def known(self) -> bool:
        """True if its energy could be determined."""
        return self.energy.joules is not None

    @property
    def total_j(self) -> float:
        """Energy of the window, in joules.

        Raises:
            InvalidError: It could not be told.
        """
        if self.energy.joules is None:
            raise InvalidError(f"there is no energy: {self.energy.reason}")
        return self.energy.joules

    @property
    def joules(self) -> float:
        """For each answered item; infinite where none was answered."""
        return self.total_j / self.items if self.items else float("inf")

    @property
    def joules_by_token(self) -> float | None:
        """For each token that arrived; None where none did, or nobody counts them."""
        return self.total_j / self.tokens if self.tokens else None

    @property
    def watts(self) -> float:
        """Mean power over the window."""
        return self.total_j / self.energy.seconds

    @property
    def items_per_joule(self) -> float:
        """Answered items by energy; infinite where the counter stood still."""
        return self.items / self.total_j if self.total_j > 0 else float("inf")

    @property
    def per_second(self) -> float:
        """Answered items a second, over the same window."""
        return self.items / self.energy.seconds if self.energy.seconds > 0 else 0.0


def metered(samples: Samples, boundary: str) -> Metered:
    """Energy and answered items of the same window: all but the first tenth of a process.

    Of a server with many requests under way also without the last ones, which leave some of its workers idle.

    Args:
        samples: Of one process.
        boundary: A key of `evalspec.measure.energy.BOUNDARIES`.
    """
    window = concurrency.full(samples, settling=SETTLING) if concurrency.lanes(samples) > 1 else None
    answered = None if window is None else concurrency.stretch(samples, *window)
    if answered is not None:
        consumption = energy(samples.telemetry, boundary, answered.begin_ns, answered.end_ns)
        return Metered(consumption, answered.items, _tokens(samples, answered.begin_ns, answered.end_ns))
    keep = np.flatnonzero(timing_samples.settled(samples))
    if not len(keep):
        return Metered(EnergyWindow(None, 0.0, reason="no batch was measured"), 0)
    begin_ns, end_ns = int(samples.sent_ns[keep[0]]), int(samples.end_ns[keep].max())
    consumption = energy(samples.telemetry, boundary, begin_ns, end_ns)
    return Metered(consumption, int(samples.ok[keep].sum()) * samples.batch, _tokens(samples, begin_ns, end_ns))


def _tokens(samples: Samples, begin_ns: int, end_ns: int) -> float | None:
    """Tokens that arrived; of a query of several rows, which is several answers, they are not known."""
    return arrived(samples, begin_ns, end_ns) if samples.batch == 1 else None

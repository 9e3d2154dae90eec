"""Events in the course of processes: slow spells that come round again, garbage collection, steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.units import format_number
from evalspec.stats.timing.changepoints import LevelStep, slow_period, step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples

GC_NOTED = 0.2
MOST = 0.8
LONG_S = 10.0
"""A process as long as this can tell a step from an unsteady second."""


def spells(samples: Sequence[Samples], latencies: Sequence[NDArray[np.float64]]) -> list[str]:
    """Slow queries that come at a period, or while garbage is collected, in words.

    Args:
        samples: One per process.
        latencies: Of the same processes, ms, infinite where a query failed.
    """
    notes = []
    for one, spent in zip(samples, latencies, strict=True):
        period = slow_period(spent, one.intended_ns / 1e9)
        if period is not None:
            notes.append(
                f"Slow queries come every {format_number(period.every_s)} s ({period.episodes} times in one process): "
                "garbage collection, a timer or a checkpoint does that."
            )
            break
    shares = [v for one in samples if isinstance(v := one.details.get("gc_share_of_slow"), float)]
    if shares and float(np.mean(shares)) >= GC_NOTED:
        notes.append(f"Python collected garbage during {100 * float(np.mean(shares)):.0f} % of the slowest queries.")
    return notes


def rises(
    samples: Sequence[Samples], latencies: Sequence[NDArray[np.float64]]
) -> tuple[LevelStep | None, list[NDArray[np.float64]], bool]:
    """A lasting step up in processes of 10 s or more, as of a machine that grows hot.

    One process that steps up may have had a neighbour: the step was found in the data, so only what most processes do
    says something of the next one.

    Returns:
        The first one, or None; latencies after the step of each process that has one; and whether most (4 of 5) of
        the processes that are long enough have one.
    """
    first: LevelStep | None = None
    after = []
    long = 0
    for one, spent in zip(samples, latencies, strict=True):
        when = (one.intended_ns - one.intended_ns[:1]) / 1e9
        if not len(when) or when[-1] < LONG_S:
            continue
        long += 1
        kept = np.isfinite(spent)
        shift = step(spent[kept], when[kept])
        if shift is not None and shift.change > 0:
            first = first or shift
            after.append(spent[when >= shift.at_s + when[kept][0]])
    return first, after, len(after) >= max(2.0, MOST * long)

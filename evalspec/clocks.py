"""The clock that everything is timed with, what reading it costs, and sleeping that ends when it should."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

READINGS = 20_000
PR_SET_TIMERSLACK, PR_GET_TIMERSLACK = 29, 30
SLACK_NS = 1
NEVER_NS = 1 << 62
"""Later than any reading of the clock."""

now_ns = time.perf_counter_ns
"""Monotonic, in ns; on Linux the same for all processes of a machine."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Cost that the clock itself adds to a timing.

    Args:
        overhead_ns: Median of two readings right after one another: every latency is too long by it.
        worst_ns: Largest of them: what the machine did to a process that did nothing else.
        resolution_ns: Smallest step seen.
    """

    overhead_ns: float
    worst_ns: int
    resolution_ns: int


def read_clock(readings: int = READINGS) -> Clock:
    """Read the clock many times in a row.

    Args:
        readings: How often; at least 2.
    """
    import numpy as np

    stamps = np.empty(readings, dtype=np.int64)
    for index in range(readings):
        stamps[index] = now_ns()
    steps = np.diff(stamps)
    moved = steps[steps > 0]
    return Clock(
        overhead_ns=float(np.median(steps)),
        worst_ns=int(steps.max()),
        resolution_ns=int(moved.min()) if moved.size else 0,
    )


@contextlib.contextmanager
def fine_timer() -> Iterator[bool]:
    """Have this thread wake when it asked to; Linux otherwise lets a sleep run over by 50 us to save power.

    Yields:
        Whether the system does so; what held before holds again at the end.
    """
    if sys.platform != "linux":
        yield False
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    before = libc.prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)
    fine = libc.prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0) == 0
    try:
        yield fine
    finally:
        libc.prctl(PR_SET_TIMERSLACK, before, 0, 0, 0)

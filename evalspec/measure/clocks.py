"""The clock that everything is timed with, and what reading it costs."""

from __future__ import annotations

import ctypes
import sys
import time
from dataclasses import dataclass

import numpy as np

READINGS = 20_000
PR_SET_TIMERSLACK = 29
SLACK_NS = 1

now_ns = time.perf_counter_ns
"""Monotonic, in ns; on Linux the same for all processes of a machine."""


@dataclass(frozen=True, slots=True)
class Clock:
    """What the clock itself adds to a timing.

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


def wake_sharply() -> bool:
    """Have this thread wake when it asked to; Linux otherwise lets a sleep run over by 50 us to save power.

    Returns:
        Whether the system does so.
    """
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0) == 0)

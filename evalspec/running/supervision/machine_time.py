"""Processor time of the machine while something runs: all of it, and what children of this process used of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from evalspec.measure.processor_ticks import count_processors, read_ticks

STAT = Path("/proc/stat")


class MachineTime:
    """Counts from when it is made.

    What children used is known for those that have ended, with all below them.
    """

    def __init__(self) -> None:
        self._all, self._own = _machine(), _own_s()

    def told(self, took_s: float) -> dict[str, Any]:
        """Processors, how many of them the children used, and the shares of all that others used and that were stolen.

        Args:
            took_s: Seconds since it was made.
        """
        now, own_s = _machine(), _own_s() - self._own
        if now is None or self._all is None or took_s <= 0.0:
            return {"processors": None, "own": own_s / max(took_s, 1e-9), "others_share": None, "steal_share": None}
        total, busy, stolen = (after - before for after, before in zip(now[:3], self._all[:3], strict=True))
        whole = max(total, 1.0)
        others = (busy - own_s * os.sysconf("SC_CLK_TCK")) / whole
        return {
            "processors": now[3], "own": own_s / took_s, "others_share": min(1.0, max(0.0, others)),
            "steal_share": max(0.0, stolen / whole),
        }  # fmt: skip


def _own_s() -> float:
    return sum(os.times()[:4])


def _machine() -> tuple[float, float, float, float] | None:
    """Ticks since the machine started: all, busy, stolen; and its processors."""
    try:
        return *read_ticks(STAT), float(count_processors(STAT))
    except OSError:
        return None

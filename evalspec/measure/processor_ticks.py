"""Processor time of the machine under Linux, in ticks since it started."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Ticks(NamedTuple):
    """Ticks of all processors: in all, at work, and stolen by a hypervisor."""

    total: float
    busy: float
    stolen: float


def read_ticks(stat: Path) -> Ticks:
    """Ticks up to now, from ``/proc/stat``.

    Raises:
        OSError: It can't be read.
    """
    # user nice system idle iowait irq softirq steal
    ticks = [float(word) for word in stat.read_bytes().split(b"\n", 1)[0].split()[1:9]]
    ticks += [0.0] * (8 - len(ticks))
    return Ticks(sum(ticks), ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6], ticks[7])


def count_processors(stat: Path) -> int:
    """Processors that ``/proc/stat`` lists.

    Raises:
        OSError: It can't be read.
    """
    return sum(line[:3] == b"cpu" for line in stat.read_bytes().splitlines()) - 1

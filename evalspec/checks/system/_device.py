"""What counters tell of the device that a model runs on: its clock, its temperature, whether it slowed itself down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.measure.energy import window
from evalspec.measure.telemetry import REASONS, THROTTLED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples, Telemetry


@dataclass(frozen=True)
class Series:
    """Names of what tells of the device that a model runs on.

    Args:
        clock: MHz.
        temperature: Degrees Celsius.
        throttle: Reasons as a bit mask, or a count of events.
    """

    clock: str
    temperature: str
    throttle: str


CPU = Series("cpu_clock_mhz", "cpu_temperature_c", "cpu_throttle_count")
GPU = Series("gpu_sm_clock_mhz", "gpu_temperature_c", "gpu_throttle_reasons")


def series_of(device: str) -> Series:
    """What tells of a device; ``cpu`` or ``cuda:0``."""
    return CPU if device == "cpu" else GPU


def span(samples: Samples) -> tuple[int, int]:
    """First sending and last end of a process, ns."""
    if not len(samples.end_ns):
        return 0, 0
    return int(samples.sent_ns[0]), int(samples.end_ns.max())


def slowed(
    telemetry: Telemetry | None, series: Series, start_ns: int, end_ns: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """When the device ran slower than it was asked to.

    Args:
        telemetry: What was read, or None.
        series: Of the device.
        start_ns: Start of the window.
        end_ns: Its end.

    Returns:
        Seconds from the start of the window, shape (t,); and whether it was slowed at that reading, shape (t,). Empty
        where nobody tells.
    """
    if telemetry is None or series.throttle not in telemetry.series:
        return np.empty(0), np.empty(0, dtype=np.bool_)
    values = telemetry.series[series.throttle]
    inside = (telemetry.times_ns >= start_ns) & (telemetry.times_ns <= end_ns) & np.isfinite(values)
    seconds, read = (telemetry.times_ns[inside] - start_ns) / 1e9, values[inside]
    if series is GPU:
        return seconds, (read.astype(np.int64) & THROTTLED) != 0
    return seconds, np.diff(read, prepend=read[:1]) > 0


def reasons_seen(telemetry: Telemetry | None, start_ns: int, end_ns: int) -> dict[str, float]:
    """Clocks-event reason of a GPU: share of the readings in which it held; without those that never did."""
    read = window(telemetry, GPU.throttle, start_ns, end_ns).astype(np.int64)
    if not len(read):
        return {}
    shares = {word: float(((read & bit) != 0).mean()) for bit, word in REASONS.items()}
    return {word: share for word, share in shares.items() if share > 0}

"""Counters of the device that a model runs on: its clock, its temperature, whether it slowed itself down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.measure.telemetry import THROTTLED, readings, reasons

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples
    from evalspec.language.timings import Telemetry


@dataclass(frozen=True)
class DeviceSeries:
    """Names of what tells of the device that a model runs on.

    Args:
        clock: MHz.
        temperature: Degrees Celsius.
        throttle: Reasons as a bit mask, or a count of events.
    """

    clock: str
    temperature: str
    throttle: str


CPU = DeviceSeries("cpu_clock_mhz", "cpu_temperature_c", "cpu_throttle_count")
GPU = DeviceSeries("gpu_sm_clock_mhz", "gpu_temperature_c", "gpu_throttle_reasons")


def series_of(device: str) -> DeviceSeries:
    """Series of telemetry that tell of a device; ``cpu`` or ``cuda:0``."""
    return CPU if device == "cpu" else GPU


def span(samples: Samples) -> tuple[int, int]:
    """First sending and last end of a process, ns."""
    if not len(samples.end_ns):
        return 0, 0
    return int(samples.sent_ns[0]), int(samples.end_ns.max())


def slowed(
    telemetry: Telemetry | None, series: DeviceSeries, start_ns: int | None = None, end_ns: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Readings of a device, and those in which it ran slower than it was asked to.

    Args:
        telemetry: What was read, or None.
        series: Of the device.
        start_ns: Start of the window; None: the first reading.
        end_ns: Its end; None: the last one.

    Returns:
        Seconds from the start of the window, shape (t,); and whether it was slowed at that reading, shape (t,). Empty
        where nobody tells.
    """
    times, read = readings(telemetry, series.throttle, start_ns, end_ns)
    if not len(read):
        return np.empty(0), np.empty(0, dtype=np.bool_)
    seconds = (times - (times[0] if start_ns is None else start_ns)) / 1e9
    if series is GPU:
        return seconds, (read.astype(np.int64) & THROTTLED) != 0
    return seconds, np.diff(read, prepend=read[:1]) > 0


def reasons_seen(telemetry: Telemetry | None, start_ns: int, end_ns: int) -> dict[str, float]:
    """Clocks-event reason of a GPU: share of the readings in which it held; without those that never did."""
    return reasons(readings(telemetry, GPU.throttle, start_ns, end_ns)[1])

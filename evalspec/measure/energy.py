"""Energy and power over a window, from what was read of a machine's counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.measure.telemetry import readings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.timings import Telemetry

LEAST_PERIODS = 10
"""Updates of a counter, or readings of power, that a window must hold."""
REACH_PERIODS = 2.0
"""A window may reach so far beyond the last update."""
LARGEST_GAP = 5.0
"""Readings of power further apart than so many times the usual are a hole."""
DISAGREE = 0.05
"""Counter and power x time may differ by so much."""


@dataclass(frozen=True, slots=True)
class Meter:
    """Something whose energy is metered by itself.

    Args:
        name: In words.
        counter: Series of joules that only grows.
        power: Series of watts, where there is one.
    """

    name: str
    counter: str
    power: str | None = None


GPU = Meter("GPU board", "gpu_energy_j", "gpu_power_w")
PACKAGE = Meter("processor package", "cpu_energy_j")
MEMORY = Meter("memory", "memory_energy_j")
PLATFORM = Meter("platform", "platform_energy_j")
BOUNDARIES: dict[str, tuple[Meter, ...]] = {
    "gpu": (GPU,),
    "package": (PACKAGE,),
    "package_and_memory": (PACKAGE, MEMORY),
    "gpu_and_package": (GPU, PACKAGE),
    "platform": (PLATFORM,),
}
"""What is inside: the meters that are added up."""


@dataclass(frozen=True, slots=True)
class EnergyWindow:
    """Energy of a window.

    Args:
        joules: None where it can't be told; then ``reason`` says why.
        seconds: Length of the window.
        source: Where it comes from.
        from_power: Made of readings of power, not of a counter.
        period_s: Between two updates of what it comes from; None where nothing was read.
        check: Counter / (power x time), where both are there.
        reason: Why there is no number.
    """

    joules: float | None
    seconds: float
    source: str = ""
    from_power: bool = False
    period_s: float | None = None
    check: float | None = None
    reason: str | None = None

    @property
    def watts(self) -> float | None:
        """Mean power over the window."""
        return None if self.joules is None or self.seconds <= 0 else self.joules / self.seconds


def energy(telemetry: Telemetry | None, boundary: str, start_ns: int, end_ns: int) -> EnergyWindow:
    """Energy inside a boundary over a window: the sum of its meters, each from its counter or else from its power.

    Args:
        telemetry: What was read, or None.
        boundary: A key of `BOUNDARIES`.
        start_ns: Start of the window, on the clock of the telemetry.
        end_ns: Its end.
    """
    seconds = (end_ns - start_ns) / 1e9
    if telemetry is None:
        return EnergyWindow(None, seconds, reason="nothing was read of the machine meanwhile")
    parts = [_metered(telemetry, meter, start_ns, end_ns) for meter in BOUNDARIES[boundary]]
    lacking = next((part for part in parts if part.joules is None), None)
    if lacking is not None:
        return lacking
    checks = [part.check for part in parts if part.check is not None]
    return EnergyWindow(
        joules=sum(part.joules for part in parts if part.joules is not None),
        seconds=seconds,
        source=" + ".join(part.source for part in parts),
        from_power=any(part.from_power for part in parts),
        period_s=max((part.period_s for part in parts if part.period_s is not None), default=None),
        check=checks[0] if checks else None,
    )


def _metered(telemetry: Telemetry, meter: Meter, start_ns: int, end_ns: int) -> EnergyWindow:
    """One meter: its counter where that will do, else its power."""
    counted = counter_energy(telemetry, meter.counter, start_ns, end_ns)
    power = None if meter.power is None else power_energy(telemetry, meter.power, start_ns, end_ns)
    if counted.joules is None:
        chosen = power if power is not None and power.joules is not None else counted
        return _named(chosen, meter)
    check = counted.joules / power.joules if power is not None and power.joules else None
    return _named(counted, meter, check)


def _named(found: EnergyWindow, meter: Meter, check: float | None = None) -> EnergyWindow:
    reason = None if found.reason is None else f"{meter.name}: {found.reason}"
    return EnergyWindow(
        found.joules, found.seconds, f"{meter.name}: {found.source}", found.from_power, found.period_s, check, reason
    )


def counter_energy(telemetry: Telemetry, name: str, start_ns: int, end_ns: int) -> EnergyWindow:
    """Difference of a counter of joules between the ends of a window.

    A counter is updated in steps, so it is read at the moments at which it has moved and taken to grow evenly in
    between; both ends are then late by the same on average, which the difference takes out.

    Args:
        telemetry: What was read.
        name: The counter's series.
        start_ns: Start of the window.
        end_ns: Its end.
    """
    seconds = (end_ns - start_ns) / 1e9
    times, values = readings(telemetry, name)
    if not len(times):
        return EnergyWindow(None, seconds, reason=_why_missing(telemetry, name))
    if (np.diff(values) < 0).any():
        return EnergyWindow(None, seconds, reason="its counter ran backwards: the driver was loaded anew")
    moved = np.flatnonzero(np.diff(values) > 0) + 1
    if len(moved) < 2:
        return EnergyWindow(None, seconds, reason="its counter did not move")
    times, values = times[moved], values[moved]
    period_s = float(np.median(np.diff(times))) / 1e9
    if seconds < LEAST_PERIODS * period_s:
        reason = (
            f"a window of {seconds:.3g} s holds {seconds / period_s:.0f} updates of its counter, and needs "
            f"{LEAST_PERIODS}"
        )
        return EnergyWindow(None, seconds, period_s=period_s, reason=reason)
    reach = REACH_PERIODS * period_s * 1e9
    if start_ns < times[0] - reach or end_ns > times[-1] + reach:
        return EnergyWindow(None, seconds, period_s=period_s, reason="its counter was not read over the whole window")
    at_start, at_end = (_between(times, values, at) for at in (start_ns, end_ns))
    return EnergyWindow(at_end - at_start, seconds, telemetry.sources.get(name, "counter"), period_s=period_s)


def power_energy(telemetry: Telemetry, name: str, start_ns: int, end_ns: int) -> EnergyWindow:
    """Readings of power, integrated over a window by the trapezoid rule.

    Between two readings anything may happen, so this is an estimate: swings that are faster than the readings average
    out over many of them, if they do not keep step with them.

    Args:
        telemetry: What was read.
        name: Series of watts.
        start_ns: Start of the window.
        end_ns: Its end.
    """
    seconds = (end_ns - start_ns) / 1e9
    times, values = readings(telemetry, name)
    if not len(times):
        return EnergyWindow(None, seconds, reason=_why_missing(telemetry, name))
    inside = (times > start_ns) & (times < end_ns)
    if inside.sum() < LEAST_PERIODS:
        reason = f"a window of {seconds:.3g} s holds {inside.sum()} readings of power, and needs {LEAST_PERIODS}"
        return EnergyWindow(None, seconds, from_power=True, reason=reason)
    period_s = float(np.median(np.diff(times))) / 1e9
    at = np.concatenate(([start_ns], times[inside], [end_ns]))
    if np.diff(at).max() > LARGEST_GAP * period_s * 1e9:
        return EnergyWindow(None, seconds, from_power=True, period_s=period_s, reason="power was not read for a while")
    watts = np.interp(at, times, values)
    joules = float(np.trapezoid(watts, at / 1e9))
    source = f"{telemetry.sources.get(name, 'power')}, {int(inside.sum())} readings x time"
    return EnergyWindow(joules, seconds, source, from_power=True, period_s=period_s)


def _why_missing(telemetry: Telemetry, name: str) -> str:
    return telemetry.missing.get(name) or f"{name} could not be read"


def _between(times: NDArray[np.int64], values: NDArray[np.float64], at: int) -> float:
    """Value at a moment, straight between the updates beside it, and straight on beyond the first and the last."""
    index = int(np.clip(np.searchsorted(times, at), 1, len(times) - 1))
    slope = (values[index] - values[index - 1]) / float(times[index] - times[index - 1])
    return float(values[index - 1] + slope * float(at - times[index - 1]))

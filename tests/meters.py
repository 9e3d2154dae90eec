"""Counters of a machine that never was: power over time is given, meters follow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalspec.language.inputs import Samples, Schedule
from evalspec.language.timings import Telemetry
from tests.fakes import samples

Power = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Seconds to watts."""


def steady(watts: float) -> Power:
    """The same power all the time."""
    return lambda seconds: np.full_like(seconds, watts)


def telemetry(
    power: Power | float,
    seconds: float,
    *,
    counter: str | None = "cpu_energy_j",
    readings: str | None = None,
    every_s: float = 0.1,
    step_s: float = 0.0,
    begin_s: float = -1.0,
    lost: ArrayLike = (),
    more: dict[str, NDArray[np.float64]] | None = None,
) -> Telemetry:
    """What a sampler would have read.

    Args:
        power: Watts, or seconds to watts.
        seconds: Until when it is read.
        counter: Name of the energy counter, or None.
        readings: Name of the readings of power, or None.
        every_s: Between readings.
        step_s: The counter moves each so many seconds only; 0: always.
        begin_s: From when on it is read.
        lost: Indices of readings that failed.
        more: Other series.
    """
    drawn = power if callable(power) else steady(power)
    times = np.arange(begin_s, seconds + every_s / 2, every_s)
    fine = np.linspace(begin_s - 2.0, seconds + 2.0, 20_001)
    joules = np.concatenate(([0.0], np.cumsum(drawn(fine[:-1]) * np.diff(fine))))
    series: dict[str, NDArray[np.float64]] = dict(more or {})
    if counter is not None:
        seen = np.floor(times / step_s) * step_s if step_s else times
        series[counter] = np.interp(seen, fine, joules)
    if readings is not None:
        series[readings] = drawn(times)
    for name, values in series.items():
        kept = np.array(values, dtype=np.float64)
        kept[np.asarray(lost, dtype=np.int64)] = np.nan
        series[name] = kept
    return Telemetry(
        times_ns=np.round(times * 1e9).astype(np.int64), series=series, sources={name: "a meter" for name in series},
        missing={},
    )  # fmt: skip


def times_of(seconds: float, every_s: float = 0.1, begin_s: float = -1.0) -> NDArray[np.float64]:
    """When `telemetry` reads, in seconds."""
    return np.arange(begin_s, seconds + every_s / 2, every_s)


def with_meter(made: Samples, told: Telemetry | None) -> Samples:
    """Samples beside which a machine was read."""
    return replace(made, telemetry=told)


def idle_samples(model: str, schedule: Schedule, process: int, told: Telemetry | None) -> Samples:
    """Two queries, with nothing between them."""
    assert schedule.arrivals_ns is not None
    intended = schedule.arrivals_ns.astype(np.int64)
    zeros = np.zeros(len(intended), dtype=np.int64)
    return Samples(
        model=model, process=process, block=zeros, intended_ns=intended, sent_ns=intended + 10_000,
        end_ns=intended + 1_000_000, items=zeros, batch=1, ok=np.ones(len(intended), dtype=np.bool_), warmup=5,
        telemetry=told,
    )  # fmt: skip


@dataclass
class Machine:
    """A machine with a meter, on which a batch always takes as long.

    Args:
        active_w: Power while it works.
        idle_w: Power while it waits.
        batch_ms: Of one batch.
        spread: Of power and time between processes, as a share.
        seconds: Of each process, whatever is asked for.
        batches: Of each process; None: as many as fit into ``seconds``.
        counter, readings, step_s: As `telemetry`.
        metered: Processes that have telemetry at all.
    """

    active_w: float = 100.0
    idle_w: float = 20.0
    batch_ms: float = 10.0
    spread: float = 0.01
    seconds: float = 10.0
    batches: int | None = None
    counter: str | None = "cpu_energy_j"
    readings: str | None = None
    step_s: float = 0.0
    metered: int = 1_000
    seed: int = 0

    def __post_init__(self) -> None:
        """One Generator for all processes."""
        self._rng = np.random.default_rng(self.seed)
        self._made = 0

    def __call__(self, model: str, schedule: Schedule) -> list[Samples]:
        """Samples of fresh processes, as the schedule asks."""
        return [self._process(model, schedule, index) for index in range(schedule.processes)]

    def _process(self, model: str, schedule: Schedule, index: int) -> Samples:
        self._made += 1
        noise = np.exp(self.spread * self._rng.standard_normal(2))
        if schedule.kind == "open_loop" and schedule.queries == 2:
            assert schedule.arrivals_ns is not None
            seconds = float(schedule.arrivals_ns[-1]) / 1e9 + 1.0
            return idle_samples(model, schedule, index, self._told(self.idle_w * noise[0], seconds))
        if schedule.kind == "open_loop":
            assert schedule.arrivals_ns is not None
            seconds = float(schedule.arrivals_ns[-1]) / 1e9
            load = schedule.queries / seconds * self.batch_ms / 1e3
            watts = (self.idle_w + load * (self.active_w - self.idle_w)) * noise[0]
            return idle_samples(model, schedule, index, self._told(watts, seconds + 1.0))
        ms = self.batch_ms * noise[1]
        count = round(1e3 * self.seconds / ms) if self.batches is None else self.batches
        made = samples(np.full(count, ms), process=index, model=model, batch=schedule.batch)
        return with_meter(made, self._told(self.active_w * noise[0], self.seconds + 1.0))

    def _told(self, watts: float, seconds: float) -> Telemetry | None:
        if self._made > self.metered:
            return None
        return telemetry(watts, seconds, counter=self.counter, readings=self.readings, step_s=self.step_s)

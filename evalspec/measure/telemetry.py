"""Counters, clocks and temperatures of the machine, read while something is measured by a process beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.clocks import now_ns
from evalspec.language.timings import Telemetry
from evalspec.measure import _proc
from evalspec.measure._nvml import SOURCES as NVML_SERIES
from evalspec.measure._nvml import Nvml
from evalspec.measure._rapl import SERIES as RAPL_SERIES
from evalspec.measure._rapl import Rapl
from evalspec.measure._source import Absent, Source

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "synchronized boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
"""NVML's clocks-event reasons, bit by bit."""
THROTTLED = 0x8 | 0x20 | 0x40 | 0x80
"""Reasons for which a GPU runs slower than it was asked to. A power cap (0x4) may be how it is deployed."""


def readings(
    telemetry: Telemetry | None, name: str, start_ns: int | None = None, end_ns: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Readings of a series in a window, without those that failed.

    Args:
        telemetry: What was read, or None.
        name: Of the series.
        start_ns: Start of the window, which belongs to it; None: from the first reading on.
        end_ns: Its end, which belongs to it; None: to the last reading.

    Returns:
        When it was read, shape (t,), ns; and what was read, shape (t,). Empty where the series was not read.
    """
    if telemetry is None or name not in telemetry.series:
        return np.empty(0, dtype=np.int64), np.empty(0)
    times, values = telemetry.times_ns, telemetry.series[name]
    inside = np.isfinite(values)
    if start_ns is not None:
        inside &= times >= start_ns
    if end_ns is not None:
        inside &= times <= end_ns
    return times[inside], values[inside]


def reasons(masks: ArrayLike) -> dict[str, float]:
    """Bit masks of clocks-event reasons in words.

    Args:
        masks: shape (t,), or one of them; those that are not a number are left out.

    Returns:
        Reason: share of the masks in which it stands; without those that stand in none.
    """
    read = np.atleast_1d(np.asarray(masks, dtype=np.float64))
    known = read[np.isfinite(read)].astype(np.int64)
    if not len(known):
        return {}
    shares = {word: float(((known & bit) != 0).mean()) for bit, word in REASONS.items()}
    return {word: share for word, share in shares.items() if share > 0}


@dataclass(frozen=True)
class TelemetrySources:
    """Sources that can be read here.

    Args:
        sources: Open, to be closed by whoever asked.
        missing: Series, or several in one: why not.
    """

    sources: tuple[Source, ...]
    missing: Mapping[str, str]

    @property
    def series(self) -> dict[str, str]:
        """Series: where it comes from."""
        return {name: where for source in self.sources for name, where in source.sources.items()}


def open_sources(pid: int | None, gpu: int | None = 0, beside: Sequence[int] = ()) -> TelemetrySources:
    """Everything that this machine offers.

    Args:
        pid: The process that is measured, or None.
        gpu: Number of the GPU, as CUDA counts; None: no GPU is looked at.
        beside: Processes that are ours too, such as the server that is asked.
    """
    makers: list[tuple[Sequence[str], Callable[[], Source]]] = [
        (("cpu_steal_share", "cpu_others_share", "processor_count"), lambda: _proc.ProcessorTime(pid, beside=beside)),
        (("load_average",), _proc.LoadAverage),
        (("cpu_clock_mhz",), _proc.CpuClock),
        (("cpu_temperature_c",), _proc.CpuTemperature),
        (("cpu_throttle_count",), _proc.CpuThrottle),
        (tuple(RAPL_SERIES.values()), Rapl),
    ]
    if pid is not None:
        process = pid
        makers.append((("resident_mib", "resident_peak_mib"), lambda: _proc.Resident(process)))
    if gpu is not None:
        number = gpu
        makers.append((tuple(NVML_SERIES), lambda: Nvml(pid, number, beside=beside)))
    opened: list[Source] = []
    missing: dict[str, str] = {}
    for names, make in makers:
        try:
            source = make()
        except Absent as reason:
            missing |= dict.fromkeys(names, str(reason))
            continue
        opened.append(source)
        missing |= {name: "this machine does not show it" for name in names if name not in source.sources}
        missing |= dict(getattr(source, "missing", {}))
    return TelemetrySources(tuple(opened), missing)


CLIENT = ("cpu_steal_share", "cpu_others_share", "processor_count", "reading_ms")
"""What is about the machine that a model is asked from, wherever the model runs."""


def of_client(telemetry: Telemetry) -> Telemetry:
    """Telemetry of this machine for a model that another one runs: nothing, but how busy the asking one was.

    Args:
        telemetry: As it was read.
    """
    why = "the model runs on another machine, whose counters can't be read here"
    others = [name for name in (*telemetry.series, *telemetry.missing) if name not in CLIENT]
    return Telemetry(
        times_ns=telemetry.times_ns,
        series={name: values for name, values in telemetry.series.items() if name in CLIENT},
        sources={name: source for name, source in telemetry.sources.items() if name in CLIENT},
        missing={**telemetry.missing, **dict.fromkeys(others, why)},
    )


class Sampler:
    """A thread that reads the machine's counters each so many seconds.

    It lives in a process that has nothing else to do meanwhile, so that it takes no time from what is measured. What a
    reading costs stands in the series ``reading_ms``.
    """

    def __init__(
        self,
        pid: int | None,
        every_s: float,
        origin_ns: int,
        *,
        gpu: int | None = 0,
        opened: TelemetrySources | None = None,
        beside: Sequence[int] = (),
    ) -> None:
        """Opens the sources; nothing is read yet.

        Args:
            pid: The process that is measured, or None.
            every_s: Seconds between readings.
            origin_ns: Where times count from, on `evalspec.clocks.now_ns`.
            gpu: Number of the GPU, as CUDA counts; None: no GPU is looked at.
            opened: Sources to read from; default: all that this machine offers.
            beside: Processes that are ours too, such as the server that is asked.
        """
        self._opened = open_sources(pid, gpu, beside) if opened is None else opened
        self._every_s = every_s
        self._origin_ns = origin_ns
        self._stop = threading.Event()
        self._times: list[int] = []
        self._readings: list[dict[str, float]] = []
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        """Read once, then again and again."""
        self._reading()
        self._thread.start()

    def stop(self) -> Telemetry:
        """Read a last time, and give everything."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
            self._reading()
        for source in self._opened.sources:
            source.close()
        return Telemetry(
            times_ns=self._times_ns(),
            series={name: self._series(name) for name in (*self._opened.series, "reading_ms")},
            sources=self._opened.series | {"reading_ms": "what one reading cost"},
            missing=dict(self._opened.missing),
        )

    def _run(self) -> None:
        begun = now_ns()
        count = 1
        while not self._stop.wait(max(0.0, self._every_s * count - (now_ns() - begun) / 1e9)):
            self._reading()
            # A reading that came late is not made up for: a burst of readings would be load of our own.
            count = max(count + 1, int((now_ns() - begun) / 1e9 / self._every_s) + 1)

    def _reading(self) -> None:
        before = now_ns()
        found: dict[str, float] = {}
        for source in self._opened.sources:
            found |= source.read()
        after = now_ns()
        self._times.append((before + after) // 2 - self._origin_ns)
        self._readings.append(found | {"reading_ms": (after - before) / 1e6})

    def _times_ns(self) -> NDArray[np.int64]:
        return np.array(self._times, dtype=np.int64)

    def _series(self, name: str) -> NDArray[np.float64]:
        return np.array([reading.get(name, np.nan) for reading in self._readings], dtype=np.float64)

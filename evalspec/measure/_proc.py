"""Readings of processors and processes under Linux: /proc and /sys, again and again at little cost."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from evalspec.guardian import started_by
from evalspec.measure._source import Absent
from evalspec.measure.processor_ticks import count_processors, read_ticks

MIB = 2.0**20
MOST_CLOCKS = 8
"""Cores whose clock is read: on a machine with hundreds, reading all of them would be work by itself."""
FAMILY_EVERY = 10
"""Readings between two looks at which processes the worker has started."""
CPU_ZONES = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal", "cpu", "soc_thermal", "acpitz")
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")


def _words(path: Path) -> list[bytes]:
    return path.read_bytes().split()


class ProcessorTime:
    """Shares of the machine's processor time since the reading before: stolen, and used by others.

    What is ours: see `Ours`, and the parent of the process that reads. ``processor_count`` is how many processors the
    shares are of.
    """

    def __init__(self, pid: int | None, proc: Path = Path("/proc"), beside: Sequence[int] = ()) -> None:
        """``pid`` of the process that is measured, or None; ``beside`` it those that are ours too.

        Raises:
            Absent: There is no /proc/stat.
        """
        self.sources = {
            "cpu_steal_share": "/proc/stat",
            "cpu_others_share": "/proc/stat less /proc/PID/stat of ours",
            "processor_count": "/proc/stat",
        }
        self._proc = proc
        self._ours = Ours(pid, proc, beside)
        try:
            self._count = count_processors(proc / "stat")
            self._before = self._all()
        except OSError as error:
            raise Absent(f"{proc / 'stat'} can't be read: {error.strerror or error}") from error

    def read(self) -> Mapping[str, float]:
        """Shares in 0..1 of the time of all processors; NaN where no tick has passed."""
        now = self._all()
        total, busy, stolen, ours = (after - before for after, before in zip(now, self._before, strict=True))
        count = {"processor_count": float(self._count)}
        if total <= 0:
            return {"cpu_steal_share": math.nan, "cpu_others_share": math.nan} | count
        self._before = now
        others = min(1.0, max(0.0, (busy - ours) / total))
        return {"cpu_steal_share": max(0.0, stolen / total), "cpu_others_share": others} | count

    def close(self) -> None:
        """Nothing is held."""

    def _all(self) -> tuple[float, float, float, float]:
        """Ticks since the machine started: all, busy, stolen; and those of our processes."""
        ticks = read_ticks(self._proc / "stat")
        family = self._ours.pids()
        ours = sum(self._ticks(pid, with_children=True) for pid in family)
        for pid in {os.getpid(), os.getppid()} - set(family):
            # A process that this one started and that has ended, such as a background's, goes on in its sum; what the
            # parent started was of an earlier time.
            ours += self._ticks(pid, with_children=pid == os.getpid())
        return *ticks, ours

    def _ticks(self, pid: int, *, with_children: bool) -> float:
        try:
            text = (self._proc / str(pid) / "stat").read_bytes()
        except OSError:
            return 0.0
        # The name stands in brackets and may hold spaces; utime is the 12th word behind it.
        words = text[text.rfind(b")") + 2 :].split()
        return float(sum(int(word) for word in words[11 : 15 if with_children else 13]))


class Ours:
    """Processes that are no others.

    The one that is measured and what is named beside it (the server that is asked, other clients of it), each with all
    that it has started, and whatever this process has started.
    """

    def __init__(self, pid: int | None, proc: Path = Path("/proc"), beside: Sequence[int] = ()) -> None:
        """``pid`` of the process that is measured, or None."""
        self._proc = proc
        self._families = [ProcessTree(one, proc) for one in (pid, *beside)]

    def pids(self) -> tuple[int, ...]:
        """Those of now; a load that runs for a moment beside a measurement must not be missed."""
        known = [one for each in self._families for one in each.pids()]
        return tuple(dict.fromkeys((*known, *started_by(os.getpid(), str(self._proc)))))


class ProcessTree:
    """A process and all that it has started."""

    def __init__(self, pid: int | None, proc: Path) -> None:
        """``pid`` None: nobody."""
        self._pid = pid
        self._proc = proc
        self._known: tuple[int, ...] = ()
        self._asked = 0

    def pids(self) -> tuple[int, ...]:
        """Looked up now and then, since it takes longer than a reading."""
        if self._pid is None:
            return ()
        if self._asked % FAMILY_EVERY == 0:
            self._known = self._all(self._pid)
        self._asked += 1
        return self._known

    def _all(self, pid: int) -> tuple[int, ...]:
        pids = [pid]
        for one in pids:
            pids += started_by(one, str(self._proc))
        return tuple(dict.fromkeys(pids))


class Resident:
    """Resident size of the process that is measured and of all that it has started."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        """Of ``pid``.

        Raises:
            Absent: It is gone, or this system doesn't tell.
        """
        self.sources = {
            "resident_mib": "/proc/PID/statm, the worker and what it started",
            "resident_peak_mib": "/proc/PID/status VmHWM, the worker alone, since it started or counts anew",
        }
        self._proc = proc
        self._page = os.sysconf("SC_PAGE_SIZE") / MIB
        self._family = ProcessTree(pid, proc)
        self._status = proc / str(pid) / "status"
        if math.isnan(self.read()["resident_mib"]):
            raise Absent(f"{proc / str(pid) / 'statm'} can't be read")

    def read(self) -> Mapping[str, float]:
        """Mebibytes; NaN when it is gone."""
        total = 0.0
        for pid in self._family.pids():
            with contextlib.suppress(OSError, IndexError):
                total += int(_words(self._proc / str(pid) / "statm")[1]) * self._page
        return {"resident_mib": total or math.nan, "resident_peak_mib": self._peak()}

    def close(self) -> None:
        """Nothing is held."""

    def _peak(self) -> float:
        with contextlib.suppress(OSError):
            text = self._status.read_bytes()
            at = text.find(b"VmHWM:")
            if at >= 0:
                return int(text[at + 6 : text.index(b"kB", at)]) / 1024
        return math.nan


class LoadAverage:
    """The load average of the last minute."""

    def __init__(self) -> None:
        """Raises Absent where the system has none."""
        self.sources = {"load_average": "getloadavg, 1 minute"}
        try:
            os.getloadavg()
        except (OSError, AttributeError) as error:
            raise Absent("this system has no load average") from error

    def read(self) -> Mapping[str, float]:
        """Processes that ran or waited to."""
        return {"load_average": os.getloadavg()[0]}

    def close(self) -> None:
        """Nothing is held."""


class _Files:
    """Numbers in files of /sys, folded into one."""

    def __init__(self, name: str, source: str, files: Sequence[Path], scale: float) -> None:
        self.sources = {name: source}
        self._name = name
        self._files = tuple(files)
        self._scale = scale

    def _numbers(self) -> list[float]:
        numbers = []
        for file in self._files:
            with contextlib.suppress(OSError, ValueError):
                numbers.append(float(file.read_bytes()) * self._scale)
        return numbers

    def close(self) -> None:
        """Nothing is held."""


class CpuClock(_Files):
    """Mean clock of the cores (at most 8, evenly spread)."""

    def __init__(self, cpus: Path = Path("/sys/devices/system/cpu")) -> None:
        """Raises Absent where the kernel shows no clock, as in most virtual machines."""
        files = sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
        if not files:
            raise Absent("the kernel shows no clock (no cpufreq; usual in a virtual machine)")
        chosen = files[:: math.ceil(len(files) / MOST_CLOCKS)]
        super().__init__("cpu_clock_mhz", f"cpufreq, mean of {len(chosen)} cores", chosen, 1e-3)

    def read(self) -> Mapping[str, float]:
        """MHz."""
        numbers = self._numbers()
        return {self._name: sum(numbers) / len(numbers) if numbers else math.nan}


class CpuTemperature(_Files):
    """The hottest sensor of the processor."""

    def __init__(self, sys: Path = Path("/sys/class")) -> None:
        """Raises Absent where the kernel shows none."""
        files = [*_named(sys / "thermal", "thermal_zone*", "type", CPU_ZONES, "temp")]
        files += _named(sys / "hwmon", "hwmon*", "name", CPU_SENSORS, "temp*_input")
        if not files:
            raise Absent("the kernel shows no temperature of the processor (no thermal zone, no sensor)")
        super().__init__("cpu_temperature_c", f"hottest of {len(files)} sensors", files, 1e-3)

    def read(self) -> Mapping[str, float]:
        """Degrees Celsius."""
        numbers = self._numbers()
        return {self._name: max(numbers) if numbers else math.nan}


class CpuThrottle(_Files):
    """How often the processor slowed itself down because it was too hot, since the machine started."""

    def __init__(self, cpus: Path = Path("/sys/devices/system/cpu")) -> None:
        """Raises Absent where the kernel does not count it."""
        files = sorted(cpus.glob("cpu[0-9]*/thermal_throttle/*_throttle_count"))
        if not files:
            raise Absent("the kernel does not count thermal throttling (no thermal_throttle)")
        chosen = files[:: math.ceil(len(files) / MOST_CLOCKS)]
        super().__init__("cpu_throttle_count", f"thermal_throttle, sum of {len(chosen)} counters", chosen, 1.0)

    def read(self) -> Mapping[str, float]:
        """A count."""
        numbers = self._numbers()
        return {self._name: sum(numbers) if len(numbers) == len(self._files) else math.nan}


def _named(folder: Path, devices: str, kind: str, wanted: Sequence[str], values: str) -> list[Path]:
    """Files with values of the devices whose kind is wanted."""
    files: list[Path] = []
    for device in sorted(folder.glob(devices)):
        with contextlib.suppress(OSError):
            if (device / kind).read_text(encoding="utf-8").strip() in wanted:
                files += sorted(device.glob(values))
    return files

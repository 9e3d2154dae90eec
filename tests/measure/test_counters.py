"""What Linux, RAPL and NVML tell, from stand-ins: files in a folder, a library that never saw a GPU."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evalspec.measure._nvml import Nvml
from evalspec.measure._proc import (
    CpuClock,
    CpuTemperature,
    CpuThrottle,
    LoadAverage,
    ProcessorTime,
    ProcessTree,
    Resident,
)
from evalspec.measure._rapl import Rapl
from evalspec.measure._source import Absent

PID = 4_000_001
CHILD = 4_000_002


def write(path: Path, text: str | float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    return path


def process(proc: Path, pid: int, ticks: int, *, children: str = "", ended: int = 0) -> None:
    """A process whose name is as awkward as names may be."""
    rest = f"S 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 {ended} 0 20 0 1 0 0"
    write(proc / str(pid) / "stat", f"{pid} (odd ) name) {rest}")
    write(proc / str(pid) / "task" / str(pid) / "children", children)


def machine(proc: Path, user: int, idle: int, steal: int = 0) -> None:
    write(proc / "stat", f"cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3")


def test_others_are_what_is_not_ours(tmp_path: Path) -> None:
    machine(tmp_path, 1000, 1000)
    process(tmp_path, PID, 100, children=f"{CHILD}")
    process(tmp_path, CHILD, 50)
    source = ProcessorTime(PID, tmp_path)
    machine(tmp_path, 1080, 1100, steal=20)
    process(tmp_path, PID, 130, children=f"{CHILD}")
    process(tmp_path, CHILD, 60)
    found = source.read()
    # 200 ticks have passed, 80 of them busy, 40 of these ours, 20 stolen.
    assert found["cpu_others_share"] == pytest.approx(0.2) and found["cpu_steal_share"] == pytest.approx(0.1)
    again = source.read()
    assert math.isnan(again["cpu_others_share"]) and math.isnan(again["cpu_steal_share"]), "no tick has passed"
    assert found["processor_count"] == again["processor_count"] == 1


def test_a_child_that_ends_stays_ours(tmp_path: Path) -> None:
    machine(tmp_path, 1000, 1000)
    process(tmp_path, PID, 100)
    source = ProcessorTime(PID, tmp_path)
    machine(tmp_path, 1100, 1000)
    process(tmp_path, PID, 100, ended=100)
    assert source.read()["cpu_others_share"] == 0.0


def test_a_load_that_this_process_starts_is_ours_while_it_runs_and_when_it_has_ended(tmp_path: Path) -> None:
    machine(tmp_path, 1000, 1000)
    process(tmp_path, PID, 100)
    process(tmp_path, os.getpid(), 10)
    source = ProcessorTime(PID, tmp_path)
    # It starts, and is at work before anybody could have told of it.
    machine(tmp_path, 1090, 1010)
    process(tmp_path, os.getpid(), 10, children=f"{CHILD}")
    process(tmp_path, CHILD, 90)
    assert source.read()["cpu_others_share"] == 0.0
    # It works on, and ends: its ticks go on in what the children of this process have used.
    machine(tmp_path, 1190, 1010)
    process(tmp_path, os.getpid(), 10, ended=190)
    (tmp_path / str(CHILD) / "stat").unlink()
    assert source.read()["cpu_others_share"] == 0.0
    machine(tmp_path, 1290, 1010)
    assert source.read()["cpu_others_share"] == 1.0


def test_without_a_process_all_work_is_others(tmp_path: Path) -> None:
    machine(tmp_path, 1000, 1000)
    source = ProcessorTime(None, tmp_path)
    machine(tmp_path, 1050, 1050)
    assert source.read()["cpu_others_share"] == pytest.approx(0.5)
    with pytest.raises(Absent, match="can't be read"):
        ProcessorTime(None, tmp_path / "nowhere")


def test_a_family_is_looked_up_now_and_then(tmp_path: Path) -> None:
    process(tmp_path, PID, 1, children=f"{CHILD}")
    process(tmp_path, CHILD, 1)
    family = ProcessTree(PID, tmp_path)
    assert family.pids() == (PID, CHILD)
    process(tmp_path, PID, 1)
    assert family.pids() == (PID, CHILD), "kept for some readings"
    for _ in range(10):
        seen = family.pids()
    assert seen == (PID,)
    assert ProcessTree(None, tmp_path).pids() == ()


def test_resident_size_is_that_of_the_family(tmp_path: Path) -> None:
    process(tmp_path, PID, 1, children=f"{CHILD}")
    process(tmp_path, CHILD, 1)
    page = os.sysconf("SC_PAGE_SIZE") / 2**20
    write(tmp_path / str(PID) / "statm", "9999 2000 10 1 0 1 0")
    write(tmp_path / str(CHILD) / "statm", "9999 500 10 1 0 1 0")
    write(tmp_path / str(PID) / "status", "Name:\tx\nVmHWM:\t   20480 kB\nVmRSS:\t 1 kB")
    found = Resident(PID, tmp_path).read()
    assert found["resident_mib"] == pytest.approx(2500 * page) and found["resident_peak_mib"] == 20.0
    with pytest.raises(Absent):
        Resident(99, tmp_path)


def test_clocks_temperatures_and_throttling(tmp_path: Path) -> None:
    cpus = tmp_path / "cpu"
    for core, mhz in enumerate((2000, 3000)):
        write(cpus / f"cpu{core}" / "cpufreq" / "scaling_cur_freq", mhz * 1000)
        write(cpus / f"cpu{core}" / "thermal_throttle" / "core_throttle_count", core + 1)
    assert CpuClock(cpus).read() == {"cpu_clock_mhz": 2500.0}
    throttle = CpuThrottle(cpus)
    assert throttle.read() == {"cpu_throttle_count": 3.0}
    (cpus / "cpu1" / "thermal_throttle" / "core_throttle_count").unlink()
    assert math.isnan(throttle.read()["cpu_throttle_count"]), "a sum without one of its counters is another sum"
    write(tmp_path / "thermal" / "thermal_zone0" / "type", "x86_pkg_temp")
    write(tmp_path / "thermal" / "thermal_zone0" / "temp", 61_000)
    write(tmp_path / "thermal" / "thermal_zone1" / "type", "battery")
    write(tmp_path / "thermal" / "thermal_zone1" / "temp", 99_000)
    write(tmp_path / "hwmon" / "hwmon0" / "name", "k10temp")
    write(tmp_path / "hwmon" / "hwmon0" / "temp1_input", 64_500)
    assert CpuTemperature(tmp_path).read() == {"cpu_temperature_c": 64.5}


@pytest.mark.parametrize("source", [CpuClock, CpuTemperature, CpuThrottle])
def test_a_kernel_that_shows_nothing_says_so(source: Any, tmp_path: Path) -> None:
    with pytest.raises(Absent, match="the kernel"):
        source(tmp_path)


def test_no_more_than_eight_clocks_are_read(tmp_path: Path) -> None:
    for core in range(64):
        write(tmp_path / f"cpu{core}" / "cpufreq" / "scaling_cur_freq", 1_000_000)
    assert CpuClock(tmp_path).sources["cpu_clock_mhz"] == "cpufreq, mean of 8 cores"


def test_the_load_average() -> None:
    assert LoadAverage().read()["load_average"] >= 0.0


def domain(powercap: Path, folder: str, name: str, microjoules: int, most: int = 10_000_000) -> Path:
    write(powercap / folder / "name", name)
    write(powercap / folder / "max_energy_range_uj", most)
    return write(powercap / folder / "energy_uj", microjoules)


def test_rapl_adds_sockets_and_leaves_out_what_is_inside_another(tmp_path: Path) -> None:
    first = domain(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    second = domain(tmp_path, "intel-rapl:1", "package-1", 5_000_000)
    memory = domain(tmp_path, "intel-rapl:0:1", "dram", 0)
    core = domain(tmp_path, "intel-rapl:0:0", "core", 0)
    twin = domain(tmp_path, "intel-rapl-mmio:0", "package-0", 0)
    rapl = Rapl(tmp_path)
    assert rapl.read() == {"cpu_energy_j": 0.0, "memory_energy_j": 0.0}
    for file, microjoules in ((first, 3_000_000), (second, 6_000_000), (memory, 500_000), (core, 9), (twin, 9)):
        write(file, microjoules)
    assert rapl.read() == {"cpu_energy_j": 3.0, "memory_energy_j": 0.5}
    assert "2 domains" in rapl.sources["cpu_energy_j"]


def test_rapl_wraps_around(tmp_path: Path) -> None:
    file = domain(tmp_path, "intel-rapl:0", "package-0", 9_500_000, most=10_000_000)
    rapl = Rapl(tmp_path)
    for microjoules, joules in ((9_900_000, 0.4), (300_000, 0.8), (300_000, 0.8), (200_000, 10.7)):
        write(file, microjoules)
        assert rapl.read()["cpu_energy_j"] == pytest.approx(joules)


def test_rapl_that_fails_later_is_not_a_number(tmp_path: Path) -> None:
    file = domain(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    rapl = Rapl(tmp_path)
    file.unlink()
    assert math.isnan(rapl.read()["cpu_energy_j"])


def test_rapl_that_is_not_there_or_may_not_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="no energy counter"):
        Rapl(tmp_path)
    domain(tmp_path, "intel-rapl:0", "package-0", 1)
    forbidden = domain(tmp_path, "intel-rapl:1", "package-1", 1)
    forbidden.unlink()
    forbidden.mkdir()
    # One socket of two would be half the energy, which nobody would notice.
    with pytest.raises(Absent, match="only root may"):
        Rapl(tmp_path)


class NVMLError(Exception):
    """As pynvml's."""


class NotFound(NVMLError):
    """Nobody ran a kernel since."""


class Library:
    """As much of pynvml as is used, with one H100 of sorts."""

    NVMLError, NVMLError_NotFound = NVMLError, NotFound
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, *refused: str, gpus: int = 1) -> None:
        self.refused = set(refused)
        self.energy_mj = 5_000_000_000
        self.started = 0
        self.gpus = gpus
        self.processes = [SimpleNamespace(pid=PID, usedGpuMemory=3 * 2**20)]
        self.used: dict[int, int] = {}
        self.asked: list[int] = []

    def nvmlInit(self) -> None:
        self._may("nvmlInit")
        self.started += 1

    def nvmlShutdown(self) -> None:
        self.started -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index >= self.gpus:
            raise NVMLError("Invalid Argument")
        return f"gpu {index}"

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:
        return f"gpu {name}"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        self._may("energy")
        return self.energy_mj

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        self._may("power")
        return 350_500

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        return {1: 1980, 2: 2619}[kind]

    def nvmlDeviceGetTemperature(self, handle: str, kind: int) -> int:
        return 56

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return 0x4

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(gpu=87, memory=3)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(used=700 * 2**20)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        return self.processes

    def nvmlDeviceGetProcessUtilization(self, handle: str, since_us: int) -> list[SimpleNamespace]:
        self.asked.append(since_us)
        if not self.used:
            raise NotFound("Not Found")
        return [SimpleNamespace(pid=pid, smUtil=share, timeStamp=7_000 + pid) for pid, share in self.used.items()]

    def _may(self, what: str) -> None:
        if what in self.refused:
            raise NVMLError("Not Supported")


def test_nvml_in_our_units() -> None:
    library = Library()
    gpu = Nvml(PID, library=library)
    library.energy_mj += 1500
    assert gpu.read() == {
        "gpu_energy_j": 1.5, "gpu_power_w": 350.5, "gpu_sm_clock_mhz": 1980.0, "gpu_memory_clock_mhz": 2619.0,
        "gpu_temperature_c": 56.0, "gpu_throttle_reasons": 4.0, "gpu_utilization_share": 0.87, "gpu_memory_mib": 3.0,
        "gpu_board_memory_mib": 700.0, "gpu_others_count": 0.0, "gpu_others_share": 0.0,
    }  # fmt: skip
    assert set(gpu.sources) == set(gpu.read()) and gpu.missing == {}
    gpu.close()
    assert library.started == 0


def test_nvml_says_what_a_gpu_does_not_tell() -> None:
    gpu = Nvml(PID, library=Library("energy"))
    assert "gpu_energy_j" not in gpu.read() and gpu.missing == {"gpu_energy_j": "NVML does not report: Not Supported"}


def test_a_reading_of_nvml_that_fails_later_is_not_a_number() -> None:
    library = Library()
    gpu = Nvml(None, library=library)
    library.refused.add("power")
    found = gpu.read()
    assert math.isnan(found["gpu_power_w"]) and found["gpu_temperature_c"] == 56.0
    assert "gpu_memory_mib" not in found, "nobody's memory was asked for"


def test_a_process_that_nvml_does_not_know_has_no_memory() -> None:
    library = Library()
    library.processes = [SimpleNamespace(pid=1, usedGpuMemory=9)]
    assert math.isnan(Nvml(PID, library=library).read()["gpu_memory_mib"])
    library.processes = [SimpleNamespace(pid=PID, usedGpuMemory=None)]
    assert math.isnan(Nvml(PID, library=library).read()["gpu_memory_mib"])


def on_the_gpu(*pids: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=1) for pid in pids]


def test_processes_of_others_on_the_gpu_are_counted_and_what_they_use() -> None:
    library = Library()
    gpu = Nvml(PID, library=library, beside=(CHILD,))
    library.processes = on_the_gpu(PID, CHILD)
    library.used = {PID: 70, CHILD: 20}
    assert gpu.read()["gpu_others_count"] == 0.0 and gpu.read()["gpu_others_share"] == 0.0
    library.processes = on_the_gpu(PID, CHILD, 1, 2)
    library.used |= {1: 30, 2: 5, 3: 40}
    found = gpu.read()
    assert found["gpu_others_count"] == 2.0
    assert found["gpu_others_share"] == pytest.approx(0.35), "process 3 is gone; nobody knows whose it was"
    gpu.read()
    assert library.asked == [0, 7_000 + CHILD], "each asks for what came since the one before"
    library.used = {}
    assert gpu.read()["gpu_others_share"] == 0.0


def test_where_nvml_knows_none_of_our_processes_it_does_not_know_others() -> None:
    library = Library()
    gpu = Nvml(PID, library=library)
    library.processes, library.used = on_the_gpu(1), {1: 90}
    found = gpu.read()
    assert math.isnan(found["gpu_others_count"]) and math.isnan(found["gpu_others_share"])
    library.processes = []
    assert gpu.read()["gpu_others_count"] == 0.0


def test_nvml_that_is_not_there_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Absent, match="does not start"):
        Nvml(None, library=Library("nvmlInit"))
    library = Library()
    with pytest.raises(Absent, match="no GPU 1"):
        Nvml(None, 1, library=library)
    assert library.started == 0, "it is shut down again"


def test_the_gpu_is_the_one_that_cuda_calls_by_this_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-abc")
    assert Nvml(None, 0, library=Library(gpus=3))._handle == "gpu 2"
    assert Nvml(None, 1, library=Library(gpus=3))._handle == "gpu GPU-abc"

"""An NVIDIA GPU as NVML shows it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalspec.measure._proc import Ours
from evalspec.measure._source import Absent

MIB = 2.0**20
SOURCES = {
    "gpu_energy_j": "NVML total energy counter (board)",
    "gpu_power_w": "NVML power usage (board; a mean over 1 s on most GPUs since Ampere)",
    "gpu_sm_clock_mhz": "NVML SM clock",
    "gpu_memory_clock_mhz": "NVML memory clock",
    "gpu_temperature_c": "NVML GPU temperature",
    "gpu_throttle_reasons": "NVML clocks-event reasons (bit mask)",
    "gpu_utilization_share": "NVML utilization: share of time with a kernel running",
    "gpu_memory_mib": "NVML memory of the worker's process",
    "gpu_board_memory_mib": "NVML memory in use on the board, by whomever",
    "gpu_others_count": "NVML processes on the GPU that are not ours",
    "gpu_others_share": "NVML utilization by processes that are not ours",
}


class Nvml:
    """Counters of one GPU.

    Args:
        pid: Whose memory is looked up; None: nobody's.
        gpu: Its number, as CUDA counts the visible ones.
        library: `pynvml`, or a stand-in.
        beside: Processes that are ours too.
    """

    def __init__(self, pid: int | None, gpu: int = 0, library: Any | None = None, beside: Sequence[int] = ()) -> None:
        """Opens NVML.

        Raises:
            Absent: No package, no driver, or no such GPU.
        """
        self._nvml = _imported() if library is None else library
        self._error: type[Exception] = self._nvml.NVMLError
        self._pid = pid
        self._ours = Ours(pid, beside=beside)
        self._seen_us = 0
        try:
            self._nvml.nvmlInit()
        except self._error as error:
            raise Absent(f"NVML does not start: {error}") from error
        try:
            self._handle = self._find(gpu)
            readers = self._readers()
        except self._error as error:
            self._nvml.nvmlShutdown()
            raise Absent(f"NVML shows no GPU {gpu}: {error}") from error
        self._read: dict[str, Callable[[], float]] = {}
        self.missing: dict[str, str] = {}
        self._start_mj = 0
        for name, read in readers.items():
            try:
                read()
            except self._error as error:
                self.missing[name] = f"NVML does not report: {error}"
                continue
            self._read[name] = read
        if "gpu_energy_j" in self._read:
            self._start_mj = int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        self.sources = {name: SOURCES[name] for name in self._read}

    def read(self) -> Mapping[str, float]:
        """One reading of all that this GPU tells."""
        found: dict[str, float] = {}
        for name, read in self._read.items():
            try:
                found[name] = read()
            except self._error:
                found[name] = math.nan
        return found

    def close(self) -> None:
        """Shut NVML down for this user of it."""
        self._nvml.nvmlShutdown()

    def _find(self, gpu: int) -> Any:
        """The GPU that CUDA calls by this number.

        CUDA_VISIBLE_DEVICES renumbers; NVML does not look at it.
        """
        visible = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
        if gpu < len(visible):
            name = visible[gpu]
            if not name.isdigit():
                return self._nvml.nvmlDeviceGetHandleByUUID(name)
            return self._nvml.nvmlDeviceGetHandleByIndex(int(name))
        return self._nvml.nvmlDeviceGetHandleByIndex(gpu)

    def _readers(self) -> dict[str, Callable[[], float]]:
        nvml, handle = self._nvml, self._handle
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        if reasons is None:
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        found: dict[str, Callable[[], float]] = {
            # Millijoules since the driver was loaded.
            "gpu_energy_j": lambda: (nvml.nvmlDeviceGetTotalEnergyConsumption(handle) - self._start_mj) / 1e3,
            "gpu_power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "gpu_sm_clock_mhz": lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            "gpu_memory_clock_mhz": lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            "gpu_temperature_c": lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            "gpu_throttle_reasons": lambda: float(reasons(handle)),
            "gpu_utilization_share": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100.0,
            "gpu_board_memory_mib": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / MIB,
        }
        found |= {"gpu_others_count": self._count_of_others, "gpu_others_share": self._used_by_others}
        if self._pid is not None:
            found["gpu_memory_mib"] = self._memory_of_process
        return found

    def _memory_of_process(self) -> float:
        """Memory of the process; NaN where NVML does not know it, as in a container with numbers of its own."""
        for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle):
            if process.pid == self._pid and process.usedGpuMemory is not None:
                return float(process.usedGpuMemory) / MIB
        return math.nan

    def _others(self) -> frozenset[int] | None:
        """Processes on the GPU that are not ours; None where NVML knows none of ours, as in a container.

        Their numbers are then others than the system's here, and ours can't be told from theirs.
        """
        here = {int(process.pid) for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}
        ours = here.intersection(self._ours.pids())
        return frozenset(here - ours) if ours or not here else None

    def _count_of_others(self) -> float:
        others = self._others()
        return math.nan if others is None else float(len(others))

    def _used_by_others(self) -> float:
        """Share of time in which kernels of others ran, since the reading before."""
        others = self._others()
        if not others:
            return math.nan if others is None else 0.0
        try:
            seen = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._seen_us)
        except self._nvml.NVMLError_NotFound:
            # Nobody ran a kernel since.
            return 0.0
        self._seen_us = max([self._seen_us, *(int(one.timeStamp) for one in seen)])
        return float(min(1.0, sum(one.smUtil for one in seen if one.pid in others) / 100.0))


def _imported() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise Absent("the package nvidia-ml-py is not installed: pip install 'evalspec-gate[gpu]'") from error
    return pynvml

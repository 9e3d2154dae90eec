"""Environment of a run: hardware, software, and what of them was under control."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import ControlRecord, Environment

PACKAGES = (
    "evalspec-gate", "numpy", "scipy", "pyarrow", "pydantic", "torch", "onnx", "onnxruntime", "onnxruntime-gpu",
    "scikit-learn", "skops", "pandas", "datasets", "evaluate", "pillow", "nvidia-ml-py",
)  # fmt: skip
CHANGING = re.compile(r"^git_|clock_MHz$|^cpu_MHz$|temperature|steal")
"""Facts of a machine that always change, and the state of the spec's repository."""
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
VERSION = re.compile(r"^Version: *(\S+) *$", re.MULTILINE)


def capture(folder: Path) -> Environment:
    """Facts, packages, controls and load of this machine, as far as they can be read without changing it.

    Args:
        folder: The spec's folder, whose git state is recorded.
    """
    return Environment(
        facts=_machine() | _container() | _gpu_facts() | _git(folder),
        packages=_packages(),
        controls=(*_cpu_controls(), *_gpu_controls()),
        load_at_start=load(),
    )


def differences(before: Environment, now: Environment) -> list[str]:
    """Differences of hardware, software and controls, one sentence each, without those that always change."""
    sentences = []
    pairs = (
        ("", _lasting(before.facts), _lasting(now.facts)),
        ("version of ", before.packages, now.packages),
        ("", _controls(before), _controls(now)),
    )
    for what, then, today in pairs:
        for name in sorted({*then, *today}):
            if then.get(name) != today.get(name):
                sentences.append(f"{what}{name} was {then.get(name)}, and is {today.get(name)}")
    return sentences


def lasting(environment: Environment) -> dict[str, object]:
    """Hardware, versions of software and controls: all that `differences` looks at."""
    return {
        "facts": _lasting(environment.facts),
        "packages": dict(environment.packages),
        "controls": _controls(environment),
    }


def _lasting(facts: Mapping[str, Cell]) -> dict[str, Cell]:
    return {name: value for name, value in facts.items() if not CHANGING.search(name)}


def _controls(environment: Environment) -> dict[str, str]:
    return {one.name: f"{one.state} ({one.detail})" if one.detail else one.state for one in environment.controls}


def load() -> float | None:
    """Load average over the last minute, or None where the system has none."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _machine() -> dict[str, Cell]:
    import psutil

    facts: dict[str, Cell] = {
        "os": platform.platform(),
        "python": platform.python_version(),
        "python_build": sys.version.split("(")[0].strip(),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "memory_MiB": round(psutil.virtual_memory().total / 2**20),
    }
    frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    if frequency is not None and frequency.current:
        facts["cpu_MHz"] = round(frequency.current)
    times = psutil.cpu_times()
    if hasattr(times, "steal"):
        facts["cpu_steal_s_since_boot"] = round(times.steal, 2)
    return facts


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _container() -> dict[str, Cell]:
    if Path("/.dockerenv").exists():
        return {"container": "docker"}
    try:
        groups = Path("/proc/1/cgroup").read_text(encoding="utf-8")
    except OSError:
        return {}
    for name in ("kubepods", "docker", "containerd", "lxc"):
        if name in groups:
            return {"container": name}
    return {}


def _packages() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = _version(metadata.distribution(name))
        except metadata.PackageNotFoundError:
            continue
    return versions


def _version(package: metadata.Distribution) -> str:
    """As `Distribution.version`, which parses the whole description of a package for it."""
    head, _, _ = (package.read_text("METADATA") or "").partition("\n\n")
    stated = VERSION.search(head)
    return stated[1] if stated else package.version


def _git(folder: Path) -> dict[str, Cell]:
    """Commit of the spec's repository, and whether files differ from it; None where git can't be asked safely."""

    def git(*words: str) -> str | None:
        # A repository's own settings may name programs; without this one `status` would start a file watcher.
        command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", "--no-optional-locks", *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode in (0, 1) else None

    commit = git("rev-parse", "HEAD")
    if not commit or not COMMIT.fullmatch(commit):
        return {}
    # A filter of the repository's own is a program too, and `status` runs it on changed files.
    if git("config", "--local", "--includes", "--get-regexp", r"^filter\.") != "":
        return {"git_commit": commit, "git_changed": None}
    changed = git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all", "--", ".")
    return {"git_commit": commit, "git_changed": None if changed is None else bool(changed)}


def _cpu_controls() -> tuple[ControlRecord, ...]:
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    controls = []
    if governor.exists():
        controls.append(ControlRecord(name="cpu governor", state="not attempted", detail=governor.read_text().strip()))
    else:
        controls.append(ControlRecord(name="cpu governor", state="unavailable", detail="not available on this system"))
    if hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        controls.append(
            ControlRecord(name="cpu affinity", state="not attempted", detail=f"may run on cores {_ranges(cores)}")
        )
    else:
        controls.append(ControlRecord(name="cpu affinity", state="unavailable"))
    return tuple(controls)


def _ranges(numbers: list[int]) -> str:
    if numbers and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    return ", ".join(map(str, numbers))


def _gpu_facts() -> dict[str, Cell]:
    facts: dict[str, Cell] = {}
    for index, gpu in enumerate(gpus()):
        facts |= {f"gpu{index}_{name}": value for name, value in gpu.items()}
    return facts


def _gpu_controls() -> tuple[ControlRecord, ...]:
    if not gpus():
        return (ControlRecord(name="gpu clocks", state="unavailable", detail="no NVIDIA GPU is visible"),)
    return (
        ControlRecord(name="gpu clocks", state="not attempted", detail="recorded, never set by evalspec"),
        ControlRecord(name="gpu power limit", state="not attempted", detail="recorded, never set by evalspec"),
    )


def gpus() -> list[dict[str, Cell]]:
    """Every NVIDIA GPU that NVML shows: name, driver, memory, clocks, power limit."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return [_gpu(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _gpu(handle: object) -> dict[str, Cell]:
    import pynvml

    facts: dict[str, Cell] = {}
    readings: dict[str, Callable[[], Cell]] = {
        "name": lambda: str(pynvml.nvmlDeviceGetName(handle)),
        "driver": lambda: str(pynvml.nvmlSystemGetDriverVersion()),
        "cuda": lambda: int(pynvml.nvmlSystemGetCudaDriverVersion_v2()),
        "memory_MiB": lambda: round(pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**20),
        "sm_clock_MHz": lambda: int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        "sm_clock_max_MHz": lambda: int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        "power_limit_W": lambda: pynvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000,
        "temperature_C": lambda: int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
    }
    for name, read in readings.items():
        try:
            facts[name] = read()
        except pynvml.NVMLError:
            continue
    return facts

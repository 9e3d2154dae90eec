"""Survey of what this machine can measure, made by trying."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evalspec.clocks import now_ns, read_clock
from evalspec.errors import EvalspecError
from evalspec.evidence.words import plural
from evalspec.language.parts import Access, Dataset, Model
from evalspec.language.places import OBJECT_CLIENT
from evalspec.language.registry import discover
from evalspec.running.environment import gpus

if TYPE_CHECKING:
    from evalspec.running.engines.choice import EngineChoice
    from evalspec.running.engines.opening import NodeFacts

State = Literal["ok", "absent", "broken", "note"]

LIST_S = 600.0
"""Longest time to list the objects of a dataset."""
PROVIDERS = """
import base64
import onnxruntime
# One Identity node, float32[1] to float32[1], opset 17.
model = base64.b64decode("CAg6NwoQCgF4EgF5IghJZGVudGl0eRIBZ1oPCgF4EgoKCAgBEgQKAggBYg8KAXkSCgoICAESBAoCCAFCBAoAEBE=")
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
got = []
for name in onnxruntime.get_available_providers():
    try:
        session = onnxruntime.InferenceSession(model, options, providers=[name])
    except Exception:
        continue
    if name in session.get_providers():
        got.append(name)
print(",".join(got), "|", ",".join(onnxruntime.get_available_providers()))
"""


@dataclass(frozen=True, slots=True)
class MachineFact:
    """One thing about this machine."""

    what: str
    state: State
    detail: str


def examine() -> list[MachineFact]:
    """Everything that this machine can or can't measure."""
    return [
        MachineFact("python", "ok", sys.version.split()[0]),
        *_kinds(),
        _object_storage(),
        *_onnxruntime(),
        *_gpu(),
        _clock(),
        *_counters(),
        *_telemetry(),
        _chromium(),
    ]


def examine_engine(choice: EngineChoice, datasets: Mapping[str, Dataset], access: Access) -> list[MachineFact]:
    """Facts about an engine: its nodes, their processors and versions, and what each of them can read.

    Args:
        choice: The engine.
        datasets: Of a spec, by name.
        access: Where they may be read from.
    """
    from evalspec.running.engines.opening import surveyed
    from evalspec.running.engines.stamps import stamps_of

    if not choice.address:
        return [MachineFact("engine local", "ok", f"{choice.words} on this machine")]
    findings, readable = list[MachineFact](), dict[str, Dataset]()
    for name, one in datasets.items():
        try:
            _list_objects(name, one, access)
            stamps_of(one, access)
            readable[name] = one
        except EvalspecError as error:
            findings.append(MachineFact(f"dataset {name}", "broken", str(error)))
    try:
        facts = surveyed(choice, readable, access)
    except EvalspecError as error:
        return [*findings, MachineFact(f"engine {choice.name}", "broken", str(error))]
    state: State = "ok" if facts.nodes else "broken"
    findings.append(MachineFact(f"engine {facts.name} {facts.version}", state, facts.size))
    for node in facts.nodes:
        findings += _node(node, readable)
    return findings


def _list_objects(name: str, dataset: Dataset, access: Access) -> None:
    """List the objects of a dataset in a child, where it lies in object storage.

    Raises:
        EvalspecError: They can't be listed.
    """
    from evalspec.evidence.record import ObjectStamp
    from evalspec.running.children.jobs import SpecParts
    from evalspec.running.options import default_limits
    from evalspec.running.subjects import Children

    if dataset.place is None:
        return
    parts = SpecParts({}, {name: dataset}, {}, access)
    with tempfile.TemporaryDirectory() as folder:
        children = Children(access, default_limits(LIST_S), 1, Path(folder))
        with children.start("evalspec.running.children.reader", parts, "objects") as child:
            listed = child.ask({"do": "objects", "name": name})["objects"]
    dataset.keep_stamps(access, [ObjectStamp.model_validate(one) for one in listed])


def _node(node: NodeFacts, datasets: Mapping[str, Dataset]) -> Iterator[MachineFact]:
    what = f"node {node.name}"
    if node.unfit:
        yield MachineFact(what, "broken", node.unfit)
        return
    has = ", ".join(f"{name} {version}" for name, version in sorted(node.versions.items()))
    yield MachineFact(what, "ok", f"{plural(node.cpus, 'CPU')} ({node.cpu}); {has}")
    for name, dataset in datasets.items():
        reason = node.unread.get(name, node.unread.get(""))
        state: State = "ok" if reason is None else "broken"
        fine = "its files are the same there" if dataset.place is None else "its objects can be read there"
        yield MachineFact(f"{what}, dataset {name}", state, reason or fine)


def _kinds() -> list[MachineFact]:
    registry = discover()
    parts: list[tuple[str, type[Model] | type[Dataset]]] = []
    parts += [(f"model kind {kind}", registry.runtime(kind)) for kind in registry.kinds("runtimes")]
    parts += [(f"dataset kind {kind}", registry.source(kind)) for kind in registry.kinds("sources")]
    findings = []
    for what, part in parts:
        missing = [name for name in part.packages if util.find_spec(name) is None]
        if missing:
            line = f"needs {', '.join(missing)}: pip install 'evalspec-gate[{part.extra_name}]'"
            findings.append(MachineFact(what, "absent", line))
        else:
            findings.append(MachineFact(what, "ok", "its packages are installed"))
    return findings


def _object_storage() -> MachineFact:
    if util.find_spec(OBJECT_CLIENT) is None:
        return MachineFact("object storage", "absent", f"needs {OBJECT_CLIENT}: pip install 'evalspec-gate[objects]'")
    return MachineFact("object storage", "ok", f"{OBJECT_CLIENT} reads s3, gs and az")


def _onnxruntime() -> list[MachineFact]:
    both = [name for name in ("onnxruntime", "onnxruntime-gpu") if _installed(name)]
    if len(both) == 2:
        line = "both are installed and overwrite each other; uninstall both, then install one"
        return [MachineFact("onnxruntime and onnxruntime-gpu", "broken", line)]
    if not both:
        return []
    done = subprocess.run([sys.executable, "-c", PROVIDERS], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return [MachineFact(f"{both[0]} providers", "broken", last)]
    # It prints complaints of its own to standard output; ours is the last line.
    got, _, listed = done.stdout.strip().splitlines()[-1].partition(" | ")
    absent = sorted(set(listed.split(",")) - set(got.split(",")))
    note = f"; compiled in, but not usable here: {', '.join(absent)}" if absent else ""
    return [MachineFact(f"{both[0]} providers", "ok", f"{got}{note}")]


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _gpu() -> list[MachineFact]:
    devices = gpus()
    if not devices:
        return [MachineFact("NVIDIA GPU", "absent", "NVML shows none")]
    return [
        MachineFact(f"NVIDIA GPU {index}", "ok", ", ".join(f"{name} {value}" for name, value in gpu.items()))
        for index, gpu in enumerate(devices)
    ]


def _clock() -> MachineFact:
    clock = read_clock()
    detail = f"{clock.overhead_ns:.0f} ns a reading, {clock.worst_ns / 1e3:.0f} us the longest"
    return MachineFact("clock", "ok", f"perf_counter_ns, {detail}")


def _counters() -> list[MachineFact]:
    rapl = Path("/sys/class/powercap/intel-rapl:0/energy_uj")
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    findings = [
        MachineFact("energy counter (RAPL)", "ok" if os.access(rapl, os.R_OK) else "absent", str(rapl)),
        MachineFact(
            "cpu governor",
            "ok" if governor.exists() else "absent",
            governor.read_text(encoding="utf-8").strip() if governor.exists() else "not available on this system",
        ),
    ]
    if sys.platform != "linux":
        findings.append(MachineFact("process limits", "absent", "children do not die with their parent on this system"))
    return findings


def _telemetry() -> list[MachineFact]:
    """Telemetry that system checks can read of this machine while they measure, and the cost of a reading."""
    from evalspec.measure.telemetry import open_sources

    opened = open_sources(os.getpid())
    begun = now_ns()
    for source in opened.sources:
        source.read()
    spent_ms = (now_ns() - begun) / 1e6
    for source in opened.sources:
        source.close()
    seen = ", ".join(sorted(opened.series))
    findings = [MachineFact("telemetry", "ok", f"{seen}; {spent_ms:.2f} ms a reading")]
    reasons = dict.fromkeys(opened.missing.values())
    for reason in reasons:
        names = ", ".join(name for name, why in opened.missing.items() if why == reason)
        findings.append(MachineFact("telemetry", "absent", f"{names}: {reason}"))
    return findings


def _chromium() -> MachineFact:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        return MachineFact("browser", "absent", "none; only the report's own tests need one")
    return MachineFact("browser", "ok", path)

"""Measurement of `memory`, and its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.errors import NotRunError
from evalspec.evidence.blocks import AnyBlock, Column, Curve, Reference, Series, Table
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Parts
from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.measure.telemetry import readings
from evalspec.stats.exact import ExactPair
from evalspec.timing import samples
from evalspec.timing.budget import batch_part
from evalspec.timing.probes import number

if TYPE_CHECKING:
    from evalspec.checks.system.memory.spec import Memory
    from evalspec.language.inputs import Inputs, Probe

PROBE = "memory"
EVERY_S = 0.1
MIB = 2.0**20
QUERIES = 20
HOST, DEVICE = "peak_host_memory", "peak_device_memory"


@dataclass(frozen=True)
class Used:
    """Memory that the processes of one model used.

    Args:
        host: By batch size, MiB: the largest of its processes.
        device: The same of the GPU, where it was seen.
        device_source: Who said so.
        no_device: Why there is none, or None.
        probes: All of them, by batch size.
    """

    host: Mapping[int, float]
    device: Mapping[int, float]
    device_source: str
    no_device: str | None
    probes: Mapping[int, Sequence[Probe]]

    @property
    def parameters(self) -> int | None:
        """As the loaded model counts them."""
        told = [one.facts.get("parameters") for probes in self.probes.values() for one in probes]
        return next((int(one) for one in told if isinstance(one, int | float)), None)


def measure(check: Memory, inputs: Inputs) -> CheckResult:
    """Looks at the model's processes, then at those of every model that a requirement names.

    Args:
        check: Its fields.
        inputs: Where processes come from.

    Raises:
        NotRunError: No process told how much it used.
    """
    ours = _used(check, inputs, check.model)
    if not ours.host:
        raise NotRunError(f"no process of {check.model} told how much memory it used")
    facts = _facts(check, inputs, check.model, ours)
    missing = _missing(check.model, ours, facts)
    comparisons: dict[tuple[str, str], Comparison | ComparisonParts] = {}
    for baseline in check.baselines:
        theirs = _used(check, inputs, baseline)
        other = _facts(check, inputs, baseline, theirs)
        comparisons |= {(name, baseline): pair for name, pair in _beside(facts, other).items()}
        lost = _missing(baseline, theirs, other)
        missing |= {f"{name} vs {baseline}": f"{baseline}: {reason}" for name, reason in lost.items()}
    count = sum(len(probes) for probes in ours.probes.values())
    estimates: dict[str, Estimate | Fact | Parts] = dict(facts)
    return CheckResult(
        estimates=estimates,
        comparisons=comparisons,
        missing=missing,
        blocks=_blocks(check, ours, facts),
        counts=Counts(attempted=len(check.sizes) * check.processes, used=count),
        conditions={"processes": check.processes, "queries": QUERIES, "peak_of": "loading and serving, rows included",
                    "device_memory_source": ours.device_source or None,
                    **samples.model_conditions(inputs, check.model)},
        notes=_notes(ours),
    )  # fmt: skip


def _used(check: Memory, inputs: Inputs, model: str) -> Used:
    host: dict[int, float] = {}
    device: dict[int, float] = {}
    found: dict[int, Sequence[Probe]] = {}
    source, reason = "", None
    for size in check.sizes:
        options: dict[str, Cell] = {"batch": size, "queries": QUERIES}
        processes = 1 if inputs.draft else check.processes
        probes = inputs.probe(PROBE, check.dataset, model, processes=processes, options=options, telemetry_s=EVERY_S)
        found[size] = probes
        peaks = [host_peak(one) for one in probes]
        if known := [peak for peak in peaks if peak is not None]:
            host[size] = max(known)
        seen = [on_device(one, _is_on_cpu(inputs, model)) for one in probes]
        reason = next((why for _, _, why in seen if why), reason)
        taken = [(amount, who) for amount, who, _ in seen if amount is not None]
        if taken:
            device[size], source = max(taken)
    return Used(host, device, source, None if len(device) == len(check.sizes) else reason, found)


def host_peak(probe: Probe) -> float | None:
    """The largest resident size of one process, MiB: while it loaded the model, or while it served.

    In between evalspec reads the dataset, which may take more for a moment and is no business of the model's; the rows
    that it keeps are in the second.
    """
    serving = number(probe, "peak_serving_mib")
    loading = readings(probe.telemetry, "resident_peak_mib")[1]
    if serving is None or not len(loading):
        return number(probe, "peak_host_mib")
    return max(serving, float(loading[0]))


def _is_on_cpu(inputs: Inputs, model: str) -> bool:
    return samples.device_of(inputs, model) == "cpu"


def on_device(probe: Probe, cpu: bool) -> tuple[float | None, str, str | None]:
    """The most of the GPU's memory that one process used: MiB, who says so, and why there is none.

    Args:
        probe: What the process found.
        cpu: The model runs on the CPU.
    """
    if cpu:
        return None, "", "the model runs on the cpu, and takes nothing of a device's memory"
    framework = number(probe, "peak_framework_mib")
    for name, who in (
        ("gpu_memory_mib", "NVML, this process, read every 0.1 s"),
        ("gpu_board_memory_mib", "NVML, everything on the board (it does not know this process): an upper bound"),
    ):
        read = readings(probe.telemetry, name)[1]
        if len(read):
            if framework is not None and framework > read.max():
                return framework, "the framework: reserved by it, without the CUDA context", None
            return float(read.max()), who, None
    if framework is not None:
        return framework, "the framework: reserved by it, without the CUDA context", None
    missing = {} if probe.telemetry is None else probe.telemetry.missing
    return None, "", missing.get("gpu_memory_mib") or "neither NVML nor the framework reported the GPU's memory"


def _facts(check: Memory, inputs: Inputs, model: str, used: Used) -> dict[str, Fact | Parts]:
    found: dict[str, Fact | Parts] = {}
    for name, peaks, who in (
        (HOST, used.host, "largest resident size (VmHWM)"), (DEVICE, used.device, used.device_source),
    ):  # fmt: skip
        if len(peaks) == len(check.sizes):
            facts = {
                batch_part(size): Fact(peak, len(used.probes[size]), who, in_this_run=True)
                for size, peak in peaks.items()
            }
            found[name] = Parts(dict(facts), whole=max(facts.values(), key=lambda one: one.value))
    size = inputs.model_facts(model).get("size_bytes")
    if isinstance(size, int | float):
        found["model_size"] = Fact(size / MIB, 1, "size of the artifact's files")
    if used.parameters is not None:
        found["parameters"] = Fact(float(used.parameters), 1, "counted by the loaded model")
    return found


def _missing(model: str, used: Used, facts: Mapping[str, object]) -> dict[str, str]:
    reasons = {
        HOST: f"not every process of {model} told how much memory it used",
        DEVICE: used.no_device or "it was not seen at every batch size",
        "model_size": f"the size of {model}'s files is not known",
        "parameters": f"{model}, as loaded, does not report its number of parameters",
    }
    return {name: reason for name, reason in reasons.items() if name not in facts}


def _beside(
    ours: Mapping[str, Fact | Parts], theirs: Mapping[str, Fact | Parts]
) -> dict[str, Comparison | ComparisonParts]:
    """Memory of both models, beside each other."""
    found: dict[str, Comparison | ComparisonParts] = {}
    for name, mine in ours.items():
        other = theirs.get(name)
        if isinstance(mine, Fact) and isinstance(other, Fact):
            found[name] = _exact(mine, other)
        elif isinstance(mine, Parts) and isinstance(other, Parts):
            pairs = {part: _pair(one, other.parts.get(part)) for part, one in mine.parts.items()}
            known = {part: pair for part, pair in pairs.items() if pair is not None}
            found[name] = ComparisonParts(known, _pair(mine.whole, other.whole))
    return found


def _pair(mine: object, other: object) -> Comparison | None:
    if not isinstance(mine, Fact) or not isinstance(other, Fact):
        return None
    return _exact(mine, other)


def _exact(mine: Fact, other: Fact) -> ExactPair:
    return ExactPair(mine.value, other.value, min(mine.n, other.n), mine.method, mine.in_this_run)


def _notes(used: Used) -> list[str]:
    notes = ["Observed maxima of this run: a longer one, larger inputs or several requests at once may need more."]
    if "upper bound" in used.device_source:
        notes.append("NVML knows no process of this number, as in a container: all that is on the board is counted.")
    return notes


def _blocks(check: Memory, used: Used, facts: Mapping[str, Fact | Parts]) -> list[AnyBlock]:
    rows: list[tuple[Cell, ...]] = []
    for size, probes in used.probes.items():
        for one in probes:
            loaded, loading = (readings(one.telemetry, name)[1] for name in ("resident_mib", "resident_peak_mib"))
            before = number(one, "resident_before_mib")
            of_rows = None if before is None or not len(loaded) else max(0.0, before - float(loaded[0]))
            rows.append(
                (size, one.process + 1, float(loaded[0]) if len(loaded) else None, of_rows,
                 float(loading[0]) if len(loading) else None, number(one, "peak_serving_mib"), host_peak(one),
                 used.device.get(size))
            )  # fmt: skip
    table = Table(
        title="Memory by batch size", caption="Resident size of each process, and the most of the GPU's memory.",
        columns=(Column(name="batch", unit="count"), Column(name="process"), Column(name="model loaded", unit="MiB"),
                 Column(name="rows, and reading them", unit="MiB"), Column(name="peak while loading", unit="MiB"),
                 Column(name="peak while serving", unit="MiB"), Column(name="peak", unit="MiB"),
                 Column(name="peak on the device", unit="MiB")),
        rows=tuple(rows),
    )  # fmt: skip
    counted = [(name, fact.value, fact.method) for name, fact in facts.items() if isinstance(fact, Fact)]
    sizes = Table(
        title="Size", caption="Counted, not measured.",
        columns=(Column(name="what"), Column(name="value"), Column(name="how")), rows=tuple(counted),
    )  # fmt: skip
    found: list[AnyBlock] = [_curve(check, used), table]
    return [*found, sizes] if counted else found


def _curve(check: Memory, used: Used) -> Curve:
    series = []
    for name, peaks in (("host", used.host), ("device", used.device)):
        if peaks:
            series.append(Series(name=name, x=tuple(float(one) for one in peaks), y=tuple(peaks.values())))
    lines = tuple(
        Reference(label=one.sentence, value=one.threshold, axis="y", says_value=True)
        for one in check.requirements
        if one.metric in (HOST, DEVICE) and one.model is None
    )
    return Curve(
        title="Memory against batch size", caption="Largest in this run.", x_label="batch size", y_label="memory",
        y_unit="MiB", log_x=True, series=tuple(series), references=lines,
    )  # fmt: skip

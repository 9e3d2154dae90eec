"""What probes found, as the system checks read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evalspec.evidence.frozen import Cell

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs, Probe

SHOWN = ("precision", "device", "provider", "threads", "framework")
FLAG = "flag_"


def number(probe: Probe, name: str) -> float | None:
    """A fact that is a number, or None."""
    value = probe.facts.get(name)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def word(probes: Sequence[Probe], name: str) -> str:
    """A fact that is text and the same in all processes; empty where it is not."""
    found = {str(one.facts[name]) for one in probes if one.facts.get(name) is not None}
    return found.pop() if len(found) == 1 else ""


def short_of(probes: Sequence[Probe], processes: int, name: str, planned: int) -> str | None:
    """Why the plan was not reached, or None.

    Args:
        probes: One per process.
        processes: Planned.
        name: The fact that counts what each process did.
        planned: In each process.
    """
    if len(probes) < processes:
        return f"{len(probes)} of {processes} planned processes were measured"
    least = min((number(one, name) or 0.0 for one in probes), default=0.0)
    if least < planned:
        return f"a process made {least:,.0f} of {planned:,} planned {name}"
    return None


def conditions(inputs: Inputs, model: str, probes: Sequence[Probe]) -> dict[str, Cell]:
    """What the numbers hold for: facts of the model, flags, and clocks where they were read."""
    facts: Mapping[str, Cell] = inputs.model_facts(model)
    found: dict[str, Cell] = {name: facts[name] for name in SHOWN if name in facts}
    for name in sorted({name for one in probes for name in one.facts if name.startswith(FLAG)}):
        values = {one.facts.get(name) for one in probes}
        if len(values) == 1:
            found[name.removeprefix(FLAG)] = values.pop()
    clocks = [one.telemetry.series["gpu_sm_clock_mhz"] for one in probes
              if one.telemetry is not None and "gpu_sm_clock_mhz" in one.telemetry.series]  # fmt: skip
    seen = [float(value) for series in clocks for value in series if value == value]
    if seen:
        found |= {"gpu_sm_clock_min_mhz": min(seen), "gpu_sm_clock_max_mhz": max(seen)}
    return found

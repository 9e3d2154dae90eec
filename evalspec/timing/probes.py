"""Results of probes, as the system checks read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import InvalidError
from evalspec.evidence.frozen import Cell, is_number
from evalspec.evidence.reasons import Cause, Reason
from evalspec.measure.telemetry import readings
from evalspec.timing import samples

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs, Probe

SHOWN = ("precision", "device", "provider", "threads", "framework")
FLAG = "flag_"


def number(probe: Probe, name: str) -> float | None:
    """A fact that is a number, or None."""
    value = probe.facts.get(name)
    return float(value) if is_number(value) else None


def required(probe: Probe, name: str) -> float:
    """A fact that is a number, and that nothing can be said without.

    Raises:
        InvalidError: The process did not tell it.
    """
    value = number(probe, name)
    if value is None:
        raise InvalidError(
            f"process {probe.process + 1} of {probe.model} did not tell {name}, which {probe.probe} needs"
        )
    return value


def word(probes: Sequence[Probe], name: str) -> str:
    """A fact that is text and the same in all processes; empty where it is not."""
    words = {str(one.facts[name]) for one in probes if one.facts.get(name) is not None}
    return words.pop() if len(words) == 1 else ""


def short_of(probes: Sequence[Probe], processes: int, name: str, planned: int) -> str | None:
    """Reason why the plan was not reached, or None.

    Args:
        probes: One per process.
        processes: Planned.
        name: The fact that counts what each process did.
        planned: In each process.
    """
    if not probes or len(probes) < processes:
        return Reason(f"{len(probes)} of {processes} planned processes were measured", Cause.CUT_SHORT)
    least = min(required(one, name) for one in probes)
    if least < planned:
        return Reason(f"a process made {least:,.0f} of {planned:,} planned {name}", Cause.CUT_SHORT)
    return None


def conditions(inputs: Inputs, model: str, probes: Sequence[Probe]) -> dict[str, Cell]:
    """Conditions that the numbers hold for: facts of the model, flags, and clocks where they were read."""
    facts = samples.model_conditions(inputs, model, SHOWN)
    for name in sorted({name for one in probes for name in one.facts if name.startswith(FLAG)}):
        values = {one.facts.get(name) for one in probes}
        if len(values) == 1:
            facts[name.removeprefix(FLAG)] = values.pop()
    clocks = np.concatenate([readings(one.telemetry, "gpu_sm_clock_mhz")[1] for one in probes] or [np.empty(0)])
    if len(clocks):
        facts |= {"gpu_sm_clock_min_mhz": float(clocks.min()), "gpu_sm_clock_max_mhz": float(clocks.max())}
    return facts

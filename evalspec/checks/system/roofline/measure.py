"""Measurement of `roofline`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.roofline import show
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.stats.timing.bottleneck import Bound, bound_by, least_time_s, ridge, spent_on_calls
from evalspec.stats.timing.processes import OverUnits, over_processes
from evalspec.timing import probes as timing_probes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.roofline.spec import Roofline
    from evalspec.language.inputs import Inputs, Probe

TELEMETRY_S = 0.1
DRAFT_S = 0.02
DRAFT_CALLS = 4
IMPOSSIBLE = 1.05
"""Beyond, the ceiling is none for this model."""
UNSTEADY = 0.10
GIGA = 1e9


@dataclass(frozen=True)
class Placed:
    """A model under the roof.

    Args:
        operations: Of one batch.
        moved_bytes: Of one batch.
        weight_bytes: Of these, stored numbers.
        seconds: Of a warm call in each process, shape (k,).
        cold_seconds: After the caches were flushed, shape (k,).
        larger_seconds: With more items, shape (k,); None where the batch is fixed.
        factor: How many times the items.
        compute: Ceiling of the arithmetic in each process, operations a second, shape (k,); None where the device has
            no product in this precision.
        near: Ceiling of a copy of as many bytes, B/s, shape (k,).
        memory: Ceiling of a copy from memory, B/s, shape (k,).
    """

    operations: float
    moved_bytes: float
    weight_bytes: float
    seconds: NDArray[np.float64]
    cold_seconds: NDArray[np.float64]
    larger_seconds: NDArray[np.float64] | None
    factor: float
    compute: NDArray[np.float64] | None
    near: NDArray[np.float64]
    memory: NDArray[np.float64]

    @property
    def intensity(self) -> float | None:
        """FLOP/B; None where no bytes were counted."""
        return self.operations / self.moved_bytes if self.moved_bytes else None

    @property
    def achieved(self) -> OverUnits:
        """GFLOP/s over the processes."""
        return over_processes(self.operations / self.seconds / GIGA, least=0.0)

    @property
    def fractions(self) -> NDArray[np.float64] | None:
        """Share of the roof in each process, shape (k,)."""
        return self._fractions(self.seconds, self.near)

    @property
    def cold_fraction(self) -> float | None:
        """Share of the roof over memory, after the caches were flushed: its mean."""
        found = self._fractions(self.cold_seconds, self.memory)
        return None if found is None else float(found.mean())

    def _fractions(self, seconds: NDArray[np.float64], copies: NDArray[np.float64]) -> NDArray[np.float64] | None:
        if self.compute is None or not (self.moved_bytes or self.operations):
            return None
        ceilings = zip(self.compute.tolist(), copies.tolist(), strict=True)
        least = [least_time_s(self.operations, self.moved_bytes, flops, rate) for flops, rate in ceilings]
        return np.array(least) / seconds

    @property
    def on_calls(self) -> float | None:
        """Median share of a call that neither grows with the batch nor reads weights; None where it can't be told."""
        if self.larger_seconds is None:
            return None
        shares = [
            spent_on_calls(time, larger, self.factor, self.weight_bytes / rate)
            for time, larger, rate in zip(
                self.seconds.tolist(), self.larger_seconds.tolist(), self.near.tolist(), strict=True
            )
        ]
        return float(np.median(shares))

    @property
    def bound(self) -> Bound | None:
        """Bound of the model: compute or memory; None without ceilings."""
        if self.fractions is None or self.compute is None or self.intensity is None:
            return None
        at = ridge(float(np.median(self.compute)), float(np.median(self.near)))
        return bound_by(float(self.fractions.mean()), self.on_calls, self.intensity, at)


def measure(check: Roofline, inputs: Inputs) -> CheckResult:
    """Asks fresh processes what the model does and what the device could.

    Args:
        check: Its fields.
        inputs: Where probes come from.

    Raises:
        NotRunError: No process was measured.
    """
    processes = 2 if inputs.draft else check.processes
    calls = DRAFT_CALLS if inputs.draft else check.calls
    options = {"batch": check.batch_size, "calls": calls, "min_s": DRAFT_S if inputs.draft else check.duration_s}
    probes = inputs.probe(
        "roofline", check.dataset, check.model, processes=processes, options=options, telemetry_s=TELEMETRY_S
    )
    placed = place(probes)
    invalid = timing_probes.short_of(probes, processes, "calls", calls)
    fractions = placed.fractions
    estimates: dict[str, Estimate | Fact | Measured] = {}
    missing: dict[str, str] = {}
    if placed.intensity is None:
        missing["arithmetic_intensity"] = "no operator moves any bytes that could be counted"
    else:
        count = int(sum(probes[0].series["kind_count"])) if "kind_count" in probes[0].series else 1
        estimates["arithmetic_intensity"] = Fact(placed.intensity, count, "operations by bytes, counted")
    estimates["achieved_flops"] = Measured(placed.achieved, invalid=invalid)
    if fractions is None:
        missing["roof_fraction"] = _no_roof(placed, probes)
    else:
        estimates["roof_fraction"] = Measured(
            over_processes(fractions, least=0.0), invalid=invalid, withhold=_too_good(float(fractions.mean()))
        )
    made = int(sum(timing_probes.required(one, "calls") for one in probes))
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=show.blocks(check, placed, probes, inputs.confidence),
        counts=Counts(attempted=max(processes * calls, made), used=made, errored=0),
        conditions={"batch": timing_probes.number(probes[0], "batch"), "processes": len(probes),
                    "bound": placed.bound, "compute_precision": timing_probes.word(probes, "compute_precision"),
                    "ceilings_by": timing_probes.word(probes, "engine"), "clock": timing_probes.word(probes, "clock"),
                    "counted_by": timing_probes.word(probes, "counted_by"),
                    **timing_probes.conditions(inputs, check.model, probes)},
        notes=_notes(placed, probes),
    )  # fmt: skip


def place(probes: list[Probe]) -> Placed:
    """The model under the roof, from what its processes found.

    Raises:
        NotRunError: No process was measured, or one made no call.
        InvalidError: A process did not tell what its operations and bytes were.
    """
    if not probes:
        raise NotRunError("no process was measured, so there is no roofline")
    seconds, cold = _over(probes, "warm_s"), _over(probes, "cold_s")
    near, memory = _over(probes, "near_per_s"), _over(probes, "memory_per_s")
    if seconds is None or cold is None or near is None or memory is None or seconds.min() <= 0:
        raise NotRunError("a process timed no call of the model, so there is no roofline")
    weights, operations = (timing_probes.required(probes[0], name) for name in ("weight_bytes", "operations"))
    names = ("weight_bytes", "input_bytes", "output_bytes", "activation_bytes")
    return Placed(
        operations=operations,
        moved_bytes=sum(timing_probes.required(probes[0], name) for name in names),
        weight_bytes=weights,
        seconds=seconds,
        cold_seconds=cold,
        larger_seconds=_over(probes, "larger_batch_s"),
        factor=timing_probes.required(probes[0], "larger_batch_factor"),
        compute=_over(probes, "gemm_per_s"),
        near=near,
        memory=memory,
    )


def _over(probes: list[Probe], name: str) -> NDArray[np.float64] | None:
    found = [timing_probes.number(one, name) for one in probes]
    known = [value for value in found if value is not None]
    return np.array(known) if len(known) == len(found) else None


def _no_roof(placed: Placed, probes: list[Probe]) -> str:
    if placed.compute is None:
        precision = timing_probes.word(probes, "compute_precision") or "its precision"
        engine = timing_probes.word(probes, "engine") or "the device"
        return f"{engine} has no product in {precision} to measure a ceiling by"
    return "no operations and no bytes could be counted"


def _too_good(fraction: float) -> str | None:
    if fraction <= IMPOSSIBLE:
        return None
    return (
        f"{100 * fraction:.0f} % of the roof: the measured ceiling is none for this model (bytes that it "
        "is counted to move "
        "stay in nearer caches, or its kernels are faster than the product measured)"
    )


def _notes(placed: Placed, probes: list[Probe]) -> list[str]:
    found = []
    uncounted = timing_probes.word(probes, "uncounted")
    if uncounted:
        found.append(f"Operators that do more than is counted for them: {uncounted}.")
    for name, rates in (("arithmetic", placed.compute), ("copy", placed.near)):
        if rates is not None and len(rates) > 1 and float(rates.std(ddof=1) / rates.mean()) > UNSTEADY:
            found.append(
                f"The ceiling of the {name} itself varies by {100 * (rates.std(ddof=1) / rates.mean()):.0f} % over the "
                "processes: look for other work on the machine, or changing clocks."
            )
    wall, device = _over(probes, "warm_wall_s"), placed.seconds
    if wall is not None and timing_probes.word(probes, "clock") == "CUDA events":
        apart = float(np.median(wall / device)) - 1.0
        found.append(f"By the wall clock a call takes {100 * apart:.0f} % longer than by the device's own events.")
    return found

"""`roofline`: operations and bytes of one batch, how long it takes, and what the device can do at the most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.clocks import now_ns
from evalspec.errors import NotRunError
from evalspec.evidence.frozen import Cell
from evalspec.language.abilities import Inspectable, OperatorTrace, Runner
from evalspec.measure.ceilings import Ceiling, copy_ceiling, gemm_ceiling
from evalspec.measure.engines import Engine, Times, engine_for
from evalspec.measure.probes import Context, ProbeResult
from evalspec.measure.servable import Rotation

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "tf32": "tf32", "int8": "int8",
    "uint8": "int8",
}  # fmt: skip
WIDER = {"fp16": ("fp32",), "bf16": ("fp32",), "int8": ("fp32",), "tf32": ("fp32",), "fp8": ("fp16", "fp32")}
"""What a narrower type may be computed in where its own products are slower, or missing."""
BATCHES = 8
"""Different batches, served in turn, so that no answer comes from a cache."""
HELD_BYTES = 2**28
"""Of all of them together: fewer are served where they are larger."""
WARM = 5
COLD = 10
LARGER = 4
"""How many times the batch, to tell what is spent on each item from what is spent on each call."""
AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class BytesMoved:
    """Bytes that one batch moves, operator by operator, each reading its inputs and writing its outputs.

    Args:
        weights: Stored numbers that operators read.
        inputs: Of the batch.
        outputs: Of the answer.
        activations: Between operators: written once, read as often as they are used.
    """

    weights: float
    inputs: float
    outputs: float
    activations: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.inputs + self.outputs + self.activations


def traffic(inside: OperatorTrace) -> BytesMoved:
    """The bytes of one batch by what they are.

    Args:
        inside: What ran.
    """
    weights = sum(one.weight_bytes for one in inside.operators)
    everything = sum(one.read_bytes + one.written_bytes for one in inside.operators)
    between = max(0.0, everything - weights - inside.input_bytes - inside.output_bytes)
    return BytesMoved(weights, inside.input_bytes, inside.output_bytes, between)


def precision(inside: OperatorTrace) -> str:
    """The precision that most operations are in: ``fp32`` where nothing tells."""
    shares: dict[str, float] = {}
    for one in inside.operators:
        name = KINDS.get(one.computes, "fp8" if one.computes.startswith("float8") else "")
        if name and one.operations:
            shares[name] = shares.get(name, 0.0) + one.operations
    return max(shares, key=lambda name: shares[name]) if shares else "fp32"


def probe(context: Context) -> ProbeResult:
    """Count, time and measure the ceilings, in this order, on the device that the model runs on.

    Options: ``batch``, ``calls``, ``min_s``.

    Raises:
        NotRunError: The model's operators can't be seen, or the device's ceilings can't be measured.
    """
    loaded = context.loaded
    if not isinstance(loaded, Inspectable):
        raise NotRunError(f"operations of kind {context.model.kind!r} can't be counted: it shows no operators")
    device = str(loaded.observed.get("device") or "cpu")
    engine = engine_for(device, int(loaded.observed.get("threads") or 1))
    batch = loaded.fixed_batch or int(context.options["batch"])
    batches = _batches(context, batch)
    context.progress(0, 3, "operators of one batch")
    inside = loaded.inspect(batches[0])
    context.progress(1, 3, "calls")
    calls, least_s = int(context.options["calls"]), float(context.options["min_s"])
    call = _runner(context, batches)
    warm = _timed(engine, call, calls, least_s)
    cold = engine.times(call, min(COLD, calls), cold=True)
    larger = None
    if loaded.fixed_batch is None:
        more = _runner(context, _batches(context, LARGER * batch))
        larger = _timed(engine, more, max(2, calls // LARGER), least_s / 2)
    context.progress(2, 3, "ceilings")
    bytes_moved = traffic(inside)
    computed = precision(inside)
    roofs = _roofs(engine, computed)
    near, far = copy_ceiling(engine, bytes_moved.total), copy_ceiling(engine)
    facts = _facts(inside, bytes_moved, warm, cold, larger) | {
        "batch": batch,
        "compute_precision": computed,
        "engine": engine.name,
        "cache_bytes": engine.cache_bytes,
        **_ceiling_facts("gemm", max(roofs, key=lambda one: one.best, default=None)),
        **_ceiling_facts("near", near),
        **_ceiling_facts("memory", far),
    }
    series = {"warm_s": warm.best, "warm_wall_s": warm.wall, "cold_s": cold.best}
    series |= {"near_copy_bytes_per_s": near.rates, "memory_copy_bytes_per_s": far.rates}
    series |= {"larger_s": larger.best} if larger is not None else {}
    return ProbeResult(facts=facts, series=series | _operator_series(inside), texts=_operator_texts(inside))


def _batches(context: Context, batch: int) -> list[Mapping[str, NDArray[Any]]]:
    rotation = Rotation(context.rows.n, batch, context.seed)
    made = [context.tensors(rotation.rows(0))]
    size = sum(array.nbytes for array in made[0].values())
    count = max(1, min(BATCHES, HELD_BYTES // max(1, size)))
    return made + [context.tensors(rotation.rows(index)) for index in range(1, count)]


def _runner(context: Context, batches: Sequence[Any]) -> Callable[[int], object]:
    loaded = context.loaded
    if isinstance(loaded, Runner):
        return loaded.runner(batches)
    return lambda index: loaded.predict(batches[index % len(batches)])


def _timed(engine: Engine, call: Callable[[int], object], calls: int, least_s: float) -> Times:
    """At least so many calls and so long, after a few that are not kept."""
    engine.times(call, WARM)
    until = now_ns() + int(least_s * 1e9)
    parts: list[Times] = []
    count = 0
    while count < calls or now_ns() < until:
        step = min(AT_ONCE, max(1, calls - count)) if count < calls else AT_ONCE
        parts.append(engine.times(call, step, first=count))
        count += step
    device = [one.device for one in parts if one.device is not None]
    wall = np.concatenate([one.wall for one in parts])
    return Times(wall, np.concatenate(device) if len(device) == len(parts) else None)


def _roofs(engine: Engine, computed: str) -> list[Ceiling]:
    names = (computed, *WIDER.get(computed, ()))
    ceilings = [gemm_ceiling(engine, name) for name in names]
    return [one for one in ceilings if one is not None]


def _facts(inside: OperatorTrace, moved: BytesMoved, warm: Times, cold: Times, larger: Times | None) -> dict[str, Cell]:
    return {
        "operations": inside.operations,
        "executed_operations": sum(one.operations for one in inside.operators),
        "weight_bytes": moved.weights,
        "input_bytes": moved.inputs,
        "output_bytes": moved.outputs,
        "activation_bytes": moved.activations,
        "calls": len(warm.wall),
        "warm_s": float(np.median(warm.best)),
        "warm_wall_s": float(np.median(warm.wall)),
        "cold_s": float(np.median(cold.best)),
        "larger_batch_s": None if larger is None else float(np.median(larger.best)),
        "larger_batch_factor": LARGER,
        "clock": "CUDA events" if warm.device is not None else "wall clock",
        "counted_by": inside.how,
        "uncounted": ", ".join(inside.uncounted),
        **{f"flag_{name}": value for name, value in inside.flags.items()},
    }


def _ceiling_facts(name: str, ceiling: Ceiling | None) -> dict[str, Cell]:
    if ceiling is None:
        return {f"{name}_per_s": None}
    return {
        f"{name}_per_s": ceiling.best,
        f"{name}_median_per_s": ceiling.median,
        f"{name}_spread": ceiling.spread,
        f"{name}_what": ceiling.what,
    }


def _operator_series(inside: OperatorTrace) -> dict[str, NDArray[np.float64]]:
    """Operations and bytes by kind of operator, the order as in `_operator_texts`."""
    kinds = _kinds(inside)
    rows = {kind: [one for one in inside.operators if one.kind == kind] for kind in kinds}
    return {
        "kind_count": np.array([float(len(rows[kind])) for kind in kinds]),
        "kind_operations": np.array([sum(one.operations for one in rows[kind]) for kind in kinds]),
        "kind_bytes": np.array([sum(one.read_bytes + one.written_bytes for one in rows[kind]) for kind in kinds]),
    }


def _operator_texts(inside: OperatorTrace) -> dict[str, tuple[str, ...]]:
    return {"kinds": _kinds(inside)}


def _kinds(inside: OperatorTrace) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.kind for one in inside.operators))

"""Measurement of `precision`, and its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.blocks import AnyBlock, Bar, Bars, Column, Table
from evalspec.evidence.estimate import Estimate, Fact
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.language.predictions import GIVES
from evalspec.stats.shares.proportion import proportion
from evalspec.timing import probes
from evalspec.timing.operators import Operators, coverage, device_of, elsewhere, fell_back, listed, look

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.precision.spec import Precision
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Predictions, Probe

COMPUTES: Mapping[str, tuple[str, ...]] = {
    "fp64": ("float64",),
    "fp32": ("float32",),
    "tf32": ("tf32",),
    "fp16": ("float16",),
    "bf16": ("bfloat16",),
    "fp8": ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    "int8": ("int8", "uint8"),
}
"""Precision in a spec: number types of kernels."""
INT4 = ("int4", "uint4")
WORTH_COMPARING = 1e-3


def measure(check: Precision, inputs: Inputs) -> CheckResult:
    """Asks one process what ran, and sets answers beside the reference's.

    Args:
        check: Its fields.
        inputs: Where probes and answers come from.

    Raises:
        NotRunError: No operators were seen.
    """
    probe, operators = look(inputs, check.dataset, check.model, check.batch_size)
    facts = inputs.model_facts(check.model)
    device, asked = device_of(str(facts.get("device") or "cpu")), facts.get("precision")
    there = operators.on(device)
    estimates: dict[str, Estimate | Fact] = {"operator_coverage": coverage(operators, there)}
    missing: dict[str, str] = {}
    inside = _in_precision(operators, asked)
    if isinstance(inside, str):
        missing["precision_coverage"] = inside
    else:
        total = float(operators.operations.sum())
        estimates["precision_coverage"] = Fact(
            float(operators.operations[inside].sum()) / total, len(operators), "operations, counted"
        )
    blocks = [*_blocks(operators, device), *elsewhere(operators, there, device), *_others(operators, inside, asked)]
    if check.reference is None:
        reason = "the check has no `reference:`"
        missing |= dict.fromkeys(("output_difference", "relative_difference", "argmax_disagreement"), reason)
    else:
        found, why = _against(inputs, check)
        estimates |= found
        missing |= why
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=blocks,
        counts=Counts(attempted=len(operators), used=len(operators), errored=0),
        conditions={"batch": probes.number(probe, "batch"), "precision_asked": asked, "device_asked": device,
                    "device_observed": probe.facts.get("device_observed"),
                    "counted_by": probe.facts.get("counted_by"), "reference": check.reference,
                    **probes.conditions(inputs, check.model, [probe])},
        notes=_notes(probe, operators, there, device, asked),
    )  # fmt: skip


def _in_precision(operators: Operators, asked: Cell) -> NDArray[np.bool_] | str:
    """Operators in the precision asked for, or why that is not known."""
    if asked is None:
        return "the model has no `precision:`, so there is nothing to compare its operators with"
    if asked == "mixed":
        return "precision: mixed names no single precision to compare operators with"
    if not float(operators.operations.sum()):
        return "its operators do no operations that could be counted"
    if asked == "int4":
        return np.isin(operators.weights.astype(str), INT4)
    return np.isin(operators.computes.astype(str), COMPUTES.get(str(asked), ()))


def _against(inputs: Inputs, check: Precision) -> tuple[dict[str, Estimate | Fact], dict[str, str]]:
    """The model's answers beside the reference's.

    Raises:
        InputError: The two don't answer alike: other classes, or other numbers of rows.
    """
    ours = inputs.predictions(check.dataset, check.model)
    theirs = inputs.predictions(check.dataset, check.reference)
    if ours.n != theirs.n or ours.classes != theirs.classes:
        raise InputError(
            f"{check.model} and {check.reference} can't be set side by side: {_answers(ours)} and {_answers(theirs)}"
        )
    found: dict[str, Estimate | Fact] = {}
    missing: dict[str, str] = {}
    one, other = (p.values if p.task == "values" else p.probabilities for p in (ours, theirs))
    if one is None or other is None:
        reason = "both models must give probabilities or values, not labels alone"
        if ours.task not in ("classes", "values", "labels"):
            reason = f"the models give {GIVES[ours.task]}, not probabilities or values"
        missing |= {"output_difference": reason, "relative_difference": reason}
    elif ours.n:
        apart, larger = np.abs(one - other), np.maximum(np.abs(one), np.abs(other))
        relative = apart[larger > WORTH_COMPARING] / larger[larger > WORTH_COMPARING]
        found["output_difference"] = Fact(float(apart.max()), ours.n, "largest over the rows")
        if len(relative):
            found["relative_difference"] = Fact(float(relative.max()), ours.n, "largest over the rows")
        else:
            missing["relative_difference"] = f"no answer is over {WORTH_COMPARING:g}"
    else:
        missing |= dict.fromkeys(("output_difference", "relative_difference"), "the dataset has no rows")
    if ours.predicted is None or theirs.predicted is None:
        missing["argmax_disagreement"] = f"the models give {GIVES[ours.task]}, not classes"
    else:
        found["argmax_disagreement"] = proportion(ours.predicted != theirs.predicted, ours.clusters)
    return found, missing


def _answers(predictions: Predictions) -> str:
    what = f"{len(predictions.classes)} classes" if predictions.classes is not None else GIVES[predictions.task]
    return f"{predictions.n:,} rows of {what}"


def _notes(probe: Probe, operators: Operators, there: NDArray[np.bool_], device: str, asked: Cell) -> list[str]:
    found = fell_back(operators, there, device)
    observed = probe.facts.get("device_observed")
    if observed is not None and device_of(str(observed)) != device:
        found.append(f"The model was to run on {device} and was loaded on {observed}.")
    if asked == "fp32" and (operators.computes == "tf32").any():
        found.append("TF32 is on: products of fp32 numbers keep 10 bits of their mantissa.")
    if probe.facts.get("flag_autocast") is True:
        found.append("Autocast is on: operators choose their own precision.")
    copies = int(np.char.startswith(operators.kinds.astype(str), "Memcpy").sum())
    if copies:
        found.append(f"{copies} copies between devices are in the graph, for operators that ran elsewhere.")
    return found


def _blocks(operators: Operators, device: str) -> list[AnyBlock]:
    """Number types by what has them."""
    ones = np.ones(len(operators))
    classes = (
        ("compute", operators.computes, operators.operations, "operations"),
        ("weights", operators.weights, operators.weight_bytes, "bytes read"),
        ("activations", operators.activations, ones, "operators"),
    )
    rows: list[tuple[Cell, ...]] = []
    for what, types, sizes, unit in classes:
        total = float(sizes[types != ""].sum())
        for name in sorted(set(types[types != ""].astype(str))):
            chosen = types == name
            share = 100.0 * float(sizes[chosen].sum()) / total if total else None
            rows.append((what, name, int(chosen.sum()), share, unit))
    columns = (Column(name="tensor class"), Column(name="number type"), Column(name="operators", unit="count"),
               Column(name="share", unit="%"), Column(name="share of"))  # fmt: skip
    ran = [", ".join(filter(None, pair)) for pair in zip(operators.places, operators.providers, strict=True)]
    bars = Bars(
        title="Where operators ran", unit="count", caption=f"Asked for: {device}.",
        bars=tuple(Bar(label=where, value=float(ran.count(where))) for where in sorted(set(ran))),
    )  # fmt: skip
    table = Table(
        title="Number types",
        columns=columns,
        rows=tuple(rows),
        caption="As they ran, after the runtime's optimization.",
    )
    return [table, bars]


def _others(operators: Operators, inside: NDArray[np.bool_] | str, asked: Cell) -> list[AnyBlock]:
    """Operators that compute in another precision."""
    if isinstance(inside, str):
        return []
    outside = ~inside & (operators.operations > 0)
    if not outside.any():
        return []
    return [listed(operators, outside, f"Operators that do not compute in {asked}", operators.computes, "computes in")]

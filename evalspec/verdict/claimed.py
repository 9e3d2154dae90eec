"""Claimed numbers, read, and what follows from several of one maker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalspec.evidence.frozen import Cell
from evalspec.evidence.policy import Claim
from evalspec.evidence.test import Test
from evalspec.evidence.units import UNITS, format_number, format_quantity
from evalspec.evidence.words import in_percent

NUMBER = re.compile(r"(?P<number>\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<unit>[^\s\d][^\s]*)?")
OTHER_UNITS: Mapping[str, tuple[float, str]] = {
    "fps": (1.0, "samples/s"), "images/s": (1.0, "samples/s"), "img/s": (1.0, "samples/s"),
    "inferences/s": (1.0, "samples/s"), "inf/s": (1.0, "samples/s"), "queries/s": (1.0, "qps"),
    "uj": (1e-3, "mJ"), "µj": (1e-3, "mJ"), "uw": (1e-3, "mW"), "µw": (1e-3, "mW"), "µs": (1.0, "us"),
}  # fmt: skip
"""Units of data sheets: as which of ours they are read."""
MADE_DIFFERENT = ("model", "device", "precision")
"""Conditions in which two claims may differ and still be set beside each other: it is what they compare."""
PART_OF = "_of_"
"""In the name of a metric: what follows is a part of the quantity before it."""
TOLERANCE = 0.05
"""Data sheets round."""

WAYS: Mapping[str, tuple[str, ...]] = {
    "model": ("model",), "device": ("device", "hardware"), "precision": ("precision",), "batch": ("batch",),
    "boundary": ("boundary", "scope", "stages"), "duration": ("duration",),
    "workload": ("workload", "dataset", "benchmark"), "quality": ("quality", "accuracy"),
    "power limit": ("power_limit", "tdp"),
}  # fmt: skip
"""What a claim must state before anything can be held against it: the conditions that state it."""
NEEDED: Mapping[str, tuple[str, ...]] = {
    "size": ("model", "precision"),
    "ratio": ("model", "device", "precision", "batch", "boundary", "workload", "quality"),
    "time": ("model", "device", "precision", "batch", "boundary", "workload", "quality"),
    "energy": ("model", "device", "precision", "batch", "boundary", "duration", "workload", "quality"),
    "power": ("model", "device", "precision", "batch", "boundary", "duration", "workload"),
    "fraction": ("model", "precision", "workload"),
    "score": ("model", "precision", "workload"),
}
"""Kind of quantity: what is needed of it; of every other kind all of it."""
FOR_PEOPLE = tuple(
    word for what in ("boundary", "duration", "workload", "quality", "power limit") for word in WAYS[what]
)
"""Conditions that are read by people, and held against nothing here."""
OF_SIZE = ("size_ratio", "parameters", "model_size")
"""Metrics that hold wherever the model is run."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit, one of ours where there is one like it."""

    value: float
    unit: str


def text_of(value: Cell) -> str:
    """A condition in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_number(float(value)) if isinstance(value, int | float) else str(value or "none")


def same_value(one: Cell, other: Cell) -> bool:
    """Two conditions say the same, however it is written."""
    return one == other or text_of(one).strip().casefold() == text_of(other).strip().casefold()


def quantity_of(text: str) -> Quantity | None:
    """The number in what is claimed, such as ``up to 1,200 images/s``; None: there is none."""
    found = NUMBER.search(text)
    if found is None:
        return None
    unit = found["unit"] or ""
    scale, known = OTHER_UNITS.get(unit.casefold(), (1.0, unit))
    return Quantity(float(found["number"].replace(",", "")) * scale, known)


def kind_of(unit: str) -> str:
    """Kind of quantity of a unit; one that is none of ours is its own kind."""
    return UNITS[unit].kind if unit in UNITS else unit


def scale_of(unit: str) -> float:
    """Of its kind's base, so many are one of this unit."""
    return UNITS[unit].scale if unit in UNITS else 1.0


def leaves_out(claim: Claim, unit: str) -> tuple[str, ...]:
    """Facts that it would have to state; what it says to exclude states its boundary."""
    kind = "size" if claim.metric in OF_SIZE else kind_of(unit)
    stated = {what for what, words in WAYS.items() if any(word in claim.conditions for word in words)}
    if claim.excludes:
        stated.add("boundary")
    return tuple(what for what in NEEDED.get(kind, tuple(WAYS)) if what not in stated)


def held(test: Test) -> str:
    """Of how many a measured number is, and within what its truth lies, where something was required of it."""
    sides = ((word, bound) for word, bound in (("at least", test.lower), ("at most", test.upper)) if bound is not None)
    said = [f"{word} {format_quantity(bound, test.unit)}" for word, bound in sides]
    said = [f"n {test.n:,}", *said] if test.n else said
    return f" ({', '.join(said)})" if said else ""


def follows(claim: Claim, claims: Sequence[Claim]) -> tuple[str, ...]:
    """Sentences: what a claim makes of others by the same maker, so that nobody has to divide.

    Args:
        claim: One of them.
        claims: All of them.
    """
    said = quantity_of(claim.value)
    if said is None or said.value <= 0:
        return ()
    others = [one for one in claims if one is not claim and (one.by, one.source) == (claim.by, claim.source)]
    return (
        *_beside_others(claim, said, others),
        *_part_of_whole(claim, said, others),
        *_one_at_a_time(claim, said),
        *_power_for_a_while(claim, said, others),
    )


def claimed_of_both(claims: Sequence[Claim], model: str, baseline: str) -> tuple[str, ...]:
    """Claims on two models alike, in words: ``latency_p50 35 ms against 120 ms (3.429x)``.

    Args:
        claims: All of them.
        model: Name of the one, as the claims' own conditions have it.
        baseline: Name of the other.
    """
    found = []
    for ours in claims:
        said = quantity_of(ours.value)
        for theirs in claims:
            alike = (ours.metric, ours.by, ours.source, _rest(ours)) == (
                theirs.metric, theirs.by, theirs.source, _rest(theirs),
            )  # fmt: skip
            named = ours.conditions.get("model") == model and theirs.conditions.get("model") == baseline
            before = quantity_of(theirs.value)
            if not (alike and named) or said is None or before is None or not said.value or not before.value:
                continue
            ratio = _ratio(before, said)
            times = "" if ratio is None else f" ({format_quantity(max(ratio, 1 / ratio), 'x')})"
            found.append(f"{ours.metric} {ours.value} against {theirs.value}{times}")
    return tuple(found)


def _beside_others(claim: Claim, said: Quantity, others: Sequence[Claim]) -> Iterator[str]:
    """The same quantity of another model, device or precision."""
    for other in others:
        theirs = quantity_of(other.value)
        changed = [name for name in MADE_DIFFERENT if other.conditions.get(name) != claim.conditions.get(name)]
        unsaid = any(name not in one.conditions for name in changed for one in (claim, other))
        if other.metric != claim.metric or theirs is None or not changed or unsaid or _rest(other) != _rest(claim):
            continue
        ratio = _ratio(theirs, said)
        # Of two one is the larger, and it is said once, beside the smaller.
        if ratio is not None and ratio >= 1.0:
            name = changed[0]
            whose = f"{name} {text_of(other.conditions.get(name))}"
            yield f"Of {whose} the same maker claims {other.value}: {format_quantity(ratio, 'x')} this."


def _part_of_whole(claim: Claim, said: Quantity, others: Sequence[Claim]) -> Iterator[str]:
    """Share of a whole that a part is: ``energy_of_memory`` of ``energy_per_inference``, if of the same conditions."""
    quantity, of, _ = claim.metric.partition(PART_OF)
    for other in others if of else ():
        theirs = quantity_of(other.value)
        whole = other.metric.startswith(f"{quantity}_") and PART_OF not in other.metric
        if not whole or theirs is None or other.conditions != claim.conditions:
            continue
        share = _ratio(said, theirs)
        if share is not None and share <= 1.0:
            yield f"That is {in_percent(share)} of the {other.value} that the same maker claims for {other.metric}."


def _one_at_a_time(claim: Claim, said: Quantity) -> Iterator[str]:
    """The rate that a latency is, where nothing is done side by side."""
    if claim.metric.startswith("latency") and claim.conditions.get("batch") == 1 and _is(said, "time"):
        rate = 1.0 / (said.value * UNITS[said.unit].scale)
        yield f"One at a time that is {format_quantity(rate, 'samples/s')}."


def _power_for_a_while(claim: Claim, said: Quantity, others: Sequence[Claim]) -> Iterator[str]:
    """The energy that a power over a latency is, held against the energy that is claimed."""
    if not claim.metric.startswith("latency") or not _is(said, "time"):
        return
    alike = [(one, quantity_of(one.value)) for one in others if one.conditions == claim.conditions]
    power = next(((one, two) for one, two in alike if two is not None and _is(two, "power")), None)
    if power is None:
        return
    joules = said.value * UNITS[said.unit].scale * power[1].value * UNITS[power[1].unit].scale
    words = f"With {power[0].value} that is {format_quantity(joules * 1e3, 'mJ')}"
    stated = next(((one, two) for one, two in alike if two is not None and _is(two, "energy")), None)
    if stated is None:
        yield f"{words}."
        return
    claimed = stated[1].value * UNITS[stated[1].unit].scale
    if abs(claimed - joules) <= TOLERANCE * joules:
        yield f"{words}, as is claimed."
    else:
        yield f"{words}, and {stated[0].value} is claimed."


def _rest(claim: Claim) -> dict[str, Cell]:
    return {name: value for name, value in claim.conditions.items() if name not in MADE_DIFFERENT}


def _is(quantity: Quantity, kind: str) -> bool:
    return quantity.unit in UNITS and UNITS[quantity.unit].kind == kind


def _ratio(one: Quantity, other: Quantity) -> float | None:
    if one.unit == other.unit:
        return one.value / other.value
    if one.unit in UNITS and other.unit in UNITS and UNITS[one.unit].kind == UNITS[other.unit].kind:
        return one.value * UNITS[one.unit].scale / (other.value * UNITS[other.unit].scale)
    return None

"""Claims of others beside what was measured: what a claim leaves out, and which costs it hides. Never evidence."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from evalspec.evidence.frozen import Cell, is_number
from evalspec.evidence.metric import Shows
from evalspec.evidence.policy import Claim
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.units import format_number, format_quantity
from evalspec.evidence.words import and_list
from evalspec.lineage.declared import number_that_shows, numbers_that_show
from evalspec.verdict.claimed import (
    FOR_PEOPLE,
    WAYS,
    Quantity,
    claimed_of_both,
    follows,
    held,
    kind_of,
    leaves_out,
    quantity_of,
    same_value,
    scale_of,
    text_of,
)
from evalspec.verdict.diagnosis import COPIES, MODEL_STAGES, PARSING, server_stages, stage_shares, trusted_checks

Doubts = Mapping[str, Collection[str]]
"""Id of a check: names of what it measured that is not judged."""

LONG_ENOUGH_S = 30.0
"""A rate that held for less is a burst: clocks and temperature have not settled."""
BURSTS = ("burst", "peak", "boost", "turbo", "short")
PEAKS = re.compile(r"(up to|peak|at best|max|maximum|as (much|little|low|high|fast) as)\b|sub[- ]|<", re.IGNORECASE)
LARGEST = ("max", "maximum", "largest", "best", "optimal", "any")
ACCELERATOR_ONLY = (
    "accelerator", "accelerator_only", "npu", "npu_only", "gpu_only", "chip", "core", "kernel", "compute_only",
    "device_only", "model_only", "inference_only",
)  # fmt: skip
ONE_OPERATION = ("operation", "operator", "per_operation", "per_operator", "op", "per_op", "mac", "layer")
END_TO_END = ("end_to_end", "e2e", "whole")
BARE = ("fraction", "count", "score", "label")
"""Units whose numbers stand bare."""
OF_STAGES = ("transfer", "preprocessing", "postprocessing")
"""What is left out that a query spends time on."""
COSTS: Mapping[str, tuple[Shows, ...]] = {
    "load": ("cost of loading",), "cold_start": ("cost of loading", "cost of a first answer"),
    "warm_up": ("cost of a first answer",), "idle": ("cost of idling",), "queue": ("cost of queueing",),
}  # fmt: skip
"""What is left out, in the words of claims: the cost that a number of this run may show."""


@dataclass(frozen=True, slots=True)
class Examined:
    """One claim, looked at.

    Args:
        claim: It.
        check: Id of the check that measured the same quantity; empty: none did.
        measured: What it measured, in words.
        times: The claimed number by the measured one; None: they can't be divided.
        leaves_out: What it does not state and would have to, before anything could be held against it.
        differs: Where this run's conditions are others, in words.
        findings: Costs that it hides, each with what this run shows of them.
        follows: What follows from it and other claims of the same maker.
        trusted: What was measured is to be trusted.
    """

    claim: Claim
    check: str
    measured: str
    times: float | None
    leaves_out: tuple[str, ...]
    differs: tuple[str, ...]
    findings: tuple[str, ...]
    follows: tuple[str, ...]
    trusted: bool

    @property
    def alike(self) -> bool:
        """The two numbers are of the same thing, as far as the claim says what it is of."""
        return self.trusted and bool(self.check) and not (self.leaves_out or self.differs or self.findings)


@dataclass(frozen=True, slots=True)
class _Beside:
    """The same quantity as this run measured it, and what it was measured at."""

    check: CheckRecord
    name: str
    here: Mapping[str, Cell]
    differs: tuple[str, ...]


def examine(record: Record, doubts: Doubts) -> tuple[Examined, ...]:
    """Each claim of a record beside what the run measured; nothing is decided from them.

    Args:
        record: The run.
        doubts: What is not judged of what its checks measured.
    """
    return tuple(_examined(claim, record, doubts) for claim in record.claims)


def only_claimed(record: Record, model: str, baseline: str) -> str:
    """A sentence: what is claimed of two models, and nothing here shows; empty: nothing is.

    Args:
        record: The run.
        model: Name of the one.
        baseline: Name of the other.
    """
    found = claimed_of_both(record.claims, model, baseline)
    return f"Claimed, but not shown here: {and_list(found)}." if found else ""


def _examined(claim: Claim, record: Record, doubts: Doubts) -> Examined:
    beside = _same_quantity(claim, record, doubts)
    said = quantity_of(claim.value)
    unit = said.unit if said is not None else ""
    measured, times, trusted, unread = "", None, False, ""
    if beside is not None:
        unit = beside.check.units.get(beside.name, unit)
        measured, times = _measured_words(beside, said, unit)
        trusted = beside.name not in doubts.get(beside.check.id, ())
        unread = "" if times is not None or beside.check.measured[beside.name] == 0 else unit or "its unit"
    here = _unmeasured(claim, record) if beside is None else beside.here
    return Examined(
        claim=claim,
        check="" if beside is None else beside.check.id,
        measured=measured,
        times=times,
        leaves_out=leaves_out(claim, unit),
        differs=() if beside is None else beside.differs,
        findings=tuple(_findings(claim, record, here, unread)),
        follows=follows(claim, record.claims),
        trusted=trusted,
    )


def _same_quantity(claim: Claim, record: Record, doubts: Doubts) -> _Beside | None:
    """Measurement nearest to the claim's own conditions; of the model that it names, where that is one of ours."""
    names = [model.name for model in record.models]
    wanted = claim.conditions.get("model")
    found: list[_Beside] = []
    batch = claim.conditions.get("batch")
    for check in record.checks:
        own = next((name for name in check.models if name not in check.baseline_models), "")
        if wanted in names and own != wanted:
            continue
        for name in (f"{claim.metric}(batch {text_of(batch)})", claim.metric):
            if name in check.measured:
                here = _here(record, check, own) | ({} if name == claim.metric else {"batch": batch})
                found.append(_Beside(check, name, here, _differs(claim, here)))
    return min(
        found, key=lambda one: (one.name in doubts.get(one.check.id, ()), _unlike(claim, one.here)), default=None
    )


def _unlike(claim: Claim, here: Mapping[str, Cell]) -> int:
    """In how many of its conditions a claim is not what was measured."""
    return sum(name in here and not same_value(here[name], value) for name, value in claim.conditions.items())


def _unmeasured(claim: Claim, record: Record) -> dict[str, Cell]:
    """Facts of the model that a claim names, or of the subject, where nothing measured the quantity."""
    named = [model for model in record.models if model.name == claim.conditions.get("model")]
    subject = [model for model in record.models if model.digest is not None and model.digest == record.subject]
    found = next(iter((*named, *subject)), None)
    if found is None:
        return {}
    return {"precision": found.precision_observed or found.precision, "batch": found.batch}


def _here(record: Record, check: CheckRecord, own: str) -> dict[str, Cell]:
    """Conditions that a check's numbers hold for, by the names that claims have for them."""
    model = next((one for one in record.models if one.name == own), None)
    known: dict[str, Cell] = {"model": own} if own else {}
    if model is not None:
        known["precision"] = model.precision_observed or model.precision
        known["device"] = model.device_observed or model.device
    if check.dimension == "system":
        known["boundary"] = END_TO_END[0]
    best = number_that_shows(check, "best batch")
    if best is not None:
        known["batch"] = best
    return {**known, **check.conditions}


def _differs(claim: Claim, here: Mapping[str, Cell]) -> tuple[str, ...]:
    """Conditions that are others here, or not shown, but for those that are findings of their own."""
    found = []
    for name, value in claim.conditions.items():
        if here.get(name) is None:
            if name not in FOR_PEOPLE:
                found.append(f"a {name} that is not shown, while {text_of(value)} is claimed")
            continue
        told = name == "precision" or (name == "batch" and (_plain(value) in LARGEST or _larger(value, here.get(name))))
        if told or same_value(here[name], value):
            continue
        if name == "boundary" and _plain(value) in (*END_TO_END, *ACCELERATOR_ONLY, *ONE_OPERATION):
            continue
        found.append(f"{name} {text_of(here[name])}, not {text_of(value)}")
    return tuple(found)


def _measured_words(beside: _Beside, said: Quantity | None, unit: str) -> tuple[str, float | None]:
    value = beside.check.measured[beside.name]
    if not is_number(value):
        return text_of(value), None
    times = None
    written = "" if said is None else said.unit or (unit if unit in BARE else "")
    if said is not None and value > 0 and kind_of(written) == kind_of(unit):
        times = said.value * scale_of(written) / (value * scale_of(unit))
    test = next((one for one in beside.check.tests if one.name == f"{beside.check.id}/{beside.name}"), None)
    words = format_quantity(float(value), unit)
    return words if test is None else words + held(test), times


def _findings(claim: Claim, record: Record, here: Mapping[str, Cell], unread: str) -> Iterator[str]:
    """The ways in which a claim looks better than what comes of it, each with what this run shows.

    Args:
        claim: It.
        record: The run.
        here: What the measured number holds for.
        unread: Unit of the measured number, in which nothing is claimed; empty: it is.
    """
    yield from _peak(claim, record)
    yield from _boundary(claim, record)
    yield from _batch(claim, record, here)
    if unread:
        yield f"No number{'' if unread in BARE else f' in {unread}'} can be read from {claim.value!r}."
    precision = claim.conditions.get("precision")
    ran = here.get("precision")
    if precision is not None and ran is not None and not same_value(precision, ran):
        yield (
            f"{text_of(precision)} gives different answers from {text_of(ran)}, which is what ran "
            "here; this run does not show how good they are."
        )


def _peak(claim: Claim, record: Record) -> Iterator[str]:
    """Peak against sustained."""
    spent = claim.conditions.get("duration")
    said = quantity_of(text_of(spent)) if spent is not None else None
    short = said is not None and kind_of(said.unit) == "time" and said.value * scale_of(said.unit) < LONG_ENOUGH_S
    if PEAKS.match(claim.value.strip()):
        what = "A peak, not a sustained rate."
    elif spent is not None and (_plain(spent) in BURSTS or short):
        what = f"A burst ({text_of(spent)}), not a sustained rate."
    else:
        return
    for check in trusted_checks(record, "sustained share"):
        ratio = number_that_shows(check, "sustained share")
        if ratio is not None:
            yield f"{what} Kept up here: {format_quantity(ratio, 'x')} of the start ({check.id})."
            return
    yield f"{what} A check `sustained` would show the sustained rate."


def _boundary(claim: Claim, record: Record) -> Iterator[str]:
    """The accelerator alone against end to end, and costs that are left out by name."""
    said = next((claim.conditions[word] for word in WAYS["boundary"] if word in claim.conditions), None)
    if said is not None and _plain(said) in ONE_OPERATION:
        yield from _of_one_operation(record)
        return
    alone = said is not None and _plain(said) in ACCELERATOR_ONLY
    left_out = [word.replace("_", " ") for word in claim.excludes]
    if not alone and not left_out:
        return
    what = "The accelerator alone, without input and output." if alone else ""
    what += f"{' ' if what and left_out else ''}{f'Without {and_list(left_out)}.' if left_out else ''}"
    shown = [*_share_left_out(claim, record, alone), *_left_out_elsewhere(claim, record)]
    staged = alone or any(_plain(word) in OF_STAGES for word in claim.excludes)
    none = "A check `stages` would show its share of a query." if staged else "Nothing here shows what that costs."
    yield f"{what} {' '.join(shown) or none}"


def _share_left_out(claim: Claim, record: Record, alone: bool) -> Iterator[str]:
    """How much of a query the stages take that a claim leaves out."""
    for check in trusted_checks(record, "share of a stage"):
        shares, served = stage_shares(check), server_stages(check)
        ours = {stage: share for stage, share in shares.items() if _is_left_out(stage, claim.excludes, alone, served)}
        if ours:
            total = sum(ours.values())
            yield f"Here that is {format_quantity(total, '%')} of a query: {and_list(list(ours))} ({check.id})."
            return


def _is_left_out(stage: str, excludes: Sequence[str], alone: bool, served: Sequence[str]) -> bool:
    if stage in MODEL_STAGES:
        return False
    words = {_plain(word) for word in excludes}
    group = "transfer" if stage in COPIES else "postprocessing" if stage in PARSING else "preprocessing"
    # What a server does before and after its model is for it to name.
    group = stage if stage in served else group
    return alone or group in words or stage in words


def _left_out_elsewhere(claim: Claim, record: Record) -> Iterator[str]:
    """Measurements by other checks of a cost that is left out."""
    for word in claim.excludes:
        for cost in COSTS.get(_plain(word), ()):
            shown = (
                f"{metric} here: {format_quantity(value, check.units.get(metric, ''))} ({check.id})."
                for check in record.checks
                for metric, value in numbers_that_show(check, cost)
                if check.status == "measured" and "(" not in metric
            )
            yield from islice(shown, 1)


def _of_one_operation(record: Record) -> Iterator[str]:
    """One operation against a network."""
    what = "Of one operation, while a network has many."
    for check in trusted_checks(record, "covered operators"):
        covered = number_that_shows(check, "covered operators")
        if covered is not None:
            yield f"{what} {format_quantity(covered, '%')} of this network's operators ran on the device ({check.id})."
            return
    yield f"{what} A check `precision` would show how many of this network's operators run on the device."


def _batch(claim: Claim, record: Record, here: Mapping[str, Cell]) -> Iterator[str]:
    """The largest batch against the one that is served."""
    said = claim.conditions.get("batch")
    batch = here.get("batch", _unmeasured(claim, record).get("batch"))
    if said is None or not isinstance(batch, int | float):
        return
    if _plain(said) in LARGEST:
        yield f"At the batch size that looks best; here it is {format_number(float(batch))}."
    elif _larger(said, batch):
        yield f"At batch {text_of(said)}, where a row waits for the others; here it is {format_number(float(batch))}."


def _larger(said: Cell, here: Cell) -> bool:
    return isinstance(said, int | float) and isinstance(here, int | float) and said > here


def _plain(value: Cell) -> str:
    return re.sub(r"[\s-]+", "_", text_of(value).strip().casefold())

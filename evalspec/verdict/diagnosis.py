"""Where time and memory go: data, algorithm and machine against compute, memory and I/O, from measured evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evalspec.evidence.metric import Shows
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.units import format_quantity
from evalspec.evidence.words import and_list
from evalspec.lineage.declared import declared, number_that_shows, numbers_that_show

Axis = Literal["data", "algorithm", "machine"]
Resource = Literal["compute", "memory", "I/O"]
State = Literal["found", "not found", "not measured"]

AXES: tuple[Axis, ...] = ("data", "algorithm", "machine")
RESOURCES: tuple[Resource, ...] = ("compute", "memory", "I/O")

LARGE_SHARE = 30.0
"""Percent of a query's time from which on a stage is worth naming: without it the query is 1.4 times as fast."""
SATURATED = 60.0
"""Percent of the measured roof from which on the device, and not the model's shape, is what is left to change."""
NO_ROOF = 105.0
"""Percent of the measured roof beyond which it is none for this model."""
NEARLY_FULL = 80.0
"""Percent of the memory."""
STAGES: tuple[Shows, str] = ("share of a stage", "`stages` would show it")
ROOF: tuple[Shows, str] = ("share of the roof", "`roofline` would show it")
"""Numbers that a cell is read from, and what is said where nothing measured them."""
INFERENCE = "inference"
MODEL_STAGES = (INFERENCE, "server")
COPIES = ("copy_to_device", "copy_to_host")
NETWORK = "transfer"
"""What is left of the wait for a server that tells of its own time."""
OWN_CODE = "python"
"""A stage of preprocessing that only its own code tells of: it may as well take requests apart."""
PARSING = ("serialize", "parse", "frame", "postprocess", "server_parse", "server_serialize")


@dataclass(frozen=True, slots=True)
class Symptom:
    """One cell.

    Args:
        axis: What would have to change.
        resource: What runs short.
        name: The symptom in words.
        state: Whether the evidence shows it.
        finding: The measured evidence in words; of ``not measured``: what would measure it.
        checks: Ids of the checks that it comes from.
        remedy: What helps where it is found.
    """

    axis: Axis
    resource: Resource
    name: str
    state: State
    finding: str
    checks: tuple[str, ...] = ()
    remedy: str = ""


Found = tuple[State, str, tuple[str, ...]]


def diagnose(record: Record) -> tuple[Symptom, ...]:
    """The nine cells, row by row; numbers that are not judged diagnose nothing.

    Args:
        record: A record; its verdict is not checked.

    References:
        The data, algorithm, machine taxonomy of Machine Learning Systems (Reddi et al.), benchmarking chapter.
    """
    symptoms = []
    for axis, resource, name, look, remedy in _CELLS:
        state, finding, checks = look(record)
        symptoms.append(Symptom(axis, resource, name, state, finding, checks, remedy if state == "found" else ""))
    return tuple(symptoms)


def trusted_checks(record: Record, what: Shows) -> Iterator[CheckRecord]:
    """Checks whose numbers may be read, and some metric of which shows something."""
    for check in record.checks:
        if (
            declared(check).is_shown(what)
            and check.status == "measured"
            and not any(test.invalid for test in check.tests)
        ):
            yield check


def stage_shares(check: CheckRecord) -> dict[str, float]:
    """Stage: percent of the undivided query's time."""
    found = numbers_that_show(check, "share of a stage")
    return {name[name.index("(") + 1 : -1]: value for name, value in found if "(" in name}


def server_stages(check: CheckRecord) -> tuple[str, ...]:
    """Stages that a server tells of, and the way to it."""
    return tuple(str(check.conditions.get("server_stages") or "").split(", "))


def _any(what: Shows, remedy: str, one: Callable[[CheckRecord], Found]) -> Callable[[Record], Found]:
    """A cell that any check may fill which shows something.

    By the first that finds it, else by the first that was looked at; where there is none the remedy is said.
    """

    def look(record: Record) -> Found:
        found = [one(check) for check in trusted_checks(record, what)]
        nothing: Found = ("not measured", remedy, ())
        return next((cell for cell in found if cell[0] == "found"), found[0] if found else nothing)

    return look


def _stages(wanted: Callable[[str], bool], nothing: str, *, server: bool = True) -> Callable[[Record], Found]:
    """A cell that is about stages of a query; ``server``: also about those that a server tells of."""

    def one(check: CheckRecord) -> Found:
        shares = stage_shares(check)
        told = () if server else server_stages(check)
        return _share(check, [stage for stage in shares if wanted(stage) and stage not in told], nothing)

    return _any(*STAGES, one)


def _share(check: CheckRecord, stages: Sequence[str], nothing: str) -> Found:
    """Finding that some stages together are a large share of a query, or that they are not."""
    ours = {stage: share for stage, share in stage_shares(check).items() if stage in stages}
    if not ours:
        return "not found", nothing, (check.id,)
    total = sum(ours.values())
    largest = max(ours, key=lambda stage: ours[stage])
    words = f"{format_quantity(total, '%')} of a query"
    words += f", most of it {largest}" if len(ours) > 1 else f": {largest}"
    return "found" if total >= LARGE_SHARE else "not found", words, (check.id,)


def _parsing(check: CheckRecord) -> Found:
    """A cell that is about text and its like, which a stage of one's own may read as well."""
    shares, told = stage_shares(check), server_stages(check)
    parsing = [stage for stage in shares if stage in PARSING]
    state, words, checks = _share(check, parsing, "nothing is parsed")
    total, model = sum(shares[stage] for stage in parsing), shares.get(INFERENCE)
    if state == "found":
        more = model is not None and total > model
        return state, f"{words}, and more than inference" if more else words, checks
    own = {stage: share for stage, share in shares.items() if _is_own(stage) and stage not in told}
    if total + sum(own.values()) < LARGE_SHARE:
        return state, words, checks
    beside = "" if model is None else f", {format_quantity(model, '%')} inference"
    words = f"{format_quantity(sum(own.values()), '%')} of a query is custom code ({and_list(list(own))}){beside}"
    return "not measured", f"{words}; only that code shows whether it parses", checks


def _is_own(stage: str) -> bool:
    """A stage of preprocessing that is a function of one's own; the second of them has a number."""
    name, _, number = stage.rpartition("_")
    return stage == OWN_CODE or (name == OWN_CODE and number.isdigit())


def _ways(check: CheckRecord) -> Found:
    """A cell that is about the ways to the model and back, in a machine or between two."""
    told = NETWORK in server_stages(check)
    if "server" in stage_shares(check) and not told:
        return "not measured", "the server does not report how much of the waiting time is its own", (check.id,)
    return _share(check, (*COPIES, NETWORK) if told else COPIES, "nothing is copied between host and device")


def _under_the_roof(bound: str) -> Callable[[Record], Found]:
    """A cell that is about what bounds the model itself."""

    def one(check: CheckRecord) -> Found:
        fraction, seen = number_that_shows(check, "share of the roof"), check.conditions.get("bound")
        if seen is None or (fraction is not None and fraction > NO_ROOF):
            return "not measured", f"{check.id} found no roof to compare the model with", (check.id,)
        words = f"bound by {seen}"
        words += "" if fraction is None else f", at {format_quantity(fraction, '%')} of the measured roof"
        return "found" if seen == bound else "not found", words, (check.id,)

    return _any(*ROOF, one)


def _saturated(bound: str) -> Callable[[Record], Found]:
    """A cell that is about a device which gives nearly all it has."""

    def one(check: CheckRecord) -> Found:
        fraction, seen = number_that_shows(check, "share of the roof"), check.conditions.get("bound")
        if fraction is None or fraction > NO_ROOF:
            return "not measured", f"{check.id} found no roof to compare the model with", (check.id,)
        words = f"{format_quantity(fraction, '%')} of the measured roof, bound by {seen}"
        return "found" if seen == bound and fraction >= SATURATED else "not found", words, (check.id,)

    return _any(*ROOF, one)


def _main_memory(record: Record) -> Found:
    room = record.environment.facts.get("memory_MiB")
    for check in trusted_checks(record, "host memory"):
        peak = number_that_shows(check, "host memory")
        if peak is None or not isinstance(room, int | float):
            continue
        share = 100.0 * peak / float(room)
        words = f"{format_quantity(peak, 'MiB')} of {format_quantity(float(room), 'MiB')}, rows included"
        return "found" if share >= NEARLY_FULL else "not found", words, (check.id,)
    return "not measured", "`memory` would show it", ()


_CELLS: tuple[tuple[Axis, Resource, str, Callable[[Record], Found], str], ...] = (
    (
        "data", "compute", "preprocessing is slow",
        _stages(
            lambda stage: stage not in (*MODEL_STAGES, *COPIES, *PARSING), "no preprocessing is timed", server=False
        ),
        "preprocess ahead of time, in parallel, or on the device; a faster model gains little",
    ),
    (
        "data", "memory", "rows and model nearly fill the memory", _main_memory,
        "smaller batches, rows read in portions, or a machine with more memory",
    ),
    (
        "data", "I/O", "parsing requests and building answers is slow",
        _any(*STAGES, _parsing),
        "a binary format, fewer fields, larger batches",
    ),
    (
        "algorithm", "compute", "its arithmetic takes the time", _under_the_roof("compute"),
        "fewer operations (distillation, pruning of whole blocks) or a lower precision",
    ),
    (
        "algorithm", "memory", "moving weights and activations takes the time", _under_the_roof("memory"),
        "a lower precision, fused operators, larger batches that reuse weights",
    ),
    (
        "algorithm", "I/O", "starting many small operators takes the time", _under_the_roof("overhead"),
        "larger batches, fused operators, a compiled or captured graph",
    ),
    (
        "machine", "compute", "the processor is nearly saturated", _saturated("compute"),
        "a faster device or several; software changes gain little",
    ),
    (
        "machine", "memory", "the memory bandwidth is exhausted", _saturated("memory"),
        "a device with more bandwidth; more arithmetic units gain nothing",
    ),
    (
        "machine", "I/O", "copies between host and device, or the network, take the time", _any(*STAGES, _ways),
        "pinned memory, copies that overlap with computing, preprocessing on the device; for a server: a nearer one, "
        "larger requests, answers sent in one piece",
    ),
)  # fmt: skip

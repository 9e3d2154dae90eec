"""Rules between the parts of a spec that are known without opening any file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalspec.errors import Problem, ProblemCode, SpecError, did_you_mean
from evalspec.evidence.metric import Metric, Op
from evalspec.evidence.policy import Claim, Rollback, Waiver
from evalspec.evidence.profile import PROFILE
from evalspec.evidence.words import and_list
from evalspec.language.parts import Check, Dataset, Model, SpecNames
from evalspec.language.requirement import Requirement, parse_requirement, split_sentence
from evalspec.loading.entries import Entry
from evalspec.loading.problems import Problems
from evalspec.loading.spec import Slice, SpecRollback


def check_ids(problems: Problems, entries: Sequence[Entry]) -> None:
    """Names of checks are unique over the whole spec."""
    seen: set[str] = set()
    for entry in entries:
        name = entry.check.name
        if name in seen:
            key = "id" if entry.check.id else "check"
            remedy = "give it another id" if entry.check.id else "give each an `id:` of its own"
            problems.add((*entry.path, key), Problem(f"two checks are called {name!r}", remedy=remedy))
        seen.add(name)


def check_entry(problems: Problems, entry: Entry, names: SpecNames) -> None:
    """One check: its model, its parts, that it decides something, and its own word on the spec's names."""
    check = entry.check
    if check.uses_model and check.model not in names.models and "model" not in check.model_fields_set:
        message = f"{check.name} is about the model {check.model!r}, and there is none"
        problems.add(entry.path, Problem(message, choices=names.models, remedy="name one with `model:`"))
    decides = bool(check.requirements)
    if not decides and not check.report_only and not _sentences_failed(problems, entry):
        message = f"{check.name} has no requirement, so it decides nothing"
        problems.add(entry.path, Problem(message, remedy="add `require:`, or set `report_only: true`"))
    if decides and check.report_only:
        problems.add(
            (*entry.path, "report_only"),
            Problem(f"{check.name} is report_only and has requirements", remedy="remove one"),
        )
    own = check.check_names(names)
    if own is not None:
        problems.add(entry.path, own)
    _check_sla(problems, entry)
    for requirement in check.requirements:
        part = unknown_part(check, requirement, names)
        if part is not None:
            problems.add(entry.place(requirement), part)
        if requirement.model == check.model and check.uses_model:
            message = f"{check.name} would compare {check.model} with itself"
            problems.add(entry.place(requirement), Problem(message, choices=names.models, remedy="name another model"))


def check_remembered(problems: Problems, entries: Sequence[Entry], models: Mapping[str, Model]) -> None:
    """Nothing is timed against, or of, a model whose answers were kept by an earlier run."""
    remembered = {name for name, model in models.items() if model.remembered}
    for entry in entries:
        if entry.check.dimension != "system" or not remembered:
            continue
        remedy = "name the model itself: timings drift from one run to the next"
        if entry.check.model in remembered:
            message = f"{entry.check.model} is the record of a run, which can't be timed"
            problems.add(entry.path, Problem(message, remedy=remedy))
        for requirement in entry.check.requirements:
            if requirement.model in remembered:
                message = f"{requirement.model} is the record of a run, but {requirement.metric} is measured anew"
                problems.add(entry.place(requirement), Problem(message, remedy=remedy))


def _sentences_failed(problems: Problems, entry: Entry) -> bool:
    """Sentences stand there, but none of them was understood."""
    node = problems.root.find(entry.path)
    found = [node.child(key) for key in ("require", "warn", "slo")] if node is not None else []
    return any(child is not None and child.content not in (None, [], {}) for child in found)


def unknown_part(check: Check, requirement: Requirement, names: SpecNames) -> Problem | None:
    """Problem of a requirement about a part that its metric does not have; None: it has it, or it is not known yet."""
    metric = check.metric(requirement.metric)
    if requirement.part is None or metric is None:
        return None
    parts = check.part_names(metric, names)
    if parts is None or requirement.part in parts:
        return None
    message = f"unknown {metric.parts} {requirement.part!r} of {metric.name}"
    return Problem(message, choices=parts, remedy=did_you_mean(requirement.part, parts))


def _check_sla(problems: Problems, entry: Entry) -> None:
    slo, sla = entry.check.slo, entry.check.sla
    if sla is None:
        return
    path = (*entry.path, "sla")
    if slo is None:
        if problems.root.find((*entry.path, "slo")) is None:
            problems.add(path, Problem("an SLA without an SLO decides nothing", remedy="add an `slo:` that is tighter"))
        return
    if (slo.metric, slo.part, slo.upper, slo.model) != (sla.metric, sla.part, sla.upper, sla.model):
        problems.add(path, Problem(f"SLO and SLA are about different things: {slo.sentence!r} and {sla.sentence!r}"))
    elif not (slo.threshold < sla.threshold if slo.upper else slo.threshold > sla.threshold):
        message = f"the SLA {sla.sentence!r} is not looser than the SLO {slo.sentence!r}"
        problems.add(path, Problem(message, remedy="tighten the SLO to leave headroom"))


def check_requirement_names(problems: Problems, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Names of all requirements; each names one sentence only."""
    seen: dict[str, str] = {}
    for entry in entries:
        for requirement in entry.check.requirements:
            name = requirement.name(entry.check.name)
            if name in seen:
                message = f"two requirements are called {name!r}: {seen[name]!r} and {requirement.sentence!r}"
                remedy = "keep one, or put the other into a check of the same kind with an `id:` of its own"
                problems.add(entry.place(requirement), Problem(message, remedy=remedy))
            seen.setdefault(name, requirement.sentence)
    return tuple(seen)


def check_waivers(problems: Problems, waivers: Sequence[Waiver], requirements: Sequence[str]) -> None:
    """A waiver is of a requirement that is there, and each has one waiver at most."""
    choices = (*requirements, "subject")
    for index, waiver in enumerate(waivers):
        path = ("waivers", index, "of")
        if waiver.of not in choices:
            message = f"unknown requirement {waiver.of!r}"
            remedy = "set it aside with `without:`" if waiver.of.startswith(f"{PROFILE}/") else None
            problems.add(path, Problem(message, choices=choices, remedy=remedy or did_you_mean(waiver.of, choices)))
        if waiver.of in [other.of for other in waivers[:index]]:
            problems.add(path, Problem(f"{waiver.of!r} is waived twice", remedy="keep one of the two"))


def claimed_alone(claims: Sequence[Claim], entries: Sequence[Entry]) -> list[str]:
    """Sentences: claims of what no check of the spec measures, so that nothing will stand beside them."""
    known = list(dict.fromkeys(metric.name for entry in entries for metric in entry.check.own_metrics))
    alone = dict.fromkeys(claim.metric for claim in claims if claim.metric.partition("(")[0] not in known)
    hints = {name: did_you_mean(name, known) for name in alone}
    named = [f"{name} ({hint})" if hint else name for name, hint in hints.items()]
    return [f"claims of {and_list(named)}: no check of this spec measures them"] if named else []


def without_score(datasets: Mapping[str, Dataset], entries: Sequence[Entry]) -> list[str]:
    """Sentences: benchmarks of the hub whose score no requirement asks for, so that no model card can tell it."""
    asked = [
        requirement.name("").lstrip("/")
        for entry in entries
        if entry.check.dimension == "model"
        for requirement, _ in entry.places
    ]
    return [
        f"a score of {one.hub.id}: no requirement on the model asks for {one.hub.metric}"
        + (f"; {hint}" if (hint := did_you_mean(one.hub.metric, asked)) else "")
        for one in datasets.values()
        if one.hub is not None and one.hub.metric not in asked
    ]


def rollbacks(problems: Problems, wanted: Sequence[SpecRollback], entries: Sequence[Entry]) -> tuple[Rollback, ...]:
    """Criteria that production is watched for, each about a metric that this spec measures before."""
    metrics = {metric.name: metric for entry in entries for metric in entry.check.own_metrics}
    found = []
    for index, one in enumerate(wanted):
        try:
            found.append(_rollback(one, tuple(metrics.values())))
        except SpecError as error:
            problems.add(("rollback", index, "when"), error.problems[0])
    return tuple(found)


def _rollback(one: SpecRollback, metrics: Sequence[Metric]) -> Rollback:
    """The sentence, read as the requirement that it breaks: so it points at what is bad."""
    bad = split_sentence(one.when)
    if bad.op == "==":
        raise SpecError(Problem(f"{one.when!r} is met by a single value only", remedy="write > or <"))
    kept = f"{one.when.partition(f' {bad.op} ')[0]} {BROKEN[bad.op]} {bad.right}"
    try:
        met = parse_requirement(kept, metrics)
    except SpecError as error:
        problem = error.problems[0]
        if problem.code is not ProblemCode.WRONG_DIRECTION:
            raise
        raise SpecError(
            Problem(
                f"{one.when!r} describes good values, not bad ones",
                remedy="write the condition under which production should roll back",
            )
        ) from error
    if met.model is not None:
        raise SpecError(Problem(f"{one.when!r} names a model, but production runs only one", remedy="write a number"))
    return Rollback(when=bad.text, for_s=one.for_s, metric=met.metric, part=met.part, op=bad.op,
                    threshold=met.threshold, unit=met.unit)  # fmt: skip


BROKEN: Mapping[Op, Op] = {"<=": ">", "<": ">=", ">=": "<", ">": "<="}
"""An operator, and the one that holds where it does not."""


def check_slices(problems: Problems, slices: Sequence[Slice]) -> None:
    """Names of slices are unique."""
    for index, one in enumerate(slices):
        if one.name in [other.name for other in slices[:index]]:
            problems.add(("slices", index, "name"), Problem(f"two slices are called {one.name!r}", remedy="rename one"))


def check_models(problems: Problems, models: Mapping[str, Model], names: SpecNames) -> None:
    """The dataset that a model was quantized with is one of the spec's."""
    for name, model in models.items():
        used = model.quantization.get("calibration")
        if used is not None and used not in names.datasets:
            message = f"unknown dataset {used!r}"
            remedy = did_you_mean(used, names.datasets)
            path = ("models", name, "quantization", "calibration")
            problems.add(path, Problem(message, choices=names.datasets, remedy=remedy))
        shown = model.shown_rows
        if shown is not None and shown.dataset not in names.datasets:
            message = f"unknown dataset {shown.dataset!r}"
            remedy = did_you_mean(shown.dataset, names.datasets)
            place = ("models", name, "prompt", "shots", "dataset")
            problems.add(place, Problem(message, choices=names.datasets, remedy=remedy))


def check_decides(problems: Problems, entries: Sequence[Entry]) -> None:
    """Something can fail."""
    if not any(entry.check.blocking for entry in entries):
        message = "nothing in this spec can fail" if entries else "there is no check in this spec"
        problems.add((), Problem(message, remedy="add a check with `require:` under `system`, `model` or `data`"))

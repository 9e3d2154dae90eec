"""Explanation of a plan: checks, order, n, time, and what each requirement can detect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalspec.evidence.estimate import Side
from evalspec.evidence.methods import IntervalFamily, design_effect_in, is_distance, is_timed, processes_in, units_in
from evalspec.evidence.metric import Metric
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import Test, holds
from evalspec.evidence.units import UNITS, format_quantity, from_unit, to_unit
from evalspec.evidence.words import and_list, duration, in_percent, plural
from evalspec.evidence.written import in_unit, shown_unit
from evalspec.language.parts import Check, Training
from evalspec.language.requirement import Requirement
from evalspec.loading.summary import doubts, profile_json, profile_lines
from evalspec.planning.permissions import Permission, trainings_of
from evalspec.planning.plan import Plan, PlannedCheck, trial_runs
from evalspec.scoring.repeats import recorded
from evalspec.stats.error_design import recorded_error, recorded_increase, recorded_largest
from evalspec.stats.power import (
    Better,
    Design,
    PairedDesign,
    ProportionDesign,
    chance_of_pass,
    detectable,
)
from evalspec.stats.recorded import recorded_proportion
from evalspec.stats.recorded_design import (
    DistanceDesign,
    Growth,
    even,
    of_losses,
    of_range,
    recorded_distance,
    recorded_percentile,
    recorded_share,
    recorded_student,
    recorded_wald,
    standard_error,
)
from evalspec.stats.scaled_design import recorded_area, recorded_f1

ASSUMED_DISCORDANCE = 0.05
"""Share of rows on which two versions of a model differ, where no record tells."""
FEWEST = 5
"""Processes at the least that queries are timed over."""
SHARES = ("fraction", "%")
LOSSES = ("score", "label")
SIGNED = ("temperature", "score", "label", "difference")
"""Kinds of quantity that may be below 0."""
_ENDED = {"not_run": "not run", "invalid": "invalid", "error": "crashed"}


@dataclass(frozen=True, slots=True)
class Detects:
    """Detectable differences of one requirement.

    Args:
        name: Of the requirement.
        sentence: As written.
        n: Rows or queries, where known.
        unit: Of headroom and violation.
        headroom: Distance on the good side at which PASS comes out in 1 - 0.1/m of runs; None: not known, or never.
        violation: Distance on the bad side at which FAIL comes out in 80 %.
        assumed: Nuisance values, and whence.
        chance: Of PASS if the truth is as it was measured before; None where nothing was.
        blocking: It blocks.
        note: Why something is not known.
        threshold: Of the requirement, in its unit.
        upper: Its value must lie below the threshold.
        written_unit: Unit that it is written in, where that is another one.
        effects: Design effect that a run saw, and the one that is planned with; None: either is not known.
    """

    name: str
    sentence: str
    n: int | None
    unit: str
    headroom: float | None
    violation: float | None
    assumed: str
    chance: float | None
    blocking: bool
    note: str = ""
    threshold: float = 0.0
    upper: bool = False
    written_unit: str = ""
    effects: tuple[float, float] | None = None

    @property
    def passes_from(self) -> float | None:
        """Truth from which on PASS comes out in nearly all runs; None: not known, or never."""
        return None if self.headroom is None else self.threshold + (-self.headroom if self.upper else self.headroom)

    @property
    def fails_from(self) -> float | None:
        """Truth from which on FAIL comes out in 4 of 5 runs; None: not known, or never."""
        return None if self.violation is None else self.threshold + (self.violation if self.upper else -self.violation)


def detects(plan: Plan, before: Record | None) -> list[Detects]:
    """For each requirement what it can detect at the n that is known.

    Args:
        plan: The plan.
        before: An earlier record of the spec, for assumed truths and standard errors.
    """
    known = {} if before is None else {test.name: (check, test) for check in before.checks for test in check.tests}
    lines = []
    for planned in plan.checks:
        check = planned.check
        for one in check.requirements:
            metric = check.metric(one.metric)
            if metric is None:
                continue
            record, test = known.get(one.name(check.name), (None, None))
            void = None if record is None or test is None else _void(record, test)
            blocking = one in check.blocking
            if void is not None:
                lines.append(_not_known(one, one.name(check.name), None, None, blocking, void))
            else:
                found = replace(
                    _detects(plan, check, one, metric, test, blocking=blocking), effects=_effects(check, test)
                )
                if record is not None and test is not None and test.p_pass is not None and record.ended_early:
                    # Far from the threshold: were it not again, the check would go on with more processes.
                    found = replace(found, chance=float(test.p_pass <= plan.alpha))
                lines.append(found)
    return lines


def _effects(check: Check, test: Test | None) -> tuple[float, float] | None:
    seen, planned = None if test is None else design_effect_in(test.method), check.assumed_design_effect
    return None if seen is None or planned is None else (seen, planned)


def _void(record: CheckRecord, test: Test) -> str | None:
    """Why an earlier run tells nothing of a requirement; None: it tells something."""
    if record.status != "measured":
        return f"{_ENDED[record.status]} in that run, so its headroom is unknown: {record.reason}"
    if test.invalid is not None:
        return f"{_ENDED['invalid']} in that run, so its headroom is unknown: {test.invalid}"
    return None if test.missing is None else f"without a value in that run, so its headroom is unknown: {test.missing}"


def _detects(
    plan: Plan, check: Check, one: Requirement, metric: Metric, test: Test | None, *, blocking: bool
) -> Detects:
    name, unit = one.name(check.name), one.unit
    if metric.exact and one.model is None:
        chance = None if test is None or test.value is None else float(holds(test.op, test.value, test.threshold))
        return _not_known(one, name, None, chance, blocking, "counted: no sampling error")
    threshold = from_unit(one.factor if one.is_ratio else one.threshold, unit)
    design = _design(plan, check, one, metric, test)
    if design is None:
        if test is None:
            return _not_known(one, name, None, None, blocking, "known after the first run")
        note = "its bounds give no standard error"
        if test.p_pass is None:
            note = "the last run gave no bound for it"
        elif test.part_unit is not None:
            note = "it counts whole parts, each with its own limit: a record gives no headroom for the count"
        return _not_known(one, name, test.n, _as_then(plan, test), blocking, note)
    family = plan.family if blocking else plan.family_warn
    better: Better = "lower" if one.upper else "higher"
    found = detectable(
        design,
        threshold,
        better,
        alpha_pass=plan.alpha,
        alpha_fail=plan.alpha / max(1, len(family)),
        family=len(family),
    )
    chance = None if test is None else _chance(plan, design, test, threshold, one)
    rows = test.n if test is not None and test.n else _rows(plan, check)
    return Detects(
        name=name,
        sentence=one.sentence,
        n=rows,
        unit=unit,
        headroom=None if found.headroom is None else to_unit(found.headroom, unit),
        violation=None if found.violation is None else to_unit(found.violation, unit),
        assumed=found.assumed,
        chance=chance,
        blocking=blocking,
        threshold=one.factor if one.is_ratio else one.threshold,
        upper=one.upper,
        written_unit=one.written_unit,
    )


def _not_known(one: Requirement, name: str, n: int | None, chance: float | None, blocking: bool, note: str) -> Detects:
    return Detects(
        name=name,
        sentence=one.sentence,
        n=n,
        unit=one.unit,
        headroom=None,
        violation=None,
        assumed="",
        chance=chance,
        blocking=blocking,
        note=note,
    )


def _rows(plan: Plan, check: Check) -> int | None:
    dataset = getattr(check, "dataset", None)
    header = plan.spec.headers.get(dataset) if isinstance(dataset, str) else None
    where = plan.spec.datasets[dataset].where if isinstance(dataset, str) and dataset in plan.spec.datasets else None
    return header.rows if header is not None and where is None else None


def _design(plan: Plan, check: Check, one: Requirement, metric: Metric, test: Test | None) -> Design | None:
    """How the requirement will be measured: from the last record, or from what the spec alone tells."""
    if test is not None:
        return _recorded(plan, one, metric, test)
    n = _rows(plan, check)
    parts = metric.parts is not None and not metric.whole
    of_parts = parts or metric.extreme
    if (
        n is None
        or one.part is not None
        or of_parts
        or _clustered(plan, check)
        or metric.family is not IntervalFamily.CLOPPER_PEARSON
    ):
        return None
    return ProportionDesign(n) if one.model is None else PairedDesign(n, ASSUMED_DISCORDANCE)


def _clustered(plan: Plan, check: Check) -> bool:
    """Rows share clusters, and nothing tells the design effect before a first run."""
    dataset = getattr(check, "dataset", None)
    return (
        isinstance(dataset, str) and dataset in plan.spec.datasets and plan.spec.datasets[dataset].cluster is not None
    )


def _recorded(plan: Plan, one: Requirement, metric: Metric, test: Test) -> Design | None:
    bound = test.upper if one.upper else test.lower
    if test.value is None or bound is None or test.n < 1 or test.part_unit is not None:
        return None
    value, edge = from_unit(test.value, test.unit), from_unit(bound, test.unit)
    other = test.lower if one.upper else test.upper
    far = edge if other is None else from_unit(other, test.unit)
    confidence, limits = plan.spec.policy.confidence, _limits(one, metric)
    if value == edge:
        return None
    scaled = _scaled(metric, test, value, edge, confidence)
    if scaled is not None:
        return scaled
    if is_distance(test.method) and one.upper and one.model is None:
        return recorded_distance(value, far, edge, confidence, limits[1])
    by_processes, timed = processes_in(test.method), is_timed(test.method)
    passes: Side = "upper" if one.upper else "lower"
    if one.model is None and test.unit in SHARES and by_processes is None and limits[0] >= 0.0:
        clusters = units_in(test.method)
        return recorded_share(value, (edge, far), confidence, test.n, passes, timed=timed, clusters=clusters)
    if by_processes is not None or timed:
        return _over_processes(one, test, value, (edge, far), confidence, limits)
    n = units_in(test.method) or test.n
    growth: Growth = even
    if one.model is None and value > 0.0:
        if one.upper and metric.unit in LOSSES and (metric.least == 0.0 or (metric.least is None and far > 0.0)):
            growth = of_losses(value, standard_error(value, edge, confidence), metric.most, n)
        elif not one.upper and metric.least is not None and metric.most is not None:
            growth = of_range(value, metric.least, metric.most)
    return recorded_wald(value, (edge, far), confidence, passes, n, growth, limits)


def _over_processes(
    one: Requirement,
    test: Test,
    value: float,
    bounds: tuple[float, float],
    confidence: float,
    limits: tuple[float, float],
) -> Design:
    """The design of what is held to Student's t over processes."""
    by_processes = processes_in(test.method)
    passes: Side = "upper" if one.upper else "lower"
    log, counted = one.model is None or one.is_ratio, by_processes is None
    count = FEWEST if by_processes is None else by_processes
    design = recorded_student(value, bounds, confidence, passes, count, limits, log=log, counted=counted)
    if not is_timed(test.method):
        return design
    shown = None if test.p_pass is None else (from_unit(test.threshold, test.unit), test.p_pass)
    return recorded_percentile(design, value, counted=counted, shown=shown)


def _scaled(metric: Metric, test: Test, value: float, edge: float, confidence: float) -> Design | None:
    """The design of a metric whose error changes with the truth in a known way; None of others."""
    if test.against is not None:
        return None
    lower, upper = (None if bound is None else from_unit(bound, test.unit) for bound in (test.lower, test.upper))
    if metric.scales == "area":
        area = recorded_area(value, lower, upper, confidence, test.n)
        return recorded_proportion(value, edge, confidence, test.n) if area is None else area
    if metric.scales == "error":
        return recorded_error(value, edge, confidence)
    if metric.scales == "largest error":
        return recorded_largest(value, edge, confidence)
    if metric.scales == "increase of an error":
        return recorded_increase(value, lower, edge, confidence)
    return recorded_f1(value, edge, confidence, test.n) if metric.scales == "harmonic mean" else None


def _limits(one: Requirement, metric: Metric) -> tuple[float, float]:
    """Between which values the truth of a requirement must lie."""
    if one.is_ratio:
        return 0.0, math.inf
    if metric.unit in SHARES:
        signed = one.model is not None or metric.neutral is not None
        return -1.0 if signed else metric.least or 0.0, 1.0
    unit = UNITS.get(metric.unit)
    if one.model is not None or unit is None:
        return -math.inf, math.inf
    least, most = metric.least, metric.most
    return (-math.inf if unit.kind in SIGNED else 0.0) if least is None else least, math.inf if most is None else most


def _chance(plan: Plan, design: Design, test: Test, threshold: float, one: Requirement) -> float:
    """Chance of PASS if the truth is as it was measured; over parts, that all of them pass."""
    better: Better = "lower" if one.upper else "higher"
    if test.parts and test.must_hold == len(test.parts):
        chances = [
            chance_of_pass(ProportionDesign(part.n), from_unit(part.value, test.unit), threshold, better, plan.alpha)
            for part in test.parts
            if part.value is not None and test.family is IntervalFamily.CLOPPER_PEARSON
        ]
        if len(chances) == len(test.parts):
            return math.prod(chances)
    assert test.value is not None
    chance = chance_of_pass(design, from_unit(test.value, test.unit), threshold, better, plan.alpha)
    # The distance of two samples is larger than that of the populations: the design adds noise that is in it already.
    return max(chance, _as_then(plan, test)) if isinstance(design, DistanceDesign) else chance


def _as_then(plan: Plan, test: Test) -> float:
    """Chance of PASS from the p-value alone: that of a normal score around the one that was seen."""
    from scipy.special import ndtr, ndtri

    if test.p_pass is None:
        return 0.0
    return float(ndtr(-ndtri(max(test.p_pass, 1e-12)) + ndtri(plan.alpha)))


def chance_of_ready(found: list[Detects]) -> float | None:
    """The product over blocking requirements; None where one is not known."""
    chances = [one.chance for one in found if one.blocking]
    if not chances or any(chance is None for chance in chances):
        return None
    return math.prod(chance for chance in chances if chance is not None)


def explain(plan: Plan, before: Record | None, lacks: Sequence[Permission] = ()) -> list[str]:
    """The plan for people.

    Args:
        plan: The plan.
        before: An earlier record of the spec.
        lacks: What a run would be refused for.
    """
    found = detects(plan, before)
    lines = [f"{plan.spec.name}: {len(plan.checks)} checks, about {_time(plan, before)}"]
    if before is None:
        lines.append("there is no earlier run of this spec: times are guesses, and chances are unknown")
    else:
        lines.append(f"times and assumed truths are those of the run of {before.started}")
    lines += [f"training {name}: {line}" for name, line in _outlook(plan)]
    lines += profile_lines(plan.spec)
    lines += [f"doubtful: {line}" for line in doubts(plan.spec)]
    for option in dict.fromkeys(one.option for one in lacks):
        lines.append(f"a run needs {option}: {'; '.join(one.why for one in lacks if one.option == option)}")
    lines += ["", "order"]
    if plan.predictions:
        lines.append("  predictions: " + ", ".join(f"{model} on {dataset}" for dataset, model in plan.predictions))
    for one in plan.checks:
        counted = f"{one.queries:,} timed queries" if one.queries else ""
        asked = " and ".join(words for words in (counted, one.more) if words)
        line = f"  {one.check.dimension}: {one.check.name} on {', '.join(one.datasets)}"
        lines.append(f"{line}, {asked}" if asked else line)
    alpha = plan.alpha
    lines += [
        "",
        f"{len(plan.family)} blocking requirements are decided from samples: PASS at level {alpha:.3g} each, "
        f"FAIL after Holm, at its strictest level {plan.alpha_fail:.3g}",
        "",
    ]
    lines += _table(found)
    lines += _repeats(before)
    ready = chance_of_ready(found)
    if ready is None and before is None:
        lines.append("chance of READY: unknown before the first run")
    elif ready is None:
        unknown = [row.name for row in found if row.blocking and row.chance is None]
        lines.append(f"chance of READY: unknown, since that run gives none for {', '.join(unknown)}")
    else:
        lines.append(
            f"chance of READY if the truth is as it was measured then: {in_percent(ready)} (product over requirements)"
        )
    lines += [f"not verified: {line}" for line in plan.spec.unverified]
    return lines


PAIRED = "runs with and without checkpoints"


def _outlook(plan: Plan) -> list[tuple[str, str]]:
    """Trainings whose runs are to be made: name, and a sentence on them."""
    lines = []
    for name, one in trainings_of(plan).items():
        lines += [(name, line) for line in one.outlook(plan.spec.policy.confidence)]
        trials, more_s = trial_runs(plan, name), _trials_s(plan, name, one)
        if more_s:
            words = [
                plural(count, word, words)
                for count, word, words in (
                    (trials.kills, "kill", None), (trials.twins, "run that repeats a seed", "runs that repeat seeds"),
                    (trials.plain, f"pair of {PAIRED}", f"pairs of {PAIRED}"),
                )
                if count
            ]  # fmt: skip
            lines.append((name, f"then {and_list(words)}: {duration(more_s)} more at most"))
    return lines


def _trials_s(plan: Plan, name: str, training: Training) -> float:
    """Longest time of the runs of a training beside those that count."""
    trials = trial_runs(plan, name)
    starts = training.starts_of_kill * trials.kills + trials.twins + 2 * trials.plain
    return training.limit_s * starts if training.limit_s else 0.0


def _repeats(before: Record | None) -> list[str]:
    """Of each check whose rows were answered several times, whether more answers to each pay."""
    done = () if before is None else before.checks
    found = [(one.id, recorded(one.conditions)) for one in done]
    return [f"{name}: {repeats.sentence}" for name, repeats in found if repeats is not None]


BESIDE = 30
"""Characters of a note that stands in its row."""
HEADS = ("requirement", "n", "passes from", "fails from", "chance")


def _table(found: Sequence[Detects]) -> list[str]:
    """Table of what requirements can detect; why something is not known stands in or under its row."""
    rows = [HEADS, *(_row(one) for one in found)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(HEADS))]
    lines = [_aligned(HEADS, widths)]
    for one, row in zip(found, rows[1:], strict=True):
        beside = one.note and not row[-1] and len(one.note) <= BESIDE
        lines.append(_aligned((*row[:2], one.note) if beside else row, widths))
        if one.note and not beside:
            lines.append(f"  {one.note}")
        if one.effects is not None:
            seen, planned = one.effects
            more = "more" if seen > planned else "fewer" if seen < planned else "as many"
            effect = f"design effect {seen:g} in that run, {planned:g} in this plan"
            lines.append(f"  {effect}: {more} queries would be as informative")
    lines += ["", "passes from: at this truth or better, nearly all runs give PASS;",
              "fails from: at this truth or worse, 4 of 5 runs give FAIL"]  # fmt: skip
    assumed: dict[str, list[str]] = {}
    for one in found:
        if one.assumed:
            assumed.setdefault(one.assumed, []).append(one.name)
    lines += [f"assumed: {what} ({', '.join(names)})" for what, names in assumed.items()]
    return [*lines, ""]


def _row(one: Detects) -> tuple[str, ...]:
    check = one.name.partition("/")[0]
    n = f"{one.n:,}" if one.n else ""
    chance = "" if one.chance is None else in_percent(one.chance)
    return f"{check}: {one.sentence}", n, _truth(one.passes_from, one), _truth(one.fails_from, one), chance


def _truth(value: float | None, one: Detects) -> str:
    if value is None:
        return "" if one.note else "never at this n"
    unit = shown_unit(one.unit, one.written_unit)
    return format_quantity(float(f"{in_unit(value, one.unit, unit):.3g}"), unit)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = row
    cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=False))]
    return "  ".join(cells).rstrip()


def _time(plan: Plan, before: Record | None) -> str:
    """Time of a run in words: to the end, and with all requirements far from their thresholds."""
    whole, far = duration(_seconds(plan, before)), duration(_seconds(plan, before, far=True))
    return whole if whole == far else f"{far} if all is far from its threshold, {whole} if all is at it"


def _seconds(plan: Plan, before: Record | None, *, far: bool = False) -> float:
    """Duration of all checks; those of an earlier run by what they took then.

    Args:
        plan: The plan.
        before: The earlier run.
        far: They end at the first look; False: they go on to the end.
    """
    measured = {} if before is None else {one.id: one for one in before.checks if one.status == "measured"}
    trainings = trainings_of(plan).items()
    longest_s = sum(one.longest_s + _trials_s(plan, name, one) for name, one in trainings if one.supervised)
    return longest_s + sum(_duration(one, measured.get(one.check.name), far=far) for one in plan.checks)


def _duration(planned: PlannedCheck, before: CheckRecord | None, *, far: bool) -> float:
    wanted = planned.far_seconds if far else planned.seconds
    if before is None:
        return wanted
    then = planned.far_seconds if before.ended_early else planned.seconds
    return before.duration_s * wanted / then


def to_json(plan: Plan, before: Record | None, lacks: Sequence[Permission] = ()) -> dict[str, Any]:
    """The plan for machines; as `explain`."""
    found = detects(plan, before)
    return {
        "spec": plan.spec.name,
        "seconds": _seconds(plan, before),
        "far_seconds": _seconds(plan, before, far=True),
        "predictions": [{"dataset": dataset, "model": model} for dataset, model in plan.predictions],
        "trainings": [
            {"name": name, "longest_s": one.longest_s, "outlook": list(one.outlook(plan.spec.policy.confidence))}
            for name, one in trainings_of(plan).items()
            if one.supervised
        ],
        "checks": [
            {
                "id": one.check.name,
                "check": one.check.check,
                "dimension": one.check.dimension,
                "datasets": list(one.datasets),
                "models": list(one.models),
                "queries": one.queries,
                "more": one.more,
            }
            for one in plan.checks
        ],
        "alpha": plan.alpha,
        "alpha_fail": plan.alpha_fail,
        "family": list(plan.family),
        "requirements": [
            {
                "name": row.name,
                "sentence": row.sentence,
                "n": row.n,
                "unit": row.unit,
                "headroom": row.headroom,
                "violation": row.violation,
                "assumed": row.assumed,
                "chance_of_pass": row.chance,
                "blocking": row.blocking,
                "note": row.note,
                "design_effect_seen": None if row.effects is None else row.effects[0],
                "design_effect_planned": None if row.effects is None else row.effects[1],
            }
            for row in found
        ],
        "chance_of_ready": chance_of_ready(found),
        "profile": profile_json(plan.spec),
        "doubtful": list(doubts(plan.spec)),
        "unverified": list(plan.spec.unverified),
        "needs": [{"option": one.option, "path": one.path, "why": one.why} for one in lacks],
    }

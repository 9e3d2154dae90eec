"""Tests of requirements: what an estimate says about one, written down."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evalspec.errors import Problem, did_you_mean
from evalspec.evidence.estimate import (
    Comparison,
    ComparisonParts,
    Estimate,
    Fact,
    Measured,
    Needed,
    Parts,
    Side,
)
from evalspec.evidence.metric import Metric
from evalspec.evidence.names import AGAINST, template_name, with_part
from evalspec.evidence.reasons import BySurroundings, OnlyWorse, beginning, cause_of, gravest
from evalspec.evidence.test import PartTest, Severity, Test, side_to_pass
from evalspec.evidence.units import from_unit, to_unit
from evalspec.language.parts import Check, CheckResult
from evalspec.language.requirement import Requirement
from evalspec.running.admissible import admitted, part_violated, together, with_evidence
from evalspec.running.ratios import AsRatio


@dataclass(frozen=True, slots=True)
class SignificanceLevels:
    """The levels at which a requirement is held.

    Args:
        confidence: Of the bounds in print and of PASS.
        alpha_fail: The strictest level Holm asks of a FAIL.
    """

    confidence: float
    alpha_fail: float


def write_tests(check: Check, result: CheckResult, levels: SignificanceLevels) -> tuple[Test, ...]:
    """One test for each requirement of a check, in the order of the spec."""
    written = (
        admitted(_write(check, one, severity, result, levels), levels.confidence)
        for one, severity in _severities(check)
    )
    return tuple(
        _with(
            test,
            by_surroundings=isinstance(test.invalid, BySurroundings),
            cause=cause_of(test.invalid, test.missing, test.withhold),
        )
        for test in written
    )


def empty_tests(check: Check) -> tuple[Test, ...]:
    """The tests of a check that brought nothing: its status and reason stand in its record."""
    return tuple(_start(check, one, severity) for one, severity in _severities(check))


def _severities(check: Check) -> Iterator[tuple[Requirement, Severity]]:
    yield from ((one, "require") for one in check.blocking)
    yield from ((one, "warn") for one in check.warn)


def _start(check: Check, requirement: Requirement, severity: Severity) -> Test:
    metric = check.metric(requirement.metric)
    slo = requirement == check.slo
    return Test(
        name=requirement.name(check.name),
        check=check.name,
        sentence=requirement.sentence,
        metric=requirement.metric,
        severity=severity,
        slo=slo,
        op=requirement.op,
        threshold=requirement.factor if requirement.is_ratio else requirement.threshold,
        unit=requirement.unit,
        metric_unit=_metric_unit(metric, requirement),
        written_unit=requirement.written_unit,
        against=requirement.model,
        exact=bool(metric and metric.exact and requirement.model is None),
        why=check.why,
        owner=check.owner,
        sla=check.sla.sentence if slo and check.sla else None,
        headroom=abs(check.sla.threshold - requirement.threshold) if slo and check.sla else None,
    )


def _metric_unit(metric: Metric | None, requirement: Requirement) -> str:
    if metric is None or requirement.model is None:
        return requirement.unit
    if metric.unit == "label" and not requirement.is_ratio:
        return requirement.unit
    return metric.unit


def _write(
    check: Check, requirement: Requirement, severity: Severity, result: CheckResult, levels: SignificanceLevels
) -> Test:
    test, each = _start(check, requirement, severity), result.answers_each.get(requirement.metric, 1)
    if result.by_template and requirement.metric not in check.between_templates:
        estimate, test = _each_template(requirement, result, test, levels)
        # What is missing of one template stands in the test.
        result = CheckResult(estimates={})
    else:
        estimate, test = _find(requirement, result, test, levels)
    reason = _why_missing(requirement, result)
    if estimate is None:
        return _with(test, missing=test.missing or reason or _no_such_part(requirement, result))
    value = None if isinstance(estimate, Parts) else estimate.value
    if reason is not None and value is None and requirement.part is not None:
        return _with(test, missing=reason)
    if isinstance(estimate, Fact):
        return _fact(test, estimate)
    if isinstance(estimate, Parts):
        return _facts(test, estimate)
    test = with_evidence(_estimate(test, estimate, levels), estimate, result.missing, levels.confidence)
    return _of_rows(test, each)


def _of_rows(test: Test, each: int) -> Test:
    """A test whose evidence counts answers, several to a row, as one of rows: they are what was drawn.

    Args:
        test: Written from an estimate.
        each: Answers to each row.
    """
    if each == 1 or not test.n:
        return test

    def rows(answers: int) -> int:
        return math.ceil(answers / each)

    parts = tuple(one.model_copy(update={"n": rows(one.n)}) for one in test.parts)
    needed = test.n_to_decide
    if needed is not None and not test.to_decide:
        needed = rows(needed)
    note = f"Each row was answered {each} times: {test.n:,} answers to {rows(test.n):,} rows."
    return _with(test, n=rows(test.n), parts=parts, n_to_decide=needed, notes=(*test.notes, note))


def _why_missing(requirement: Requirement, result: CheckResult) -> str | None:
    """Reason why the check has no value for a requirement, as it says itself: the narrowest first."""
    part = f"({requirement.part})" if requirement.part is not None else ""
    against = f" vs {requirement.model}" if requirement.model is not None else ""
    names = (f"{requirement.metric}{part}{against}", f"{requirement.metric}{part}", requirement.metric)
    return next((result.missing[name] for name in names if name in result.missing), None)


def _no_such_part(requirement: Requirement, result: CheckResult) -> str:
    """Sentence that the check gave no value, or has no such part, with the parts that there are."""
    measured = result.estimates.get(requirement.metric)
    parts = {} if measured is None else Measured.of(measured).estimate.parts
    if requirement.part is None or not parts:
        return f"the check gave no value for {requirement.metric}"
    remedy = did_you_mean(requirement.part, parts)
    message = f"{requirement.metric} has no part {requirement.part!r}"
    return str(Problem(message, choices=tuple(parts), remedy=remedy))


def _find(
    requirement: Requirement, result: CheckResult, test: Test, levels: SignificanceLevels
) -> tuple[Estimate | Fact | Parts | None, Test]:
    """The estimate that a requirement is about, and the test with what its measurement says of itself."""
    entry = result.estimates.get(requirement.metric)
    measured = None
    if entry is not None:
        known = Measured.of(entry)
        test = _with(test, invalid=known.invalid, withhold=known.withhold, notes=known.notes)
        measured = known.estimate
    if result.invalid is not None:
        test = _with(test, invalid=gravest(result.invalid, test.invalid))
    if requirement.model is not None:
        return _compared(requirement, measured, result, test)
    if isinstance(measured, Parts):
        return _of_parts(measured, requirement, result, test, levels)
    if requirement.part is not None and measured is not None:
        return measured.parts.get(requirement.part), test
    return measured, test


def _each_template(
    requirement: Requirement, result: CheckResult, test: Test, levels: SignificanceLevels
) -> tuple[Estimate | Fact | Parts | None, Test]:
    """All templates together, as a requirement is about them: it holds where it holds for each."""
    from evalspec.stats.conjunction import AllParts

    against = "" if requirement.model is None else f"{AGAINST}{requirement.model}"
    made: dict[str, tuple[Estimate | Fact, Test]] = {}
    lost: dict[str, str] = {}
    for name, one in {template_name(0): result, **result.by_template}.items():
        estimate, told = _find(requirement, one, test, levels)
        if estimate is None or isinstance(estimate, Parts):
            why = told.missing or _why_missing(requirement, one) or _no_such_part(requirement, one)
            lost[f"{requirement.metric}({name}){against}"] = why
        else:
            made[name] = estimate, told
    parts = {
        name: Measured(estimate, told.invalid, told.withhold, told.notes) for name, (estimate, told) in made.items()
    }
    whole, test = _all_of(Parts(parts), requirement, CheckResult(estimates={}, missing=lost), test, levels)
    worst = made.get(whole.worst or "") if isinstance(whole, AllParts) else None
    if worst is not None:
        test = _with(test, candidate=worst[1].candidate, baseline=worst[1].baseline)
    return whole, test


def _of_parts(
    parts: Parts, requirement: Requirement, result: CheckResult, test: Test, levels: SignificanceLevels
) -> tuple[Estimate | Fact | Parts | None, Test]:
    if requirement.part is not None:
        return _one(parts.parts.get(requirement.part), test)
    if parts.whole is not None:
        return parts.whole, test
    return _all_of(parts, requirement, result, test, levels)


def _one(part: Estimate | Fact | Measured | None, test: Test) -> tuple[Estimate | Fact | Parts | None, Test]:
    """A part, and the test with what the part's own measurement says of itself."""
    if part is None:
        return None, test
    part = Measured.of(part)
    test = _with(
        test,
        invalid=gravest(test.invalid, part.invalid),
        withhold=test.withhold or part.withhold,
        notes=(*test.notes, *part.notes),
    )
    return part.estimate, test


def _all_of(
    parts: Parts, requirement: Requirement, result: CheckResult, test: Test, levels: SignificanceLevels
) -> tuple[Estimate | Fact | Parts | None, Test]:
    """All parts together; those that are void or missing leave a violation that another shows, and nothing to pass."""
    plain: dict[str, Estimate | Fact] = {}
    void: dict[str, str] = {}
    for name, part in parts.parts.items():
        measured = Measured.of(part)
        if isinstance(measured.estimate, Parts):
            continue
        if measured.invalid is not None:
            void[name] = beginning(f"{name}: ", measured.invalid)
            if not isinstance(measured.invalid, OnlyWorse):
                continue
        plain[name] = measured.estimate
        if measured.withhold is not None:
            test = _with(test, withhold=test.withhold or beginning(f"{name}: ", measured.withhold))
    lost = _lost_parts(requirement, result, parts.parts)
    reason = gravest(*void.values())
    sound = {name: one for name, one in plain.items() if name not in void}
    if (lost or reason) and part_violated(sound, len(plain), requirement, levels.confidence):
        return together(sound, requirement), _with(test, withhold=test.withhold or lost or reason)
    if lost is not None:
        return None, _with(test, missing=lost)
    return together(plain, requirement), _with(test, invalid=gravest(test.invalid, reason))


def _compared(
    requirement: Requirement, measured: Estimate | Fact | Parts | None, result: CheckResult, test: Test
) -> tuple[Estimate | None, Test]:
    from evalspec.stats.conjunction import AllParts

    comparison = result.comparisons.get((requirement.metric, requirement.model or ""))
    if isinstance(comparison, ComparisonParts):
        test = _with(
            test, invalid=gravest(test.invalid, comparison.invalid), withhold=test.withhold or comparison.withhold
        )
        if requirement.part is None and comparison.whole is None:
            estimates = {name: _against(part, requirement) for name, part in comparison.parts.items()}
            whole = {name: one for name, one in estimates.items() if one is not None}
            lost = _lost_parts(requirement, result, whole)
            if lost is not None:
                return None, _with(test, missing=lost)
            return (AllParts(whole, "lower" if requirement.upper else "higher") if whole else None), test
        comparison = comparison.whole if requirement.part is None else comparison.parts.get(requirement.part)
    if comparison is None:
        return None, test
    test = _with(
        test,
        candidate=_finite(_candidate_value(comparison, measured, requirement), test.metric_unit),
        baseline=_finite(comparison.baseline_value, test.metric_unit),
    )
    return _against(comparison, requirement), test


def _candidate_value(
    comparison: Comparison, measured: Estimate | Fact | Parts | None, requirement: Requirement
) -> float | None:
    """Timings of pairs are not those of the model alone: what is printed beside a ratio must give that ratio."""
    if not comparison.same_candidate:
        return comparison.candidate_value
    if isinstance(measured, Parts):
        part = measured.whole if requirement.part is None else measured.parts.get(requirement.part)
        measured = None if part is None else Measured.of(part).estimate
    return None if measured is None or isinstance(measured, Parts) else measured.value


def _lost_parts(requirement: Requirement, result: CheckResult, there: Mapping[str, object]) -> str | None:
    """Reason why a sentence over all parts can't be shown to hold: one could not be measured, or not compared."""
    start, against = f"{requirement.metric}(", "" if requirement.model is None else f"{AGAINST}{requirement.model}"
    end = f"){against}"
    for name, reason in result.missing.items():
        if not name.startswith(start) or not name.endswith(end):
            continue
        part = name[len(start) : -len(end)]
        if part not in there and (against or f"){AGAINST}" not in part):
            return f"{start}{part}): {reason}"
    return None


def _against(comparison: Comparison, requirement: Requirement) -> Estimate | None:
    if not requirement.is_ratio:
        return comparison.difference(requirement.factor, from_unit(requirement.threshold, requirement.unit))
    ratio, baseline = comparison.ratio(), comparison.baseline_value
    if ratio is not None or baseline is None or baseline <= 0.0:
        return ratio
    return AsRatio(comparison.difference(requirement.factor, 0.0), requirement.factor, baseline)


def _fact(test: Test, fact: Fact) -> Test:
    return _with(
        test,
        value=_finite(fact.value, test.unit),
        n=fact.n,
        method=fact.method,
        exact=True,
        in_this_run=fact.in_this_run,
        first=fact.first,
        missing=_no_fact(fact),
    )


def _no_fact(fact: Fact) -> str | None:
    """Reason why a fact is not admitted as one; None where it is."""
    if not math.isfinite(fact.value):
        return "the value is not a number"
    return None if fact.n else "there is no evidence: it was counted over no rows"


def _facts(test: Test, parts: Parts) -> Test:
    facts = {name: part for name, part in parts.parts.items() if isinstance(part, Fact)}
    if not facts:
        return _with(test, missing="there are no parts")
    if len(facts) < len(parts.parts):
        estimated = ", ".join(name for name in parts.parts if name not in facts)
        return _with(test, missing=f"some parts are counted and others estimated ({estimated}); require each by itself")
    none = next((f"{name}: {why}" for name, one in facts.items() if (why := _no_fact(one)) is not None), None)
    if none is not None:
        return _with(test, missing=none)
    upper = test.op in ("<=", "<")
    worst = (max if upper else min)(facts.values(), key=lambda one: one.value)
    rows = tuple(PartTest(part=name, value=_finite(one.value, test.unit), n=one.n) for name, one in facts.items())
    return _with(_fact(test, worst), parts=rows, must_hold=len(rows))


def _estimate(test: Test, estimate: Estimate, levels: SignificanceLevels) -> Test:
    threshold = _held_at(test, estimate)
    passing = side_to_pass(test.op)
    failing: Side = "lower" if passing == "upper" else "upper"
    value = estimate.value
    holds = value is not None and (value <= threshold if passing == "upper" else value >= threshold)
    alpha = 1.0 - levels.confidence if holds else levels.alpha_fail
    needed = estimate.n_to_decide(threshold, alpha) if value is not None else None
    parts: tuple[PartTest, ...] = ()
    holding: int | None = None
    part_unit: str | None = None
    if estimate.parts:
        part_unit = None if estimate.part_threshold is None else "score"
        holding = _must_hold(estimate, threshold)
        held = threshold if estimate.part_threshold is None else estimate.part_threshold
        unit = part_unit or test.unit
        parts = tuple(_part(name, part, held, unit, levels, passing) for name, part in estimate.parts.items())
    return _with(
        test,
        # What comes with an interval is decided by it, also where the metric is declared as a fact; two facts beside
        # each other are a fact.
        exact=estimate.exact,
        in_this_run=estimate.in_this_run,
        value=_finite(value, test.unit),
        lower=_finite(estimate.bound(levels.confidence, "lower"), test.unit),
        upper=_finite(estimate.bound(levels.confidence, "upper"), test.unit),
        p_pass=_finite(estimate.p_value(threshold, passing)),
        p_fail=_finite(estimate.p_value(threshold, failing)),
        n=estimate.n,
        n_to_decide=None if needed is None else int(needed),
        to_decide=needed.unit if isinstance(needed, Needed) else "",
        to_decide_now=needed.now if isinstance(needed, Needed) else None,
        method=estimate.method,
        parts=parts,
        part_unit=part_unit,
        must_hold=holding,
        notes=(*test.notes, *estimate.notes),
    )


def _held_at(test: Test, estimate: Estimate) -> float:
    """The threshold as a number; where a share of parts must be less than a whole number of them, one part fewer.

    A share of K parts moves in steps of 1/K, so that `< 10 %` and `<= 10 %` of ten columns are different claims.
    """
    threshold = from_unit(test.threshold, test.unit)
    if test.op != "<" or estimate.part_threshold is None:
        return threshold
    allowed = threshold * len(estimate.parts)
    return threshold - 0.5 / len(estimate.parts) if abs(allowed - round(allowed)) < 1e-9 else threshold


def _must_hold(estimate: Estimate, threshold: float) -> int:
    from evalspec.stats.conjunction import must_hold

    count = len(estimate.parts)
    return count if estimate.part_threshold is None else must_hold(count, threshold)


def _part(
    name: str, part: Estimate, threshold: float, unit: str, levels: SignificanceLevels, passing: Side
) -> PartTest:
    failing: Side = "lower" if passing == "upper" else "upper"
    return PartTest(
        part=name,
        value=_finite(part.value, unit),
        n=part.n,
        lower=_finite(part.bound(levels.confidence, "lower"), unit),
        upper=_finite(part.bound(levels.confidence, "upper"), unit),
        p_pass=_finite(part.p_value(threshold, passing)),
        p_fail=_finite(part.p_value(threshold, failing)),
    )


def _finite(value: float | None, unit: str | None = None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    # A zero has no sign.
    return float(to_unit(value, unit) if unit is not None else value) + 0.0


def _with(test: Test, **changes: object) -> Test:
    return test.model_copy(update=changes)


def measured_values(check: Check, result: CheckResult) -> tuple[dict[str, float | None], dict[str, str]]:
    """Every value of a check, by metric or ``metric(part)``, in the metric's unit; and the units.

    Of other templates of a prompt than the first the template is a part.
    """
    values: dict[str, float | None] = {}
    units: dict[str, str] = {}
    for metric in check.own_metrics:
        entry = result.estimates.get(metric.name)
        for name, one in _named(metric, None if entry is None else Measured.of(entry).estimate):
            values[name] = _finite(one.value, metric.unit)
            units[name] = metric.unit
    for template, other in result.by_template.items():
        theirs, told = measured_values(check, other)
        values |= {with_part(name, template): value for name, value in theirs.items()}
        units |= {with_part(name, template): unit for name, unit in told.items()}
    return values, units


def _named(metric: Metric, estimate: Estimate | Fact | Parts | None) -> list[tuple[str, Estimate | Fact]]:
    if estimate is None:
        return []
    if isinstance(estimate, Parts):
        named: list[tuple[str, Estimate | Fact]] = [(metric.name, estimate.whole)] if estimate.whole is not None else []
        for part, one in estimate.parts.items():
            plain = Measured.of(one).estimate
            if not isinstance(plain, Parts):
                named.append((f"{metric.name}({part})", plain))
        return named
    return [(metric.name, estimate)]

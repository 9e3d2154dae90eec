"""Words about checks and about what a run leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalspec.evidence.declaration import Declaration
from evalspec.evidence.metric import Shows
from evalspec.evidence.notes import limit_line
from evalspec.evidence.profile import RequestedItem
from evalspec.evidence.record import CheckRecord, CheckStatus, Record
from evalspec.language.declarations import Circumstance, Effort, Listing, fields_that_say
from evalspec.language.docstring import first_line, sections
from evalspec.language.parts import Check
from evalspec.running.children.jobs import seed_of
from evalspec.running.requirements import empty_tests
from evalspec.verdict.profile import as_run

if TYPE_CHECKING:
    from evalspec.loading import Spec
    from evalspec.planning import PlannedCheck


def words(check: Check) -> tuple[str, str]:
    """A check's first line, and what it can't show."""
    limits = sections(type(check)).get("What it cannot show", "")
    return first_line(type(check)) or check.check, " ".join(limits.split())


def declaration_of(check: type[Check]) -> Declaration:
    """All that a class of checks declares of its fields and metrics."""
    shown: dict[Shows, tuple[str, ...]] = {}
    for metric in check.metrics:
        for what in metric.shows:
            shown[what] = (*shown.get(what, ()), metric.name)
    return Declaration(
        effort=tuple(fields_that_say(check, Effort)),
        conditions=tuple(fields_that_say(check, Circumstance)),
        lists=tuple(fields_that_say(check, Listing)),
        shows=check.shows,
        metrics=shown,
        headline={one.name: one.headline for one in check.metrics if one.headline is not None},
        neutral={one.name: one.neutral for one in check.metrics if one.neutral is not None},
        plain_names={one.name: one.label for one in check.metrics if one.label},
    )


def without_evidence(planned: PlannedCheck, spec: Spec, status: CheckStatus, reason: str) -> CheckRecord:
    """The record of a check that brought no evidence.

    Args:
        planned: The check.
        spec: Its spec.
        status: How it ended.
        reason: Why it brought none.
    """
    check = planned.check
    summary, cannot_show = words(check)
    return CheckRecord(
        id=check.name,
        check=check.check,
        dimension=check.dimension,
        status=status,
        reason=reason,
        models=planned.models,
        datasets=planned.datasets,
        baseline_models=check.baselines,
        tests=empty_tests(check),
        seed=seed_of(spec.seed, check.name),
        why=check.why,
        owner=check.owner,
        report_only=check.report_only,
        summary=summary,
        cannot_show=cannot_show,
        declares=declaration_of(type(check)),
    )


def not_tested(record: Record, spec: Spec) -> tuple[str, ...]:
    """Lines on what this run says nothing about."""
    lines = []
    for dimension, checks in (("system", spec.system), ("model", spec.model), ("data", spec.data)):
        if not checks:
            lines.append(f"{dimension}: the spec requires nothing of this dimension")
        elif not any(check.blocking for check in checks):
            lines.append(f"{dimension}: nothing in this dimension can block the release")
    for check in record.checks:
        if check.status == "not_run":
            lines.append(f"{check.id}: {check.reason}")
        elif check.report_only:
            lines.append(f"{check.id}: measured and shown, but nothing is required of it")
    used = {name for check in record.checks for name in check.datasets}
    for one in _missing(record):
        verb = "asks for" if one.mandatory else "recommends"
        lines.append(f"{one.wanted}: the profile {verb} it, and nothing here covers it")
    lines += [f"dataset {name}: no check reads it" for name in spec.datasets if name not in used]
    limits = {check.check: check.cannot_show for check in record.checks if check.cannot_show}
    return (*lines, *(limit_line(kind, limit) for kind, limit in limits.items()))


def _missing(record: Record) -> tuple[RequestedItem, ...]:
    profile = as_run(record)
    return () if profile is None else profile.missing

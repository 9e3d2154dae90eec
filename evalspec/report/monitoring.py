"""Figures for watching production: expected ranges, rows that drift is measured from, criteria to go back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from evalspec.errors import RecordError
from evalspec.evidence.monitoring import (
    DriftReference,
    DriftRole,
    Expected,
    LatencyPercentile,
    LeftOut,
    MadeFrom,
    Monitoring,
)
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import Test
from evalspec.evidence.verdict import Decision, Verdict
from evalspec.lineage.declared import declared, numbers_that_show

ROLES: tuple[DriftRole, ...] = get_args(DriftRole)


def monitoring(record: Record, verdict: Verdict) -> str:
    """``monitoring.json``: numbers that were not judged are left out, and named.

    Args:
        record: The run.
        verdict: Its verdict.

    Returns:
        JSON that fits ``schemas/monitoring.v1.json``.

    Raises:
        RecordError: The run is a draft.
    """
    if record.draft:
        raise RecordError("the run is a draft, and a few rows give no limits for monitoring; run the whole spec first")
    decisions = {one.name: one for one in verdict.decisions}
    expected, left_out = [], []
    for check in record.checks:
        for test in check.tests:
            found = _expected(check, test, record, decisions.get(test.name))
            if found is None:
                ended = decisions.get(test.name)
                reason = None if ended is None else ended.reason
                why = (
                    test.invalid
                    or test.missing
                    or check.reason
                    or reason
                    or "a requirement does not hold on the same data, or it has no value"
                )
                left_out.append(LeftOut(name=test.name, why=why))
            else:
                expected.append(found)
    made = Monitoring(
        made_from=MadeFrom(
            spec=record.spec, spec_digest=record.spec_digest, started=record.started, subject=record.subject,
            verdict=verdict.word, evalspec=record.evalspec,
        ),
        expected=tuple(expected),
        left_out=tuple(left_out),
        latency_percentiles=tuple(_percentiles(record)),
        drift_references=tuple(_references(record)),
        rollback=record.rollback,
    )  # fmt: skip
    return made.model_dump_json(indent=1) + "\n"


def _expected(check: CheckRecord, test: Test, record: Record, decision: Decision | None) -> Expected | None:
    """One requirement; None where its number is not judged."""
    status = "" if decision is None else decision.status
    if check.status != "measured" or test.value is None or status in ("INVALID", "ERROR", "NOT_RUN"):
        return None
    return Expected(
        name=test.name, metric=test.metric, unit=test.unit, value=test.value, lower=test.lower, upper=test.upper,
        confidence=None if test.exact else record.policy.confidence, n=test.n, needs=test.sentence, op=test.op,
        threshold=test.threshold, status=status,
        waived=decision is not None and decision.waived, datasets=check.datasets, why=test.why or check.why,
        owner=test.owner or check.owner,
    )  # fmt: skip


def _percentiles(record: Record) -> Iterator[LatencyPercentile]:
    """Latencies of the whole distribution, from checks whose numbers may be read."""
    for check in record.checks:
        if check.status != "measured" or any(test.invalid for test in check.tests):
            continue
        for name, value in numbers_that_show(check, "a distribution of latency"):
            unit = check.units.get(name, "ms")
            yield LatencyPercentile(check=check.id, metric=name, value=value, unit=unit, queries=check.counts.used)


def _references(record: Record) -> Iterator[DriftReference]:
    """Rows that the model was judged on, and those of today, wherever both were compared."""
    known = {one.name: one for one in record.datasets}
    for check in record.checks:
        if not declared(check).is_shown("population shift"):
            continue
        tolerance, distance = (check.conditions.get(name) for name in ("tolerance", "distance"))
        for role in ROLES:
            one = known.get(str(check.conditions.get(role, "")))
            if one is not None:
                yield DriftReference(
                    check=check.id, role=role, dataset=one.name,
                    path=one.path, digest=one.digest, rows=one.rows,
                    tolerance=float(tolerance) if isinstance(tolerance, int | float) else None,
                    distance=None if distance is None else str(distance),
                )  # fmt: skip

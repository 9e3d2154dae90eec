"""Standing of measurements at the end of a run: they are about the same things, and their evidence is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evalspec.evidence.record import CheckRecord, EvidenceFile
from evalspec.evidence.test import Test, holds
from evalspec.planning import Plan, PlannedCheck
from evalspec.running.children.jobs import predictions_file
from evalspec.running.ownership import RunFolder
from evalspec.running.subjects import CheckEnd

Pair = tuple[str, str]


def void_changed(checks: Iterable[CheckRecord], changed: Mapping[str, str]) -> list[CheckRecord]:
    """Checks of a run, void where something that they are about has changed by now.

    Args:
        checks: As they were measured.
        changed: ``dataset NAME``, ``model NAME`` or ``check NAME``: what of it, in words.
    """
    records = []
    for record in checks:
        used = [f"dataset {name}" for name in record.datasets] + [f"model {name}" for name in record.models]
        hit = [changed[what] for what in (*used, f"check {record.id}") if what in changed]
        if hit and record.status == "measured":
            reason = f"{hit[0]} changed during the run"
            record = record.model_copy(update={"status": "invalid", "reason": reason})
        records.append(record)
    return records


def without_lost(
    checks: Iterable[CheckRecord],
    folder: RunFolder,
    answered: Iterable[EvidenceFile],
    read: Mapping[str, Iterable[Pair]],
) -> list[CheckRecord]:
    """Checks of a run, in error where their evidence is not on disk any more: a number without it is none.

    Args:
        checks: As they were measured.
        folder: Of the run.
        answered: Files of answers that several checks read.
        read: Check: (dataset, model) of the answers that it reads.
    """
    whole = folder.lost()
    shared = {file.path: folder.first_lost([file]) for file in answered}
    records = []
    for record in checks:
        if record.status == "measured":
            files = {f"evidence/{predictions_file(dataset, model)}" for dataset, model in read[record.id]}
            servers = tuple(f"evidence/server-{name}-" for name in record.models)
            own = [lost for path, lost in shared.items() if lost and (path in files or path.startswith(servers))]
            reason = whole or next(iter(own), None) or folder.first_lost(record.evidence)
            if reason is not None:
                record = record.model_copy(update={"status": "error", "reason": reason})
        records.append(record)
    return records


def check_end(check: CheckRecord, plan: Plan, left: Sequence[PlannedCheck], draft: bool = False) -> CheckEnd:
    """End of a check of a plan, of which these are left."""
    asked = [test for test in check.tests if test.severity == "require"]
    met = check.status == "measured" and all(_holds(test, plan.alpha) for test in asked)
    left_s = 0.0 if draft else sum(one.seconds for one in left)
    far_left_s = 0.0 if draft else sum(one.far_seconds for one in left)
    place = len(plan.checks) - len(left)
    return CheckEnd(check, place, len(plan.checks), left_s, far_left_s, violated(check, plan), met, draft)


def _holds(test: Test, alpha: float) -> bool:
    if test.value is None or any(one is not None for one in (test.invalid, test.missing, test.withhold)):
        return False
    if test.exact:
        return holds(test.op, test.value, test.threshold)
    return test.p_pass is not None and test.p_pass <= alpha


def violated(check: CheckRecord, plan: Plan) -> bool:
    """True where a check already shows a violation of what blocks, whatever the rest of the family says."""
    waived = {waiver.of for waiver in plan.spec.waivers}
    return any(
        (test.exact and test.value is not None and not holds(test.op, test.value, test.threshold))
        or (test.p_fail is not None and test.p_fail <= plan.alpha_fail)
        for test in check.tests
        if test.severity == "require" and test.invalid is None and test.name not in waived
    )

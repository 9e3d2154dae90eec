"""Plant defects in the evidence of a run and see which requirements go red, by the checks' own measures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from evalspec.errors import EvalspecError, RecordError
from evalspec.evidence.record import Record
from evalspec.language.defects import Defect
from evalspec.language.parts import Access
from evalspec.planning import Plan, PlannedCheck
from evalspec.running.children.process import Limits
from evalspec.running.folders import read_record
from evalspec.running.subjects import Observer
from evalspec.selftest.candidates import candidates
from evalspec.selftest.ladders import ladders
from evalspec.selftest.outcomes import RequirementOutcome
from evalspec.selftest.search import DefectSearch
from evalspec.selftest.trials import Trials

SOUND = Defect("nothing")


def selftest(
    plan: Plan, folder: Path, access: Access, limits: Limits, observer: Observer
) -> tuple[RequirementOutcome, ...]:
    """Outcome of each requirement of a spec when the evidence of a run has a defect; nothing of the run is changed.

    Args:
        plan: Of the spec.
        folder: Of a run of the same spec.
        access: Of the spec, whose datasets are read again.
        limits: Of the child that measures.
        observer: Who watches.

    Raises:
        RecordError: There is no record of this spec.
    """
    record = read_record(folder)
    if record.spec_digest != plan.spec.digest:
        raise RecordError(f"{folder} is a run of another spec than {plan.spec.file}: run this one, or leave --run out")
    with (
        tempfile.TemporaryDirectory(prefix="evalspec-selftest-") as scratch,
        Trials(plan, record, folder, access, limits, Path(scratch)) as trials,
    ):
        return tuple(_outcomes(plan, record, trials, observer))


def _outcomes(plan: Plan, record: Record, trials: Trials, observer: Observer) -> Iterator[RequirementOutcome]:
    measured = {one.id: one for one in record.checks}
    for planned in plan.checks:
        check = planned.check
        if not check.requirements:
            continue
        observer.step(f"planting defects for {check.name}")
        mine = measured.get(check.name)
        if mine is None or mine.status != "measured":
            reason = "it is not in the run" if mine is None else mine.reason or mine.status
            yield from _all_excused(planned, f"not measured in this run: {reason}")
            continue
        try:
            sound = trials.of(planned, SOUND)
        except EvalspecError as error:
            yield from _all_excused(planned, f"can't be made again from the evidence of the run: {error}")
            continue
        yield from DefectSearch(planned, sound, trials).outcomes(ladders(candidates(plan, planned)))


def _all_excused(planned: PlannedCheck, why: str) -> Iterator[RequirementOutcome]:
    check = planned.check
    for one in check.requirements:
        yield RequirementOutcome(one.name(check.name), one.sentence, "excused", why=why)

"""Plant defects in the evidence of a run and see which requirements go red, by the checks' own measures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from evalspec.errors import EvalspecError, RecordError
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import Test, holds
from evalspec.evidence.verdict import Status
from evalspec.language.defects import Defect
from evalspec.language.parts import Access
from evalspec.planning import Plan, PlannedCheck
from evalspec.records.job_again import job_again
from evalspec.running.children.process import Child, Limits
from evalspec.running.folders import read_record
from evalspec.running.subjects import Children, Observer
from evalspec.selftest.candidates import candidates
from evalspec.selftest.child import packed
from evalspec.selftest.outcomes import RequirementOutcome
from evalspec.verdict.decide import by_own_evidence

SOUND = Defect("nothing")


@dataclass(frozen=True, slots=True)
class Trial:
    """A check on evidence with a defect in it.

    Args:
        defect: What was planted.
        tests: Requirement: its test.
        status: Requirement: what its own evidence decides.
    """

    defect: Defect
    tests: Mapping[str, Test]
    status: Mapping[str, Status]

    @property
    def red(self) -> frozenset[str]:
        """Requirements that are violated."""
        return frozenset(name for name, status in self.status.items() if status == "FAIL")


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


class Trials:
    """Makes checks again, with defects, in a child that is replaced when it dies."""

    def __init__(self, plan: Plan, record: Record, folder: Path, access: Access, limits: Limits, scratch: Path) -> None:
        """``scratch``: a folder for what checks write meanwhile; for the rest see `selftest`."""
        self._plan, self._record, self._folder, self._access = plan, record, folder, access
        self._scratch = scratch
        self._limits = limits
        self._children = Children(access, limits, 1, scratch)
        self._open = ExitStack()
        self._child: Child | None = None

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def of(self, planned: PlannedCheck, defect: Defect) -> Trial:
        """A check with this defect.

        Raises:
            EvalspecError: It can't be made again so.
        """
        job = job_again(self._record, self._folder, self._plan, planned, self._access, self._scratch / "evidence")
        job = replace(job, limits=self._limits)
        job.evidence.mkdir(exist_ok=True)
        if self._child is None or not self._child.alive:
            self._open.close()
            self._child = self._open.enter_context(self._children.start("evalspec.selftest.child", None, "selftest"))
        answer = self._child.ask(packed(job, self._folder / "evidence", defect))
        made = CheckRecord.model_validate(answer["record"]).model_copy(
            update={"models": planned.models, "datasets": planned.datasets}
        )
        checks = tuple(made if one.id == made.id else one for one in self._record.checks)
        status = by_own_evidence(self._record.model_copy(update={"checks": checks}))
        tests = {test.name: test for test in made.tests}
        return Trial(defect, tests, {name: status[name] for name in tests})


def _outcomes(plan: Plan, record: Record, trials: Trials, observer: Observer) -> Iterator[RequirementOutcome]:
    measured = {one.id: one for one in record.checks}
    before = by_own_evidence(record)
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
        yield from _of_check(plan, planned, sound, before, trials)


def _of_check(
    plan: Plan, planned: PlannedCheck, sound: Trial, before: Mapping[str, Status], trials: Trials
) -> Iterator[RequirementOutcome]:
    tried: list[Trial] = []
    wanted = {name for name, status in sound.status.items() if status != "FAIL"}
    for defect in candidates(plan, planned):
        if not wanted - {name for one in tried for name in one.red}:
            break
        try:
            tried.append(trials.of(planned, defect))
        except EvalspecError:
            # An error is not red: this defect says nothing.
            continue
    fell: dict[Defect, frozenset[str]] = {}
    for name, test in sound.tests.items():
        if sound.status[name] == "FAIL":
            yield RequirementOutcome(name, test.sentence, "red", "what the run measured")
            continue
        reds = [one for one in tried if name in one.red]
        if not reds:
            yield _not_red(sound, name, tried)
            continue
        best = min(reds, key=lambda one: len(one.red))
        if best.defect not in fell:
            fell[best.defect] = best.red | _elsewhere(plan, planned, best.defect, before, trials)
        others = {one for one in fell[best.defect] if before.get(one) != "FAIL"} - {name}
        yield RequirementOutcome(name, test.sentence, "red", best.defect.what, fell_with=tuple(sorted(others)))


def _elsewhere(
    plan: Plan, planned: PlannedCheck, defect: Defect, before: Mapping[str, Status], trials: Trials
) -> frozenset[str]:
    """Requirements of other checks that go red for the same defect: those that read the same evidence."""
    found: set[str] = set()
    for other in plan.checks:
        if other is planned or not other.check.requirements or not _reads(other, defect.place):
            continue
        try:
            found |= trials.of(other, defect).red
        except EvalspecError:
            # A check that was not measured, or can't be on this evidence, is not red.
            continue
    return frozenset(name for name in found if before.get(name) != "FAIL")


def _reads(planned: PlannedCheck, place: tuple[str, ...]) -> bool:
    if place[:1] == ("answers",):
        return (place[2], place[1]) in planned.predictions
    return place[:1] == ("rows",) and place[1] in planned.datasets


def _not_red(sound: Trial, name: str, tried: Iterable[Trial]) -> RequirementOutcome:
    """A requirement that no defect turned red, and why."""
    test = sound.tests[name]
    if test.missing is not None or test.invalid is not None:
        return RequirementOutcome(
            name, test.sentence, "excused", why=f"no value in this run: {test.missing or test.invalid}"
        )
    beyond = next((one for one in tried if _violated(one.tests[name])), None)
    if beyond is not None:
        why = f"its value is beyond the threshold, and {beyond.tests[name].n:,} are too few to show it"
        return RequirementOutcome(name, test.sentence, "excused", beyond.defect.what, why)
    values = {one.tests[name].value for one in tried if one.tests[name].value is not None}
    if values <= {test.value}:
        return RequirementOutcome(name, test.sentence, "green", why="its value is the same whatever is planted")
    return RequirementOutcome(
        name, test.sentence, "green", why="no defect that is known moves its value past the threshold"
    )


def _violated(test: Test) -> bool:
    return test.value is not None and test.invalid is None and not holds(test.op, test.value, test.threshold)


def _all_excused(planned: PlannedCheck, why: str) -> Iterator[RequirementOutcome]:
    check = planned.check
    for one in check.requirements:
        yield RequirementOutcome(one.name(check.name), one.sentence, "excused", why=why)

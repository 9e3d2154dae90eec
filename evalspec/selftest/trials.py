"""Checks of a run made again, each on evidence with a defect in it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from evalspec.errors import EvalspecError
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import Test
from evalspec.evidence.verdict import Status
from evalspec.language.defects import Defect
from evalspec.language.parts import Access
from evalspec.planning import Plan, PlannedCheck
from evalspec.records.job_again import job_again
from evalspec.running.children.process import Child, Limits
from evalspec.running.subjects import Children
from evalspec.selftest.child import packed
from evalspec.verdict.decide import by_own_evidence

LEAST_S, LONGER = 60.0, 20.0
"""A check with a defect may take as many seconds, or as many times as long as without one."""


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
        self._before = by_own_evidence(record)
        self._took_s: dict[str, float] = {}
        self._known: dict[tuple[str, Defect], CheckRecord | EvalspecError] = {}

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def of(self, planned: PlannedCheck, defect: Defect) -> Trial:
        """A check with this defect.

        Raises:
            EvalspecError: It can't be made again so.
        """
        made = self._record_of(planned, defect)
        checks = tuple(made if one.id == made.id else self._beside(made, one, defect) for one in self._record.checks)
        status = by_own_evidence(self._record.model_copy(update={"checks": checks}))
        tests = {test.name: test for test in made.tests}
        return Trial(defect, tests, {name: status[name] for name in tests})

    def _beside(self, made: CheckRecord, other: CheckRecord, defect: Defect) -> CheckRecord:
        """Another check, where it claims something that the check with the defect claims as well.

        Equal claims fail together, by the larger p-value: what nothing was planted in would hold up the other.
        """
        same = self._record.same
        p_fail = {same.get(test.name, test.name): test.p_fail for test in made.tests}
        claims = {test.name: same.get(test.name, test.name) for test in other.tests}
        if not p_fail.keys() & claims.values():
            return other
        planned = next(one for one in self._plan.checks if one.check.name == other.id)
        if _reads(planned, defect.place):
            with suppress(EvalspecError):
                return self._record_of(planned, defect)
        # Its own evidence is another one, in which the same is thought to have gone wrong.
        tests = tuple(
            test.model_copy(update={"p_fail": p_fail[claims[test.name]]}) if claims[test.name] in p_fail else test
            for test in other.tests
        )
        return other.model_copy(update={"tests": tests})

    def _record_of(self, planned: PlannedCheck, defect: Defect) -> CheckRecord:
        """Record of a check with this defect; made once, since the same defect is planted for several checks."""
        key = (planned.check.name, defect)
        if key not in self._known:
            try:
                self._known[key] = self._made(planned, defect)
            except EvalspecError as error:
                self._known[key] = error
        known = self._known[key]
        if isinstance(known, EvalspecError):
            raise known
        return known

    def _made(self, planned: PlannedCheck, defect: Defect) -> CheckRecord:
        job = job_again(self._record, self._folder, self._plan, planned, self._access, self._scratch / "evidence")
        job = replace(job, limits=self._limits)
        job.evidence.mkdir(exist_ok=True)
        if self._child is None or not self._child.alive:
            self._open.close()
            self._child = self._open.enter_context(self._children.start("evalspec.selftest.child", None, "selftest"))
        began = time.monotonic()
        answer = self._child.ask(packed(job, self._folder / "evidence", defect), time_s=self._allowed_s(planned))
        self._took_s.setdefault(planned.check.name, time.monotonic() - began)
        return CheckRecord.model_validate(answer["record"]).model_copy(
            update={"models": planned.models, "datasets": planned.datasets}
        )

    def _allowed_s(self, planned: PlannedCheck) -> float:
        """Seconds that a check may take with a defect: many times what it took the first time, without one."""
        first_s = self._took_s.get(planned.check.name)
        limit_s = self._limits.time_s
        return limit_s if first_s is None else min(limit_s, max(LEAST_S, LONGER * first_s))

    def red_elsewhere(self, planned: PlannedCheck, defect: Defect) -> frozenset[str]:
        """Requirements of other checks that go red for the same defect: those that read the same evidence."""
        red: set[str] = set()
        for other in self._plan.checks:
            if other is planned or not other.check.requirements or not _reads(other, defect.place):
                continue
            try:
                red |= self.of(other, defect).red
            except EvalspecError:
                # A check that was not measured, or can't be on this evidence, is not red.
                continue
        return self.newly(red)

    def newly(self, red: set[str] | frozenset[str]) -> frozenset[str]:
        """Those that were not violated in the run itself."""
        return frozenset(name for name in red if self._before.get(name) != "FAIL")


def _reads(planned: PlannedCheck, place: tuple[str, ...]) -> bool:
    if place[:1] == ("answers",):
        return (place[2], place[1]) in planned.predictions
    return place[:1] == ("rows",) and place[1] in planned.datasets

"""Going on from a run that has ended: what had no valid evidence for want of a quiet machine is measured again.

Everything else stays as it is, word for word: what was decided by a run is never measured again until it looks better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.answers.parts import copy_answers, first_fault
from evalspec.errors import RecordError, WriteError
from evalspec.evidence.names import owner_of
from evalspec.evidence.profile import Profile
from evalspec.evidence.record import (
    Attempt,
    CheckRecord,
    Continued,
    DatasetRecord,
    Environment,
    ModelRecord,
    Record,
)
from evalspec.evidence.verdict import Decision
from evalspec.planning import Plan
from evalspec.running.children.workers import note_read
from evalspec.running.environment import differences
from evalspec.running.files import Journal, is_whole, make_folder
from evalspec.running.folders import JOURNAL, read_record
from evalspec.running.journal.closing import check_as_written
from evalspec.running.journal.events import JournalEvents, otherwise
from evalspec.running.subjects import Subjects, is_another
from evalspec.verdict import decide
from evalspec.version import __version__

FRESH = "start a new run instead"


@dataclass(frozen=True, slots=True)
class Again:
    """A run that another one goes on from.

    Args:
        folder: Of that run.
        record: Its record.
        events: Of its journal.
        journal: The same events, by what they are about.
        checks: Reasons why checks are measured again, by check.
    """

    folder: Path
    record: Record
    events: tuple[Mapping[str, Any], ...]
    journal: JournalEvents
    checks: Mapping[str, str]

    def kept(self, name: str) -> CheckRecord | None:
        """The record of a check that is not measured again."""
        return None if name in self.checks else _of(self.record, name)

    def attempts(self, name: str) -> tuple[Attempt, ...]:
        """Earlier attempts to measure a check, oldest first."""
        before = _of(self.record, name)
        if before is None or name not in self.checks:
            return ()
        this = Attempt(
            run=self.folder.name, started=self.record.started, status=before.status, reason=self.checks[name]
        )
        return (*before.attempts, this)

    @property
    def continues(self) -> tuple[Continued, ...]:
        """The runs that this one goes on from, oldest first."""
        return (*self.record.continues, Continued(run=self.folder.name, started=self.record.started))

    def check(
        self,
        now: Environment,
        datasets: Mapping[str, DatasetRecord],
        models: Mapping[str, ModelRecord],
        basis: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Refuse what would not go together with what is kept.

        Args:
            now: Where this run takes place.
            datasets: As they are now, by name.
            models: Likewise.
            basis: Check: all that its result rests on, by name.

        Raises:
            RecordError: Another machine or other software, other data, another artifact, other settings; names it.
        """
        self._check_environment(now)
        self._check_subjects(datasets, models)
        for name, one in basis.items():
            self._check_basis(name, one)

    def _check_environment(self, now: Environment) -> None:
        changes = differences(self.record.environment, now)
        if changes:
            raise RecordError(f"this is not the environment of {self.folder}: {'; '.join(changes[:3])}; {FRESH}")

    def _check_subjects(self, datasets: Mapping[str, DatasetRecord], models: Mapping[str, ModelRecord]) -> None:
        for then in self.record.datasets:
            if then.name not in datasets or datasets[then.name].digest != then.digest:
                raise RecordError(f"dataset {then.name} has changed since the run in {self.folder}; {FRESH}")
        for model in self.record.models:
            now = models.get(model.name)
            if model.content_digest is None and now is not None and now.content_digest is not None:
                raise RecordError(f"the record in {self.folder} does not say which model {model.name} was; {FRESH}")
            if now is None or is_another(model, now):
                raise RecordError(f"model {model.name} has changed since the run in {self.folder}; {FRESH}")

    def _check_basis(self, name: str, basis: Mapping[str, str]) -> None:
        event = self.journal.last.get(name)
        before = _of(self.record, name)
        never = event is None and before is not None and before.status == "not_run"
        if never:
            return
        if event is None:
            raise RecordError(f"the journal in {self.folder} does not say what {name} depends on; {FRESH}")
        if event.basis != basis:
            why = otherwise(event.basis, basis)
            raise RecordError(
                f"{name} is not run as it was in {self.folder}, for example with other --threads: {why}; {FRESH}"
            )

    def check_code(self, subjects: Subjects) -> None:
        """Refuse where a model's code reads other files by now than for what is kept.

        Raises:
            RecordError: It reads other files.
        """
        read: dict[str, dict[str, str]] = {}
        for answered in self.journal.answers.values():
            note_read(read, answered.model, answered.read)
        for measured in self.journal.last.values():
            for model, files in measured.read.items():
                note_read(read, model, files)
        for model, files in read.items():
            other = subjects.reads_otherwise(model, files) if model in subjects.models else None
            if other is not None:
                raise RecordError(f"{other}: model {model} is not that of {self.folder}; {FRESH}")

    def copy_evidence(self, folder: Path) -> None:
        """Copy the evidence of what is kept into the folder of a new run.

        Raises:
            RecordError: A file of it was changed, or is gone.
            WriteError: It can't be written.
        """
        make_folder(folder / "evidence")
        kept = [one for one in self.record.checks if one.id not in self.checks]
        # A server is asked anew.
        answers = [file for file in self.record.predictions if not file.path.startswith("evidence/server-")]
        for file in (*answers, *(file for one in kept for file in one.evidence)):
            source, place = self.folder / file.path, folder / file.path
            if not is_whole(source, file.digest) or first_fault(source) is not None:
                raise RecordError(f"{source} is missing, or has changed since it was written; {FRESH}")
            try:
                copy_answers(source, place)
            except OSError as error:
                raise WriteError(f"{place} can't be written: {error.strerror or error}") from error


def again(folder: Path, plan: Plan) -> Again:
    """A run with those of its checks that may be measured again.

    Args:
        folder: Of a run that has ended.
        plan: Of the spec as it reads now.

    Raises:
        RecordError: The folder holds no such run, its record was changed, it is of another spec, or nothing in it may
            be measured again.
    """
    folder = folder.resolve()
    record = read_record(folder)
    check_as_written(folder)
    _same_spec(folder, record, plan)
    events = tuple(Journal(folder / JOURNAL).read())
    checks, refused = measurable(record)
    if not checks:
        why = f": {'; '.join(refused)}" if refused else ""
        raise RecordError(f"nothing in {folder} was lost to a busy machine{why}")
    return Again(folder, record, events, JournalEvents(events), checks)


def gone_on_from(events: Iterable[Mapping[str, Any]], plan: Plan) -> Again | None:
    """The run that a resumed run had itself gone on from; None where there was none.

    Args:
        events: Of its journal.
        plan: Of the spec as it reads now.
    """
    begun = (event for event in events if event["event"] == "start" and "remeasures" in event)
    return next((again(Path(str(event["remeasures"])), plan) for event in begun), None)


def _same_spec(folder: Path, record: Record, plan: Plan) -> None:
    part = next(
        (
            what
            for what, applies in (
                ("a draft", record.draft),
                ("a part of a spec (--only)", bool(record.only)),
                ("a run with the timings of another", record.timings_from is not None),
            )
            if applies
        ),
        None,
    )
    if part is not None:
        raise RecordError(f"{folder} is {part}, from which nothing can be kept; {FRESH}")
    if record.verdict is None or record.interrupted:
        raise RecordError(f"the run in {folder} did not finish; continue it with --resume")
    if record.spec_digest != plan.spec.digest:
        raise RecordError(
            f"the run in {folder} was made from a spec that differs from {plan.spec.file} as it is now; {FRESH}"
        )
    if profile_digest(record.profile) != profile_digest(plan.spec.profile):
        raise RecordError(f"the profile of {plan.spec.file} has changed since the run in {folder}; {FRESH}")
    if record.evalspec != __version__:
        raise RecordError(f"the run in {folder} was made by evalspec {record.evalspec}, this is {__version__}; {FRESH}")


def profile_digest(profile: Profile | None) -> str | None:
    """Digest of a profile's content; None where there is no profile."""
    return None if profile is None else profile.digest


def measurable(record: Record) -> tuple[dict[str, str], list[str]]:
    """Checks of a run that may be measured again.

    These are checks that were not run, and checks of which some tests are INVALID because the machine was busy and all
    others PASS. A check with a test that is FAIL or INCONCLUSIVE is never measured again.

    Args:
        record: Of the run.

    Returns:
        Reasons why these checks had no valid evidence, by check; and reasons why others without any may not be
        measured again.
    """
    decided = {one.name: one for one in decide(record).decisions}
    reasons: dict[str, str] = {}
    refused: list[str] = []
    only = {owner_of(name) for name in record.only}
    for check in record.checks:
        if check.status == "not_run" and (not only or check.id in only):
            reasons[check.id] = str(check.reason)
            continue
        void = [test for test in check.tests if test.invalid is not None]
        if check.status != "measured" or not void:
            if check.status in ("invalid", "error"):
                refused.append(f"{check.id} ended differently: {check.reason}")
            continue
        others = [decided[test.name] for test in check.tests if test.invalid is None and test.name in decided]
        stands = next((one for one in others if one.status != "PASS"), None)
        outside = next((test for test in void if not test.by_surroundings), None)
        if stands is not None:
            refused.append(_stands(check, stands))
        elif outside is not None:
            refused.append(f"{check.id} is void for another reason: {outside.invalid}")
        else:
            reasons[check.id] = str(void[0].invalid)
    return reasons, refused


def _stands(check: CheckRecord, one: Decision) -> str:
    return f"{check.id} is not measured again, since {one.name} is {one.status}, which stands"


def _of(record: Record, name: str) -> CheckRecord | None:
    return next((one for one in record.checks if one.id == name), None)

"""Going on with a run that was interrupted: what it has measured is kept where all that it rests on is the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evalspec.evidence.record import Resumption
from evalspec.planning import PlannedCheck
from evalspec.running.children.jobs import predictions_key
from evalspec.running.files import Journal, sha256_of
from evalspec.running.journal.events import CheckMeasured, JournalEvents, otherwise
from evalspec.running.ownership import RunFolder
from evalspec.running.subjects import Observer, Subjects


class KeptChecks:
    """Checks that are kept of a run, and reasons why others are not."""

    def __init__(
        self, before: JournalEvents, folder: RunFolder, journal: Journal, subjects: Subjects, observer: Observer
    ) -> None:
        """``before`` holds what the journal says of the run; nothing for a new one."""
        self.before = before
        self._folder = folder
        self._journal = journal
        self._subjects = subjects
        self._observer = observer
        self._checks: list[str] = []
        self._again = dict(before.again)

    def has(self, key: str) -> bool:
        """True where a check was measured under this key, whether or not that can be kept."""
        event = self.before.checks.get(key)
        return event is not None and event.record.status == "measured"

    def of(
        self, planned: PlannedCheck, key: str, basis: Mapping[str, str], answers: Iterable[tuple[str, str]]
    ) -> CheckMeasured | None:
        """Kept measurement of a check; None where it has to be measured, with the reason written down if it was before.

        Args:
            planned: The check.
            key: Stands for ``basis``.
            basis: All that it rests on now, by name.
            answers: (dataset, model) of the answers that it reads.

        Raises:
            EvalspecError: There are no such answers.
        """
        name = planned.check.name
        last = self.before.last.get(name)
        event = self.before.checks.get(key)
        if event is None or event.record.status != "measured":
            if last is not None and last.record.status == "measured":
                self._measured_again(name, otherwise(last.basis, basis))
            return None
        why = self.not_kept(event, answers)
        if why is not None:
            self._measured_again(name, why)
            return None
        self._checks.append(name)
        return event

    def not_kept(self, event: CheckMeasured, answers: Iterable[tuple[str, str]]) -> str | None:
        """Reason why what was measured can't be kept, in words; None where it can.

        Raises:
            EvalspecError: There are no such answers.
        """
        lost = self._folder.first_lost(event.record.evidence)
        if lost is not None:
            return lost
        for model, files in event.read.items():
            other = self._subjects.reads_otherwise(model, files)
            if other is not None:
                return other
        for dataset, model in answers:
            digest = sha256_of(self._subjects.predict(dataset, model))
            why = self._subjects.asked_again.get((dataset, model))
            if why is not None or event.answers.get(predictions_key(dataset, model)) != digest:
                return why or f"the answers of {model} on {dataset} have changed"
        return None

    def _measured_again(self, name: str, why: str) -> None:
        self._again[name] = why
        self._observer.step(f"{name} is measured again: {why}")
        self._journal.write("again", id=name, why=why)

    @property
    def resumption(self) -> Resumption:
        """Checks that were kept and measured again, for the record."""
        return Resumption(kept=tuple(self._checks), again=dict(self._again))

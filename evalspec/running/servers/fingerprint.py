"""Fingerprints of servers: answers about the same rows must agree at the start and at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import EvalspecError, RecordError
from evalspec.evidence.record import CheckRecord, EvidenceFile
from evalspec.evidence.words import plural
from evalspec.planning import Plan, PlannedCheck
from evalspec.running.children.jobs import SpecParts, WorkerJob
from evalspec.running.files import Journal, is_whole, sha256_of
from evalspec.running.journal.events import Witnessed
from evalspec.running.subjects import Children, Subjects

if TYPE_CHECKING:
    from evalspec.answers.file import Answers

ASKED, ASKED_SLOW = 64, 8
"""Rows that a server is asked about at the start and at the end of a run; of one that writes token after token."""
TIES = 0.25
"""Share of texts of a language model that may differ: where two words are as likely, how it is batched decides."""
CLOSE = 1e-3
"""Relative: numbers as close as this are the same answer; a server may batch otherwise, and so round otherwise."""


class ServerFingerprint:
    """Answers of each server about the same rows at the start and at the end of a run: they must agree."""

    def __init__(self, parts: SpecParts, children: Children, subjects: Subjects, journal: Journal) -> None:
        """``subjects`` are told the outcome."""
        self._parts = parts
        self._children = children
        self._subjects = subjects
        self._journal = journal
        self._asked: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._failed: dict[str, int] = {}

    def start(self, plan: Plan, before: Mapping[str, Witnessed]) -> None:
        """Ask every server of a plan; one that does not answer makes its checks fail by themselves.

        Args:
            plan: The plan.
            before: Model: how it answered when this run was begun, where it is gone on with. One that still answers
                so goes on to be held against that; another one takes its place, and nothing is kept of it.
        """
        for name, dataset in _served(plan).items():
            if self._ask(name, dataset, "now") is None:
                self._asked[name] = dataset
                self._take(name, before.get(name))

    def _take(self, name: str, before: Witnessed | None) -> None:
        """Set down a server's answers at the start: the earlier ones where it still answers so, else those of now."""
        from evalspec.answers.file import read_answers

        now, file = self._file(name, "now"), self._file(name, "start")
        if before is not None and is_whole(file, before.digest) and not different(
            read_answers(file), read_answers(now)
        ):  # fmt: skip
            now.unlink()
            stands_for = before.stands_for
        else:
            now.replace(file)
            stands_for = sha256_of(file)
        self.stands_for(name, stands_for)
        self._subjects.answered.append(self._evidence(name, "start"))

    def stands_for(self, name: str, digest: str) -> None:
        """Write down the digest that everything kept of a server rests on."""
        self._subjects.servers[name] = digest
        file = self._file(name, "start")
        rows = self._rows[name]
        self._journal.write("server", model=name, rows=rows, digest=sha256_of(file), stands_for=digest)

    def end(self) -> dict[str, str]:
        """Ask all servers again.

        Returns:
            Model: how its answers differ. One that can't be asked any more is no subject that was shown.
        """
        differ = {}
        for name, dataset in self._asked.items():
            error = self._ask(name, dataset, "end")
            if error is None:
                self._subjects.answered.append(self._evidence(name, "end"))
                said = otherwise_at_the_end(self._file(name, "start"), self._file(name, "end"))
                if said is not None:
                    differ[name] = said
                shown = said or f"agree on {self._rows[name]} rows at the start and the end of the run"
                if self._failed[name]:
                    shown += f"; {plural(self._failed[name], 'request')} for them failed and had to be sent again"
            else:
                shown = f"could not be reached at the end of the run: {error}"
                self._subjects.not_shown(name)
            self._subjects.observe(name, {"answers_of_the_server": shown})
            self._journal.write("witness", model=name, said=shown)
        return differ

    def check_same(self, folder: Path) -> None:
        """Refuse a server that answers otherwise than it did in an earlier run.

        Args:
            folder: Of that run.

        Raises:
            RecordError: It does.
        """
        from evalspec.answers.file import read_answers

        for name in self._asked:
            before = folder / "evidence" / self._file(name, "start").name
            if not before.is_file():
                raise RecordError(
                    f"{folder} does not record how the server of {name} answered; start a new run instead"
                )
            if count := different(read_answers(before), read_answers(self._file(name, "start"))):
                raise RecordError(
                    f"the server of {name} answers {count} of {self._rows[name]} rows differently "
                    f"from {folder}; start a new run instead"
                )

    def go_on(self, folder: Path, plan: Plan, before: Mapping[str, Witnessed]) -> None:
        """Refuse a server that is not the one of an earlier run, and let what is kept of it stand.

        Args:
            folder: Of that run.
            plan: The plan.
            before: Model: how it answered at the start of that run.

        Raises:
            RecordError: It answers otherwise, does not answer, or what it answered then is not there any more.
        """
        for name in _served(plan):
            if name not in self._asked:
                raise RecordError(f"the server of {name} does not answer, so it can't be shown to be that of {folder}")
            file = folder / "evidence" / self._file(name, "start").name
            if name not in before or not is_whole(file, before[name].digest):
                raise RecordError(f"{file} is missing, or has changed since it was written; start a new run instead")
        self.check_same(folder)
        for name in self._asked:
            self.stands_for(name, before[name].stands_for)

    def _ask(self, name: str, dataset: str, when: str) -> str | None:
        """Have a worker ask; return the reason why it could not, or None."""
        model = self._parts.models[name]
        parts = replace(self._parts, models={**self._parts.models, name: model.unsampled()})
        job = WorkerJob(parts, name, self._children.threads)
        rows_asked = ASKED_SLOW if model.writes_slowly else ASKED
        try:
            with self._children.start("evalspec.running.children.worker", job, f"witness-{name}-{when}") as child:
                # A server that errs at times is still the same one; whether it errs too often is for a check to say.
                question = {"do": "predict", "dataset": dataset, "out": str(self._file(name, when)), "rows": rows_asked,
                            "patient": True}  # fmt: skip
                answer = child.ask(question)
                rows = int(answer["rows"])
        except EvalspecError as error:
            return str(error)
        self._failed[name] = self._failed.get(name, 0) + int(answer["observed"].get("requests_failed", 0))
        self._rows[name] = rows
        self._subjects.has_read(name, answer["read"])
        return None

    def _evidence(self, name: str, when: str) -> EvidenceFile:
        file = self._file(name, when)
        what = f"answers of the server of {name} at the {when}"
        return EvidenceFile(path=f"evidence/{file.name}", digest=sha256_of(file), rows=self._rows[name], what=what)

    def _file(self, name: str, when: str) -> Path:
        return self._children.folder / "evidence" / server_file(name, when)


def server_file(model: str, when: str) -> str:
    """Name of the file of a server's answers at the ``start`` or the ``end`` of a run, in the folder of evidence."""
    return f"server-{model}-{when}.parquet"


def otherwise_at_the_end(start: Path, end: Path) -> str | None:
    """Sentence on a server's answers that differ between the start and the end of a run; None where none do.

    Args:
        start: File of its answers at the start.
        end: Of those about the same rows at the end.
    """
    from evalspec.answers.file import read_answers

    before, after = read_answers(start), read_answers(end)
    count = different(before, after)
    if not count:
        return None
    return f"{count} of {before.n} rows were answered differently at the end of the run from at its start"


def voided(checks: Iterable[CheckRecord], differ: Mapping[str, str]) -> list[CheckRecord]:
    """Checks of a run, void where they measured a server that answers otherwise by now.

    Args:
        checks: As they were measured.
        differ: As `ServerFingerprint.end` gives it.
    """
    records = []
    for record in checks:
        hit = next((name for name in record.models if name in differ), None)
        if hit is not None and record.status == "measured":
            reason = f"the server of {hit} is no longer the same: {differ[hit]}"
            record = record.model_copy(update={"status": "invalid", "reason": reason})
        records.append(record)
    return records


def different(before: Answers, after: Answers) -> int:
    """Number of rows with another answer.

    Args:
        before: Of some rows.
        after: Of the same.
    """
    import numpy as np

    from evalspec.answers.file import compared_numbers

    if before.n != after.n or before.classes != after.classes or before.task != after.task:
        return max(before.n, after.n)
    other = np.zeros(before.n, dtype=bool)
    if before.predicted is not None and after.predicted is not None:
        other |= before.predicted != after.predicted
    for name in ("probabilities", "values", "lower", "upper"):
        one, two = getattr(before, name), getattr(after, name)
        if one is not None and two is not None:
            far = ~np.isclose(one, two, rtol=CLOSE, atol=1e-6)
            other |= far.reshape(before.n, -1).any(axis=1)
    if before.task == "text" and before.finish_reasons is not None:
        unlike = compared_numbers(before) != compared_numbers(after)
        other |= unlike & (unlike.mean() > TIES)
    elif before.task in ("labels", "text"):
        other |= compared_numbers(before) != compared_numbers(after)
    elif before.task in ("boxes", "mask"):
        other |= ~np.isclose(compared_numbers(before), compared_numbers(after), rtol=CLOSE, atol=1e-6)
    return int(other.sum())


def _served(plan: Plan) -> dict[str, str]:
    """The dataset that each served model of the plan is asked about, by model."""
    datasets: dict[str, str] = {}
    for one in plan.checks:
        for dataset, model in [*one.predictions, *_timed(one)]:
            if plan.spec.models[model].served:
                datasets.setdefault(model, dataset)
    return datasets


def _timed(planned: PlannedCheck) -> list[tuple[str, str]]:
    return [(dataset, model) for model in planned.timed for dataset in planned.datasets[:1]]

"""That a server is the same at the start and at the end of a run: its answers about the same rows must agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import EvalspecError, RecordError
from evalspec.evidence.record import CheckRecord, EvidenceFile
from evalspec.plan import Plan, PlannedCheck
from evalspec.run.files import Journal, sha256_of
from evalspec.run.jobs import Parts, WorkerJob
from evalspec.run.subjects import Children, Subjects

if TYPE_CHECKING:
    from evalspec.runtimes._answers import Answers

ASKED = 64
"""Rows that a server is asked about at the start and at the end of a run."""
CLOSE = 1e-3
"""Relative: numbers as close as this are the same answer; a server may batch otherwise, and so round otherwise."""


class Witness:
    """Answers of each server about the same rows at the start and at the end of a run: they must agree."""

    def __init__(self, parts: Parts, children: Children, subjects: Subjects, journal: Journal) -> None:
        """``subjects`` learn what came of it."""
        self._parts = parts
        self._children = children
        self._subjects = subjects
        self._journal = journal
        self._asked: dict[str, str] = {}
        self._rows: dict[str, int] = {}

    def start(self, plan: Plan) -> None:
        """Ask every server of a plan; one that does not answer makes its checks fail by themselves."""
        for name, dataset in _served(plan).items():
            if self._ask(name, dataset, "start") is None:
                self._asked[name] = dataset

    def end(self) -> dict[str, str]:
        """Ask again.

        Returns:
            Model: how its answers differ. One that can't be asked any more is no subject that was shown.
        """
        differ = {}
        for name, dataset in self._asked.items():
            error = self._ask(name, dataset, "end")
            if error is None:
                said = otherwise_at_the_end(self._file(name, "start"), self._file(name, "end"))
                if said is not None:
                    differ[name] = said
                shown = said or f"agree on {self._rows[name]} rows at the start and the end of the run"
            else:
                shown = f"could not be asked at the end of the run: {error}"
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
        from evalspec.runtimes._answers import read_answers

        for name in self._asked:
            before = folder / "evidence" / self._file(name, "start").name
            if before.exists() and (count := different(read_answers(before), read_answers(self._file(name, "start")))):
                raise RecordError(
                    f"the server of {name} answers {count} of {self._rows[name]} rows otherwise than in {folder}; "
                    "start a new run instead"
                )

    def _ask(self, name: str, dataset: str, when: str) -> str | None:
        """Have a worker ask; why it could not, or None."""
        job = WorkerJob(self._parts, name, self._children.threads)
        try:
            with self._children.start("evalspec.run.worker", job, f"witness-{name}-{when}") as child:
                question = {"do": "predict", "dataset": dataset, "out": str(self._file(name, when)), "rows": ASKED}
                rows = int(child.ask(question)["rows"])
        except EvalspecError as error:
            return str(error)
        file = self._file(name, when)
        what = f"answers of the server of {name} at the {when}"
        self._subjects.answered.append(
            EvidenceFile(path=f"evidence/{file.name}", digest=sha256_of(file), rows=rows, what=what)
        )
        self._rows[name] = rows
        return None

    def _file(self, name: str, when: str) -> Path:
        return self._children.folder / "evidence" / server_file(name, when)


def server_file(model: str, when: str) -> str:
    """Name of the file of a server's answers at the ``start`` or the ``end`` of a run, in the folder of evidence."""
    return f"server-{model}-{when}.parquet"


def otherwise_at_the_end(start: Path, end: Path) -> str | None:
    """That a server answered otherwise at the end of a run than at its start; None: it did not.

    Args:
        start: File of its answers at the start.
        end: Of those about the same rows at the end.
    """
    from evalspec.runtimes._answers import read_answers

    before, after = read_answers(start), read_answers(end)
    count = different(before, after)
    if not count:
        return None
    return f"{count} of {before.n} rows were answered otherwise at the end of the run than at its start"


def voided(checks: Iterable[CheckRecord], differ: Mapping[str, str]) -> list[CheckRecord]:
    """Checks of a run, those void that measured a server which answers otherwise by now.

    Args:
        checks: As they were measured.
        differ: As `Witness.end` gives it.
    """
    found = []
    for record in checks:
        hit = next((name for name in record.models if name in differ), None)
        if hit is not None and record.status == "measured":
            reason = f"the server of {hit} is another one by now: {differ[hit]}"
            record = record.model_copy(update={"status": "invalid", "reason": reason})
        found.append(record)
    return found


def different(before: Answers, after: Answers) -> int:
    """Rows with another answer.

    Args:
        before: Of some rows.
        after: Of the same.
    """
    import numpy as np

    from evalspec.runtimes._answers import compared_numbers

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
    if before.task in ("labels", "text"):
        other |= compared_numbers(before) != compared_numbers(after)
    elif before.task in ("boxes", "mask"):
        other |= ~np.isclose(compared_numbers(before), compared_numbers(after), rtol=CLOSE, atol=1e-6)
    return int(other.sum())


def _served(plan: Plan) -> dict[str, str]:
    """Served model of the plan: a dataset that it is asked about."""
    found: dict[str, str] = {}
    for one in plan.checks:
        for dataset, model in [*one.predictions, *_timed(one)]:
            if plan.spec.models[model].served:
                found.setdefault(model, dataset)
    return found


def _timed(planned: PlannedCheck) -> list[tuple[str, str]]:
    return [(dataset, model) for model in planned.timed for dataset in planned.datasets[:1]]

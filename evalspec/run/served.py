"""Servers while a run lasts: started where the spec says how, and shown to be the same at its start and its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import EvalspecError
from evalspec.evidence.record import CheckRecord, EvidenceFile
from evalspec.language.parts import Access, Model
from evalspec.plan import Plan, PlannedCheck
from evalspec.run.files import Journal, sha256_of
from evalspec.run.jobs import Parts, WorkerJob
from evalspec.run.subjects import Children, Observer, Subjects

if TYPE_CHECKING:
    from evalspec.runtimes._answers import Answers
    from evalspec.runtimes._http_server import ServerProcess
    from evalspec.runtimes.http import Http

ASKED = 64
"""Rows that a server is asked about at the start and at the end of a run."""
CLOSE = 1e-3
"""Relative: numbers as close as this are the same answer; a server may batch otherwise, and so round otherwise."""


class Servers:
    """The servers that a spec starts: each is up from its first use to the end of the run.

    They are children of the process that runs the spec, so that all checks and their workers ask the same one. One
    that has ended is started again before the next check, and that is written down; what failed meanwhile has failed.
    """

    def __init__(
        self, models: Mapping[str, Model], access: Access, folder: Path, journal: Journal, observer: Observer
    ) -> None:
        """``folder`` of the run, which takes their logs."""
        served = {name: model for name, model in models.items() if model.served}
        self._models = {name: model for name, model in served.items() if getattr(model, "start", ())}
        self._ports = {name: port for name, model in served.items() if (port := port_here(model)) is not None}
        self._access = access
        self._folder = folder
        self._journal = journal
        self._observer = observer
        self._running: dict[str, ServerProcess] = {}
        self._refused: dict[str, EvalspecError] = {}

    def ensure(self, models: Iterable[str]) -> dict[str, int]:
        """Start those of these models' servers that don't run, and wait until they are ready.

        Returns:
            Model: process id of its server, where it is on this machine and can be seen.

        Raises:
            InputError: It may not run, or is not ready in time.
        """
        pids = {}
        for name in dict.fromkeys(models):
            if name in self._refused:
                raise self._refused[name]
            if name in self._models:
                try:
                    pids[name] = self._up(name).pid
                except EvalspecError as error:
                    self._refused[name] = error
                    raise
            elif name in self._ports and (pid := listening(self._ports[name])) is not None:
                pids[name] = pid
        return pids

    def _up(self, name: str) -> ServerProcess:
        from evalspec.runtimes._http_server import ServerProcess
        from evalspec.runtimes.http import Http, secrets

        before = self._running.get(name)
        if before is not None and before.ended is None:
            return before
        model = self._models[name]
        assert isinstance(model, Http)
        if before is not None:
            self._journal.write("server ended", model=name, code=before.ended)
        headers = secrets(model, self._access)
        self._free(name, model)
        self._observer.step(f"starting the server of {name}")
        process = ServerProcess(model, self._access, self._folder / "logs" / f"server-{name}.log")
        self._running[name] = process
        ready_s = process.wait_ready(headers)
        self._journal.write("server ready", model=name, pid=process.pid, seconds=round(ready_s, 3))
        return process

    def _free(self, name: str, model: Http) -> None:
        """Stop where somebody else answers at the address: it would be judged in the place of what is started here.

        Raises:
            InputError: Somebody does.
        """
        from evalspec.errors import InputError
        from evalspec.runtimes._http_connection import connect
        from evalspec.runtimes._http_wire import HttpError

        try:
            connect(model.address, 1.0).close()
        except HttpError:
            return
        raise InputError(
            f"another server answers at {model.address}, where `start` of {name} is to start one",
            remedy="stop it, or take `start` out of the spec to use it",
        )

    def stop(self) -> None:
        """Stop all of them."""
        for process in self._running.values():
            process.stop()
        self._running.clear()


def port_here(model: Model) -> int | None:
    """Port of a server on this machine; None: it is on another one."""
    from evalspec.runtimes._http_wire import is_loopback
    from evalspec.runtimes.http import Http

    if isinstance(model, Http) and is_loopback(model.address.host):
        return model.address.port
    return None


def listening(port: int) -> int | None:
    """Process that listens at a port of this machine; None: nobody, or it belongs to somebody else."""
    import psutil

    try:
        found = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return None
    pids = [one.pid for one in found if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port]
    return next((pid for pid in pids if pid is not None), None)


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
                said = self._compared(name)
                if said is not None:
                    differ[name] = said
                shown = said or f"agree on {self._rows[name]} rows at the start and the end of the run"
            else:
                shown = f"could not be asked at the end of the run: {error}"
                self._subjects.not_shown(name)
            self._subjects.observe(name, {"answers_of_the_server": shown})
            self._journal.write("witness", model=name, said=shown)
        return differ

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
        return self._children.folder / "evidence" / f"server-{name}-{when}.parquet"

    def _compared(self, name: str) -> str | None:
        from evalspec.runtimes._answers import read_answers

        before, after = (read_answers(self._file(name, when)) for when in ("start", "end"))
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

    if before.n != after.n or before.classes != after.classes:
        return max(before.n, after.n)
    other = np.zeros(before.n, dtype=bool)
    if before.predicted is not None and after.predicted is not None:
        other |= before.predicted != after.predicted
    for name in ("probabilities", "values", "lower", "upper"):
        one, two = getattr(before, name), getattr(after, name)
        if one is not None and two is not None:
            far = ~np.isclose(one, two, rtol=CLOSE, atol=1e-6)
            other |= far.reshape(before.n, -1).any(axis=1)
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

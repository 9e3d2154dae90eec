"""A child that holds one model and knows no check: load, predict, measure."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import WorkerError
from evalspec.language.inputs import Schedule
from evalspec.run.child import Handler
from evalspec.run.jobs import WorkerJob
from evalspec.run.messages import Message, Progress
from evalspec.run.tables import Tables

if TYPE_CHECKING:
    from evalspec.measure.loop import Session
    from evalspec.runtimes._serve import Served


def start(job: WorkerJob) -> Handler:
    """The handler of this child."""
    return _Worker(job).handle


class _Worker:
    """One model, loaded once."""

    def __init__(self, job: WorkerJob) -> None:
        self.job = job
        self.model = job.parts.models[job.model]
        self.tables = Tables(job.parts)
        self.served: dict[str, Served] = {}
        self.session: Session | None = None
        begun = time.perf_counter()
        self.loaded = self.model.load(job.parts.access, threads=job.threads)
        self.load_s = time.perf_counter() - begun

    def handle(self, question: Message, progress: Progress) -> Message:
        """``load`` (already done when this is made), ``predict``, ``prepare``, ``block``, ``finish``."""
        if question["do"] == "load":
            return {"seconds": self.load_s, "observed": dict(self.loaded.observed)}
        if question["do"] == "predict":
            return self._predict(question, progress)
        if question["do"] == "prepare":
            return self._prepare(question)
        if self.session is None:
            raise WorkerError("a worker was asked to measure before it was prepared")
        if question["do"] == "block":
            self.session.block(int(question["block"]), int(question["queries"]), float(question["min_s"]))
            return {"queries": self.session.count}
        return {"details": self.session.finish(), "observed": dict(self.loaded.observed)}

    def _serve(self, dataset: str) -> Served:
        from evalspec.runtimes._serve import Served

        if dataset not in self.served:
            self.served[dataset] = Served(self.model, self.loaded, self.job.parts.access, self.tables.facts(dataset))
        return self.served[dataset]

    def _predict(self, question: Message, progress: Progress) -> Message:
        from evalspec.runtimes._answers import write_answers

        dataset = str(question["dataset"])
        table = self.tables.get(dataset)
        served = self._serve(dataset)
        progress(0.0, float(len(table)), f"{len(table):,} rows")
        answers = served.predict_all(table)
        write_answers(answers, Path(question["out"]))
        return {"rows": answers.n, "observed": dict(served.loaded.observed) | dict(answers.details)}

    def _prepare(self, question: Message) -> Message:
        from evalspec.measure.loop import Session

        dataset = str(question["dataset"])
        rows = self._serve(dataset).rows(self.tables.get(dataset))
        self.session = Session(rows, Schedule(**question["schedule"]), Path(question["out"]))
        return {"details": self.session.warm_up()}

"""Timings for a check: fresh worker processes, one after the other, or pairs of them in A B B A blocks."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from evalspec.clocks import now_ns
from evalspec.errors import WorkerError
from evalspec.evidence.frozen import Cell, Cells
from evalspec.evidence.record import LOOK
from evalspec.language.inputs import Probe, Samples, Schedule, Variant
from evalspec.language.timings import Telemetry
from evalspec.running.children.jobs import CheckJob
from evalspec.running.children.messages import Message, Progress
from evalspec.running.children.process import Child
from evalspec.running.children.workers import Answering, StartedAhead, may_start_together, started
from evalspec.running.servers.clients import merged, shares

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.likelihoods import Windows
    from evalspec.measure.telemetry import Sampler

PATTERNS = (
    ("candidate", "baseline", "baseline", "candidate"),
    ("baseline", "candidate", "candidate", "baseline"),
)
"""Order of the blocks in even and in odd pairs, so that neither side always comes first."""
SETTLE_S = 0.05
"""Pause between two blocks: the side that ran goes back to sleep."""
LEAD_S = 3.0
"""Time from telling clients that start together to their start, in which they open their connections."""
ARRAYS = ("arrivals_ns", "items", "sizes")


Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class AtLook:
    """AtLook of a measurement that goes on in several.

    Args:
        first: Processes that were measured before, of those that the schedule has.
        look: Number of the look that is measured for; None: the measurement has none.
    """

    first: int = 0
    look: int | None = None

    @property
    def facts(self) -> dict[str, Cell]:
        """As facts of a process."""
        return {} if self.look is None else {LOOK: self.look}


WHOLE = AtLook()
"""All of a measurement at once."""


class Timing(Protocol):
    """Source of samples for schedules, findings of probes, and answers to rows that a check made."""

    @property
    def last_look(self) -> int | None:
        """Number of the last look of a measurement that is over, 0 if it had no looks; None: it is made now."""
        ...

    @property
    def samples(self) -> tuple[Samples, ...]:
        """All samples that were given, in order."""
        ...

    @property
    def probes(self) -> tuple[Probe, ...]:
        """All that probes found, in order."""
        ...

    def measure(
        self, schedule: Schedule, dataset: str, model: str, progress: Progress, stage: AtLook = WHOLE
    ) -> list[Samples]:
        """Samples of fresh processes."""
        ...

    def measure_paired(
        self,
        schedule: Schedule,
        dataset: str,
        model: str,
        baseline: str,
        progress: Progress,
        stage: AtLook = WHOLE,
    ) -> tuple[list[Samples], list[Samples]]:
        """Samples of pairs of fresh processes."""
        ...

    def probe(
        self, probe: str, dataset: str, model: str, processes: int, options: Cells, telemetry_s: float | None,
        progress: Progress, stage: AtLook = WHOLE,
    ) -> list[Probe]:  # fmt: skip
        """Findings of fresh processes."""
        ...

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str, variant: Variant, progress: Progress
    ) -> Path:
        """File with a model's answers to rows that a check made."""
        ...

    def likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str, beside: str | None, progress: Progress
    ) -> Path:
        """File with the likelihoods that a model gives the tokens of texts."""
        ...


class _Timed:
    """Made worker while it is timed."""

    def __init__(self, worker: Child, schedule: Schedule, out: Path, origin_ns: int, gpu: int | None) -> None:
        self.worker = worker
        self.gpu = gpu
        self.beside: tuple[int, ...] = ()
        """Other processes of ours: the server that is asked, and its other clients."""
        self.elsewhere = False
        """True where the model runs on another machine."""
        self.telemetry: Telemetry | None = None
        """Telemetry of the machine meanwhile."""
        self.background_rounds_per_s: float | None = None
        """Rate of the load that ran beside it, in the block in which that did least."""
        self.schedule = schedule
        self.out = out
        self.origin_ns = origin_ns
        self.before: dict[str, Cell] = {}
        """How often it was asked before, where it was."""

    def prepare(self, dataset: str) -> None:
        """Read rows into memory and warm up."""
        asked = {one.name: getattr(self.schedule, one.name) for one in fields(Schedule) if one.name not in ARRAYS}
        question: Message = {
            "do": "prepare", "dataset": dataset, "schedule": asked, "out": str(self.out), "origin_ns": self.origin_ns,
        }  # fmt: skip
        with _written(self.schedule, self.out) as arrays:
            if arrays is not None:
                question["arrays"] = str(arrays)
            answer = self.worker.ask(question, time_s=self.schedule.limit_s)
        self.before = dict(answer["before"])

    def block(self, block: int, queries: int) -> None:
        """Measure one block, and wait for its end."""
        self.begin(block, queries)
        self.end()

    def begin(self, block: int, queries: int, start_ns: int | None = None) -> None:
        """Have it measure a block, from this reading of the clock on."""
        question = {"do": "block", "block": block, "queries": queries, "min_s": self.schedule.min_s}
        self.worker.tell(question | ({} if start_ns is None else {"start_ns": start_ns}))

    def end(self) -> None:
        """Wait until the block is measured."""
        self.worker.answer(time_s=self.schedule.limit_s)


@contextlib.contextmanager
def _written(schedule: Schedule, out: Path) -> Iterator[Path | None]:
    """The schedule's arrays in a file, while it is read."""
    import numpy as np

    arrays = {name: getattr(schedule, name) for name in ARRAYS if getattr(schedule, name) is not None}
    if not arrays:
        yield None
        return
    path = out.with_suffix(".npz")
    np.savez(path, **arrays)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


class Workers:
    """Measures in worker processes and keeps every sample."""

    def __init__(self, job: CheckJob, ahead: Mapping[str, StartedAhead] | None = None) -> None:
        """``job`` of the check that asks; ``ahead``: workers that were started before, by model."""
        self._job = job
        self._made: list[Samples] = []
        self._found: list[Probe] = []
        self.observed: dict[str, dict[str, Cell]] = {}
        self.answering = Answering(job)
        self._ahead = dict(ahead or {})

    @property
    def last_look(self) -> None:
        """Nobody knows yet."""
        return

    @property
    def samples(self) -> tuple[Samples, ...]:
        """All samples that were measured, in order."""
        return tuple(self._made)

    @property
    def probes(self) -> tuple[Probe, ...]:
        """All findings, in order."""
        return tuple(self._found)

    def measure(
        self, schedule: Schedule, dataset: str, model: str, progress: Progress, stage: AtLook = WHOLE
    ) -> list[Samples]:
        """Samples of one fresh process after the other; nothing else of ours runs meanwhile."""
        made: list[Samples] = []
        try:
            for process in range(stage.first, schedule.processes):
                progress(
                    process, schedule.processes, f"{_named(model, schedule)} {process + 1} of {schedule.processes}"
                )
                if schedule.kind == "open_loop" and schedule.clients > 1:
                    one = self._clients(schedule, dataset, model, process)
                else:
                    one = self._alone(schedule, dataset, model, process)
                made.append(_at(stage, one))
        finally:
            self._made += made
        return made

    def measure_paired(
        self,
        schedule: Schedule,
        dataset: str,
        model: str,
        baseline: str,
        progress: Progress,
        stage: AtLook = WHOLE,
    ) -> tuple[list[Samples], list[Samples]]:
        """Both models up, blocks A B B A; the idle side waits on its socket, which costs nothing.

        Every other pair starts with the baseline, so that neither side always comes first.
        """
        candidate_made: list[Samples] = []
        baseline_made: list[Samples] = []
        try:
            for pair in range(stage.first, schedule.processes):
                progress(pair, schedule.processes, f"{model} and {baseline}, pair {pair + 1} of {schedule.processes}")
                with self._worker(model, pair) as one, self._worker(baseline, pair) as other:
                    ours = self._prepared(one, schedule, dataset, model, pair)
                    theirs = self._prepared(other, schedule, dataset, baseline, pair, side="baseline")
                    ours.beside += (other.pid,)
                    theirs.beside += (one.pid,)
                    with self._kept(ours, model, pair), self._kept(theirs, baseline, pair), _read(ours), _read(theirs):
                        self._blocks(ours, theirs, PATTERNS[pair % 2])
                    candidate_made.append(_at(stage, self._finish(ours, model, pair)))
                    baseline_made.append(_at(stage, self._finish(theirs, baseline, pair)))
        finally:
            self._made += [*candidate_made, *baseline_made]
        return candidate_made, baseline_made

    def _alone(self, schedule: Schedule, dataset: str, model: str, process: int) -> Samples:
        """Measure in one process, a fresh one or one that the check before has left."""
        # Rows that were kept lie in memory once, however many read them.
        rows = dataset if dataset in self._job.parts.kept else None
        # One alone is that of an audit, which asks otherwise than those that are measured.
        several = schedule.processes > 1
        with self._fresh(model).one(schedule.processes - process, rows, may_be_kept=several) as worker:
            timed = self._prepared(worker, schedule, dataset, model, process)
            with self._kept(timed, model, process), _background(schedule, timed), _read(timed):
                timed.block(0, schedule.queries)
            return self._finish(timed, model, process)

    @staticmethod
    def _blocks(ours: _Timed, theirs: _Timed, pattern: Sequence[str]) -> None:
        """Measure the blocks of one pair; a background runs beside the candidate's."""
        queries = max(1, ours.schedule.queries // 2)
        for block, side in enumerate(pattern):
            time.sleep(SETTLE_S)
            if side == "candidate":
                with _background(ours.schedule, ours):
                    ours.block(block, queries)
            else:
                theirs.block(block, queries)

    def probe(
        self, probe: str, dataset: str, model: str, processes: int, options: Cells, telemetry_s: float | None,
        progress: Progress, stage: AtLook = WHOLE,
    ) -> list[Probe]:  # fmt: skip
        """Findings of fresh processes, one after the other."""
        from evalspec.running.as_json import found_from_json

        made = []
        for process in range(stage.first, processes):
            progress(process, processes, f"{model}, process {process + 1} of {processes}")
            began = now_ns()
            with self._worker(model, process) as worker:
                loaded = worker.ask({"do": "load"})
                ready_s = (now_ns() - began) / 1e9
                question = {
                    "do": "probe", "probe": probe, "dataset": dataset, "options": dict(options),
                    "seed": self._job.seed + process,
                }  # fmt: skip
                sampler = (
                    None
                    if telemetry_s is None
                    else _sampler(worker, telemetry_s, now_ns(), self._gpu(model), self._server(model))
                )
                try:
                    reply = worker.ask(question)
                finally:
                    telemetry = None if sampler is None else sampler.stop()
            self.observed[model] = dict(reply["observed"])
            import_s, load_s = float(loaded["import_s"]), float(loaded["load_s"])
            begin = {"start_s": max(0.0, ready_s - import_s - load_s), "import_s": import_s, "load_s": load_s}
            found = found_from_json(reply).as_probe(probe, model, process, begin=begin, telemetry=telemetry)
            made.append(replace(found, facts={**found.facts, **stage.facts}))
        self._found += made
        return made

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str, variant: Variant, progress: Progress
    ) -> Path:
        """Ask one worker for each model, which stays until `close`."""
        out = self.answering.predict(rows, dataset, name, model, variant, progress)
        self.observed |= self.answering.observed
        return out

    def likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str, beside: str | None, progress: Progress
    ) -> Path:
        """Ask as `predict` does."""
        out = self.answering.likelihoods(texts, name, windows, model, beside, progress)
        self.observed |= self.answering.observed
        return out

    def close(self) -> None:
        """End what still runs."""
        for one in self._ahead.values():
            one.close()
        self.answering.close()

    def _clients(self, schedule: Schedule, dataset: str, model: str, process: int) -> Samples:
        """Measure one open loop, driven by several client processes, each with its share of the queries."""
        origin = now_ns()
        with contextlib.ExitStack() as stack:
            timed = []
            for client, part in enumerate(shares(schedule)):
                worker = stack.enter_context(self._worker(model, process * schedule.clients + client))
                timed.append(
                    self._prepared(worker, part, dataset, model, process, side=f"client-{client}", origin_ns=origin)
                )
            timed[0].beside += tuple(one.worker.pid for one in timed[1:])
            for one in timed:
                stack.enter_context(self._kept(one, model, process))
            with _read(timed[0]):
                start = now_ns() + int(LEAD_S * 1e9)
                for one in timed:
                    one.begin(0, one.schedule.queries, start)
                for one in timed:
                    one.end()
            return merged([self._finish(one, model, process) for one in timed])

    def _fresh(self, model: str) -> StartedAhead:
        """Fresh workers of a model for all schedules of the check."""
        if model not in self._ahead:
            self._ahead[model] = fresh_workers(self._job, model, self.answering.read)
        return self._ahead[model]

    def _worker(self, model: str, process: int) -> Child:
        return _worker(self._job, model, process, self.answering.read)

    def _prepared(
        self, worker: Child, schedule: Schedule, dataset: str, model: str, process: int, *, side: str = "",
        origin_ns: int | None = None,
    ) -> _Timed:  # fmt: skip
        name = f".{self._job.check.name}-{model}{side}-{len(self._made)}-{process}.samples"
        out = self._job.evidence / name
        out.parent.mkdir(parents=True, exist_ok=True)
        asked = replace(schedule, seed=schedule.seed + process)
        timed = _Timed(worker, asked, out, now_ns() if origin_ns is None else origin_ns, self._gpu(model))
        timed.beside = self._server(model)
        timed.elsewhere = self._job.parts.models[model].elsewhere
        timed.prepare(dataset)
        return timed

    def _server(self, model: str) -> tuple[int, ...]:
        """Process id of the server that is asked; empty where it is not on this machine."""
        pid = self._job.model_facts.get(model, {}).get("server_pid")
        return (int(pid),) if isinstance(pid, int) else ()

    def _gpu(self, model: str) -> int | None:
        """Number of the GPU whose counters are read: the model's, or a server's first; None where it uses none."""
        part = self._job.parts.models[model]
        if part.device == "cpu" and not part.served:
            return None
        return int(part.device.partition(":")[2] or 0)

    @contextlib.contextmanager
    def _kept(self, timed: _Timed, model: str, process: int) -> Iterator[None]:
        """Keep what was measured so far where a worker ends in the middle of it."""
        from evalspec.measure.samples import read_samples, remove_samples

        try:
            yield
        except WorkerError:
            details = {"complete": False, "order_seed": timed.schedule.seed, **timed.before}
            self._made.append(read_samples(timed.out, model=model, process=process, details=details))
            remove_samples(timed.out)
            raise

    def _finish(self, timed: _Timed, model: str, process: int) -> Samples:
        from evalspec.measure.samples import read_samples, remove_samples

        answer = timed.worker.ask({"do": "finish"})
        self.observed[model] = dict(answer["observed"])
        details = (
            dict(answer["details"]) | dict(answer["observed"]) | timed.before | {"order_seed": timed.schedule.seed}
        )
        if timed.background_rounds_per_s is not None:
            details["background_rounds_per_s"] = timed.background_rounds_per_s
        samples = read_samples(timed.out, model=model, process=process, details=details)
        remove_samples(timed.out)
        return replace(samples, telemetry=timed.telemetry)


def fresh_workers(
    job: CheckJob, model: str, read: dict[str, dict[str, str]], ready: Sequence[Child] = ()
) -> StartedAhead:
    """Workers of a model for all schedules of a check: fresh ones, after those that are there.

    Args:
        job: Of the check.
        model: Its name.
        read: Takes the files that the model's code was seen to read.
        ready: Workers that hold it already, and are taken first.
    """
    together = may_start_together(job.parts.models[model], job.model_facts.get(model, {}).get("size_bytes"))
    numbers = itertools.count()
    return StartedAhead(lambda: _worker(job, model, next(numbers), read), together=together, ready=ready)


def _worker(job: CheckJob, model: str, process: int, read: dict[str, dict[str, str]]) -> Child:
    return started(job, model, f"timing-{job.check.name}-{model}-{process}", read)


def _at(stage: AtLook, samples: Samples) -> Samples:
    """Samples with the look that they were measured for."""
    return replace(samples, details={**samples.details, **stage.facts}) if stage.facts else samples


def _named(model: str, schedule: Schedule) -> str:
    """Name of what runs, for people who wait: a model's process, with its rate where it has one."""
    arrivals = schedule.arrivals_ns
    if arrivals is None or len(arrivals) < 2:
        return f"{model}, process"
    return f"{model} at {1e9 * len(arrivals) / max(1, int(arrivals[-1])):,.0f} qps, process"


@contextlib.contextmanager
def _read(timed: _Timed) -> Iterator[None]:
    """Reads the machine's counters meanwhile, where the schedule asks for it."""
    if timed.schedule.telemetry_s is None:
        yield
        return
    from evalspec.measure.telemetry import of_client

    sampler = _sampler(timed.worker, timed.schedule.telemetry_s, timed.origin_ns, timed.gpu, timed.beside)
    try:
        yield
    finally:
        told = sampler.stop()
        timed.telemetry = of_client(told) if timed.elsewhere else told


def _sampler(worker: Child, every_s: float, origin_ns: int, gpu: int | None, beside: tuple[int, ...]) -> Sampler:
    from evalspec.measure.telemetry import Sampler

    sampler = Sampler(worker.pid, every_s, origin_ns, gpu=gpu, beside=beside)
    sampler.start()
    return sampler


@contextlib.contextmanager
def _background(schedule: Schedule | None, timed: _Timed) -> Iterator[None]:
    """Work that runs beside a block, where the schedule asks for it; what it did is kept, to show that it worked."""
    if schedule is None or schedule.background is None:
        yield
        return
    from evalspec.measure.background import Background

    with Background(schedule.background, schedule.background_workers, timed.gpu or 0) as load:
        yield
        done, before = load.stop()["rounds_per_s"], timed.background_rounds_per_s
        timed.background_rounds_per_s = done if before is None else min(done, before)


class StagedTiming:
    """Timings in which each look measures only what those before it have not.

    The same request may come several times in a form (a pair of processes by turns); the second of one form goes with
    the second of the forms before.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._known: dict[Hashable, Sequence[object]] = {}
        self._asked: dict[Hashable, int] = {}
        self._look = 1

    def begin(self, look: int) -> None:
        """Begin with a look."""
        self._look, self._asked = look, {}

    @property
    def last_look(self) -> int | None:
        """As of what measures."""
        return self._timing.last_look

    @property
    def samples(self) -> tuple[Samples, ...]:
        """All samples so far."""
        return self._timing.samples

    @property
    def probes(self) -> tuple[Probe, ...]:
        """All findings so far."""
        return self._timing.probes

    def measure(
        self, schedule: Schedule, dataset: str, model: str, progress: Progress, stage: AtLook = WHOLE
    ) -> list[Samples]:
        """Samples of the processes of all looks up to now."""
        return self._added(
            ("measure", _key(schedule), dataset, model),
            schedule.processes,
            lambda stage: self._timing.measure(schedule, dataset, model, progress, stage),
        )

    def measure_paired(
        self, schedule: Schedule, dataset: str, model: str, baseline: str, progress: Progress,
        stage: AtLook = WHOLE,
    ) -> tuple[list[Samples], list[Samples]]:  # fmt: skip
        """Samples of the pairs of all looks up to now."""

        def pairs(stage: AtLook) -> list[tuple[Samples, Samples]]:
            sides = self._timing.measure_paired(schedule, dataset, model, baseline, progress, stage)
            return list(zip(*sides, strict=True))

        made = self._added(("paired", _key(schedule), dataset, model, baseline), schedule.processes, pairs)
        return [one for one, _ in made], [other for _, other in made]

    def probe(
        self, probe: str, dataset: str, model: str, processes: int, options: Cells, telemetry_s: float | None,
        progress: Progress, stage: AtLook = WHOLE,
    ) -> list[Probe]:  # fmt: skip
        """Findings of the processes of all looks up to now."""
        return self._added(
            ("probe", probe, dataset, model, repr(sorted(options.items())), telemetry_s),
            processes,
            lambda stage: self._timing.probe(probe, dataset, model, processes, options, telemetry_s, progress, stage),
        )

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str, variant: Variant, progress: Progress
    ) -> Path:
        """As of what measures."""
        return self._timing.predict(rows, dataset, name, model, variant, progress)

    def likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str, beside: str | None, progress: Progress
    ) -> Path:
        """As of what measures."""
        return self._timing.likelihoods(texts, name, windows, model, beside, progress)

    def _added(self, request: Hashable, count: int, measure: Callable[[AtLook], list[Made]]) -> list[Made]:
        """So many of what a request brings: those that are known, and the rest measured now."""
        turn = self._asked.get(request, 0)
        self._asked[request] = turn + 1
        known: list[Made] = list(self._known.get((request, turn), ()))  # type: ignore[arg-type]
        if len(known) < count:
            known += measure(AtLook(len(known), self._look))
            self._known[request, turn] = known
        return known[:count]


def _key(schedule: Schedule) -> Hashable:
    """All that a schedule says, but for how many processes there are."""
    alike = replace(schedule, processes=0)
    said = ((one.name, getattr(alike, one.name)) for one in fields(alike))
    return tuple((name, value.tobytes() if hasattr(value, "tobytes") else value) for name, value in said)

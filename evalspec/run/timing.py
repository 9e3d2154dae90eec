"""Timings for a check: fresh worker processes, one after the other, or pairs of them in A B B A blocks."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from evalspec.language.inputs import Samples, Schedule
from evalspec.run.jobs import CheckJob, WorkerJob
from evalspec.run.messages import Progress
from evalspec.run.process import Child

PATTERNS = (
    ("candidate", "baseline", "baseline", "candidate"),
    ("baseline", "candidate", "candidate", "baseline"),
)
"""Of even and of odd pairs, so that neither side always comes first."""
SETTLE_S = 0.05
"""Between two blocks: the side that ran goes back to sleep."""


class Timing(Protocol):
    """Whatever gives samples for schedules."""

    @property
    def samples(self) -> tuple[Samples, ...]:
        """Everything that was given, in order."""
        ...

    def measure(self, schedule: Schedule, dataset: str, model: str, progress: Progress) -> list[Samples]:
        """Samples of fresh processes."""
        ...

    def measure_paired(
        self, schedule: Schedule, dataset: str, model: str, baseline: str, progress: Progress
    ) -> tuple[list[Samples], list[Samples]]:
        """Samples of pairs of fresh processes."""
        ...


class Workers:
    """Measures in worker processes and keeps every sample."""

    def __init__(self, job: CheckJob) -> None:
        """``job`` of the check that asks."""
        self._job = job
        self._made: list[Samples] = []
        self.observed: dict[str, dict[str, str | int | float | bool | None]] = {}

    @property
    def samples(self) -> tuple[Samples, ...]:
        """Everything that was measured, in order."""
        return tuple(self._made)

    def measure(self, schedule: Schedule, dataset: str, model: str, progress: Progress) -> list[Samples]:
        """One fresh process after the other; nothing else of ours runs meanwhile."""
        made = []
        for process in range(schedule.processes):
            progress(process, schedule.processes, f"{model}, process {process + 1} of {schedule.processes}")
            with self._worker(model, process) as worker:
                out = self._prepare(worker, schedule, dataset, model, process)
                self._block(worker, schedule, 0, schedule.queries)
                made.append(self._finish(worker, out, model, schedule.seed + process, process))
        self._made += made
        return made

    def measure_paired(
        self, schedule: Schedule, dataset: str, model: str, baseline: str, progress: Progress
    ) -> tuple[list[Samples], list[Samples]]:
        """Both models up, blocks A B B A; the idle side waits on its socket, which costs nothing.

        Every other pair starts with the baseline, so that neither side always comes first.
        """
        candidate_made, baseline_made = [], []
        for pair in range(schedule.processes):
            progress(pair, schedule.processes, f"{model} and {baseline}, pair {pair + 1} of {schedule.processes}")
            with self._worker(model, pair) as one, self._worker(baseline, pair) as other:
                sides = {"candidate": one, "baseline": other}
                outs = {
                    "candidate": self._prepare(one, schedule, dataset, model, pair),
                    "baseline": self._prepare(other, schedule, dataset, baseline, pair),
                }
                for block, side in enumerate(PATTERNS[pair % 2]):
                    time.sleep(SETTLE_S)
                    self._block(sides[side], schedule, block, max(1, schedule.queries // 2))
                candidate_made.append(self._finish(one, outs["candidate"], model, schedule.seed + pair, pair))
                baseline_made.append(self._finish(other, outs["baseline"], baseline, schedule.seed + pair, pair))
        self._made += [*candidate_made, *baseline_made]
        return candidate_made, baseline_made

    def _worker(self, model: str, process: int) -> Child:
        return Child(
            "evalspec.run.worker",
            WorkerJob(self._job.parts, model, self._job.threads),
            limits=self._job.limits,
            log=self._job.evidence.parent / "logs" / f"timing-{self._job.check.name}-{model}-{process}.log",
            environment=self._job.environment,
        )

    def _prepare(self, worker: Child, schedule: Schedule, dataset: str, model: str, process: int) -> Path:
        out = self._job.evidence / f".{self._job.check.name}-{model}-{len(self._made)}-{process}.samples"
        out.parent.mkdir(parents=True, exist_ok=True)
        asked = asdict(schedule) | {"seed": schedule.seed + process}
        worker.ask({"do": "prepare", "dataset": dataset, "schedule": asked, "out": str(out)}, time_s=schedule.limit_s)
        return out

    @staticmethod
    def _block(worker: Child, schedule: Schedule, block: int, queries: int) -> None:
        question = {"do": "block", "block": block, "queries": queries, "min_s": schedule.min_s}
        worker.ask(question, time_s=schedule.limit_s)

    def _finish(self, worker: Child, out: Path, model: str, seed: int, process: int) -> Samples:
        from evalspec.measure.loop import read_samples

        answer = worker.ask({"do": "finish"})
        self.observed[model] = dict(answer["observed"])
        details = dict(answer["details"]) | dict(answer["observed"]) | {"order_seed": seed}
        samples = read_samples(out, model=model, process=process, details=details)
        out.unlink(missing_ok=True)
        return samples

"""Answers on a node of a cluster: the same files are made sure of, then a worker that holds the model is asked."""

from __future__ import annotations

import functools
import pickle
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evalspec.errors import EvalspecError, WorkerError
from evalspec.pipeline.artifact import content_paths
from evalspec.running.children.jobs import SpecParts, WorkerJob
from evalspec.running.children.messages import BLOCKS
from evalspec.running.children.process import Child, Limits
from evalspec.running.engines.leaf_job import NodeJob
from evalspec.running.engines.stamps import Stamps, same_files, same_model, unchanged

IDLE_S = 30.0
"""A worker that nobody has asked for so long ends, and lets its memory go."""


@dataclass(frozen=True, slots=True)
class PartJob(NodeJob):
    """Job of a node: a dataset, and the model that answers its rows.

    Args:
        parts: The dataset, the model, and where they may be read from.
        dataset: Name of the dataset.
        model: That of the model.
        rows: Of the dataset.
        stamps: Of the files of the dataset, where the run was planned.
        model_stamps: Of those of the model.
        threads: Of each worker.
        limits: Of each worker.
        environment: Of each worker.
    """

    parts: SpecParts
    dataset: str
    model: str
    rows: int
    stamps: Stamps
    model_stamps: Stamps
    threads: int
    limits: Limits
    environment: Mapping[str, str]

    @property
    def changed(self) -> bool:
        return not (unchanged(self.stamps) and unchanged(self.model_stamps))

    def make_sure(self) -> None:
        same_files(self.parts.datasets[self.dataset], self.access, self.stamps)
        same_model(content_paths(self.parts.models[self.model], self.access), self.model_stamps)

    def look(self, packed: bytes, start: int, stop: int) -> tuple[dict[str, object], list[bytes]]:
        """Answers to some rows."""
        return _workers(packed).answer(start, stop)


@functools.lru_cache(maxsize=1)
def _workers(packed: bytes) -> NodeWorkers:
    """Workers of this process, which stay for the next part."""
    job: PartJob = pickle.loads(packed)
    return NodeWorkers(job)


class NodeWorkers:
    """Workers that hold the model, as many as are asked at once.

    Args:
        job: What they are asked.
    """

    def __init__(self, job: PartJob) -> None:
        self._job = job
        self._folder = Path(tempfile.mkdtemp(prefix="evalspec-"))
        self._lock = threading.Lock()
        self._idle: list[tuple[Child, float]] = []
        self._started = 0
        # The next job takes the place of this one, and needs its memory.
        weakref.finalize(self, _end, self._idle, self._folder)

    def answer(self, start: int, stop: int) -> tuple[dict[str, object], list[bytes]]:
        """Answers to some rows, or ``crash``: why the worker ended.

        Args:
            start: The first row.
            stop: The row after the last.

        Raises:
            EvalspecError: They can't be answered.
        """
        job, child = self._job, self._taken()
        try:
            told = child.ask({"do": "part", "dataset": job.dataset, "rows": job.rows, "start": start, "stop": stop})
        except WorkerError as error:
            if not child.alive:
                return {"crash": str(error)}, []
            self._put_back(child)
            raise
        except EvalspecError:
            self._put_back(child)
            raise
        except BaseException:
            child.close()
            raise
        self._put_back(child)
        blocks = told.pop(BLOCKS)
        return {"rows": told["rows"], "beside": told}, blocks

    def _taken(self) -> Child:
        with self._lock:
            while self._idle:
                child, _ = self._idle.pop()
                if child.alive:
                    return child
            self._started += 1
            log = self._folder / f"worker-{self._started}.log"
        job = self._job
        return Child(
            "evalspec.running.children.worker", WorkerJob(job.parts, job.model, job.threads), limits=job.limits,
            log=log, environment=job.environment, secrets=job.access.secrets,
        )  # fmt: skip

    def _put_back(self, child: Child) -> None:
        with self._lock:
            self._idle.append((child, time.monotonic()))
        timer = threading.Timer(IDLE_S, _sweep, (weakref.ref(self),))
        timer.daemon = True
        timer.start()

    def sweep(self) -> None:
        """End workers that nobody has asked for long."""
        late = time.monotonic() - IDLE_S
        with self._lock:
            over = [child for child, since in self._idle if since <= late]
            self._idle[:] = [(child, since) for child, since in self._idle if since > late]
        for child in over:
            child.close()


def _sweep(workers: weakref.ref[NodeWorkers]) -> None:
    alive = workers()
    if alive is not None:
        alive.sweep()


def _end(idle: list[tuple[Child, float]], folder: Path) -> None:
    for child, _ in idle:
        child.close()
    shutil.rmtree(folder, ignore_errors=True)

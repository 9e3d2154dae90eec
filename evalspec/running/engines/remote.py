"""A cluster that looks at leaves, by way of a child that is its driver."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from evalspec.errors import EngineError, EvalspecError, InputError, InvalidError, NotRunError, WorkerError
from evalspec.language.scans import Scan
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf_journal import StateFiles
from evalspec.running.children.messages import BLOCKS, Message
from evalspec.running.children.process import Child, Limits
from evalspec.running.engines.driver import DriverJob
from evalspec.running.engines.engine import LeafEngine, LeafWork, PieceOutcome, RowEngine
from evalspec.running.engines.leaf_job import LeafJob
from evalspec.running.engines.stamps import Stamps

DRIVER_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_gcs_rpc_server_reconnect_timeout_s": "30"}
"""Ray reports nothing to anybody, and its driver ends so many seconds after the control process of its cluster."""
OPEN_S = 80.0
ANSWER_S = 75.0
"""Longest time for an answer of the driver, which waits no longer than a second for leaves by itself."""
CLOSE_S = 10.0
KINDS = {one.__name__: one for one in (InputError, NotRunError, InvalidError)}


class DriverChild(Protocol):
    """Driver of a cluster, as far as it is asked: a `Child`."""

    def ask(self, question: Message, *, time_s: float | None = None) -> Message:
        """As `Child.ask`."""
        ...

    def close(self) -> None:
        """As `Child.close`."""
        ...


class RemoteEngine(RowEngine):
    """Nodes of a cluster, by way of its driver, which is started with the first rows.

    Args:
        work: How.
        job: What is to be made of rows, as it travels.
        on_wait: Called while rows are waited for; what it raises ends the wait.
    """

    def __init__(self, work: LeafWork, job: bytes = b"", on_wait: Callable[[], None] | None = None) -> None:
        self.gone: Sequence[str] = ()
        # Until the first rows are submitted: where all of them are kept, nobody is asked.
        self.slots = 1
        self.job = job
        self._work, self._on_wait = work, on_wait
        self._driver: DriverChild | None = None
        self._sent = b""
        self._waiting: list[tuple[int, int, int]] = []

    def submit(self, number: int, start: int, stop: int) -> None:
        if self._driver is None:
            self._driver = driver_child(self._work)
            self.slots = max(1, int(self._ask({"do": "open"}, OPEN_S)["slots"]))
        self._waiting.append((number, start, stop))

    def finished(self) -> Sequence[PieceOutcome]:
        if self._on_wait is not None:
            self._on_wait()
        job = "" if self._sent == self.job else base64.b64encode(self.job).decode("ascii")
        answer = self._ask({"do": "look", "job": job, "leaves": self._waiting}, ANSWER_S)
        self._sent, self._waiting = self.job, []
        self.slots, self.gone = max(1, int(answer["slots"])), answer["gone"]
        blocks = iter(answer.get(BLOCKS, ()))
        return [_outcome(one, [next(blocks) for _ in range(one["blocks"])]) for one in answer["finished"]]

    def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            # One that has ended can't be told.
            with contextlib.suppress(EvalspecError, OSError):
                driver.ask({"do": "close"}, time_s=CLOSE_S)
            driver.close()

    def _ask(self, question: Message, time_s: float) -> Message:
        assert self._driver is not None
        try:
            return self._driver.ask(question, time_s=time_s)
        except WorkerError as error:
            raise EngineError(f"{self._work.choice.words} is gone ({error})") from error


class RemoteLeaves(RemoteEngine, LeafEngine):
    """Nodes of a cluster that look at leaves.

    Args:
        parts: Of the spec.
        work: How.
    """

    def __init__(self, parts: SpecParts, work: LeafWork) -> None:
        super().__init__(work)
        self._parts = parts

    def aim(self, dataset: str, scans: Mapping[str, Scan], stamps: Stamps, files: StateFiles | None) -> None:
        self.job = LeafJob(shared(self._parts, [dataset]), {dataset: stamps}, dict(scans)).packed


def _outcome(told: Mapping[str, Any], blocks: Sequence[bytes]) -> PieceOutcome:
    """Outcome as a node tells it, with the blocks of bytes that came with it."""
    number = int(told["leaf"])
    if "lost" in told:
        return PieceOutcome(number, lost=told["lost"])
    if "error" in told:
        return PieceOutcome(number, error=KINDS.get(told["error"], WorkerError)(told["message"]))
    return PieceOutcome(number, told["rows"], blocks, told.get("beside", {}))


def shared(parts: SpecParts, datasets: Sequence[str], models: Sequence[str] = ()) -> SpecParts:
    """Parts of a spec as nodes get them.

    Rows that this machine keeps stay here. Of secrets the names go along that these datasets need: a node takes the
    values from its own environment. The objects that were listed of these datasets go along too.
    """
    shown = {name: parts.datasets[name] for name in datasets}
    needed = {variable for one in shown.values() for variable in one.secrets_read()}
    access = replace(parts.access, folder=parts.access.folder.resolve(), env=parts.access.env & needed, stamps={})
    for one in shown.values():
        if stamps := one.stamps(parts.access):
            one.keep_stamps(access, stamps)
    return SpecParts(
        {name: parts.models[name] for name in models}, shown, parts.slices if models else {}, access,
        foreign_code=parts.foreign_code,
    )  # fmt: skip


def driver_child(work: LeafWork) -> Child:
    """A driver of the cluster that the work names.

    Args:
        work: How leaves are looked at.
    """
    job = DriverJob(work.choice, work.environment, work.limits.time_s, work.needs)
    return Child(
        "evalspec.running.engines.driver",
        job,
        limits=Limits(),
        log=work.log("driver"),
        environment={**work.environment, **DRIVER_ENVIRONMENT},
    )

"""Dask: tasks on the workers of a scheduler."""

from __future__ import annotations

import contextlib
import queue
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as Late
from typing import Any

from evalspec.errors import EngineError
from evalspec.running.engines import node
from evalspec.running.engines.choice import EngineChoice
from evalspec.running.engines.cluster import Cluster, ClusterNode, Needs, TaskEnd

CONNECT_S = 20.0
GET_S = 60.0
"""Longest time for the states of a leaf to come."""


class _Sent:
    """A function that travels as it is, not by its name."""

    def __init__(self, function: Callable[..., bytes]) -> None:
        self._function = function

    def __call__(self, *arguments: object) -> bytes:
        return self._function(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        import pickle

        import cloudpickle

        return pickle.loads, (cloudpickle.dumps(self._function),)


class DaskCluster(Cluster):
    """Workers of a Dask scheduler.

    Args:
        choice: The scheduler's address.
        environment: Not used: a worker has that of whoever started it.
        needs: What a task takes; a worker has the GPU that whoever started it gave to it.

    Raises:
        EngineError: It can't be reached.
    """

    name = "dask"

    def __init__(self, choice: EngineChoice, environment: Mapping[str, str], needs: Needs) -> None:
        import cloudpickle
        import distributed

        self.version = str(distributed.__version__)
        self._address, self._needs = choice.address, needs
        self._tasks: dict[str, tuple[int, Any]] = {}
        self._job: tuple[bytes, Any] = (b"", None)
        """A job, and what workers take it from: it is long where many objects were listed."""
        self._events: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        """Tasks that have ended: key, and why it was lost, if it was."""
        cloudpickle.register_pickle_by_value(node)
        try:
            self._client = distributed.Client(choice.address, timeout=CONNECT_S, set_as_default=False)
            self._client.subscribe_topic("all", self._heard)
        except (OSError, Late) as error:
            raise EngineError(f"dask at {choice.address} can't be reached: {error or 'no answer'}") from error

    def nodes(self) -> dict[str, ClusterNode]:
        threads: Mapping[str, int] = self._asked(self._client.nthreads)
        each = {address: _at_once(int(count), self._needs) for address, count in threads.items()}
        return {address: ClusterNode(_plain(address), count) for address, count in each.items()}

    def survey(self, packed: bytes, within_s: float) -> dict[str, bytes | str]:
        answers = self._asked(self._client.run, _Sent(node.survey), packed, on_error="return")
        return {
            address: one if isinstance(one, bytes) else f"{type(one).__name__}: {one}"
            for address, one in answers.items()
        }

    def submit(self, leaf: int, packed: bytes, start: int, stop: int) -> None:
        if self._job[0] != packed:
            # A task, so that another worker has it when the one that had it is lost.
            self._job = (
                packed,
                self._client.submit(_Sent(node.handed_on), packed, key=f"evalspec-job-{uuid.uuid4().hex}"),
            )
        key = f"evalspec-leaf-{leaf}-{uuid.uuid4().hex}"
        future = self._client.submit(_Sent(node.look), self._job[1], start, stop, key=key, pure=False, retries=0)
        self._tasks[key] = leaf, future
        future.add_done_callback(lambda _: self._events.put((key, "")))

    def ended(self, wait_s: float) -> Sequence[TaskEnd]:
        ends: list[TaskEnd] = []
        with contextlib.suppress(queue.Empty):
            key, lost = self._events.get(timeout=wait_s)
            while True:
                if key in self._tasks:
                    ends.append(self._end(key, lost))
                key, lost = self._events.get_nowait()
        return ends

    def _end(self, key: str, lost: str) -> TaskEnd:
        leaf, future = self._tasks.pop(key)
        if lost:
            # Whoever asked has it run again, and not the scheduler.
            future.cancel()
            return TaskEnd(leaf, None, lost)
        if future.status in ("cancelled", "lost"):
            raise self._gone(f"a task of it is {future.status}")
        try:
            answer: bytes = future.result(timeout=GET_S)
        except Exception as error:  # noqa: BLE001  # of whatever kind: a node raised it, or died with the answer
            future.cancel()
            return TaskEnd(leaf, None, f"{type(error).__name__}: {error}"[:300])
        return TaskEnd(leaf, answer)

    def _heard(self, event: tuple[float, object]) -> None:
        """Note tasks whose worker was lost; the scheduler's events come in a thread of the client."""
        told = event[1]
        if not isinstance(told, Mapping) or told.get("action") != "remove-worker":
            return
        for field in ("processing-tasks", "lost-computed-tasks"):
            for key in told.get(field) or ():
                self._events.put((str(key), f"worker {_plain(str(told.get('worker')))} was lost"))

    def cancel(self, leaf: int) -> None:
        for key, (other, future) in list(self._tasks.items()):
            if other == leaf:
                future.cancel()
                del self._tasks[key]

    def close(self) -> None:
        self._client.close(timeout=5)

    def _asked(self, function: Callable[..., Any], *arguments: object, **how: object) -> Any:
        try:
            return function(*arguments, **how)
        except (OSError, Late, RuntimeError) as error:
            raise self._gone(error) from error

    def _gone(self, why: object) -> EngineError:
        return EngineError(f"dask at {self._address} is gone: {why}")


def _at_once(threads: int, needs: Needs) -> int:
    """Tasks that a worker with so many threads runs at once."""
    return 1 if needs.gpus else max(1, threads // needs.cpus)


def _plain(address: str) -> str:
    """An address without its scheme."""
    return address.rpartition("//")[2]

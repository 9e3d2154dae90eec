"""A cluster in this process: leaves end in any order, and nodes are lost as a test has it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from evalspec.errors import EngineError
from evalspec.running.children.messages import BLOCKS
from evalspec.running.engines import node, remote
from evalspec.running.engines.cluster import ClusterNode, TaskEnd
from evalspec.running.engines.driver import Driver
from evalspec.running.engines.engine import LeafWork

MINE = node.versions()


@dataclass
class FakeCluster:
    """Nodes that are none.

    Args:
        there: Nodes, by the name that each has for itself.
        versions: Of a node, where they are others than here.
        loses: Told of a leaf and how often it was begun; True: it is lost, and so is its node, if there is another one.
        breaks: Ends after so many leaves; None: never.
        seed: Of the order.
    """

    there: dict[str, int] = field(default_factory=lambda: {"n1": 2, "n2": 1})
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    loses: Callable[[int, int], bool] = lambda leaf, times: False
    breaks: int | None = None
    seed: int = 0
    name: str = "fake"
    version: str = "1.0"

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.tasks: dict[int, tuple[bytes, int, int]] = {}
        self.begun: dict[int, int] = {}
        self.looked: list[int] = []
        self.closed = False
        self.most = 0

    def nodes(self) -> dict[str, ClusterNode]:
        return {name: ClusterNode(name.upper(), cpus) for name, cpus in self.there.items()}

    def survey(self, packed: bytes, within_s: float) -> Mapping[str, bytes | str]:
        return {name: self._on(name, lambda: node.survey(packed)) for name in self.there}

    def submit(self, leaf: int, packed: bytes, start: int, stop: int) -> None:
        assert leaf not in self.tasks
        self.tasks[leaf] = packed, start, stop
        self.begun[leaf] = self.begun.get(leaf, 0) + 1
        self.most = max(self.most, len(self.tasks))

    def ended(self, wait_s: float) -> Sequence[TaskEnd]:
        if self.breaks is not None and len(self.looked) >= self.breaks:
            raise EngineError("fake is gone")
        if not self.tasks:
            return []
        leaf = self.rng.choice(list(self.tasks))
        task = self.tasks.pop(leaf)
        place = self.rng.choice(list(self.there))
        if self.loses(leaf, self.begun[leaf]):
            if len(self.there) > 1:
                del self.there[place]
            return [TaskEnd(leaf, None, f"node {place.upper()} died")]
        self.looked.append(leaf)
        # It says it twice: as an engine that had given up a node too early may.
        end = TaskEnd(leaf, self._on(place, lambda: node.look(*task)))
        return [end, end]

    def cancel(self, leaf: int) -> None:
        self.tasks.pop(leaf, None)

    def close(self) -> None:
        self.closed = True

    def _on(self, place: str, function: Callable[[], bytes]) -> bytes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node, "here", lambda: place)
            patch.setattr(node, "versions", lambda: MINE | self.versions.get(place, {}))
            return function()


class InProcess:
    """A driver that is no child; what goes to and fro must be what messages hold."""

    def __init__(self, cluster: FakeCluster, time_s: float = 60.0) -> None:
        self._driver = Driver(cluster, time_s)

    def ask(self, question: dict[str, Any], *, time_s: float | None = None) -> dict[str, Any]:
        answer = self._driver.handle(json.loads(json.dumps(question)), lambda *_: None)
        blocks = answer.pop(BLOCKS, [])
        assert all(isinstance(one, bytes) for one in blocks)
        return json.loads(json.dumps(answer)) | {BLOCKS: blocks}

    def close(self) -> None:
        """Nothing is left."""


def use(patch: pytest.MonkeyPatch, cluster: FakeCluster, time_s: float = 60.0) -> FakeCluster:
    """Have leaves looked at by this cluster, whatever address is named."""

    def started(work: LeafWork) -> InProcess:
        return InProcess(cluster, time_s)

    patch.setattr(remote, "driver_child", started)
    return cluster

"""A child that is the driver of a cluster: it may be ended by the engine, which must not end a run."""

from __future__ import annotations

import base64
import json
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import util
from typing import Any

from evalspec.errors import EngineError
from evalspec.running.children.child import Handler
from evalspec.running.children.messages import BLOCKS, Message, Progress
from evalspec.running.engines import node
from evalspec.running.engines.choice import EngineChoice
from evalspec.running.engines.cluster import Cluster, ClusterNode, Needs, TaskEnd

WAIT_S = 1.0
"""Longest time for an answer while no leaf ends."""
LOOK_EVERY_S = 5.0
"""Time between two looks at which nodes are there, while none is lost."""
EMPTY_S = 30.0
"""Longest time without a node."""
SURVEY_S = 60.0
KNOCK_S = 10.0
PACKAGES = {"ray": "ray", "dask": "distributed"}


@dataclass(frozen=True, slots=True)
class DriverJob:
    """Job of a driver.

    Args:
        choice: The engine.
        environment: Of the processes that look at leaves, where the engine hands one on.
        time_s: Longest time for a leaf.
        needs: What each takes of a node.
    """

    choice: EngineChoice
    environment: Mapping[str, str]
    time_s: float
    needs: Needs = field(default_factory=Needs)


def start(job: DriverJob) -> Handler:
    """The handler of this child."""
    return Driver(connected(job.choice, job.environment, job.needs), job.time_s).handle


def connected(choice: EngineChoice, environment: Mapping[str, str], needs: Needs) -> Cluster:
    """The cluster.

    Raises:
        EngineError: Its package is not installed, or it can't be reached.
    """
    package = PACKAGES[choice.name]
    if util.find_spec(package) is None:
        raise EngineError(
            f"--engine {choice.name} needs the package {package}: pip install 'evalspec-gate[{choice.name}]'"
        )
    _knock(choice)
    if choice.name == "ray":
        from evalspec.running.engines.ray_cluster import RayCluster

        return RayCluster(choice, environment, needs)
    from evalspec.running.engines.dask_cluster import DaskCluster

    return DaskCluster(choice, environment, needs)


def _knock(choice: EngineChoice) -> None:
    """Stop where nobody listens: a client of Ray would try for minutes, and then end its process.

    Raises:
        EngineError: Nobody does.
    """
    host, _, port = choice.address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except OSError as error:
        raise EngineError(
            f"{choice.words} can't be reached: {error.strerror or error}; start the cluster, or name its address"
        ) from error


class Driver:
    """Hands leaves to a cluster, and says what became of them.

    Args:
        cluster: It.
        time_s: Longest time for a leaf.
    """

    def __init__(self, cluster: Cluster, time_s: float) -> None:
        self._cluster = cluster
        self._time_s = time_s
        self._packed = b""
        self._since: dict[int, float] = {}
        self._known: dict[str, str] = {}
        """Nodes that are fit, or not held to be: what they are called, by what they call themselves."""
        self._there: Mapping[str, ClusterNode] = {}
        self._seen_s = self._looked_s = time.monotonic()

    def handle(self, question: Message, progress: Progress) -> Message:
        """``open``, ``look`` or ``close``."""
        if question["do"] == "open":
            return self._open(base64.b64decode(question.get("job", "")), refuses=question.get("refuses", True))
        if question["do"] == "close":
            self._cluster.close()
            return {}
        if question["job"]:
            self._packed = base64.b64decode(question["job"])
        for leaf, first, stop in question["leaves"]:
            self._since[leaf] = time.monotonic()
            self._cluster.submit(leaf, self._packed, first, stop)
        return self._ended()

    def _open(self, packed: bytes, *, refuses: bool) -> Message:
        """Facts about the cluster.

        Raises:
            EngineError: It has no node, or one that can't look at leaves as this process would.
        """
        self._look_around()
        told = self._surveyed(packed)
        if refuses and not told:
            raise EngineError(f"{self._cluster.name} has no node with a processor; start one and try again")
        if refuses:
            self._refuse(told)
        return {
            "name": self._cluster.name, "version": self._cluster.version, "nodes": told, "slots": self._slots,
            "mine": node.versions(),
        }  # fmt: skip

    @property
    def _slots(self) -> int:
        return sum(one.cpus for one in self._there.values())

    def _surveyed(self, packed: bytes = b"") -> list[dict[str, Any]]:
        """Facts about each node."""
        answers = self._cluster.survey(packed, SURVEY_S)
        # One that was lost meanwhile is none that can't be asked.
        self._there = nodes = self._cluster.nodes()
        told = []
        for place, answer in answers.items():
            if place not in nodes:
                continue
            facts = {"failed": answer} if isinstance(answer, str) else unframed(answer)[0]
            self._known[place] = nodes[place].name
            told.append(facts | {"name": nodes[place].name, "cpus": nodes[place].cpus})
        return sorted(told, key=lambda one: str(one["name"]))

    def _refuse(self, told: Sequence[Mapping[str, Any]]) -> None:
        """Stop where a node would not look at leaves as this process does."""
        mine = node.versions()
        problems = [said for one in told if (said := unlike(one, mine))]
        if problems:
            more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
            raise EngineError(f"{'; '.join(problems[:3])}{more}; install the same versions on every node")

    def _ended(self) -> Message:
        ends = [*self._late(), *self._cluster.ended(WAIT_S)]
        answers = []
        for one in ends:
            if self._since.pop(one.leaf, None) is not None:
                answers.append((one, *((None, []) if one.answer is None else unframed(one.answer))))
        if any(header is None for _, header, _ in answers) or time.monotonic() - self._looked_s > LOOK_EVERY_S:
            self._look_around()
        if any(header is not None and header["node"] not in self._known for _, header, _ in answers):
            # It has joined since; what it answered doesn't count before it is known to be fit.
            self._look_around()
            self._refuse(self._surveyed())
            answers = [self._from_known(*one) for one in answers]
        blocks = [block for _, _, own in answers for block in own]
        finished = [self._said(end, header, len(own)) for end, header, own in answers]
        return {"finished": finished, "gone": self._gone(), "slots": self._slots, BLOCKS: blocks}

    def _from_known(
        self, end: TaskEnd, header: dict[str, Any] | None, blocks: list[bytes]
    ) -> tuple[TaskEnd, dict[str, Any] | None, list[bytes]]:
        """An answer, or none where its node was lost before it could be asked what it is."""
        if header is None or header["node"] in self._known:
            return end, header, blocks
        return TaskEnd(end.leaf, None, "its node was lost at once"), None, []

    def _late(self) -> list[TaskEnd]:
        late = [leaf for leaf, since in self._since.items() if time.monotonic() - since > self._time_s]
        for leaf in late:
            self._cluster.cancel(leaf)
        return [TaskEnd(leaf, None, f"no answer within {self._time_s:g} s") for leaf in late]

    def _said(self, end: TaskEnd, header: Mapping[str, Any] | None, blocks: int) -> dict[str, Any]:
        if header is None:
            return {"leaf": end.leaf, "lost": end.lost, "blocks": 0}
        name = self._known.get(str(header["node"]), str(header["node"]))
        if "crash" in header:
            return {"leaf": end.leaf, "lost": f"node {name}: {header['crash']}", "blocks": 0}
        if "unfit" in header:
            return {"leaf": end.leaf, "error": "InputError", "message": f"node {name}: {header['unfit']}", "blocks": 0}
        kept = {key: header[key] for key in ("rows", "error", "message", "beside") if key in header}
        return {"leaf": end.leaf, "node": name, "blocks": blocks, **kept}

    def _look_around(self) -> None:
        """See which nodes are there.

        Raises:
            EngineError: None has been for long.
        """
        self._there = self._cluster.nodes()
        self._looked_s = time.monotonic()
        if self._there or not self._since:
            self._seen_s = self._looked_s
        elif self._looked_s - self._seen_s > EMPTY_S:
            raise EngineError(f"{self._cluster.name} has had no node for {EMPTY_S:.0f} s")

    def _gone(self) -> list[str]:
        """Names of nodes that were there."""
        return [name for place, name in self._known.items() if place not in self._there]


def unlike(told: Mapping[str, Any], mine: Mapping[str, str]) -> str:
    """Why a node is not fit, in words; empty: it is.

    Args:
        told: Facts about it.
        mine: Versions here.
    """
    if "failed" in told:
        return f"node {told['name']} can't be asked: {told['failed']}"
    others = [
        f"{name} {theirs} (here: {mine[name]})"
        for name, theirs in sorted(told["versions"].items())
        if theirs != mine.get(name)
    ]
    return f"node {told['name']} has {' and '.join(others)}" if others else ""


def unframed(answer: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Header and blocks of what a node said."""
    (length,) = struct.unpack_from("!Q", answer)
    header: dict[str, Any] = json.loads(answer[8 : 8 + length])
    blocks, place = [], 8 + length
    for size in header.pop("sizes"):
        blocks.append(answer[place : place + size])
        place += size
    return header, blocks

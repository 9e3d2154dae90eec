"""Actors of Ray that keep a model, with a Ray that is none: as many as there is room for, whatever nodes are lost."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from evalspec.running.engines.cluster import Needs
from evalspec.running.engines.ray_cluster import RayCluster


class FakeRay:
    """A Ray whose nodes and answers a test sets."""

    exceptions = type("Exceptions", (), {"RaySystemError": MemoryError})

    def __init__(self, nodes: dict[str, dict[str, float]]) -> None:
        self.there = nodes
        self.ready: dict[Any, bytes | Exception] = {}
        self.killed: list[FakeKeeper] = []
        self.numbers = itertools.count()

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"Alive": True, "Resources": has, "NodeID": name, "NodeManagerAddress": name, "NodeManagerPort": 1}
            for name, has in self.there.items()
        ]

    def wait(self, refs: Sequence[Any], num_returns: int = 1, timeout: float = 0) -> tuple[list[Any], list[Any]]:
        done = [ref for ref in refs if ref in self.ready][:num_returns]
        return done, [ref for ref in refs if ref not in done]

    def get(self, ref: Any, timeout: float) -> bytes:
        answer = self.ready[ref]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def put(self, packed: bytes) -> bytes:
        return packed

    def kill(self, keeper: FakeKeeper) -> None:
        self.killed.append(keeper)


class FakeMethod:
    def __init__(self, ray: FakeRay, name: str, asked: list[tuple[Any, ...]]) -> None:
        self.ray, self.name, self.asked = ray, name, asked

    def remote(self, *arguments: object) -> str:
        ref = f"{self.name} {next(self.ray.numbers)}"
        self.asked.append((ref, *arguments))
        return ref


class FakeKeeper:
    def __init__(self, ray: FakeRay) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.look = FakeMethod(ray, "look", self.asked)
        self.begun = FakeMethod(ray, "begun", [])


def cluster_of(ray: FakeRay, needs: Needs) -> tuple[RayCluster, list[FakeKeeper]]:
    made: list[FakeKeeper] = []

    class Actors:
        def remote(self) -> FakeKeeper:
            made.append(FakeKeeper(ray))
            return made[-1]

    cluster = RayCluster.__new__(RayCluster)
    cluster._ray, cluster._needs, cluster._keeper = ray, needs, Actors()
    cluster._keepers, cluster._begun, cluster._ranges, cluster._tasks, cluster._job = {}, {}, {}, {}, (b"", None)
    return cluster, made


def begin(ray: FakeRay, cluster: RayCluster, keeper: FakeKeeper) -> None:
    """The actor is on a node."""
    ray.ready[cluster._begun[keeper]] = b""


def end(ray: FakeRay, keeper: FakeKeeper, answer: bytes | Exception = b"answer") -> None:
    ray.ready[keeper.asked[-1][0]] = answer


def test_an_actor_answers_one_part_after_the_other() -> None:
    ray = FakeRay({"a": {"CPU": 1.0}, "b": {"CPU": 1.0}})
    cluster, made = cluster_of(ray, Needs(stays=True))
    cluster.submit(0, b"job", 0, 10)
    cluster.submit(1, b"job", 10, 20)
    end(ray, made[1])
    assert [(one.leaf, one.answer) for one in cluster.ended(0)] == [(1, b"answer")]
    cluster.submit(2, b"job", 20, 30)
    assert len(made) == 2 and made[1].asked[-1][1:] == (b"job", 20, 30)


def test_one_that_was_lost_answers_nothing_more() -> None:
    ray = FakeRay({"a": {"CPU": 2.0}})
    cluster, made = cluster_of(ray, Needs(stays=True))
    cluster.submit(0, b"job", 0, 10)
    cluster.submit(1, b"job", 10, 20)
    end(ray, made[0])
    cluster.ended(0)
    end(ray, made[1], RuntimeError("The actor died"))
    (one,) = cluster.ended(0)
    assert one.answer is None and "The actor died" in one.lost
    # Nor does one that has nothing to do, since it may have been on the same node.
    assert ray.killed == made and cluster._keepers == {}
    cluster.submit(1, b"job", 10, 20)
    assert len(made) == 3


def test_what_waits_for_a_node_that_is_gone_is_handed_on() -> None:
    ray = FakeRay({"a": {"CPU": 1.0}, "b": {"CPU": 1.0}})
    cluster, made = cluster_of(ray, Needs(stays=True))
    cluster.submit(0, b"job", 0, 10)
    cluster.submit(1, b"job", 10, 20)
    begin(ray, cluster, made[0])
    del ray.there["b"]
    assert list(cluster.ended(0)) == [] and ray.killed == [made[1]]
    assert made[0].asked[-1][1:] == (b"job", 10, 20)
    end(ray, made[0])
    ray.ready[made[0].asked[0][0]] = b"first"
    assert sorted((one.leaf, one.answer) for one in cluster.ended(0)) == [(0, b"first"), (1, b"answer")]
    # While none is anywhere, all wait: nodes may come.
    other, alone = cluster_of(ray, Needs(stays=True))
    other.submit(0, b"job", 0, 10)
    ray.there.clear()
    assert list(other.ended(0)) == [] and alone[0] not in ray.killed


@pytest.mark.parametrize(
    ("has", "needs", "at_once"),
    [
        ({"CPU": 8.0}, Needs(cpus=3), 2),
        ({"CPU": 8.0, "GPU": 2.0}, Needs(cpus=1, gpus=1), 2),
        ({"CPU": 1.0, "GPU": 2.0}, Needs(cpus=1, gpus=1), 1),
        ({"CPU": 8.0}, Needs(cpus=1, gpus=1), None),
        ({"CPU": 2.0}, Needs(cpus=4), None),
    ],
)
def test_a_node_has_room_for_what_is_needed(has: dict[str, float], needs: Needs, at_once: int | None) -> None:
    cluster, _ = cluster_of(FakeRay({"a": has}), needs)
    assert {name: one.cpus for name, one in cluster.nodes().items()} == ({} if at_once is None else {"a": at_once})

"""A cluster as its driver sees it: the few things that Ray and Dask are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node, or a process of one, that looks at leaves.

    Args:
        name: For people.
        cpus: Tasks that it runs at once.
    """

    name: str
    cpus: int


@dataclass(frozen=True, slots=True)
class Needs:
    """Resources that a task takes of a node.

    Args:
        cpus: Processors.
        gpus: GPUs.
        stays: Something is loaded for the first task that later ones use: the same few processes run all.
    """

    cpus: int = 1
    gpus: int = 0
    stays: bool = False


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """End of a task.

    Args:
        leaf: Number of its leaf.
        answer: As `evalspec.running.engines.node.look` gives it; None: it was lost.
        lost: Why, in words.
    """

    leaf: int
    answer: bytes | None
    lost: str = ""


class Cluster(Protocol):
    """Runs functions of `evalspec.running.engines.node` elsewhere, each task once: whoever asks runs it again.

    Each call raises an `EngineError` where the cluster is gone.
    """

    name: str
    version: str

    def nodes(self) -> Mapping[str, ClusterNode]:
        """Nodes that are there now, by what `evalspec.running.engines.node.here` says on them."""
        ...

    def survey(self, packed: bytes, within_s: float) -> Mapping[str, bytes | str]:
        """Answer of each node to a survey, or why there is none, in words.

        Args:
            packed: The job.
            within_s: Longest time for all of them.
        """
        ...

    def submit(self, leaf: int, packed: bytes, start: int, stop: int) -> None:
        """Have a leaf looked at."""
        ...

    def ended(self, wait_s: float) -> Sequence[TaskEnd]:
        """Tasks that have ended since; waits for the first one.

        Args:
            wait_s: Longest wait.
        """
        ...

    def cancel(self, leaf: int) -> None:
        """Give up a task; nothing is said of it any more."""
        ...

    def close(self) -> None:
        """Leave the cluster; tasks that still run are given up."""
        ...

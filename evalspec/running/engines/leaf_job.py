"""A leaf on a node of a cluster: the same files are made sure of, then its rows go by. Errors are values."""

from __future__ import annotations

import functools
import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from evalspec.errors import EvalspecError
from evalspec.imports import arrow_without_pandas
from evalspec.language.scans import Scan
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf import Looker
from evalspec.running.engines.stamps import Stamps, same_files, unchanged


class NodeJob(ABC):
    """A job of a node."""

    __slots__ = ()

    @property
    def packed(self) -> bytes:
        """As it travels, from the process that planned it to nodes that run the same code."""
        return pickle.dumps(self)

    @property
    @abstractmethod
    def changed(self) -> bool:
        """Files may be others than when they were made sure of."""

    @abstractmethod
    def make_sure(self) -> None:
        """Stop where other files are seen here than where the run was planned.

        Raises:
            InputError: They are.
        """

    @abstractmethod
    def look(self, packed: bytes, start: int, stop: int) -> tuple[dict[str, object], list[bytes]]:
        """Header and blocks of bytes for some rows.

        Args:
            packed: This job.
            start: The first row.
            stop: The row after the last.
        """


@dataclass(frozen=True, slots=True)
class LeafJob(NodeJob):
    """Job of a node: datasets, and what is to be seen of them.

    Args:
        parts: The datasets, and where they may be read from.
        stamps: Dataset: of its files, where the run was planned.
        scans: Key: what is to be seen of the only dataset; empty for a survey.
    """

    parts: SpecParts
    stamps: Mapping[str, Stamps]
    scans: Mapping[str, Scan]

    @property
    def changed(self) -> bool:
        return not unchanged(next(iter(self.stamps.values())))

    def make_sure(self) -> None:
        for name, stamps in self.stamps.items():
            same_files(self.parts.datasets[name], self.parts.access, stamps)

    def look(self, packed: bytes, start: int, stop: int) -> tuple[dict[str, object], list[bytes]]:
        """Rows of a leaf that went by, and the states of its summaries."""
        rows, states = _looker(packed).look(start, stop)
        return {"rows": rows}, [bytes(one) for one in states]


def look(packed: bytes, start: int, stop: int) -> tuple[dict[str, object], list[bytes]]:
    """States of the summaries of a leaf, or what else a job is to make of some rows.

    Returns:
        ``rows`` that went by, or ``unfit``, why this node can't look at any leaf, or ``error`` and ``message``, what
        is wrong with the rows; and the states.
    """
    try:
        job = _fitting(packed)
        if job.changed:
            job.make_sure()
    except EvalspecError as error:
        return {"unfit": str(error)}, []
    try:
        return job.look(packed, start, stop)
    except EvalspecError as error:
        return {"error": type(error).__name__, "message": str(error)}, []


@functools.lru_cache(maxsize=1)
def _fitting(packed: bytes) -> NodeJob:
    """The job, once the files that it is about are known to be the same here."""
    arrow_without_pandas()
    job: NodeJob = pickle.loads(packed)
    job.make_sure()
    return job


@functools.lru_cache(maxsize=1)
def _looker(packed: bytes) -> Looker:
    """Looks at all leaves of a job that this process is handed."""
    job: LeafJob = pickle.loads(packed)
    (name,) = job.stamps
    return Looker(job.parts, name, job.scans)


def unread(packed: bytes) -> dict[str, str]:
    """Datasets that this node can't read, or sees otherwise, each with the reason.

    Args:
        packed: A job without scans.
    """
    job: LeafJob = pickle.loads(packed)
    reasons = {}
    for name, stamps in job.stamps.items():
        try:
            same_files(job.parts.datasets[name], job.parts.access, stamps)
        except EvalspecError as error:
            reasons[name] = str(error)
    return reasons

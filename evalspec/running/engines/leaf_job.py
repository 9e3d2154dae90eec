"""A leaf on a node of a cluster: the same files are made sure of, then its rows go by.

Errors are values, and hold no secret of the node's environment.
"""

from __future__ import annotations

import functools
import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from evalspec.errors import EvalspecError, InvalidError
from evalspec.language.parts import Access
from evalspec.language.scans import Scan
from evalspec.redaction import Redaction
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.leaf import Looker
from evalspec.running.engines.stamps import Stamps, same_files, unchanged


class NodeJob(ABC):
    """A job of a node."""

    __slots__ = ()

    parts: SpecParts
    """Datasets, models, and where they may be read from."""

    @property
    def packed(self) -> bytes:
        """As it travels, from the process that planned it to nodes that run the same code."""
        return pickle.dumps(self)

    @property
    def access(self) -> Access:
        """Where its datasets may be read from."""
        return self.parts.access

    @property
    @abstractmethod
    def changed(self) -> bool:
        """Files may be others than when they were made sure of."""

    @abstractmethod
    def make_sure(self) -> None:
        """Stop where other files are seen here than where the run was planned, or objects can't be read from here.

        Raises:
            InputError: They are, or can't.
            InvalidError: An object has other contents than those that were listed.
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
        is wrong with the rows, or ``crash``; and the states.
    """
    job = _job(packed)
    try:
        why = _why_unfit(packed)
        header, blocks = (why, []) if why else job.look(packed, start, stop)
    except EvalspecError as error:
        header, blocks = _why_unfit(packed, anew=not isinstance(error, InvalidError)) or _told(error), []
    except Exception as error:  # noqa: BLE001  # the engine would wrap it, and say all of it
        header, blocks = {"crash": f"{type(error).__name__}: {error}"}, []
    return Redaction.of(job.access.secrets).value(header), blocks


def _why_unfit(packed: bytes, *, anew: bool = False) -> dict[str, object]:
    """Why this node can't look at the rows of a job; empty: it can.

    Args:
        packed: The job.
        anew: Whatever was made sure of before.
    """
    job = _job(packed)
    try:
        _made_sure(packed)
        if anew or job.changed:
            job.make_sure()
    except InvalidError as error:
        # It holds for every node.
        return _told(error)
    except EvalspecError as error:
        return {"unfit": str(error)}
    return {}


def _told(error: EvalspecError) -> dict[str, object]:
    return {"error": type(error).__name__, "message": str(error)}


@functools.lru_cache(maxsize=1)
def _job(packed: bytes) -> NodeJob:
    job: NodeJob = pickle.loads(packed)
    job.parts.spare_pandas()
    return job


@functools.lru_cache(maxsize=1)
def _made_sure(packed: bytes) -> None:
    """Stop unless what a job is about is the same here; it is looked at once."""
    _job(packed).make_sure()


@functools.lru_cache(maxsize=1)
def _looker(packed: bytes) -> Looker:
    """Looks at all leaves of a job that this process is handed."""
    job = _job(packed)
    assert isinstance(job, LeafJob)
    (name,) = job.stamps
    return Looker(job.parts, name, job.scans)


def unread(packed: bytes) -> dict[str, str]:
    """Datasets that this node can't read, or sees otherwise, each with the reason.

    Args:
        packed: A job without scans.
    """
    job: LeafJob = pickle.loads(packed)
    hidden, reasons = Redaction.of(job.access.secrets), {}
    for name, stamps in job.stamps.items():
        try:
            same_files(job.parts.datasets[name], job.parts.access, stamps)
        except EvalspecError as error:
            reasons[name] = hidden.text(str(error))
    return reasons

"""A look at the engine before a run begins: a cluster that can't look at leaves as this machine would is refused."""

from __future__ import annotations

import base64
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.errors import EngineError, WorkerError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import plural
from evalspec.language.parts import Access, Dataset
from evalspec.running.children.jobs import SpecParts
from evalspec.running.engines.choice import EngineChoice
from evalspec.running.engines.driver import unlike
from evalspec.running.engines.engine import LeafWork
from evalspec.running.engines.leaf_job import LeafJob
from evalspec.running.engines.remote import OPEN_S, driver_child, shared
from evalspec.running.engines.stamps import stamps_of
from evalspec.version import __version__


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node of a cluster.

    Args:
        name: For people.
        cpus: Leaves that it looks at at once.
        cpu: The kind of its processor; empty: it can't be asked.
        versions: Of what a leaf's summary rests on.
        unfit: Why it can't look at leaves as this machine would, in words; empty: it can.
        unread: Dataset: why the node can't read it; those that it can are not in it.
    """

    name: str
    cpus: int
    cpu: str
    versions: Mapping[str, str]
    unfit: str
    unread: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """An engine that has been opened.

    Args:
        name: Its name.
        version: Of its package.
        nodes: Its nodes.
    """

    name: str
    version: str
    nodes: Sequence[NodeFacts]

    @property
    def kinds(self) -> Mapping[str, int]:
        """Processors by kind."""
        counted: Counter[str] = Counter()
        for one in self.nodes:
            counted[one.cpu] += one.cpus
        return counted

    @property
    def size(self) -> str:
        """How large it is, for people."""
        cpus, kinds = sum(self.kinds.values()), len(self.kinds)
        kind = "one kind" if kinds == 1 else f"{kinds} kinds"
        return f"{plural(len(self.nodes), 'node')}, {plural(cpus, 'CPU')} of {kind}"

    @property
    def line(self) -> str:
        """The engine, for people."""
        return f"engine {self.name} {self.version}: {self.size}"

    @property
    def recorded(self) -> dict[str, Cell]:
        """Facts for the record."""
        return {
            "name": self.name, "version": self.version, "nodes": len(self.nodes), "cpus": sum(self.kinds.values()),
            "cpu_kinds": ", ".join(f"{count} x {kind}" for kind, count in sorted(self.kinds.items())),
        }  # fmt: skip


def opened(choice: EngineChoice) -> EngineFacts:
    """The engine, as it is fit for a run.

    Args:
        choice: A cluster.

    Raises:
        EngineError: It can't be reached, has no node, or has one with other versions.
    """
    return _asked(choice, {"do": "open"})


def surveyed(choice: EngineChoice, datasets: Mapping[str, Dataset], access: Access) -> EngineFacts:
    """The engine as it is, whether or not it is fit.

    Args:
        choice: A cluster.
        datasets: By name; each node is asked whether it sees their files as this machine does.
        access: Where they may be read from.

    Raises:
        EngineError: It can't be reached.
        InputError: A dataset can't be read here.
    """
    stamps = {name: stamps_of(one, access) for name, one in datasets.items()}
    parts = shared(SpecParts({}, dict(datasets), {}, access), list(datasets))
    packed = LeafJob(parts, stamps, {}).packed if datasets else b""
    job = base64.b64encode(packed).decode("ascii")
    return _asked(choice, {"do": "open", "refuses": False, "job": job})


def _asked(choice: EngineChoice, question: Mapping[str, Any]) -> EngineFacts:
    with tempfile.TemporaryDirectory() as folder:
        driver = driver_child(LeafWork(choice, Path(folder), "survey"))
        try:
            told = driver.ask(dict(question), time_s=OPEN_S)
            driver.ask({"do": "close"}, time_s=OPEN_S)
        except WorkerError as error:
            raise EngineError(f"{choice.words} can't be used ({error})") from error
        finally:
            driver.close()
    return EngineFacts(told["name"], told["version"], [_node(one, told["mine"]) for one in told["nodes"]])


def _node(told: Mapping[str, Any], mine: Mapping[str, str]) -> NodeFacts:
    return NodeFacts(
        name=told["name"], cpus=told["cpus"], cpu=told.get("cpu", ""), versions=told.get("versions", {}),
        unfit=unlike(told, mine), unread=told.get("unread", {}),
    )  # fmt: skip


def recorded(choice: EngineChoice, facts: EngineFacts | None, passes: Iterable[Mapping[str, Any]]) -> dict[str, Cell]:
    """Facts about the engine of a run, for its record; empty: the processes of the checks looked at all rows.

    Args:
        choice: The engine.
        facts: Of a cluster.
        passes: Notes on each pass over a dataset.
    """
    if not choice.apart:
        return {}
    told: dict[str, Cell] = {"name": "local", "version": __version__, "nodes": 1, "children": choice.children}
    noted = list(passes)
    taken, answered = ([one for one in noted if ("parts" in one) is parts] for parts in (False, True))
    parts: dict[str, Cell] = {
        "parts": sum(int(one["parts"]) for one in answered), "parts_kept": sum(int(one["kept"]) for one in answered),
    }  # fmt: skip
    return (
        (told if facts is None else facts.recorded)
        | (parts if answered else {})
        | {
            "leaves": sum(int(one["leaves"]) for one in taken),
            "leaves_kept": sum(int(one["kept"]) for one in taken),
            "leaf_rows": max((int(one["leaf_rows"]) for one in taken), default=None),
            "again": sum(int(one["again"]) for one in noted),
            "lost": ", ".join(dict.fromkeys(name for one in noted for name in one["lost"])),
        }
    )

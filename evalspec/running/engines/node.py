"""Functions that run on the nodes of a cluster.

They are sent there as they are: a node may lack this package, or have another version of it. So nothing here imports
more than the standard library before it is called, and nothing but bytes comes back.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import struct
import sys


def versions() -> dict[str, str]:
    """Versions here of all that a leaf's summary rests on; of this package also a digest of its code."""
    told = {"python": platform.python_version()}
    for name in ("numpy", "pyarrow"):
        try:
            told[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            told[name] = "none"
    place = importlib.util.find_spec("evalspec")
    if place is None or place.origin is None:
        return told | {"evalspec": "none"}
    digest, top = hashlib.sha256(), os.path.dirname(place.origin)
    for folder, below, files in os.walk(top):
        below.sort()
        for name in sorted(one for one in files if one.endswith(".py")):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                digest.update(os.path.relpath(path, top).encode() + b"\0" + file.read() + b"\0")
    version = importlib.import_module("evalspec.version").__version__
    return told | {"evalspec": f"{version}, code {digest.hexdigest()[:8]}"}


def here() -> str:
    """The node, as its engine tells nodes apart; empty: no engine runs this."""
    if "distributed" in sys.modules:
        try:
            return str(sys.modules["distributed"].get_worker().address)
        except ValueError:
            pass
    if "ray" in sys.modules:
        return str(sys.modules["ray"].get_runtime_context().get_node_id())
    return ""


def framed(header: dict[str, object], blocks: list[bytes]) -> bytes:
    """A header of JSON and blocks of bytes, as one."""
    told = json.dumps(header | {"sizes": [len(one) for one in blocks]}).encode()
    return b"".join([struct.pack("!Q", len(told)), told, *blocks])


def survey(packed: bytes = b"") -> bytes:
    """Facts about this node; with a job, also which of its datasets can be read here.

    Args:
        packed: A `evalspec.running.engines.leaf_job.LeafJob`; empty: none.
    """
    facts: dict[str, object] = {"node": here(), "versions": versions(), "cpu": cpu()}
    if packed:
        try:
            facts["unread"] = importlib.import_module("evalspec.running.engines.leaf_job").unread(packed)
        except Exception as error:  # noqa: BLE001  # what a node lacks is the answer
            facts["unread"] = {"": f"{type(error).__name__}: {error}"}
    return framed(facts, [])


def handed_on(packed: bytes) -> bytes:
    """A job as it came, for an engine that hands on what tasks have made."""
    return packed


def look(packed: bytes, start: int, stop: int) -> bytes:
    """States of the summaries of a leaf, or why there are none.

    Args:
        packed: A `evalspec.running.engines.leaf_job.LeafJob`.
        start: The leaf's first row.
        stop: The row after its last.
    """
    try:
        header, blocks = importlib.import_module("evalspec.running.engines.leaf_job").look(packed, start, stop)
    except Exception as error:  # noqa: BLE001  # errors are values: the engine would wrap them, and run them again
        header, blocks = {"crash": f"{type(error).__name__}: {error}"[:500]}, []
    return framed({"node": here(), **header}, blocks)


class Keeper:
    """An actor: what `look` has loaded stays for the next rows."""

    def begun(self) -> None:
        """Say that it is somewhere."""

    def look(self, packed: bytes, start: int, stop: int) -> bytes:
        """As `look`."""
        return look(packed, start, stop)


def cpu() -> str:
    """The kind of its processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

"""Interference while measuring: garbage collection, other processes, stolen time."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from evalspec.clocks import now_ns
from evalspec.evidence.frozen import Cell

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLOW = 0.99


class Watch:
    """Counts from entering to leaving; may be entered again, and adds up.

    Python's garbage collector stays on, as it does when serving, but what was made before is set aside, so that a
    collection looks at the model's own objects only.
    """

    def __init__(self) -> None:
        self._collections: list[tuple[int, int]] = []
        self._began = 0
        self._switches = 0
        self._stolen_s = 0.0
        self._at_start = (0, 0.0)

    def __enter__(self) -> Self:
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._on_collection)
        self._at_start = _counters()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        switches, stolen = _counters()
        self._switches += switches - self._at_start[0]
        self._stolen_s += stolen - self._at_start[1]
        gc.callbacks.remove(self._on_collection)
        gc.unfreeze()

    def details(self) -> dict[str, Cell]:
        """As facts of a run."""
        return {
            "gc": "on, older objects set aside" if gc.isenabled() else "off",
            "gc_collections": len(self._collections),
            "gc_ms": sum(end - start for start, end in self._collections) / 1e6,
            "involuntary_switches": self._switches,
            "stolen_cpu_s": self._stolen_s,
        }

    def share_of_slow(self, from_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> float | None:
        """Share of the slowest hundredth of queries that a garbage collection fell into.

        Args:
            from_ns: shape (q,), on `evalspec.clocks.now_ns`.
            end_ns: shape (q,).

        Returns:
            None where there are too few queries to have a slowest hundredth.
        """
        took = end_ns - from_ns
        count = int((1 - SLOW) * len(took))
        if count == 0:
            return None
        slow = np.argpartition(took, len(took) - count)[-count:]
        if not self._collections:
            return 0.0
        starts, ends = np.array(self._collections, dtype=np.int64).T
        # Collections come one after the other: those begun before a query's end, less those over before its start.
        inside = np.searchsorted(starts, end_ns[slow], side="left") - np.searchsorted(ends, from_ns[slow], side="right")
        return float(np.mean(inside > 0))

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._began = now_ns()
        else:
            self._collections.append((self._began, now_ns()))


def _counters() -> tuple[int, float]:
    """Times that this process was put off the CPU, and seconds that a hypervisor took from the machine."""
    import psutil

    switches = psutil.Process().num_ctx_switches().involuntary
    return int(switches), float(getattr(psutil.cpu_times(), "steal", 0.0))

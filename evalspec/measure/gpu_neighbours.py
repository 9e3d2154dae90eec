"""Work of others on the GPUs that a process uses, while it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from evalspec.measure._nvml import Nvml
from evalspec.measure._source import Absent, Source

MOST_GPUS = 64
SHARE = "gpu_others_share"
Opened = Callable[[int, int], Source]
"""Process and number of a GPU to its counters; raises `Absent`."""


class GpuNeighbours:
    """Shares of time in which kernels of others ran on the GPUs of a process and all that it started.

    A GPU on which others are, and it is not, tells nothing.

    Args:
        opened: Opens the counters of a GPU.
    """

    def __init__(self, opened: Opened = Nvml) -> None:
        self._opened = opened
        self._pid: int | None = None
        self._gpus: list[Source] = []
        self._seen: dict[int, list[float]] = {}

    def look(self, pid: int) -> None:
        """Read once what was used since the look before.

        Args:
            pid: The process of now.
        """
        if pid != self._pid:
            self.close()
            self._pid, self._gpus = pid, self._all(pid)
        for number, gpu in enumerate(self._gpus):
            share = gpu.read().get(SHARE, math.nan)
            if math.isfinite(share):
                self._seen.setdefault(number, []).append(share)

    def _all(self, pid: int) -> list[Source]:
        found: list[Source] = []
        for number in range(MOST_GPUS):
            try:
                found.append(self._opened(pid, number))
            except Absent:
                break
        return found

    def told(self) -> Mapping[str, float | None]:
        """The mean share, on the GPU where it is largest; None: nobody can tell, or there is no GPU."""
        return {SHARE: max((sum(many) / len(many) for many in self._seen.values()), default=None)}

    def close(self) -> None:
        """Give back what it holds."""
        for gpu in self._gpus:
            gpu.close()
        self._pid, self._gpus = None, []

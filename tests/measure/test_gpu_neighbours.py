"""Work of others on the GPUs of a process, told by stand-ins of their counters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from evalspec.measure._source import Absent
from evalspec.measure.gpu_neighbours import GpuNeighbours


class Gpu:
    """Counters of a GPU: what each look reads."""

    def __init__(self, shares: Sequence[float]) -> None:
        self.sources: Mapping[str, str] = {}
        self._shares = iter(shares)
        self.closed = False

    def read(self) -> Mapping[str, float]:
        return {"gpu_others_share": next(self._shares), "gpu_power_w": 300.0}

    def close(self) -> None:
        self.closed = True


def watched(*gpus: Gpu, looks: int) -> GpuNeighbours:
    def opened(pid: int, number: int) -> Gpu:
        if number >= len(gpus):
            raise Absent("NVML shows no such GPU")
        return gpus[number]

    found = GpuNeighbours(opened)
    for _ in range(looks):
        found.look(17)
    found.close()
    return found


def test_the_gpu_that_others_use_most_counts() -> None:
    gpus = Gpu([0.0, 0.0, 0.2]), Gpu([0.5, 0.75, 0.25]), Gpu([math.nan] * 3)
    assert watched(*gpus, looks=3).told() == {"gpu_others_share": 0.5}
    assert all(one.closed for one in gpus)


def test_where_ours_can_t_be_told_from_theirs_nothing_is_said() -> None:
    assert watched(Gpu([math.nan, math.nan]), looks=2).told() == {"gpu_others_share": None}
    assert watched(looks=2).told() == {"gpu_others_share": None}
    assert GpuNeighbours().told() == {"gpu_others_share": None}


def test_a_process_that_is_started_again_is_looked_at_anew() -> None:
    asked = []

    def opened(pid: int, number: int) -> Gpu:
        asked.append((pid, number))
        if number:
            raise Absent("one GPU")
        return Gpu([0.5, 0.5])

    found = GpuNeighbours(opened)
    for pid in (1, 1, 2):
        found.look(pid)
    assert asked == [(1, 0), (1, 1), (2, 0), (2, 1)] and found.told() == {"gpu_others_share": 0.5}

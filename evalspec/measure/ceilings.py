"""Ceilings of a device, measured on it: operations by a short product, bytes by a copy.

References:
    Williams, Waterman, Patterson (2009), Roofline, CACM 52(4). The Empirical Roofline Tool measures ceilings likewise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from evalspec.clocks import now_ns
from evalspec.measure.engines import Call, Engine

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOST_SIZES = (256, 512, 1024, 2048)
GPU_SIZES = (1024, 2048, 4096, 8192)
LONGEST_CALL_S = 0.1
"""A product of twice the size, 8 times the operations, is left out where it would take longer."""
LEAST_REPEATS = 5
MOST_REPEATS = 2000
GEMM_S = 0.15
"""Spent on each size."""
COPY_S = 0.25
CACHES_OVER = 4
"""A copy from so many times the last cache on runs from memory."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The highest rate that was reached, and the rates around it.

    Args:
        what: ``fp32 GEMM 1024``, ``copy of 64 MiB``.
        rates: shape (k,), FLOP/s or B/s of each repetition at the best size.
        sizes: Size: best rate at it.
    """

    what: str
    rates: NDArray[np.float64]
    sizes: dict[int, float] = field(default_factory=dict)

    @property
    def best(self) -> float:
        """The ceiling: what was reached once can be reached."""
        return float(self.rates.max())

    @property
    def median(self) -> float:
        """Median: reached half of the time."""
        return float(np.median(self.rates))

    @property
    def spread(self) -> float:
        """How far half of the repetitions fell short of the ceiling, as a share of it."""
        return 1.0 - self.median / self.best


def gemm_ceiling(engine: Engine, precision: str, sizes: tuple[int, ...] | None = None) -> Ceiling | None:
    """Operations a second of square products: the best over several sizes.

    Args:
        engine: Of the device.
        precision: ``fp32``, ``bf16``, ``int8``, ...
        sizes: Rows of the matrices, rising; default: what suits the device.

    Returns:
        None where the device has no product in this precision.
    """
    if sizes is None:
        sizes = HOST_SIZES if engine.name.endswith("on cpu") else GPU_SIZES
    found: dict[int, NDArray[np.float64]] = {}
    for n in sizes:
        call = engine.gemm(precision, n)
        if call is None:
            continue
        took = _repeated(engine, call, GEMM_S)
        found[n] = 2.0 * n**3 / took
        if 8 * took.min() > LONGEST_CALL_S:
            break
    if not found:
        return None
    best = max(found, key=lambda n: float(found[n].max()))
    return Ceiling(f"{precision} GEMM {best}", found[best], {n: float(rates.max()) for n, rates in found.items()})


def copy_ceiling(engine: Engine, traffic_bytes: float | None = None) -> Ceiling:
    """Bytes a second of a copy, read and written bytes together.

    Args:
        engine: Of the device.
        traffic_bytes: Bytes that the copy reads and writes; None: so many that they come from memory.
    """
    largest = CACHES_OVER * engine.cache_bytes
    size = largest if traffic_bytes is None else min(largest, max(engine.smallest_copy_bytes, int(traffic_bytes / 2)))
    took = _repeated(engine, engine.copy(size), COPY_S)
    return Ceiling(f"copy of {size / 2**20:.3g} MiB", 2.0 * size / took)


def _repeated(engine: Engine, call: Call, seconds: float) -> NDArray[np.float64]:
    """Seconds of each repetition, for about so long; the first, which warms up, is left out."""
    count_each = engine.at_once

    def several(index: int) -> object:
        return [call(index) for _ in range(count_each)]

    together = call if count_each == 1 else several
    engine.times(together, 1)
    until = now_ns() + int(seconds * 1e9)
    found: list[NDArray[np.float64]] = []
    count = 0
    while count < LEAST_REPEATS or (now_ns() < until and count < MOST_REPEATS):
        found.append(engine.times(together, LEAST_REPEATS).best / count_each)
        count += LEAST_REPEATS
    took = np.concatenate(found)
    # A clock that stood still says nothing of the rate.
    return np.maximum(took, 1e-9)

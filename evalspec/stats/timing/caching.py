"""Speedup of answers to an item that the model was asked for before."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evalspec.evidence.estimate import Estimate
from evalspec.stats.means.mean import t_mean
from evalspec.stats.timing.processes import OverUnits

BLOCKS = 20
ALLOWED = 0.10
"""Share of the time that asking again may save (LoadGen's TEST04)."""
FEWEST = 40
"""Pairs below which nothing is said."""


class Gain:
    """The share of its time that the second answer to an item saves: 1 - geometric mean of again / first.

    Args:
        first_ms: shape (k,), latency of each item when it is asked for first.
        again_ms: shape (k,), of the same items right afterwards.
    """

    def __init__(self, first_ms: ArrayLike, again_ms: ArrayLike) -> None:
        first, again = np.asarray(first_ms, dtype=np.float64), np.asarray(again_ms, dtype=np.float64)
        kept = np.isfinite(first) & np.isfinite(again) & (first > 0) & (again > 0)
        logs = np.log(again[kept] / first[kept])
        self.pairs = len(logs)
        """Items answered both times."""
        length = len(logs) // BLOCKS
        enough = self.pairs >= FEWEST
        blocks = logs[: BLOCKS * length].reshape(BLOCKS, length).mean(axis=1) if enough else np.empty(0)
        mean: Estimate = t_mean(blocks)
        self._ratio = OverUnits(mean, "blocks of items (log ratio of again to first)", log=True)

    @property
    def value(self) -> float | None:
        """Share saved; below 0 where the second answer takes longer."""
        ratio = self._ratio.value
        return None if ratio is None else 1.0 - ratio

    def at_least(self, confidence: float) -> float | None:
        """One-sided lower bound of the share saved; None for too few pairs."""
        ratio = self._ratio.bound(confidence, "upper")
        # Blocks that are all alike have no spread, and then the value is the bound.
        return self.value if ratio is None else 1.0 - ratio

    def caches(self, confidence: float, allowed: float = ALLOWED) -> bool:
        """More than ``allowed`` is saved: it remembers answers."""
        least = self.at_least(confidence)
        return least is not None and least > allowed


def caching_gain(first_ms: ArrayLike, again_ms: ArrayLike) -> Gain:
    """Gain in latency from asking for the same item again.

    Each item's two latencies stand next to each other in time, so that slow spells meet both. The mean log ratio of
    20 blocks of items in a row is held by Student's t: items that follow each other may share a slow spell.

    Args:
        first_ms: shape (k,), ms; infinite where the query failed.
        again_ms: shape (k,), of the same items.

    References:
        MLPerf Inference, compliance test TEST04: repeating one sample may be at most 10 % faster.
    """
    return Gain(first_ms, again_ms)

"""Latency after a step up: it must hold a threshold too, and may show a violation by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalspec.evidence.estimate import Side
from evalspec.stats.timing.percentile import Percentile
from evalspec.stats.timing.share_over import ShareOver


@dataclass(frozen=True)
class After:
    """A percentile, or a share over a deadline, of the queries after a step up.

    The step was found in the data that it then decides on. So a violation needs a cause beside it (a counter that
    says throttled) or other processes that did the same, and where there are some Student's t over them must show it.

    Args:
        look: Of those queries; one array per process that stepped.
        decides: A violation may be shown by it.
    """

    look: Percentile | ShareOver
    decides: bool

    @property
    def method(self) -> str:
        """Part that the queries after the step play in the decision."""
        count = len(self.look.processes)
        over = f", t over {count} processes" if count > 1 else ""
        side = f"also decides{over}" if self.decides else "must hold too"
        return f"the same for the {self.look.n:,} queries after a step up, which {side}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound of the look; from below the smaller of it and that of t."""
        own = self.look.bound(confidence, side)
        if side == "upper" or own is None or len(self.look.processes) < 2:
            return own
        over = self._t_bound(confidence)
        return None if over is None else min(own, over)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """p-value of the look; of a violation the larger of it and that of t."""
        own = self.look.p_value(threshold, side)
        if side == "upper" or own is None or len(self.look.processes) < 2:
            return own
        if isinstance(self.look, ShareOver):
            return max(own, self._t(self.look.deadline_ms, threshold))
        return max(own, self._t(threshold, 1.0 - self.look.p))

    def _t(self, deadline_ms: float, share: float) -> float:
        """Student's t: more than this share of the queries of a process is over the deadline."""
        from scipy.special import stdtr

        shares = self._shares(deadline_ms)
        error = float(shares.std(ddof=1)) / math.sqrt(len(shares))
        away = float(shares.mean()) - share
        if error == 0.0:
            return 0.0 if away > 0 else 1.0
        return float(stdtr(len(shares) - 1, -away / error))

    def _t_bound(self, confidence: float) -> float | None:
        from scipy.special import stdtrit

        if isinstance(self.look, ShareOver):
            shares = self._shares(self.look.deadline_ms)
            error = float(shares.std(ddof=1)) / math.sqrt(len(shares))
            return max(0.0, float(shares.mean()) - float(stdtrit(len(shares) - 1, confidence)) * error)
        every = np.sort(np.concatenate(self.look.processes))
        below, share, alpha = 0, 1.0 - self.look.p, 1.0 - confidence
        above = len(every)
        while below < above:
            middle = (below + above) // 2
            if self._t(float(np.nextafter(every[middle], -np.inf)), share) <= alpha:
                below = middle + 1
            else:
                above = middle
        return float(every[below - 1]) if below and math.isfinite(every[below - 1]) else None

    def _shares(self, deadline_ms: float) -> NDArray[np.float64]:
        return np.array([float((series > deadline_ms).mean()) for series in self.look.processes])

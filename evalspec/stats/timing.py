"""Statistics over fresh processes, pairs of processes and the course of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalspec.evidence.estimate import Side

DRIFT_FLOOR = 0.10
"""A change from start to end below this share is no drift, however certain it is."""
DRIFT_LEVEL = 0.01
POWER = 0.8
_MOST = 10_000_000


@dataclass(frozen=True)
class TMean:
    """A mean of independent values, one per process or pair, with Student's t.

    Args:
        values: shape (k,), in the scale on which they are averaged.
        method: How it is named in print.
        log: ``values`` are logarithms: value, bounds and thresholds are their exponentials.
    """

    values: NDArray[np.float64]
    method: str
    log: bool = False

    @property
    def n(self) -> int:
        """Processes or pairs."""
        return len(self.values)

    @property
    def value(self) -> float | None:
        """Mean, or geometric mean; None without values."""
        if not self.n:
            return None
        mean = float(self.values.mean())
        return math.exp(mean) if self.log else mean

    @property
    def _error(self) -> float | None:
        """Standard error; None where spread can't be seen."""
        if self.n < 2:
            return None
        error = float(self.values.std(ddof=1)) / math.sqrt(self.n)
        # Constant values say that the clock is too coarse or the values are copies, not that there is no error.
        return error if error > 1e-12 * max(1e-300, float(np.abs(self.values).max())) else None

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided t bound with k - 1 degrees of freedom; None for fewer than 2 values or constant ones."""
        from scipy.special import stdtrit

        error = self._error
        if error is None:
            return None
        reach = float(stdtrit(self.n - 1, confidence)) * error
        bound = float(self.values.mean()) + (reach if side == "upper" else -reach)
        return math.exp(bound) if self.log else bound

    def p_value(self, threshold: float, side: Side) -> float | None:
        """One-sided p-value of the t test against ``threshold``."""
        from scipy.special import stdtr

        error = self._error
        if error is None:
            return None
        if self.log and threshold <= 0:
            return 0.0 if side == "lower" else 1.0
        at = math.log(threshold) if self.log else threshold
        t = (float(self.values.mean()) - at) / error
        return float(stdtr(self.n - 1, t if side == "upper" else -t))

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Processes with which the side on which the mean lies is shown in 80 % of runs."""
        from scipy.stats import nct, t

        if self._error is None or (self.log and threshold <= 0):
            return None
        away = abs(float(self.values.mean()) - (math.log(threshold) if self.log else threshold))
        if away == 0:
            return None
        effect = away / float(self.values.std(ddof=1))

        def power(n: int) -> float:
            return float(nct.sf(t.isf(alpha, n - 1), n - 1, effect * math.sqrt(n)))

        high = 2
        while power(high) < POWER and high < _MOST:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if power(middle) >= POWER else (middle, high)
        return high


def over_processes(values: ArrayLike, *, what: str = "processes") -> TMean:
    """One number per fresh process: their mean with Student's t.

    Args:
        values: shape (k,), in the metric's unit.
        what: What each value comes from, for the name of the method.

    References:
        Georges, Buytaert, Eeckhout (2007), Statistically rigorous Java performance evaluation, OOPSLA.
    """
    kept = np.asarray(values, dtype=np.float64)
    return TMean(kept, f"t over {len(kept)} {what}")


@dataclass(frozen=True)
class PairedTiming:
    """A candidate beside a baseline in pairs of fresh processes. Implements `Comparison`.

    Args:
        candidate: shape (k,), one number per pair, such as the p99 of its blocks, ms.
        baseline: shape (k,), of the same pairs.
    """

    candidate: NDArray[np.float64]
    baseline: NDArray[np.float64]

    @property
    def baseline_value(self) -> float | None:
        """Geometric mean of the baseline over the pairs."""
        if not len(self.baseline) or not (self.baseline > 0).all():
            return None
        return float(np.exp(np.log(self.baseline).mean()))

    def difference(self, factor: float, margin: float) -> TMean:
        """Candidate - factor x baseline: t on the differences of the pairs."""
        return TMean(self.candidate - factor * self.baseline, f"t over differences of {len(self.candidate)} pairs")

    def ratio(self) -> TMean | None:
        """Candidate / baseline: t on the log ratio of each pair; None where a value is not positive."""
        if not ((self.candidate > 0).all() and (self.baseline > 0).all()):
            return None
        logs = np.log(self.candidate) - np.log(self.baseline)
        return TMean(logs, f"t over log ratios of {len(logs)} pairs", log=True)


def paired_log_ratio(candidate: ArrayLike, baseline: ArrayLike) -> PairedTiming:
    """Two models timed in pairs of fresh processes.

    Args:
        candidate: shape (k,), one quantile or rate per pair.
        baseline: shape (k,), of the same pairs.

    Raises:
        ValueError: The two have different lengths.

    References:
        Kalibera and Jones (2013), Rigorous benchmarking in reasonable time, ISMM.
    """
    a, b = np.asarray(candidate, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"{len(a)} values of the candidate and {len(b)} of the baseline are no pairs")
    return PairedTiming(a, b)


def block_medians(values: ArrayLike, blocks: int) -> NDArray[np.float64]:
    """Medians of equal blocks, in order; a rest shorter than a block is left out.

    Args:
        values: shape (q,).
        blocks: How many; fewer where there are fewer values.

    Returns:
        shape (blocks,).
    """
    kept = np.asarray(values, dtype=np.float64)
    count = min(blocks, len(kept))
    if not count:
        return np.empty(0)
    length = len(kept) // count
    medians: NDArray[np.float64] = np.median(kept[: count * length].reshape(count, length), axis=1)
    return medians


def block_cv(processes: Sequence[NDArray[np.float64]], blocks: int = 20) -> float | None:
    """Coefficient of variation of block medians, all processes together; None for fewer than 2 blocks.

    Args:
        processes: One array per process, shape (q,).
        blocks: Blocks over all processes.
    """
    each = max(1, round(blocks / max(1, len(processes))))
    medians = np.concatenate([block_medians(series, each) for series in processes] or [np.empty(0)])
    if len(medians) < 2 or medians.mean() <= 0:
        return None
    return float(medians.std(ddof=1) / medians.mean())


@dataclass(frozen=True)
class Drift:
    """Whether a run went on as it began.

    Args:
        change: Change from the start to the end of a process as a share of its level; 0.1 is 10 % slower.
        p_value: Two-sided, against no trend.
    """

    change: float
    p_value: float

    @property
    def direction(self) -> Literal["none", "up", "down"]:
        """Up or down where the change is both certain and over 10 %."""
        if self.p_value > DRIFT_LEVEL or abs(self.change) < DRIFT_FLOOR:
            return "none"
        return "up" if self.change > 0 else "down"

    @property
    def steady(self) -> bool:
        """No drift was shown."""
        return self.direction == "none"


def drift(processes: Sequence[NDArray[np.float64]], blocks: int = 10) -> Drift | None:
    """Whether latencies rise or fall in the course of their processes.

    Kendall's rank trend of each process's block medians, added up over the processes; the size is Theil and Sen's
    slope from the first to the last block, relative to the median, in the median process.

    Args:
        processes: One array per process, shape (q,), in order.
        blocks: Blocks in each process.

    Returns:
        None where no process has 4 blocks.

    References:
        Hirsch, Slack, Smith (1982), Techniques of trend analysis, Water Resources Research 18(1).
    """
    series = [m for m in (block_medians(process, blocks) for process in processes) if len(m) >= 4]
    if not series:
        return None
    from scipy.special import ndtr

    score = sum(float(_signs(medians).sum()) for medians in series)
    variance = sum(len(m) * (len(m) - 1) * (2 * len(m) + 5) / 18.0 for m in series)
    z = math.copysign(max(0.0, abs(score) - 1.0), score) / math.sqrt(variance)
    change = float(np.median([_relative_slope(medians) for medians in series]))
    return Drift(change, float(2.0 * ndtr(-abs(z))))


def _signs(medians: NDArray[np.float64]) -> NDArray[np.float64]:
    first, second = np.triu_indices(len(medians), 1)
    signs: NDArray[np.float64] = np.sign(medians[second] - medians[first])
    return signs


def _relative_slope(medians: NDArray[np.float64]) -> float:
    first, second = np.triu_indices(len(medians), 1)
    slope = float(np.median((medians[second] - medians[first]) / (second - first)))
    level = float(np.median(medians))
    return slope * (len(medians) - 1) / level if level > 0 else 0.0


def settled_after(latencies: ArrayLike, *, batch: int = 5) -> int | None:
    """Where warm-up ends: the cut that leaves the rest with the smallest standard error (MSER), on batch medians.

    Args:
        latencies: shape (q,), from the very first query on.
        batch: Queries per median, so that one slow query is no warm-up.

    Returns:
        Queries to drop, or None where the best cut lies in the second half: it has not settled yet.

    References:
        White (1997), An effective truncation heuristic for bias reduction in simulation output, Simulation 69(6).
    """
    medians = block_medians(latencies, max(1, np.size(latencies) // batch))
    count = len(medians)
    if count < 4:
        return None
    left = np.arange(count, 0, -1, dtype=np.float64)
    total = np.cumsum(medians[::-1])[::-1]
    squares = np.cumsum(((medians - medians.mean()) ** 2)[::-1])[::-1]
    spread = squares - left * (total / left - medians.mean()) ** 2
    # The last few cuts leave so few medians that their spread is small by chance.
    error = (spread / left**2)[: count - max(2, count // 10)]
    cut = int(np.argmin(error))
    return cut * batch if cut <= count // 2 else None


def jitter(latencies_ms: ArrayLike) -> float | None:
    """Mean absolute difference of latencies that follow each other, in ms; None for fewer than 2.

    Args:
        latencies_ms: shape (q,), of one process.

    References:
        Demichelis and Chimento (2002), IP packet delay variation metric, RFC 3393.
    """
    kept = np.asarray(latencies_ms, dtype=np.float64)
    return float(np.abs(np.diff(kept)).mean()) if len(kept) >= 2 else None

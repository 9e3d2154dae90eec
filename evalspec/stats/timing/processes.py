"""Statistics over fresh processes, pairs of processes and the course of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalspec.evidence.estimate import Comparison, Estimate, Needed, Side
from evalspec.stats.means.lognormal import SEEN_TIMES, LogMean
from evalspec.stats.means.mean import t_mean

DRIFT_FLOOR = 0.10
"""A change from start to end below this share is no drift, however certain it is."""
DRIFT_LEVEL = 0.01


@dataclass(frozen=True)
class OverUnits(Estimate):
    """A mean of independent values, one per process or pair.

    Args:
        mean: Student's t of the values, or of their logarithms.
        what: What each value comes from.
        log: The mean is one of logarithms: value, bounds and thresholds are its exponentials.
        least: What no value is below, and so no lower bound; None: nothing.
        skewed: The same mean, were the values lognormal: times have a long end. Where it is less sure, it decides.
        believed: From where to where a mean of logarithms is believed: of a threshold beyond no more is shown than at
            the end, and no bound lies there.
    """

    mean: Estimate
    what: str
    log: bool = False
    least: float | None = None
    skewed: LogMean | None = None
    believed: tuple[float, float] = (-math.inf, math.inf)

    @property
    def n(self) -> int:
        """Processes or pairs."""
        return self.mean.n

    @property
    def value(self) -> float | None:
        """Mean, or geometric mean; None without values."""
        return self._out(self.mean.value)

    @property
    def method(self) -> str:
        """Method of the bounds, and what is missing where there are none."""
        missing = "" if self.mean.bound(0.95, "upper") is not None else f"; {self.mean.method}"
        also = "" if self.skewed is None or missing else ", from above also as lognormal"
        return f"t over {self.n} {self.what}{also}{missing}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided t bound with k - 1 degrees of freedom; None for fewer than 2 values or constant ones.

        None too where it would lie more than ten times beyond what was seen.
        """
        inner = self.mean.bound(confidence, side)
        if inner is None or not self.believed[0] <= inner <= self.believed[1]:
            return None
        bound = math.exp(inner) if self.log else inner
        if side == "lower":
            return bound if self.least is None else max(self.least, bound)
        skewed = None if self.skewed is None else self.skewed.upper(confidence)
        return bound if self.skewed is None else (None if skewed is None else max(bound, skewed))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """One-sided p-value of the t test against ``threshold``; from above also that of skewed values."""
        if self.log:
            if threshold <= 0:
                return None if self.value is None else float(side == "upper")
            threshold = min(max(math.log(threshold), self.believed[0]), self.believed[1])
        p = self.mean.p_value(threshold, side)
        if p is None or side == "lower" or self.skewed is None:
            return p
        return max(p, self.skewed.p_below(threshold)) if threshold > 0 else 1.0

    def n_to_decide(self, threshold: float, alpha: float) -> Needed | None:
        """Processes or pairs with which the side on which the mean lies is shown in 80 % of runs."""
        if self.log and threshold <= 0:
            return None
        needed = self.mean.n_to_decide(math.log(threshold) if self.log else threshold, alpha)
        if needed is None:
            return None
        if self.skewed is not None and self.value is not None and self.value < threshold:
            needed = max(needed, self.skewed.needed(threshold, alpha))
        return Needed(needed, self.what.partition(" ")[0], self.n)

    def _out(self, number: float | None) -> float | None:
        return math.exp(number) if self.log and number is not None else number


def over_processes(values: ArrayLike, least: float | None = None, *, skewed: bool = False) -> OverUnits:
    """One number per fresh process: their mean with Student's t; of skewed ones from above also as lognormal.

    Times and energies are skewed, and better lower: what is shown from above lets them pass. Of lognormal ones with a
    standard deviation of the logarithm of 0.3, t over 5 misses the mean from above in 8 %, of 1.0 in 24 %; with both it
    is 4 %. Normal ones that vary by 2 % hardly notice, at 10 % what passes in 98 % passes in 92 %.

    Args:
        values: shape (k,), in the metric's unit.
        least: What no value can be below, such as 0 ms; the lower bound stops there.
        skewed: They are times or energies: where the bound of lognormal values is the higher one, it holds.

    References:
        Georges, Buytaert, Eeckhout (2007), Statistically rigorous Java performance evaluation, OOPSLA. Krishnamoorthy
        and Mathew (2003), Journal of Statistical Planning and Inference 115.
    """
    kept = np.asarray(values, dtype=np.float64)
    end = None
    if skewed and len(kept) > 1 and (kept > 0.0).all() and np.isfinite(kept).all():
        logs = np.log(kept)
        most = SEEN_TIMES * float(kept.max())
        end = LogMean(float(logs.mean()), float(logs.var(ddof=1)), len(logs), most=most)
    return OverUnits(t_mean(kept), "processes", least=least, skewed=end)


@dataclass(frozen=True)
class PairedTiming(Comparison):
    """A candidate beside a baseline in pairs of fresh processes.

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

    @property
    def candidate_value(self) -> float | None:
        """Geometric mean of the candidate over the same pairs."""
        if not len(self.candidate) or not (self.candidate > 0).all():
            return None
        return float(np.exp(np.log(self.candidate).mean()))

    def difference(self, factor: float, margin: float) -> OverUnits:
        """Candidate - factor x baseline: t on the differences of the pairs."""
        return OverUnits(t_mean(self.candidate - factor * self.baseline), "pairs (differences)")

    def ratio(self) -> OverUnits | None:
        """Candidate / baseline: t on the log ratio of each pair; None where a value is not positive."""
        if not ((self.candidate > 0).all() and (self.baseline > 0).all()):
            return None
        logs = np.log(self.candidate) - np.log(self.baseline)
        if not len(logs):
            return OverUnits(t_mean(logs), "pairs (log ratios)", log=True)
        believed = (float(logs.min()) - math.log(SEEN_TIMES), float(logs.max()) + math.log(SEEN_TIMES))
        return OverUnits(t_mean(logs), "pairs (log ratios)", log=True, believed=believed)


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
        raise ValueError(f"{len(a)} values of the candidate and {len(b)} of the baseline are not pairs")
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
    """Trend of latency from the start to the end of a run's processes.

    Args:
        change: Change from the start to the end of a process as a share of its level; 0.1 is 10 % slower.
        p_value: Two-sided, against no trend.
    """

    change: float
    p_value: float

    @property
    def direction(self) -> Literal["none", "up", "down"]:
        """Direction of the change: up or down where it is both certain and over 10 %."""
        if self.p_value > DRIFT_LEVEL or abs(self.change) < DRIFT_FLOOR:
            return "none"
        return "up" if self.change > 0 else "down"

    @property
    def steady(self) -> bool:
        """No drift was shown."""
        return self.direction == "none"


def drift(processes: Sequence[NDArray[np.float64]], blocks: int = 10) -> Drift | None:
    """Trend of latencies in the course of their processes.

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


def jitter(latencies_ms: ArrayLike) -> float | None:
    """Mean absolute difference of latencies that follow each other, in ms; None for fewer than 2.

    Args:
        latencies_ms: shape (q,), of one process.

    References:
        Demichelis and Chimento (2002), IP packet delay variation metric, RFC 3393.
    """
    kept = np.asarray(latencies_ms, dtype=np.float64)
    return float(np.abs(np.diff(kept)).mean()) if len(kept) >= 2 else None

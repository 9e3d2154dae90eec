"""Timings whose truth is known, for simulations of bounds: what machines and models do to latencies.

Each design draws the latencies of fresh processes, ms, at a scale of about 1 ms; `truth` is the quantile over all
processes that there may be. `WATCHED` are those that bounds must hold in, `PLAIN` those in which they must be worth
having.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from evalspec.stats.timing.percentile import percentile

Drawn = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Drawn]
"""(generator, processes, queries of each) -> shape (processes, queries), ms."""

OVER_MS = 5.0
"""Between calm queries and those that stall, in designs that stall."""
WITHIN = 0.2
"""Standard deviation of the logarithm of calm queries."""
_MANY, _FEW = (100_000, 10, 4), (40, 500, 200)
"""Processes, queries of each, and times that these are drawn, to know a quantile by."""


@dataclass(frozen=True)
class Design:
    """Latencies of fresh processes.

    Args:
        draw: Of so many processes with so many queries each.
        stalls: Share of queries over `OVER_MS`, where it is known; None: the quantile is simulated.
        in_time: Queries of a process depend on each other: its quantile is simulated of long ones.
    """

    draw: Draw
    stalls: float | None = None
    in_time: bool = False

    def truth(self, p: float) -> float:
        """The p-quantile over all processes, ms."""
        if self.stalls is not None:
            if not math.isclose(1.0 - p, self.stalls):
                raise ValueError(f"the stalls are {self.stalls:g} of this design's queries, not {1.0 - p:g}")
            return OVER_MS
        return _quantile(self.draw, p, *(_FEW if self.in_time else _MANY))


@cache
def _quantile(draw: Draw, p: float, k: int, q: int, times: int) -> float:
    """Of 4 million queries."""
    rng = np.random.default_rng(1234)
    return float(np.quantile(np.concatenate([draw(rng, k, q).ravel() for _ in range(times)]), p))


def calm(rng: np.random.Generator, k: int, q: int) -> Drawn:
    """Independent lognormal queries."""
    return rng.lognormal(0.0, WITHIN, (k, q))


def leveled(logs: Callable[[np.random.Generator, int], Drawn], within: float = WITHIN) -> Draw:
    """Processes whose queries are all moved by a factor; its logarithm is drawn by ``logs(rng, k)``."""
    return lambda rng, k, q: np.exp(logs(rng, k))[:, None] * rng.lognormal(0.0, within, (k, q))


def stalling(shares: Callable[[np.random.Generator, int], Drawn]) -> Draw:
    """Single queries stall, independently; each process has its own share of them."""

    def draw(rng: np.random.Generator, k: int, q: int) -> Drawn:
        return calm(rng, k, q) + 10.0 * (rng.random((k, q)) < np.minimum(1.0, shares(rng, k))[:, None])

    return draw


def bursts(share: float, length: int, *, geometric: bool) -> Draw:
    """Stalls that last some queries: their starts are a Poisson process, their lengths fixed or geometric."""

    def draw(rng: np.random.Generator, k: int, q: int) -> Drawn:
        # In the steady state a query is outside all bursts with probability exp(-rate x mean length).
        rate, lead = -math.log1p(-share) / length, length * (12 if geometric else 1)
        series = calm(rng, k, q)
        for row in series:
            starts = np.flatnonzero(rng.random(q + lead) < -math.expm1(-rate)) - lead
            lasts = rng.geometric(1.0 / length, len(starts)) if geometric else np.full(len(starts), length)
            for start, last in zip(starts, lasts, strict=True):
                row[max(0, start) : max(0, start + last)] += 10.0
        return series

    return draw


def regimes(share: float, length: float) -> Draw:
    """A slow state that is entered and left at random (Markov-modulated): a share of the time, so long on average."""

    def draw(rng: np.random.Generator, k: int, q: int) -> Drawn:
        enter = share / (1.0 - share) / length
        series = calm(rng, k, q)
        for row in series:
            slow, at = bool(rng.random() < share), 0
            while at < q:
                stay = int(rng.geometric(1.0 / length if slow else enter))
                row[at : at + stay] += 10.0 * slow
                slow, at = not slow, at + stay
        return series

    return draw


def autocorrelated(rho: float, tail: float = WITHIN) -> Draw:
    """The logarithm is an AR(1) series."""

    def draw(rng: np.random.Generator, k: int, q: int) -> Drawn:
        noise = rng.standard_normal((k, q)) * math.sqrt(1.0 - rho**2)
        noise[:, 0] /= math.sqrt(1.0 - rho**2)
        return np.exp(tail * lfilter([1.0], [1.0, -rho], noise))

    return draw


def collecting(period: int, jitter: float = 0.1) -> Draw:
    """A stall about every so many queries (garbage collection), at a phase that differs by process."""

    def draw(rng: np.random.Generator, k: int, q: int) -> Drawn:
        series = calm(rng, k, q)
        for row in series:
            gaps = np.maximum(1.0, rng.normal(period, jitter * period, 3 * q // period + 4))
            at = (np.cumsum(gaps) - rng.random() * period).astype(np.int64)
            row[at[(at >= 0) & (at < q)]] += rng.lognormal(2.0, 0.3, int(((at >= 0) & (at < q)).sum()))
        return series

    return draw


def quantised(step: float) -> Draw:
    """A clock that is read in steps; processes differ by 3 %."""

    def draw(rng: np.random.Generator, k: int, q: int) -> Drawn:
        return step * np.ceil(np.exp(0.03 * rng.standard_normal((k, 1))) * calm(rng, k, q) / step)

    return draw


def drifting(depth: float) -> Draw:
    """The machine is slower at some times of the day: a wave over all processes, which follow each other."""

    def draw(rng: np.random.Generator, k: int, q: int) -> Drawn:
        wave = np.sin(2.0 * math.pi * (rng.random() + np.arange(k * q) / (5.0 * q)))
        return np.exp(depth * wave).reshape(k, q) * calm(rng, k, q)

    return draw


def pareto(shape: float, level: float) -> Draw:
    """Pareto tails, and processes that differ."""
    return lambda rng, k, q: np.exp(level * rng.standard_normal((k, 1))) * (1.0 + 0.1 * rng.pareto(shape, (k, q)))


def tailed(spread: float, share: float = 0.02, bulk: float = 0.1, tail: float = 0.3) -> Draw:
    """Processes whose bulk agrees (0.5 ms), and a few queries about 2.9 ms that a factor of the process moves."""

    def draw(rng: np.random.Generator, k: int, q: int) -> Drawn:
        slow = rng.random((k, q)) < share
        factor = np.exp(spread * rng.standard_normal((k, 1)))
        far = 2.9 * factor * rng.lognormal(0.0, tail, (k, q))
        return np.where(slow, far, 0.5 * rng.lognormal(0.0, bulk, (k, q)))

    return draw


def _lognormal_share(mean: float, spread: float) -> Callable[[np.random.Generator, int], Drawn]:
    return lambda rng, k: mean * rng.lognormal(-0.5 * spread**2, spread, k)


STALLS: dict[str, Design] = {
    "shares differ .3": Design(stalling(_lognormal_share(0.01, 0.3)), 0.01),
    "shares differ .6": Design(stalling(_lognormal_share(0.01, 0.6)), 0.01),
    "shares differ 1": Design(stalling(_lognormal_share(0.01, 1.0)), 0.01),
    "shares beta(.5)": Design(stalling(lambda rng, k: rng.beta(0.5, 49.5, k)), 0.01),
    "shares of two kinds": Design(stalling(lambda rng, k: np.where(rng.random(k) < 0.5, 0.004, 0.016)), 0.01),
}
"""Processes that stall unlike; at least 1 % of all queries do."""

LEVELS: dict[str, Design] = {
    "levels normal .05": Design(leveled(lambda rng, k: 0.05 * rng.standard_normal(k))),
    "levels normal .1": Design(leveled(lambda rng, k: 0.1 * rng.standard_normal(k))),
    "levels normal .3": Design(leveled(lambda rng, k: 0.3 * rng.standard_normal(k))),
    "levels normal .1, queries .03": Design(leveled(lambda rng, k: 0.1 * rng.standard_normal(k), 0.03)),
    "levels uniform": Design(leveled(lambda rng, k: rng.uniform(-0.2, 0.2, k))),
    "tails differ .3": Design(tailed(0.3)),
    "tails differ .6": Design(tailed(0.6)),
    "tails differ .82": Design(tailed(0.82)),
    "tails differ .3, 5 % slow": Design(tailed(0.3, 0.05, 0.2)),
    "tails differ .6, 15 % slow": Design(tailed(0.6, 0.15, 0.2)),
    "Pareto 3, levels .05": Design(pareto(3.0, 0.05)),
    "Pareto 1.5": Design(pareto(1.5, 0.0)),
}
"""Processes that differ in level, or in their tail."""

HEAVY: dict[str, Design] = {
    "levels exponential": Design(leveled(lambda rng, k: 0.1 * rng.exponential(1.0, k))),
    "levels t3": Design(leveled(lambda rng, k: 0.1 * rng.standard_t(3, k))),
    "one in five x1.5": Design(leveled(lambda rng, k: math.log(1.5) * (rng.random(k) < 0.2))),
    "levels gamma(2)": Design(leveled(lambda rng, k: 0.1 * rng.gamma(2.0, 1.0, k))),
}
"""Levels that five processes do not show: more skewed than lognormal."""

IN_TIME: dict[str, Design] = {
    "calm": Design(calm),
    "AR(1) .5": Design(autocorrelated(0.5), in_time=True),
    "AR(1) .9": Design(autocorrelated(0.9), in_time=True),
    "collection each 100": Design(collecting(100), in_time=True),
    "clock .1": Design(quantised(0.1)),
    "drift .05": Design(drifting(0.05), in_time=True),
}
"""What one process does in the course of time."""


def few_bursts(n: int, count: float, p: float = 0.99, *, geometric: bool = True) -> Design:
    """Bursts of which so many are expected in n queries, as long as a share of 1 - p takes."""
    length = max(1, round((1.0 - p) * n / count))
    return Design(bursts(1.0 - p, length, geometric=geometric), 1.0 - p)


def few_regimes(n: int, count: float, p: float = 0.99) -> Design:
    """Slow spells of which so many are expected in n queries."""
    return Design(regimes(1.0 - p, (1.0 - p) * n / count), 1.0 - p)


def evidence(design: Design, p: float, k: int, q: int, seed: int, scale: float = 1.0) -> Iterator[tuple[float, float]]:
    """Of one run after the other: evidence that the quantile lies above its true value, and below it; 1 for none.

    Args:
        design: The latencies.
        p: The percentile as a fraction.
        k: Processes.
        q: Queries of each.
        seed: Of all runs.
        scale: The threshold is so many times the true quantile.
    """
    rng, at = np.random.default_rng(seed), scale * design.truth(p)
    while True:
        estimate = percentile(list(design.draw(rng, k, q)), p)
        # Of a clock with steps many queries take as long as the quantile, and it is exceeded just below.
        above, below = estimate.p_value(at, "lower"), estimate.p_value(at * (1.0 - 1e-9), "upper")
        yield 1.0 if above is None else above, 1.0 if below is None else below


def p_values(design: Design, p: float, k: int, q: int, repeats: int, seed: int, scale: float = 1.0) -> Drawn:
    """The `evidence` of so many runs, shape (repeats, 2)."""
    return np.array(list(islice(evidence(design, p, k, q, seed, scale), repeats)))

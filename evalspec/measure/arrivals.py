"""When queries arrive: schedules of intended times, made before anything is sent, from an explicit Generator.

Every schedule is an array of int64, in ns from the schedule's start, strictly rising. A gap comes before each
arrival, the first one too. Constant, Poisson and gamma arrivals are renewal processes: their gaps are independent.
Ramps and spikes stretch and squeeze the time of such a process, so a Poisson process stays one whose rate varies.

References:
    L. Kleinrock, Queueing Systems, vol. 1, 1975, ch. 2. D. R. Cox and P. A. W. Lewis, The Statistical Analysis of
    Series of Events, 1966, ch. 4 (dispersion of counts, serial correlation of gaps). E. Cinlar, Introduction to
    Stochastic Processes, 1975, ch. 4.7 (change of time).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Described", "RateSpike", "constant", "describe", "gamma", "poisson", "ramp", "rising", "with_spikes"]

NS = 1e9
SIGMAS = 3.0
"""What was made agrees with what was asked for within so many standard errors."""
WINDOW = 20.0
"""Arrivals that are expected in a window in which they are counted."""
LEAST = 10
"""Gaps that are needed to say anything of their spread."""


@dataclass(frozen=True, slots=True)
class RateSpike:
    """For a while, arrivals come so many times as often.

    Args:
        factor: Of the rate; over 0.
        start_s: From the start of the schedule.
        length_s: In the schedule's own time.
    """

    factor: float
    start_s: float
    length_s: float


@dataclass(frozen=True, slots=True)
class Described:
    """Description of a schedule as it is, whatever was asked for.

    Args:
        n: Arrivals.
        rate_qps: Gaps by the time that they take.
        gap_cv: Standard deviation of the gaps by their mean: 1 for Poisson, more when bursty, 0 when constant.
        dispersion: Variance of counts by their mean, in windows in which 20 are expected: 1 for Poisson, more when
            bursty; None: fewer than 10 windows.
        lag1: Correlation of each gap with the next; 0 where they are independent; None: constant gaps.
        disagrees: Sentences that say where it is not what was asked for; empty: it agrees.
    """

    n: int
    rate_qps: float
    gap_cv: float
    dispersion: float | None
    lag1: float | None
    disagrees: tuple[str, ...] = ()


def constant(rate_qps: float, *, n: int | None = None, duration_s: float | None = None) -> NDArray[np.int64]:
    """Arrivals at equal gaps.

    Args:
        rate_qps: Arrivals a second; over 0.
        n: So many arrivals; or
        duration_s: as many as come in so long; or both: so many in just so long, whatever the rate is then.

    Returns:
        shape (n,).

    Raises:
        InputError: A number that no schedule has, or no arrival.
    """
    return _made(np.ones, rate_qps, rate_qps, n, duration_s)


def poisson(
    rate_qps: float, *, n: int | None = None, duration_s: float | None = None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Arrivals of many clients who know nothing of each other: exponential gaps.

    Args:
        rate_qps: As `constant`.
        n: As `constant`.
        duration_s: As `constant`; the count is random then, where it is not given too: a Poisson process given its
            count, which is as many independent uniform times.
        rng: Of the gaps.
    """
    return _made(rng.standard_exponential, rate_qps, rate_qps, n, duration_s)


def gamma(
    rate_qps: float,
    *,
    burstiness: float,
    n: int | None = None,
    duration_s: float | None = None,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Arrivals with gamma gaps.

    Args:
        rate_qps: As `constant`.
        burstiness: Shape of the gamma distribution, as in vLLM's ``--burstiness``. It points the other way than its
            name: 1 is Poisson, *below* 1 is burstier, above 1 is more even. The gaps' CV is 1 / sqrt(burstiness).
        n: As `poisson`.
        duration_s: As `poisson`.
        rng: Of the gaps.
    """
    _require(burstiness > 0 and math.isfinite(burstiness), "burstiness", burstiness, "over 0; 1 is Poisson")
    return _made(_gamma_gaps(burstiness, rng), rate_qps, rate_qps, n, duration_s)


def ramp(
    from_qps: float,
    to_qps: float,
    *,
    n: int | None = None,
    duration_s: float | None = None,
    burstiness: float | None = 1.0,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Arrivals whose rate goes from one value to another in a straight line.

    Args:
        from_qps: At the start; 0 or more.
        to_qps: At the end; 0 or more, not both 0.
        n: So many arrivals, in 2 n / (from + to) seconds; or
        duration_s: as many as come while the rate goes from one to the other; or both, as `poisson`.
        burstiness: As `gamma`; 1 is Poisson; None: no randomness.
        rng: Of the gaps.
    """
    gaps = np.ones if burstiness is None else _gamma_gaps(burstiness, rng)
    return _made(gaps, from_qps, to_qps, n, duration_s)


def with_spikes(arrivals_ns: NDArray[np.int64], spikes: Sequence[RateSpike]) -> NDArray[np.int64]:
    """The same arrivals, squeezed while a spike lasts: as many as before, in less time.

    Args:
        arrivals_ns: shape (n,), any schedule.
        spikes: In order of their start, apart from each other.

    Returns:
        shape (n,).

    Raises:
        InputError: A spike that is none, or two that overlap.
    """
    done = 0.0
    edges_s, rates = [0.0], []
    for spike in spikes:
        _require(spike.factor > 0 and math.isfinite(spike.factor), "factor of a spike", spike.factor, "over 0")
        _require(spike.length_s > 0, "length of a spike", spike.length_s, "over 0 s")
        _require(spike.start_s >= done, "start of a spike", spike.start_s, f"at least {done:g} s, when the last ends")
        done = spike.start_s + spike.length_s
        edges_s += [spike.start_s, done]
        rates += [1.0, spike.factor]
    edges = np.array(edges_s)
    # How much of the old time has gone by at each edge of the new one; after the last edge both run alike.
    old = np.concatenate([[0.0], np.cumsum(np.diff(edges) * np.array(rates))])
    times_s = arrivals_ns / NS
    inside = np.interp(times_s, old, edges)
    return rising(np.where(times_s > old[-1], edges[-1] + times_s - old[-1], inside) * NS)


def describe(
    arrivals_ns: NDArray[np.int64], *, rate_qps: float | None = None, gap_cv: float | None = None
) -> Described:
    """Describe a schedule, and say whether that is what was asked for.

    The rate must agree within 3 / sqrt(n) (times the asked CV where that is over 1), the gaps' CV within three
    standard errors of a gamma process's, and the gaps' lag-1 correlation with 0 within 3 / sqrt(n).

    Args:
        arrivals_ns: shape (n,), n >= 2.
        rate_qps: Asked for; of a ramp: its mean. None: not judged.
        gap_cv: Asked for: 0 constant, 1 Poisson, 1 / sqrt(burstiness) gamma. None (ramps, spikes, traces): the CV and
            the correlation are not judged.

    Raises:
        InputError: Fewer than two arrivals.
    """
    n = len(arrivals_ns)
    if n < 2:
        raise InputError(f"a schedule of {n} arrivals has no rate")
    gaps = np.diff(arrivals_ns) / NS
    found = Described(
        n=n,
        rate_qps=1.0 / float(gaps.mean()),
        gap_cv=float(gaps.std() / gaps.mean()),
        dispersion=_dispersion(arrivals_ns),
        lag1=_lag1(gaps),
    )
    disagrees = [*_of_rate(found, rate_qps, gap_cv), *_of_gaps(found, gap_cv)]
    return Described(found.n, found.rate_qps, found.gap_cv, found.dispersion, found.lag1, tuple(disagrees))


def _of_rate(found: Described, rate_qps: float | None, gap_cv: float | None) -> list[str]:
    within = SIGMAS * max(1.0, gap_cv or 0.0) / math.sqrt(found.n)
    if rate_qps is None or abs(found.rate_qps / rate_qps - 1) <= within:
        return []
    return [f"the rate is {found.rate_qps:.6g}/s, but {rate_qps:.6g}/s was requested (within {100 * within:.2f} %)"]


def _of_gaps(found: Described, gap_cv: float | None) -> list[str]:
    if gap_cv is None or found.n <= LEAST:
        return []
    # Delta method; for gamma gaps var(CV) = CV^2 (1 + CV^2) / 2n. Rounding to ns is the floor.
    error = SIGMAS * gap_cv * math.sqrt((1 + gap_cv**2) / 2 / found.n) + 2 * found.rate_qps / NS
    disagrees = []
    if abs(found.gap_cv - gap_cv) > error:
        disagrees.append(
            f"the gaps have a CV of {found.gap_cv:.4f}, but {gap_cv:.4f} was requested (within {error:.4f})"
        )
    bound = SIGMAS / math.sqrt(found.n)
    if gap_cv > 0 and found.lag1 is not None and abs(found.lag1) > bound:
        disagrees.append(f"each gap correlates with the next by {found.lag1:.4f}, and none should (within {bound:.4f})")
    return disagrees


def _dispersion(arrivals_ns: NDArray[np.int64]) -> float | None:
    windows = int((len(arrivals_ns) - 1) / WINDOW)
    if windows < LEAST:
        return None
    edges = np.linspace(arrivals_ns[0], arrivals_ns[-1], windows + 1)
    counts = np.diff(np.searchsorted(arrivals_ns, edges))
    return float(counts.var(ddof=1) / counts.mean())


def _lag1(gaps: NDArray[np.float64]) -> float | None:
    centred = gaps - gaps.mean()
    spread = float(centred @ centred)
    # Gaps that differ by rounding only have no correlation to speak of.
    if len(gaps) < LEAST or spread <= len(gaps) * (2 / NS) ** 2:
        return None
    return float(centred[1:] @ centred[:-1]) / spread


def _gamma_gaps(burstiness: float, rng: np.random.Generator) -> Callable[[int], NDArray[np.float64]]:
    _require(burstiness > 0 and math.isfinite(burstiness), "burstiness", burstiness, "over 0; 1 is Poisson")
    return lambda count: rng.standard_gamma(burstiness, count) / burstiness


def _made(
    gaps: Callable[[int], NDArray[np.float64]],
    from_qps: float,
    to_qps: float,
    n: int | None,
    duration_s: float | None,
) -> NDArray[np.int64]:
    """Arrivals from gaps of mean 1, in a time that runs as the rate says."""
    mean_qps = (from_qps + to_qps) / 2
    _require(min(from_qps, to_qps) >= 0 and 0 < mean_qps < math.inf, "rate", mean_qps, "over 0 queries a second")
    if n is None and duration_s is None:
        raise InputError("a schedule has a count, a duration, or both")
    _require(n is None or n >= 1, "count", n or 0, "at least 1")
    _require(duration_s is None or 0 < duration_s < math.inf, "duration", duration_s or 0.0, "over 0 s")
    seconds = duration_s if duration_s is not None else (n or 0) / mean_qps
    expected = mean_qps * seconds
    if n is None:
        unit = _until(gaps, expected)
    elif duration_s is None:
        unit = np.cumsum(gaps(n))
    else:
        unit = expected * _within(gaps, n)
    if not len(unit):
        raise InputError(f"no query arrives in {seconds:g} s at {mean_qps:g} a second", remedy="measure longer")
    return rising(_ramped(unit, from_qps, to_qps, seconds) * NS)


def _within(gaps: Callable[[int], NDArray[np.float64]], n: int) -> NDArray[np.float64]:
    """Running sums of n gaps as shares of a time that a further gap would end; the last of equal gaps ends with it."""
    if gaps is np.ones:
        return np.arange(1, n + 1) / n
    unit = np.cumsum(gaps(n + 1))
    return np.asarray(unit[:-1] / unit[-1])


def _until(gaps: Callable[[int], NDArray[np.float64]], expected: float) -> NDArray[np.float64]:
    """Running sums of gaps, as far as ``expected``."""
    unit = np.zeros(0)
    last = 0.0
    while last <= expected:
        more = last + np.cumsum(gaps(int(expected - last) + 16))
        unit = np.concatenate([unit, more])
        last = float(more[-1])
    return unit[: np.searchsorted(unit, expected, side="right")]


def _ramped(unit: NDArray[np.float64], from_qps: float, to_qps: float, seconds: float) -> NDArray[np.float64]:
    """When so many arrivals are expected: the inverse of a t + (b - a) t^2 / 2T; at rate b after T."""
    slope = (to_qps - from_qps) / seconds
    # The stable form of the quadratic's root; with no slope it is unit / rate.
    inside = 2 * unit / (from_qps + np.sqrt(np.maximum(from_qps**2 + 2 * slope * unit, 0.0)))
    expected = (from_qps + to_qps) / 2 * seconds
    rate = to_qps or from_qps
    return np.where(unit > expected, seconds + (unit - expected) / rate, inside)


def rising(times_ns: NDArray[np.float64]) -> NDArray[np.int64]:
    """As whole ns, each at least 1 after the one before.

    Args:
        times_ns: shape (n,), not falling.
    """
    steps = np.arange(len(times_ns))
    return np.asarray(np.maximum.accumulate(np.rint(times_ns).astype(np.int64) - steps) + steps)


def _require(holds: bool, what: str, value: float, wanted: str) -> None:
    if not holds:
        raise InputError(f"the {what} is {value:g}; it must be {wanted}")

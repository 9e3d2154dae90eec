"""Systems whose behaviour under load is known: one server, first come first served, simulated from given times."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln

from evalspec.language.inputs import Samples, Schedule
from evalspec.language.timings import OUTCOMES, Telemetry

Service = Callable[[NDArray[np.float64], np.random.Generator], NDArray[np.float64]]
"""From due times (s), shape (n,), to service times (ms), shape (n,)."""


def sojourns(gaps: NDArray[np.float64], service: NDArray[np.float64], wait: float = 0.0) -> NDArray[np.float64]:
    """Time from coming to having been served, by Lindley's recursion: the walk of work less its running minimum.

    Args:
        gaps: shape (n,), from the query before (that of the first is not used).
        service: shape (n,), in the same unit.
        wait: Of the first query.
    """
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
    waiting = np.maximum(wait + walk, walk - np.minimum.accumulate(walk))
    found: NDArray[np.float64] = waiting + service
    return found


def mm1_quantile(utilization: float, p: float) -> float:
    """p-quantile of the sojourn in M/M/1, in mean service times: exponential with mean 1 / (1 - utilization)."""
    return -math.log(1.0 - p) / (1.0 - utilization)


def md1_quantile(utilization: float, p: float) -> float:
    """p-quantile of the sojourn in M/D/1, in service times, by Erlang's (1909) formula for the waiting time.

    P(wait <= t) = (1 - u) sum_k (u (k - t))^k / k! exp(-u (k - t)), k = 0 .. floor(t).
    """

    def shortfall(t: float) -> float:
        k = np.arange(math.floor(t) + 1)
        x = utilization * (k - t)
        # The terms alternate; up to t = 22 at utilization 0.8 their rounding stays below 1e-9.
        size = np.exp(k * np.log(np.maximum(np.abs(x), 1e-300)) - gammaln(k + 1.0) - x)
        return (1.0 - utilization) * float(np.sum(np.where(k % 2, np.sign(x), 1.0) * size)) - p

    return 1.0 + float(brentq(shortfall, 0.01, 22.0))


def served(
    schedule: Schedule,
    service: Service,
    rng: np.random.Generator,
    *,
    lag_ms: NDArray[np.float64] | float = 0.0,
    fails: NDArray[np.bool_] | None = None,
    stretch: float = 1.0,
    telemetry: Telemetry | None = None,
    model: str = "candidate",
) -> Samples:
    """An open loop through one server in process.

    Args:
        schedule: Its ``arrivals_ns`` and ``timeout_s``.
        service: Service times.
        rng: For them.
        lag_ms: How late the generator hands each query over, beyond waiting for the server.
        fails: shape (n,), queries that fail.
        stretch: The generator drives the times so much slower than it was asked to.
        telemetry: Read beside it.
        model: Name.
    """
    assert schedule.arrivals_ns is not None
    due = np.round(schedule.arrivals_ns * stretch).astype(np.int64) + 50_000_000
    spent_ms = service(due / 1e9, rng)
    handed_ms = due / 1e6 + lag_ms
    total = sojourns(np.diff(handed_ms, prepend=0.0), spent_ms)
    end = np.round((handed_ms + total) * 1e6).astype(np.int64)
    sent = end - np.round(spent_ms * 1e6).astype(np.int64)
    outcome = np.where(end - due > schedule.timeout_s * 1e9, OUTCOMES.index("timed out"), 0)
    if fails is not None:
        outcome[fails] = OUTCOMES.index("failed")
    n = len(due)
    return Samples(
        model=model, process=0, block=np.zeros(n, dtype=np.int64), intended_ns=due, sent_ns=sent, end_ns=end,
        items=np.arange(n, dtype=np.int64) if schedule.items is None else schedule.items, batch=1, ok=outcome == 0,
        warmup=32, outcome=outcome, telemetry=telemetry,
    )  # fmt: skip


def constant(ms: float) -> Service:
    """Every query takes as long."""
    return lambda due, rng: np.full(len(due), ms)


def exponential(ms: float) -> Service:
    """Exponential service times of this mean."""
    return lambda due, rng: rng.exponential(ms, len(due))

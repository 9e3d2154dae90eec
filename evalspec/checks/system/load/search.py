"""The search for the highest rate within the objective: for the report, never for a decision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evalspec.checks.system.load.generator import fault
from evalspec.checks.system.load.one_rate import AtRate, drive
from evalspec.checks.system.load.plan import STEPS, short_queries, steady_only
from evalspec.checks.system.load.schedule import spread
from evalspec.evidence.reasons import OnlyWorse, gravest
from evalspec.timing.budget import percentile_of, rate_part

if TYPE_CHECKING:
    from evalspec.checks.system.load.arrivals import Arrivals
    from evalspec.checks.system.load.spec import Load
    from evalspec.language.inputs import Inputs
    from evalspec.language.requirement import Requirement

CLOSE = 1.1
"""The search ends when the lowest rate that failed is this times the highest that held."""
LOWEST_QPS = 0.5
SEED = 100_000


@dataclass
class RateSearch:
    """Where it has been.

    Args:
        tried: Rate, the percentile in ms (None: no query was answered), whether the objective held.
        stopped: Why it ended early, or None.
    """

    tried: list[tuple[float, float | None, bool]] = field(default_factory=list)
    stopped: str | None = None

    @property
    def held(self) -> float | None:
        """The highest rate that held."""
        return max((rate for rate, _, holds in self.tried if holds), default=None)

    @property
    def missed(self) -> float | None:
        """The lowest rate that failed."""
        return min((rate for rate, _, holds in self.tried if not holds), default=None)


@dataclass(frozen=True)
class Confirmed:
    """The search's own rate on fresh queries.

    Args:
        rate_qps: The rate.
        run: What came of it, or None.
        holds: The objective held in it.
        void: Why it says nothing, or None.
    """

    rate_qps: float
    run: AtRate | None
    holds: bool
    void: str | None = None


def search(try_rate: Callable[[float], tuple[float | None, bool, str | None]], start_qps: float) -> RateSearch:
    """Doubles (or halves) from a rate until the objective fails (or holds), then bisects on the logarithm.

    Args:
        try_rate: From a rate to its percentile, whether the objective held, and why no more can be told (or None).
        start_qps: Where to begin.
    """
    found = RateSearch()

    def go(rate: float) -> bool:
        value, holds, stop = try_rate(rate)
        if stop is not None:
            found.stopped = stop
            return False
        found.tried.append((rate, value, holds))
        return True

    going = go(start_qps)
    while going and len(found.tried) < STEPS and (found.held is None or found.missed is None):
        rate = 2.0 * found.held if found.held is not None else 0.5 * (found.missed or start_qps)
        going = rate >= LOWEST_QPS and go(rate)
    while going and len(found.tried) < STEPS and found.held is not None and found.missed is not None:
        if found.missed <= CLOSE * found.held:
            break
        going = go(math.sqrt(found.held * found.missed))
    return found


def highest_rate(check: Load, inputs: Inputs, start_qps: float) -> tuple[RateSearch, Confirmed | None]:
    """The highest rate within the objective by short runs, confirmed by one run of the planned length.

    Args:
        check: Has an objective.
        inputs: Where timings come from.
        start_qps: Where to begin.
    """
    objective = check.objective
    if objective is None:
        return RateSearch(stopped="there is no objective"), None
    plain = steady_only(check.arrivals)
    count = 0

    def short(rate: float) -> tuple[float | None, bool, str | None]:
        nonlocal count
        count += 1
        inputs.progress(float(count), float(STEPS + 1), f"search, {rate:.4g} qps")
        run = _run(check, inputs, plain, rate, short_queries(objective, rate), SEED + count)
        if run is None:
            return None, False, "a short run brought nothing"
        why = _void(run, objective)
        if why is not None:
            return None, False, f"at {rate_part(_round(rate))}: {why}"
        value, holds = held(run, objective.metric, objective.threshold)
        return value, holds, None

    found = search(short, start_qps)
    if found.held is None:
        return found, None
    rate = _round(found.held)
    run = _run(check, inputs, plain, rate, check.planned(rate), SEED, check.spread(inputs))
    why = None if run is None else _void(run, objective)
    holds = run is not None and why is None and held(run, objective.metric, objective.threshold)[1]
    return found, Confirmed(rate, run, holds, why)


def _void(run: AtRate, objective: Requirement) -> str | None:
    """Why a run says nothing of the objective, or None; what held in spite of other work says that it holds."""
    why = gravest(run.invalid, fault(run, percentile_of(objective.metric) or 0.5, objective.threshold))
    return None if isinstance(why, OnlyWorse) and held(run, objective.metric, objective.threshold)[1] else why


def held(run: AtRate, metric: str, limit_ms: float) -> tuple[float | None, bool]:
    """The sample's own percentile, and whether it is within the objective without falling behind."""
    estimate = run.latency(metric)
    own = estimate.measured.own
    over = run.saturation is not None and run.saturation.growing
    return estimate.value, own is not None and own <= limit_ms and not over


def _run(
    check: Load, inputs: Inputs, arrivals: Arrivals, rate: float, queries: int, seed: int, processes: int = 1
) -> AtRate | None:
    limits = {} if check.objective is None else {check.objective.metric: check.objective.threshold}
    made = spread(arrivals, rate, queries, inputs.rng, processes)
    return drive(check, inputs, made, rate_part(_round(rate)), limits, seed=seed)


def _round(rate: float) -> float:
    """Three digits."""
    return float(f"{rate:.3g}")

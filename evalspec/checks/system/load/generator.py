"""Load generator as a bottleneck, for each requirement at its own percentile and threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.estimate import Estimate, Measured
from evalspec.evidence.reasons import Cause, OnlyWorse, Reason, gravest
from evalspec.evidence.units import format_number
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.saturation import UnderLoad, WithoutLag
from evalspec.timing.budget import PERCENTILES
from evalspec.timing.generator_lag import allowed_ms, bottleneck
from evalspec.timing.invalidation import violates
from evalspec.timing.no_bound import reasons

if TYPE_CHECKING:
    from evalspec.checks.system.load.one_rate import AtRate
    from evalspec.checks.system.load.spec import Load
    from evalspec.language.requirement import Requirement

TOLD = {0.5: "generator_lag_p50_ms", 0.99: "generator_lag_p99_ms", 1.0: "generator_lag_max_ms"}
"""What a client of a server tells of its own lag; it knows that better than times can tell."""
WAITED = "waited_for_connection_share"
SPARED_SHARE = 0.1
"""Of the median time of an answer: queries may reach a server so much later than they were due."""


def lag_ms(run: AtRate, p: float) -> float | None:
    """The p-quantile of how late the generator was by its own fault; 1: the largest. The worst of all processes.

    Args:
        run: At one rate.
        p: As a fraction.
    """
    lags = [_lag_of(run, index, p) for index in range(len(run.runs))]
    return max((one for one in lags if one is not None), default=None)


def _lag_of(run: AtRate, index: int, p: float) -> float | None:
    one = run.runs[index]
    reported = one.samples.details.get(TOLD[p]) if p in TOLD else None
    if isinstance(reported, int | float):
        return float(reported)
    if not len(one.lag_ms):
        return None
    own = float(one.lag_ms.max()) if p >= 1.0 else percentile([one.lag_ms], p).value
    worst = one.samples.details.get(TOLD[1.0])
    return min(own, float(worst)) if own is not None and isinstance(worst, int | float) else own


def lag(run: AtRate) -> tuple[float | None, float | None, float | None]:
    """Median, p99 and largest lag of the generator, ms."""
    return lag_ms(run, 0.5), lag_ms(run, 0.99), lag_ms(run, 1.0)


def fault(run: AtRate, p: float, limit_ms: float | None, freed: Estimate | None = None) -> str | None:
    """Why latencies at this percentile are not the system's doing, or None.

    Args:
        run: At one rate.
        p: The percentile as a fraction.
        limit_ms: What is required of it, or None.
        freed: The same time without our lag, of a time other than the latency.
    """
    late, allowed = lag_ms(run, p), allowed_ms(limit_ms)
    if late is not None and late > allowed:
        return bottleneck("queries", 1.0 - p, late, allowed)
    return _starved(run, p, limit_ms, freed)


def _starved(run: AtRate, p: float, limit_ms: float | None, freed: Estimate | None) -> str | None:
    """Queries waited for a connection while the server, once asked, was in time."""
    if run.in_process or limit_ms is None:
        return None
    waited = percentile([one.waited_ms for one in run.runs], p).value
    if waited is None or waited <= allowed_ms(limit_ms):
        return None
    if isinstance(freed, UnderLoad):
        answered_in = freed.measured.own
    else:
        answered_in = percentile([np.where(one.samples.ok, one.freed_ms, np.inf) for one in run.runs], p).own
    if answered_in is None or answered_in > limit_ms:
        return None
    return _busy(run, p, waited, "while the server answered in time")


def spared(run: AtRate, p: float) -> str | None:
    """Why a server was asked for less at once than was due, so that it had less to refuse; or None.

    A wait of a tenth of the time that an answer takes changes little of how many are asked for at once. Waits for a
    connection are counted up to the share of errors that is allowed, since each of these queries may have been one.

    Args:
        run: At one rate.
        p: One less the share of errors that is allowed.
    """
    answered = np.concatenate([one.freed_ms[one.samples.ok] for one in run.runs])
    if run.in_process or not len(answered):
        return None
    allowed = max(allowed_ms(None), SPARED_SHARE * float(np.median(answered)))
    late = lag_ms(run, min(p, 0.99))
    if late is not None and late > allowed:
        return bottleneck("queries", 1.0 - min(p, 0.99), late, allowed)
    waited = percentile([one.waited_ms for one in run.runs], p).value
    share = max(float(one.samples.details.get(WAITED) or 0.0) if WAITED in one.samples.details else 1.0
                for one in run.runs)  # fmt: skip
    if waited is None or waited <= allowed or share <= 1.0 - p:
        return None
    return _busy(run, p, waited, "so that the server was spared what was due at once")


def _busy(run: AtRate, p: float, waited_ms: float, beside: str) -> Reason:
    lanes = run.runs[0].schedule.clients * run.runs[0].schedule.connections
    return Reason(
        f"the load generator was the bottleneck: all {lanes:,} connections were busy, and {100.0 * (1.0 - p):.4g} % of "
        f"queries waited more than {format_number(waited_ms)} ms for one, {beside}; add "
        "`connections:`",
        Cause.FEW_CONNECTIONS,
    )


def lagged(run: AtRate, measured: Estimate, freed: Estimate) -> Estimate:
    """The estimate; beside the same without our lag where the generator was late at all, or connections busy."""
    worst = lag_ms(run, 1.0)
    waited = not run.in_process and any(one.waited_ms.max(initial=0.0) > allowed_ms(None) for one in run.runs)
    return WithoutLag(measured, freed) if waited or (worst is not None and worst > allowed_ms(None)) else measured


def gated(
    run: AtRate,
    estimate: Estimate,
    freed: Estimate | None,
    p: float,
    limit_ms: float | None,
    requirements: Sequence[Requirement],
    confidence: float,
) -> Measured:
    """An estimate with what mistrusts its measurement.

    Where the generator was the bottleneck, what is violated without its lag is violated; the rest is void.

    Args:
        run: At one rate.
        estimate: Decides.
        freed: The same without our lag; None: there is none.
        p: The percentile at which the generator must have been in time.
        limit_ms: The latency that it is held against, or None.
        requirements: On this metric at this rate.
        confidence: Of the policy.
    """
    notes = reasons(estimate)
    why = fault(run, p, limit_ms, freed)
    if why is not None and run.invalid is None and freed is not None and violates(freed, requirements, confidence):
        return Measured(estimate, withhold=run.withhold or why, notes=notes)
    # A late generator offers less than was asked for, which helps: it voids more than other work does.
    return Measured(estimate, invalid=gravest(run.invalid, why), withhold=run.withhold, notes=notes)


def wanted(check: Load, metric: str | None, part: str) -> list[Requirement]:
    """Requirements that are held at a rate; on one metric, or on all."""
    return [one for one in check.requirements if metric in (None, one.metric) and one.part in (None, part)]


def tightest(run: AtRate) -> float | None:
    """The tightest latency that is required at a rate, whichever the percentile."""
    return min(run.limits_ms.values(), default=None)


def at_percentile(check: Load, run: AtRate, name: str, confidence: float) -> Measured:
    """A percentile at a rate, with what mistrusts it.

    Args:
        check: Its requirements say how late the generator may be.
        run: At one rate.
        name: Of the metric.
        confidence: Of the policy.
    """
    freed = run.freed(name)
    estimate = lagged(run, run.latency(name), freed)
    limit = run.limits_ms.get(name, tightest(run))
    return gated(run, estimate, freed, PERCENTILES[name], limit, wanted(check, name, run.part), confidence)


def void_percentiles(check: Load, run: AtRate, confidence: float) -> dict[str, str]:
    """Why percentiles of a rate are void, as `at_percentile` says; ``p99`` and its like: the reason. Empty: none is."""
    reasons_of = {name: at_percentile(check, run, name, confidence).invalid for name in PERCENTILES}
    # What held in spite of other work stands: the remark says that there was some.
    return {
        name.removeprefix("latency_"): reason
        for name, reason in reasons_of.items()
        if reason is not None and not isinstance(reason, OnlyWorse)
    }

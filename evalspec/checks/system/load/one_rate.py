"""A run of `load` at one rate, in several fresh processes: the outcome of it, and what mistrusts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.load.one_process import Driven
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.reasons import Cause, Reason, only_worse
from evalspec.evidence.units import format_number
from evalspec.language.inputs import Schedule
from evalspec.language.timings import ANSWERED, FAILED, OUTCOMES
from evalspec.stats.means.mean import t_mean
from evalspec.stats.timing.after_step import After
from evalspec.stats.timing.changepoints import LevelStep, Period, settled, slow_periods, step
from evalspec.stats.timing.percentile import Percentile, percentile
from evalspec.stats.timing.processes import Drift, OverUnits, drift
from evalspec.stats.timing.saturation import BLOCKS, LateUnderLoad, OfferedLoad, UnderLoad, saturation
from evalspec.stats.timing.share_over import share_over
from evalspec.timing import token_times
from evalspec.timing.budget import PERCENTILES, WARMUP_S, percentile_of
from evalspec.timing.surroundings import EVERY_S, surroundings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.load.schedule import Traffic
    from evalspec.checks.system.load.spec import Load
    from evalspec.language.inputs import Inputs, Samples

KEPT_EACH = 8
"""Of a query with many rows: so many answers are kept, to be held against those that quality is computed on."""
OVERTIME = 3.0
"""Times its span that a process may take before it is given up; an overloaded system needs longer."""
LONG_S = 10.0
"""A process as long as this can tell a step from an unsteady second."""


@dataclass(frozen=True)
class AtRate:
    """A run at one rate: its planned queries, spread over fresh processes that were driven one after the other.

    Args:
        part: What the rate is called in a requirement.
        runs: One for each process, at least one.
        limits_ms: Metric: the tightest latency that is required of it here.
        is_look: It is a part of the run, at an early look.
    """

    part: str
    runs: tuple[Driven, ...]
    limits_ms: Mapping[str, float] = field(default_factory=dict)
    is_look: bool = False

    @property
    def traffic(self) -> Traffic:
        """Of the first process."""
        return self.runs[0].traffic

    @property
    def samples(self) -> list[Samples]:
        """One for each process."""
        return [one.samples for one in self.runs]

    @property
    def queries(self) -> int:
        """Number of queries that were asked for."""
        return sum(len(one.traffic.times_ns) for one in self.runs)

    @property
    def in_process(self) -> bool:
        """The server is ours."""
        return all(one.in_process for one in self.runs)

    @property
    def where(self) -> str:
        """Conditions that the numbers hold for."""
        count = len(self.runs)
        if self.in_process:
            return f"{count} fresh processes" if count > 1 else "one fresh process"
        return "this server process"

    @cached_property
    def handed(self) -> str:
        """Rows that a query of a trace hands to the model, in words; empty: one each."""
        sizes = [one.traffic.sizes for one in self.runs if one.traffic.sizes is not None]
        if not sizes:
            return ""
        every = np.concatenate(sizes)
        low, high = int(every.min()), int(every.max())
        return f"{low:,}" if low == high else f"{low:,} to {high:,}, {format_number(float(every.mean()))} on average"

    @cached_property
    def starts_s(self) -> list[float]:
        """When each process began, were they driven without a pause."""
        spans = [float(one.due_ns[-1]) / 1e9 if len(one.due_ns) else 0.0 for one in self.runs]
        return [float(at) for at in np.cumsum([0.0, *spans])[:-1]]

    @cached_property
    def due_s(self) -> NDArray[np.float64]:
        """When each query of all processes was due, one process after the other; shape (q,)."""
        return np.concatenate([at + one.due_ns / 1e9 for at, one in zip(self.starts_s, self.runs, strict=True)])

    @cached_property
    def latencies_ms(self) -> NDArray[np.float64]:
        """Of all processes, infinite where a query failed; shape (q,)."""
        return np.concatenate([one.latencies_ms for one in self.runs])

    @cached_property
    def steady_times_ns(self) -> NDArray[np.int64]:
        """When the judged queries were to come, one process after the other without a gap; shape (q,)."""
        gaps: list[NDArray[np.int64]] = []
        for one in self.runs:
            times = one.traffic.times_ns[one.traffic.steady]
            gaps.append(np.diff(times) if not gaps else np.diff(times, prepend=times[:1] - self._gap_ns))
        first = self.runs[0].traffic.times_ns[self.runs[0].traffic.steady][:1]
        return np.concatenate([first, first + np.cumsum(np.concatenate(gaps))]).astype(np.int64)

    @property
    def _gap_ns(self) -> int:
        return round(1e9 / self.traffic.asked_qps)

    @cached_property
    def judged(self) -> list[NDArray[np.float64]]:
        """Latencies of the steady part of each process."""
        return [one.judged_ms for one in self.runs]

    @cached_property
    def judged_ms(self) -> NDArray[np.float64]:
        """The same, all together."""
        return np.concatenate(self.judged)

    @cached_property
    def saturation(self) -> OfferedLoad | None:
        """Of the steady parts."""
        return _saturation(self.runs, [one.steady for one in self.runs], [one.latencies_ms for one in self.runs])

    @cached_property
    def spike_saturation(self) -> OfferedLoad | None:
        """Of the spikes."""
        return _saturation(self.runs, [one.spike for one in self.runs], [one.latencies_ms for one in self.runs])

    @cached_property
    def freed_saturation(self) -> OfferedLoad | None:
        """Of the steady parts, without our lag."""
        return _saturation(self.runs, [one.steady for one in self.runs], [one.freed_ms for one in self.runs])

    def latency(self, metric: str) -> UnderLoad:
        """A percentile of the steady parts: of latencies, or of a time of streamed answers."""
        return self._latency[metric] if metric in PERCENTILES else _percentile_of(self.tokens, metric)

    def freed(self, metric: str) -> UnderLoad:
        """The same without our lag."""
        return self._freed[metric] if metric in PERCENTILES else _percentile_of(self.freed_tokens, metric)

    @property
    def steady(self) -> list[NDArray[np.bool_]]:
        """Queries of each process that are judged."""
        return [one.steady for one in self.runs]

    @cached_property
    def tokens(self) -> Mapping[str, Estimate]:
        """Percentiles of times of streamed answers in the steady parts; empty where nothing streams."""
        return token_times.estimates(token_times.series_of(self.samples, self.steady), self._token_time)

    @cached_property
    def freed_tokens(self) -> Mapping[str, Estimate]:
        """The same without our lag."""
        series = token_times.series_of(self.samples, self.steady, from_sent=True)
        return token_times.estimates(series, lambda _, one: UnderLoad(one, None))

    def _token_time(self, time: str, measured: Percentile) -> UnderLoad:
        """Where a queue grows, first tokens come later and later; those that follow need not."""
        return UnderLoad(measured, self._first_saturation if time.startswith("tt") else None, None, self.where)

    @cached_property
    def _first_saturation(self) -> OfferedLoad | None:
        return _saturation(self.runs, self.steady, [one.first_ms for one in self.runs])

    def late(self, metric: str, limit_ms: float) -> LateUnderLoad:
        """The share of queries of the steady parts that failed or took longer; in the time that a metric is of."""
        if metric not in PERCENTILES:
            firsts = [one.first_of(metric)[one.steady] for one in self.runs]
            return LateUnderLoad(share_over(firsts, limit_ms), self._first_saturation, None, self.where)
        after = None if self.after is None else After(share_over(self.after, limit_ms), self.after_decides)
        return LateUnderLoad(share_over(self.judged, limit_ms), self.saturation, after, self.where)

    def freed_late(self, metric: str, limit_ms: float) -> LateUnderLoad:
        """The same without our lag."""
        if metric not in PERCENTILES:
            firsts = [one.first_of(metric, from_sent=True)[one.steady] for one in self.runs]
            return LateUnderLoad(share_over(firsts, limit_ms), None, None, self.where)
        share = share_over([one.freed_ms[one.steady] for one in self.runs], limit_ms)
        return LateUnderLoad(share, self.freed_saturation, None, self.where)

    def not_good(self, good: Mapping[str, float], *, freed: bool = False) -> LateUnderLoad:
        """The share of queries of the steady parts that failed, or missed any of their objectives.

        Args:
            good: Time of a request: its longest, ms.
            freed: Without our lag.
        """
        by_limits = [one.by_limits(good, freed=freed)[one.steady] for one in self.runs]
        return LateUnderLoad(share_over(by_limits, 1.0), None, None, self.where)

    def output_rate(self) -> OverUnits | None:
        """Tokens that arrived a second in the steady parts, by blocks of time; None where nobody counts tokens."""
        blocks = [one.tokens_by_second(round(BLOCKS / len(self.runs)) or 1) for one in self.runs]
        counted = [one for one in blocks if one is not None]
        if len(counted) < len(blocks) or sum(len(one) for one in counted) < 2:
            return None
        return OverUnits(t_mean(np.concatenate(counted)), "blocks of time", least=0.0)

    @cached_property
    def _latency(self) -> dict[str, UnderLoad]:
        median = percentile(self.judged, 0.5)
        later = None if self.after is None else percentile(self.after, 0.5)
        return {
            name: UnderLoad(
                median.at(p), self.saturation, None if later is None else After(later.at(p), self.after_decides),
                self.where,
            )
            for name, p in PERCENTILES.items()
        }  # fmt: skip

    @cached_property
    def _freed(self) -> dict[str, UnderLoad]:
        median = percentile([one.freed_ms[one.steady] for one in self.runs], 0.5)
        return {name: UnderLoad(median.at(p), self.freed_saturation) for name, p in PERCENTILES.items()}

    @cached_property
    def _stepped(self) -> list[tuple[Driven, LevelStep]]:
        """Processes in which latency steps up, where there are several that are long enough to tell."""
        if len(self.runs) < 2:
            return []
        steps = [(one, one.step) for one in self.runs if len(one.due_ns) and one.due_ns[-1] >= 1e9 * LONG_S]
        return [(one, change) for one, change in steps if change is not None and change.change > 0]

    @cached_property
    def step(self) -> LevelStep | None:
        """A lasting change of latency: the first inside of a process, or else in the course of all of them."""
        if self._stepped:
            return self._stepped[0][1]
        kept = np.isfinite(self.judged_ms)
        when = self._judged_s[kept]
        change = step(self.judged_ms[kept], when)
        return None if change is None else LevelStep(change.at_s + float(when[0]), change.change, change.p_value)

    @cached_property
    def _judged_s(self) -> NDArray[np.float64]:
        return np.concatenate([at + one.judged_s for at, one in zip(self.starts_s, self.runs, strict=True)])

    @cached_property
    def after(self) -> list[NDArray[np.float64]] | None:
        """Latencies of the steady parts that followed a step up, one array per process; None where there is none."""
        if self.step is None or self.step.change <= 0:
            return None
        if self._stepped:
            return [one.judged_ms[one.judged_s >= change.at_s] for one, change in self._stepped]
        cut = [
            one.judged_ms[at + one.judged_s >= self.step.at_s] for at, one in zip(self.starts_s, self.runs, strict=True)
        ]
        return [series for series in cut if len(series)]

    @cached_property
    def after_decides(self) -> bool:
        """True where what followed a step may fail by itself: something throttled, or two processes did the same."""
        return bool(surroundings(self.samples).throttled) or len(self._stepped) >= 2

    @cached_property
    def drift(self) -> Drift | None:
        """A trend in the course of each process, of what followed its step where it has one."""
        return drift([settled(series[np.isfinite(series)]) for series in self.judged])

    @cached_property
    def period(self) -> Period | None:
        """Slow spells that come round again."""
        return slow_periods(self.judged, [one.judged_s for one in self.runs])

    @cached_property
    def invalid(self) -> str | None:
        """Reason that lies in the harness or the surroundings, whatever is required; or None.

        Other work can only have made answers later and fewer.
        """
        made = sum(len(one.samples.end_ns) for one in self.runs)
        if made < self.queries:
            return Reason(f"{made:,} of {self.queries:,} planned queries were made", Cause.CUT_SHORT)
        other = next((why for one in self.runs if (why := one.other_times) is not None), None)
        return other or only_worse(surroundings(self.samples).invalid)

    @property
    def withhold(self) -> str | None:
        """Behaviour of the system that keeps it from PASS."""
        load = self.saturation
        if load is not None and load.growing:
            return Reason(
                f"at most {load.most_served_qps:,.4g} of {load.offered_qps:,.4g} qps were answered: latency grows as "
                "long as this goes on",
                Cause.OVERLOAD,
            )
        if self.drift is not None and self.drift.direction == "up":
            rise = f"latency rises by {100 * self.drift.change:.0f} %"
            text = f"{rise} in the course of a process: no steady state was reached"
            return Reason(text, Cause.NO_STEADY_STATE)
        if any(_steps_up(series) for series in self.after or ()):
            return Reason("latency steps up again and again: no steady state was reached", Cause.NO_STEADY_STATE)
        if self.is_look:
            return Reason("at an early look bursts may be missed that come in all of the queries", Cause.CUT_SHORT)
        return None

    def outcomes(self) -> dict[str, int]:
        """Number of queries by outcome; all of them, answered first."""
        counts = np.zeros(len(OUTCOMES), dtype=np.int64)
        for one in self.samples:
            index = one.outcome if one.outcome is not None else np.where(one.ok, ANSWERED, FAILED)
            counts += np.bincount(index, minlength=len(OUTCOMES))
        return {name: int(count) for name, count in zip(OUTCOMES, counts, strict=True) if count}


def _percentile_of(found: Mapping[str, Estimate], metric: str) -> UnderLoad:
    """A percentile of a time of streamed answers; of nothing where there is none."""
    one = found.get(metric)
    return (
        one if isinstance(one, UnderLoad) else UnderLoad(percentile([np.empty(0)], percentile_of(metric) or 0.5), None)
    )


def _saturation(
    runs: Sequence[Driven], kept: Sequence[NDArray[np.bool_]], latencies_ms: Sequence[NDArray[np.float64]]
) -> OfferedLoad | None:
    due, end, spent = [], [], []
    for one, mask, latency in zip(runs, kept, latencies_ms, strict=True):
        took = np.where(np.isfinite(latency), 1e6 * np.where(np.isfinite(latency), latency, 0.0), -1.0)
        ended = np.where(took >= 0, one.due_ns + took, one.samples.end_ns - one.samples.intended_ns + one.due_ns)
        due.append(one.due_ns[mask])
        end.append(ended[mask].astype(np.int64))
        spent.append(latency[mask])
    return saturation(due, end, spent)


def _steps_up(series: NDArray[np.float64]) -> bool:
    answered = series[np.isfinite(series)]
    again = step(answered, np.arange(len(answered), dtype=np.float64))
    return again is not None and again.change > 0


def drive(
    check: Load,
    inputs: Inputs,
    pieces: Sequence[Traffic],
    part: str,
    limits_ms: Mapping[str, float],
    *,
    seed: int = 0,
) -> AtRate | None:
    """Runs each piece of a schedule in a fresh process.

    Args:
        check: How it is driven.
        inputs: Where timings come from.
        pieces: When queries are due, one for each process.
        part: What it is called.
        limits_ms: Metric: the tightest latency that is required.
        seed: Order of the rows in the first process; the others have the seeds that follow.

    Returns:
        None where nothing came back.
    """
    runs = []
    for process, traffic in enumerate(pieces):
        schedule = Schedule(
            kind="open_loop",
            queries=len(traffic.times_ns),
            processes=1,
            batch=1 if traffic.sizes is None else min(KEPT_EACH, int(traffic.sizes.max())),
            warmup_queries=check.warmup,
            warmup_s=WARMUP_S,
            seed=seed + process,
            limit_s=OVERTIME * traffic.span_s + 4 * check.timeout_s + 120.0,
            arrivals_ns=traffic.times_ns,
            items=traffic.items,
            sizes=traffic.sizes,
            max_batch=check.max_batch,
            queue_delay_s=check.queue_delay_s,
            timeout_s=check.timeout_s,
            clients=check.clients,
            connections=check.connections,
            telemetry_s=EVERY_S,
        )
        made = inputs.measure(schedule, check.dataset, check.model)
        if made and len(made[0].end_ns):
            runs.append(Driven(traffic, replace(made[0], process=process), schedule))
        elif not runs:
            return None
        else:
            runs.append(Driven(traffic, _nothing(runs[0].samples, process), schedule))
    return AtRate(part, tuple(runs), limits_ms, check.is_look)


def _nothing(like: Samples, process: int) -> Samples:
    """Of a process that brought nothing: its queries are missing from those that were planned."""
    return replace(
        like, process=process, block=like.block[:0], intended_ns=like.intended_ns[:0], sent_ns=like.sent_ns[:0],
        end_ns=like.end_ns[:0], items=like.items[:0], ok=like.ok[:0], answers=None, first_ns=None, outcome=None,
        together=None, telemetry=None, sizes=None, streams=None,
    )  # fmt: skip

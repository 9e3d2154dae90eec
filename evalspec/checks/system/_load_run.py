"""One run of `load`: what was asked for, what came of it, and whether it may count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system import _samples
from evalspec.checks.system._environment import EVERY_S, surroundings
from evalspec.checks.system._timed import PERCENTILES, WARMUP_S
from evalspec.evidence.units import format_number
from evalspec.language.inputs import OUTCOMES, Schedule
from evalspec.measure.open_loop import generator_lag_ns
from evalspec.stats.course import Period, Step, slow_period, step
from evalspec.stats.percentile import percentile
from evalspec.stats.saturation import Saturation, UnderLoad, saturation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system._load_arrivals import Traffic
    from evalspec.checks.system.load import Load
    from evalspec.language.inputs import Inputs, Samples

LAG_MS = 1.0
LAG_SHARE = 0.01
"""Of the threshold: a generator may be late by this or by 1 ms, whichever is more."""
RATE_OFF = 0.001
"""Share by which the driven times may be stretched against the schedule's own."""
EARLY_NS = 100_000
CLIENT_TELLS = "waited_for_connection_share"
"""A fact that only a client of a server gives; it knows its own lag better than times can tell."""
CLOCK_NS = 1000
"""What two readings of a clock may seem to overlap by."""
OVERTIME = 3.0
"""Times its span that a run may take before it is given up; an overloaded system needs longer."""


@dataclass(frozen=True)
class AtRate:
    """A run at one rate.

    Args:
        part: What the rate is called in a requirement.
        traffic: Times that were asked for.
        samples: What came of them, in the order of due times.
        schedule: That was driven.
        limit_ms: The tightest latency that is required of it, or None.
    """

    part: str
    traffic: Traffic
    samples: Samples
    schedule: Schedule
    limit_ms: float | None

    @cached_property
    def due_ns(self) -> NDArray[np.int64]:
        """When each query was due, from the start of the schedule; shape (q,)."""
        intended = self.samples.intended_ns
        return intended - (intended[0] - self.traffic.times_ns[0]) if len(intended) else intended

    @cached_property
    def latencies_ms(self) -> NDArray[np.float64]:
        """From due to end, infinite where it failed; shape (q,)."""
        return _samples.latencies_ms(self.samples)

    @cached_property
    def steady(self) -> NDArray[np.bool_]:
        """Queries that are judged, shape (q,)."""
        return self._of(self.traffic.steady)

    @cached_property
    def spike(self) -> NDArray[np.bool_]:
        """Queries of the spike, shape (q,)."""
        return self._of(self.traffic.spike)

    def _of(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A stretch of the schedule, as far as it was measured: queries are due in its order."""
        found = np.zeros(len(self.samples.end_ns), dtype=np.bool_)
        found[: len(mask)] = mask[: len(found)]
        return found

    @cached_property
    def judged_ms(self) -> NDArray[np.float64]:
        """Latencies of the steady part."""
        return self.latencies_ms[self.steady]

    @cached_property
    def saturation(self) -> Saturation | None:
        """Of the steady part."""
        return self._saturation(self.steady)

    @cached_property
    def spike_saturation(self) -> Saturation | None:
        """Of the spike."""
        return self._saturation(self.spike)

    def _saturation(self, kept: NDArray[np.bool_]) -> Saturation | None:
        end = self.samples.end_ns - self.samples.intended_ns + self.due_ns
        return saturation([self.due_ns[kept]], [end[kept]], [self.latencies_ms[kept]])

    def latency(self, metric: str) -> UnderLoad:
        """A percentile of the steady part."""
        return self._latency[metric]

    @cached_property
    def _latency(self) -> dict[str, UnderLoad]:
        median = percentile([self.judged_ms], 0.5)
        after = None if self.after_ms is None else percentile([self.after_ms], 0.5)
        return {
            name: UnderLoad(median.at(p), self.saturation, None if after is None else after.at(p))
            for name, p in PERCENTILES.items()
        }

    @cached_property
    def after_ms(self) -> NDArray[np.float64] | None:
        """Latencies of the steady part that followed a step up, or None."""
        if self.step is None or self.step.change <= 0:
            return None
        due_s = self.due_ns[self.steady] / 1e9
        kept: NDArray[np.float64] = self.judged_ms[due_s - due_s[0] >= self.step.at_s]
        return kept

    @cached_property
    def lag_ms(self) -> NDArray[np.float64]:
        """How late the generator was by its own fault, shape (k,): a query, or a batch of them, each."""
        one = self.samples
        if self.in_process:
            lag = generator_lag_ns(
                one.intended_ns, one.sent_ns, one.end_ns,
                max_batch=self.schedule.max_batch, queue_delay_ns=int(self.schedule.queue_delay_s * 1e9),
            )  # fmt: skip
        else:
            lag = self._sent_late_ns[one.end_ns > one.sent_ns]
        return np.maximum(lag, 0) / 1e6

    @cached_property
    def _sent_late_ns(self) -> NDArray[np.int64]:
        """From due, or from when a connection became free, to sent; shape (q,)."""
        one, lanes, clients = self.samples, self.schedule.connections, self.schedule.clients
        free = np.full(len(one.sent_ns), np.iinfo(np.int64).min)
        for client in range(clients):
            # Each client has every so many-th query, and connections of its own.
            own = np.arange(client, len(free), clients)
            order = own[np.argsort(one.sent_ns[own], kind="stable")]
            free[order[lanes:]] = np.sort(one.end_ns[own])[: max(0, len(order) - lanes)]
        late: NDArray[np.int64] = one.sent_ns - np.maximum(one.intended_ns, np.minimum(free, one.sent_ns))
        return late

    @cached_property
    def in_process(self) -> bool:
        """The server is ours: no query was sent while another was being answered, but for those of its batch."""
        one = self.samples
        if CLIENT_TELLS in one.details:
            return False
        handed = one.end_ns > one.sent_ns
        sent, end = one.sent_ns[handed], one.end_ns[handed]
        later = np.flatnonzero(np.diff(sent) != 0)
        return bool((np.diff(sent) >= 0).all() and (sent[later + 1] >= end[later] - CLOCK_NS).all())

    @cached_property
    def lag(self) -> tuple[float | None, float | None, float | None]:
        """Median, p99 and largest lag of the generator, ms; as a client of a server tells it, where it does."""
        if CLIENT_TELLS in self.samples.details:
            told = (self.samples.details.get(f"generator_lag_{name}_ms") for name in ("p50", "p99", "max"))
            p50, p99, worst = (float(one) if isinstance(one, int | float) else None for one in told)
            return p50, p99, worst
        if not len(self.lag_ms):
            return None, None, None
        made = percentile([self.lag_ms], 0.99)
        return made.at(0.5).value, made.value, float(self.lag_ms.max())

    @property
    def lag_p99_ms(self) -> float | None:
        """p99 of the generator's lag."""
        return self.lag[1]

    @property
    def lag_limit_ms(self) -> float:
        """How late the generator may be."""
        return max(LAG_MS, LAG_SHARE * (self.limit_ms or 0.0))

    @cached_property
    def invalid(self) -> str | None:
        """What the harness or the surroundings did, or None."""
        planned, made = len(self.traffic.times_ns), len(self.samples.end_ns)
        if made < planned:
            return f"{made:,} of {planned:,} planned queries were made"
        return self._other_times or surroundings([self.samples]).invalid or self._late or self._starved

    @property
    def _other_times(self) -> str | None:
        """The times that were driven are not those that were asked for."""
        asked, driven = (np.diff(times).astype(np.float64) for times in (self.traffic.times_ns, self.due_ns))
        off = float(driven.sum() / asked.sum() - 1.0) if len(asked) and asked.sum() > 0 else 0.0
        if abs(off) > RATE_OFF:
            rate = self.traffic.asked_qps
            return (
                f"the generator did not keep to the schedule: {format_number(rate)} qps were asked for and "
                f"{format_number(rate / (1.0 + off))} qps were due"
            )
        moved = np.abs(self.due_ns - self.traffic.times_ns).max(initial=0)
        if moved > max(EARLY_NS, RATE_OFF * self.traffic.times_ns[-1]):
            return f"the generator did not keep to the schedule: a query was due {moved / 1e6:,.1f} ms off its time"
        one = self.samples
        early = int((one.sent_ns < one.intended_ns - EARLY_NS).sum())
        if early:
            return f"{early:,} queries were sent before they were due"
        backwards = int((one.end_ns < one.sent_ns).sum())
        return f"{backwards:,} queries were answered before they were sent" if backwards else None

    @property
    def _late(self) -> str | None:
        lag = self.lag_p99_ms
        if lag is None or lag <= self.lag_limit_ms:
            return None
        return (
            f"the load generator was the bottleneck: 1 % of queries were sent more than {format_number(lag)} ms late "
            f"(at most {format_number(self.lag_limit_ms)} ms), which is not the system's doing"
        )

    @property
    def _starved(self) -> str | None:
        """Queries waited for a connection while the server, once asked, was in time."""
        if self.in_process:
            return None
        one, p = self.samples, 0.99
        waited = percentile([np.maximum(one.sent_ns - one.intended_ns, 0)[one.end_ns > one.sent_ns] / 1e6], p).value
        if waited is None or waited <= self.lag_limit_ms:
            return None
        lanes = self.schedule.clients * self.schedule.connections
        own = np.where(one.ok, (one.end_ns - one.sent_ns) / 1e6, np.inf)
        answered_in = percentile([own], p).own
        if self.limit_ms is None or answered_in is None or answered_in > self.limit_ms:
            return None
        return (
            f"the load generator was the bottleneck: all {lanes:,} connections were busy, and 1 % of queries waited "
            f"more than {format_number(waited)} ms for one, while the server answered in time; add `connections:`"
        )

    @cached_property
    def step(self) -> Step | None:
        """A lasting change of latency in the steady part."""
        kept = self.steady & np.isfinite(self.latencies_ms)
        return step(self.latencies_ms[kept], self.due_ns[kept] / 1e9)

    @cached_property
    def period(self) -> Period | None:
        """Slow spells that come round again."""
        return slow_period(self.judged_ms, self.due_ns[self.steady] / 1e9)

    @property
    def withhold(self) -> str | None:
        """What the system did that keeps it from PASS."""
        found, after = self.saturation, self.after_ms
        if found is not None and found.growing:
            return (
                f"at most {found.most_served_qps:,.4g} of {found.offered_qps:,.4g} qps were answered: latency grows as "
                "long as this goes on"
            )
        if after is None:
            return None
        again = step(after[np.isfinite(after)], np.arange(int(np.isfinite(after).sum()), dtype=np.float64))
        if again is not None and again.change > 0:
            return "latency steps up again and again: no steady state was reached"
        return None

    def outcomes(self) -> dict[str, int]:
        """What became of the queries, by outcome; all of them, answered first."""
        one = self.samples
        index = one.outcome if one.outcome is not None else np.where(one.ok, 0, 1)
        counts = np.bincount(index, minlength=len(OUTCOMES))
        return {name: int(count) for name, count in zip(OUTCOMES, counts, strict=True) if count}


def drive(
    check: Load, inputs: Inputs, traffic: Traffic, part: str, limit_ms: float | None, *, seed: int = 0
) -> AtRate | None:
    """Runs one schedule in a fresh process.

    Args:
        check: How it is driven.
        inputs: Where timings come from.
        traffic: When queries are due.
        part: What it is called.
        limit_ms: The tightest latency that is required, or None.
        seed: Order of the rows.

    Returns:
        None where nothing came back.
    """
    schedule = Schedule(
        kind="open_loop",
        queries=len(traffic.times_ns),
        processes=1,
        warmup_queries=check.warmup,
        warmup_s=WARMUP_S,
        seed=seed,
        limit_s=OVERTIME * traffic.span_s + 4 * check.timeout_s + 120.0,
        arrivals_ns=traffic.times_ns,
        items=traffic.items,
        max_batch=check.max_batch,
        queue_delay_s=check.queue_delay_s,
        timeout_s=check.timeout_s,
        clients=check.clients,
        connections=check.connections,
        telemetry_s=EVERY_S,
    )
    made = inputs.measure(schedule, check.dataset, check.model)
    if not made or not len(made[0].end_ns):
        return None
    return AtRate(part, traffic, _in_order(made[0]), schedule, limit_ms)


def _in_order(samples: Samples) -> Samples:
    """By due time: several clients may have written one after the other."""
    order = np.argsort(samples.intended_ns, kind="stable")
    if (order == np.arange(len(order))).all():
        return samples

    def sorted_(values: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        return None if values is None else values[order]

    return replace(
        samples, block=samples.block[order], intended_ns=samples.intended_ns[order], sent_ns=samples.sent_ns[order],
        end_ns=samples.end_ns[order], items=samples.items[order], ok=samples.ok[order],
        answers=None if samples.answers is None else samples.answers[order], first_ns=sorted_(samples.first_ns),
        outcome=sorted_(samples.outcome), together=sorted_(samples.together),
    )  # fmt: skip

"""One process of a run of `load`: what was asked for, the outcome of it, and how late our generator was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.reasons import Cause, Reason
from evalspec.evidence.units import format_number
from evalspec.language.inputs import Schedule
from evalspec.language.timings import TIMED_OUT
from evalspec.measure.open_loop import generator_lag_ns, served_without_lag_ns
from evalspec.stats.timing.changepoints import LevelStep, step
from evalspec.timing import samples as timing_samples
from evalspec.timing import streams
from evalspec.timing.budget import PERCENTILES, TOKEN_PERCENTILES, USER_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.load.schedule import Traffic
    from evalspec.language.inputs import Samples

RATE_OFF = 0.001
"""Share by which the driven times may be stretched against the schedule's own."""
EARLY_NS = 100_000
FIRSTS = ("ttft", "ttfa")
"""Times of a streamed answer that count from when it was due."""


@dataclass(frozen=True)
class Driven:
    """A process at one rate.

    Args:
        traffic: Times that were asked for.
        samples: What came of them, in the order of due times.
        schedule: That was driven.
    """

    traffic: Traffic
    samples: Samples
    schedule: Schedule

    @cached_property
    def due_ns(self) -> NDArray[np.int64]:
        """When each query was due, from the start of the schedule; shape (q,)."""
        intended = self.samples.intended_ns
        return intended - (intended[0] - self.traffic.times_ns[0]) if len(intended) else intended

    @cached_property
    def latencies_ms(self) -> NDArray[np.float64]:
        """From due to end, infinite where it failed; shape (q,)."""
        return timing_samples.latencies_ms(self.samples)

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
        members = np.zeros(len(self.samples.end_ns), dtype=np.bool_)
        members[: len(mask)] = mask[: len(members)]
        return members

    @cached_property
    def judged_ms(self) -> NDArray[np.float64]:
        """Latencies of the steady part."""
        return self.latencies_ms[self.steady]

    @cached_property
    def judged_s(self) -> NDArray[np.float64]:
        """When those were due, from the start of the schedule."""
        return self.due_ns[self.steady] / 1e9

    @property
    def in_process(self) -> bool:
        """The server is ours; samples that do not tell are of such a one."""
        return self.samples.details.get("in_process") is not False

    @cached_property
    def handed(self) -> NDArray[np.bool_]:
        """Queries that were sent at all, shape (q,)."""
        return self.samples.end_ns > self.samples.sent_ns

    @cached_property
    def freed_ms(self) -> NDArray[np.float64]:
        """Latencies as they would have been without our lag, infinite where it failed otherwise; shape (q,).

        In process queries are served in their order with the service times that were measured, each batch of them as
        soon as it is due and the server is free. Of a server that is asked it is the time from sending to the end:
        that also takes away what a query waited for a connection, so a violation of it is one of the server alone.
        """
        one, schedule = self.samples, self.schedule
        if self.in_process:
            freed = served_without_lag_ns(
                one.intended_ns, one.sent_ns, one.end_ns,
                max_batch=schedule.max_batch, queue_delay_ns=int(schedule.queue_delay_s * 1e9),
            )  # fmt: skip
        else:
            freed = one.end_ns - one.sent_ns
        spent = np.minimum(freed / 1e6, (one.end_ns - one.intended_ns) / 1e6)
        late = ~one.ok if one.outcome is None else one.outcome == TIMED_OUT
        answered = one.ok | (late & self.handed & (spent < 1e3 * schedule.timeout_s))
        latency_ms: NDArray[np.float64] = np.where(answered, spent, np.inf)
        return latency_ms

    @cached_property
    def streamed_ms(self) -> Mapping[str, NDArray[np.float64]]:
        """Times of streamed answers, from due; empty where nothing streams."""
        return streams.times_ms(self.samples)

    @cached_property
    def first_ms(self) -> NDArray[np.float64]:
        """From due to the first token, infinite where it failed or nothing was streamed; shape (q,)."""
        return self.first_of("ttft")

    def first_of(self, metric: str, *, from_sent: bool = False) -> NDArray[np.float64]:
        """From due to the first token, or to that of the answer, as a metric has it; infinite where there is none.

        Args:
            metric: ``ttft_p95``.
            from_sent: From when it was sent: without our lag, and without a wait for a connection.
        """
        first = self.streamed_ms.get(metric.partition("_")[0], np.full(len(self.samples.ok), np.inf))
        late_ms = (self.samples.sent_ns - self.samples.intended_ns) / 1e6 if from_sent else 0.0
        return np.nan_to_num(first, nan=np.inf, posinf=np.inf) - late_ms

    def time_of(self, metric: str) -> NDArray[np.float64]:
        """The time that a percentile is of, from due, infinite where it failed; shape (q,)."""
        if metric == USER_RATE:
            metric = "tpot"
        elif metric in PERCENTILES:
            return self.latencies_ms
        time = TOKEN_PERCENTILES[metric][0] if metric in TOKEN_PERCENTILES else metric
        return self.streamed_ms.get(time, np.full(len(self.samples.ok), np.inf))

    def by_limits(self, good: Mapping[str, float], *, freed: bool = False) -> NDArray[np.float64]:
        """Times of each query by their longest, of all objectives the largest: over 1 where one was missed; (q,).

        One that failed is infinite. An answer that has no such time (one of one piece has no gap) is judged by its
        other times.

        Args:
            good: Time of a request: its longest, ms.
            freed: Without our lag.
        """
        worst = np.where(self.samples.ok, 0.0, np.inf)
        for time, limit in good.items():
            if time == "latency":
                spent = self.freed_ms if freed else self.latencies_ms
            elif time in FIRSTS:
                spent = self.first_of(time, from_sent=freed)
            else:
                spent = self.streamed_ms.get(time, np.full(len(worst), np.inf))
            worst = np.fmax(worst, spent / limit)
        return worst

    def tokens_by_second(self, blocks: int) -> NDArray[np.float64] | None:
        """Tokens that arrived a second in equal blocks of the steady part, shape (blocks,); None: nobody counts them.

        Tokens arrive with their piece; those of an answer are spread over its pieces, and a query that failed has none.
        """
        found, due = self.samples.streams, self.due_ns[self.steady]
        each = streams.tokens_by_piece(self.samples)
        if found is None or each is None or len(due) < 2:
            return None
        origin = self.samples.intended_ns[0] - self.due_ns[0]
        reach = (float(due[0] + origin), float(due[-1] + origin))
        arrived = np.histogram(found.piece_ns, blocks, reach, weights=each)[0]
        rate: NDArray[np.float64] = arrived / ((reach[1] - reach[0]) / blocks / 1e9)
        return rate

    @cached_property
    def lag_ms(self) -> NDArray[np.float64]:
        """Lag of the generator by its own fault, shape (k,): a query, or a batch of them, each."""
        one = self.samples
        if self.in_process:
            lag = generator_lag_ns(
                one.intended_ns, one.sent_ns, one.end_ns,
                max_batch=self.schedule.max_batch, queue_delay_ns=int(self.schedule.queue_delay_s * 1e9),
            )  # fmt: skip
        else:
            lag = self._sent_late_ns[self.handed]
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
    def waited_ms(self) -> NDArray[np.float64]:
        """From due to sent of those that were sent, shape (k,)."""
        one = self.samples
        waited: NDArray[np.float64] = np.maximum(one.sent_ns - one.intended_ns, 0)[self.handed] / 1e6
        return waited

    @property
    def other_times(self) -> str | None:
        """The times that were driven are not those that were asked for."""
        planned, driven = (np.diff(times).astype(np.float64) for times in (self.traffic.times_ns, self.due_ns))
        off = float(driven.sum() / planned.sum() - 1.0) if len(planned) and planned.sum() > 0 else 0.0
        if abs(off) > RATE_OFF:
            rate = self.traffic.asked_qps
            return Reason(
                f"the generator did not keep to the schedule: {format_number(rate)} qps were scheduled and "
                f"{format_number(rate / (1.0 + off))} qps were due",
                Cause.SCHEDULE,
            )
        moved = np.abs(self.due_ns - self.traffic.times_ns).max(initial=0)
        if moved > max(EARLY_NS, RATE_OFF * self.traffic.times_ns[-1]):
            text = f"the generator did not keep to the schedule: a query was due {moved / 1e6:,.1f} ms off its time"
            return Reason(text, Cause.SCHEDULE)
        one = self.samples
        early = int((one.sent_ns < one.intended_ns - EARLY_NS).sum())
        if early:
            return Reason(f"{early:,} queries were sent before they were due", Cause.SCHEDULE)
        backwards = int((one.end_ns < one.sent_ns).sum())
        return f"{backwards:,} queries were answered before they were sent" if backwards else None

    @cached_property
    def step(self) -> LevelStep | None:
        """A lasting change of latency in the steady part; its time is from the start of the schedule."""
        kept = np.isfinite(self.judged_ms)
        when = self.judged_s[kept]
        change = step(self.judged_ms[kept], when)
        return None if change is None else LevelStep(change.at_s + float(when[0]), change.change, change.p_value)

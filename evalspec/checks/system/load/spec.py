"""`load`: what a system serves in time when queries come on their own."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr

from evalspec.checks.system.load.arrivals import TRACE, Arrivals
from evalspec.checks.system.load.plan import Recorded, estimated
from evalspec.evidence.metric import Metric
from evalspec.evidence.units import format_number, from_unit
from evalspec.language.declarations import Effort, Listing
from evalspec.language.parts import (
    Check,
    DatasetName,
    Known,
    Need,
    NeedRows,
    NeedTiming,
    Part,
    SpecNames,
)
from evalspec.language.units import Duration, Milliseconds, QueryRate
from evalspec.timing.budget import (
    PERCENTILES,
    TOKEN_PERCENTILES,
    least_queries,
    ordinal,
    rate_part,
    shown_by,
    token_metrics,
)
from evalspec.timing.looks import looks_at, with_fewer

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.inputs import Inputs
    from evalspec.language.requirement import Requirement

DEFAULT_QUERIES = 1000
"""Per rate, before the design effect, where nothing is required: as many as a p99 needs."""

_COUNTED = "binomial on the share of queries over, with a design effect; over-saturation by t over 20 blocks of time"


FIRST_TOKENS = tuple(name for name, (time, _) in TOKEN_PERCENTILES.items() if time in ("ttft", "ttfa"))
"""Metrics of a streamed answer that an objective may be on."""


class Good(Part):
    """Objectives of one request: a failed one has missed them."""

    ttft_ms: Milliseconds | None = Field(None, gt=0, alias="ttft", description="Time to the first token.")
    ttfa_ms: Milliseconds | None = Field(None, gt=0, alias="ttfa", description="The same, reasoning left out.")
    tpot_ms: Milliseconds | None = Field(None, gt=0, alias="tpot", description="Time by token after the first.")
    longest_gap_ms: Milliseconds | None = Field(
        None, gt=0, alias="longest_gap", description="Longest wait for a next piece."
    )
    latency_ms: Milliseconds | None = Field(None, gt=0, alias="latency", description="Until the last byte.")

    @property
    def limits_ms(self) -> dict[str, float]:
        """Time of a request: its longest, ms."""
        times = ("ttft", "ttfa", "tpot", "longest_gap", "latency")
        return {time: value for time in times if (value := getattr(self, f"{time}_ms")) is not None}


class Load(Check):
    """Load that a system serves in time when queries come on their own, at the rates that it is meant for.

    ## What it measures
    At each rate of `rates:` [qps]: `latency_p50` to `latency_p99_9` [ms] from the moment at which a query was due,
    `error_rate` [%], `goodput` [qps: answered within the SLO]; `max_rate` [qps]: the highest rate at which the SLO
    holds; `spike_factor` [x]: p99 in a spike by p99 before it; `offline_server_ratio` [x]: what it gets through
    when nothing waits, by `max_rate`; `generator_lag_p99` [ms]. Of a model that streams its answers also the times
    of `latency` (`ttft_...` and `ttfa_...` from the due time, `tpot_...`, `longest_gap_...` [ms], `user_rate_p10`
    [tokens/s], `gap_p99`, and the counts `cached_share`, `token_counts_differ` and `tokens_per_piece`), `output_rate`
    [tokens/s: tokens that arrived in the steady part, by its length] and `good_share` [%]: requests in which every
    objective of `good:` held, of all that were due; `goodput` is then that of `good:`.
    A part is written `latency_p99(500 qps)`, that of a trace `latency_p99(trace)`.

    ## Why it matters
    A model that answers in 5 ms may take 500 ms when queries come in bursts: they wait for each other. A client that
    waits for each answer before it asks again hides that, since it stops asking just when the system is slow.

    ## Method
    Open loop: all times are made before the run from the seed (Poisson, constant, gamma with burstiness, or a trace),
    and a query counts from the time at which it was due, whether or not the ones before have ended. The queries of a
    rate are spread over `processes:` fresh processes, at least 5, one after the other; each starts with an empty queue,
    so a tenth as many queries come before those that are judged (a trace is cut into as many pieces, each led in by
    what came before it). Where a trace has a `size:`, a query hands so many rows to the model in one batch: from its
    `payload:` row on, in a seeded order. It is one query still, in every count and rate, and `max_batch:` counts
    queries. A model that takes one number of rows only can't be asked for more than that. Times that fall or are below
    0, rows that the dataset does not have, and whatever else can't be replayed is refused before anything is measured.
    A server that was started before is one process, and its numbers are those of this one.
    Queries that fail or time out count as slower than any threshold.
    A percentile is decided as in `latency`, by counting queries over the threshold; queries under load depend on each
    other, so t and n are divided by a design effect, and 50 times 10/(1 - p) queries are planned (`design_effect:` 50;
    a pilot's may be put there), never fewer than 10/(1 - p). Where fewer queries end than come (t over 20 blocks of
    time, level 0.001), or none of the last tenth is answered, and most queries of the last tenth are over the
    threshold, the system is over-saturated: FAIL without further statistics. Falling behind alone keeps a rate from
    PASS, and so does latency that rises in the course of the processes by more than 10 % (Kendall's trend of block
    medians). Where latency steps up and stays there (Pettitt's test, level 0.001: a machine that throttles), what
    followed must hold the threshold too; it shows a violation by itself only beside a counter that says throttled, or
    where a second process did the same (then t over processes), since a neighbour makes steps too.
    `max_rate >= R` is decided by the planned queries at R. A search (doubling, then bisection over short runs) shows
    the highest rate for the report; it is confirmed once on fresh queries, and decides nothing.
    The generator must not be the bottleneck. Fewer queries or other times than planned void a rate, much work of
    others voids what did not hold in spite of it, and a spike's factor. Queries that were
    sent late by its fault (over 1 ms and over 1 % of the threshold, at the percentile that is required), or connections
    that were all busy while the server itself was in time, void a requirement, unless it is violated without the lag as
    well: with the service times that were measured, served in order, or the time that the server took from when it was
    asked. So are rates of errors of a server where more than the allowed share of queries waited for a connection, or
    1 % were late, by over a tenth of the median answer: it had less to refuse. Nothing fails by our lag. What waits
    for the server is the server's. A ramp is not counted, and a spike and what follows it only in `spike_factor`. The
    audit for caching is that of `latency`.
    Shown of every stretch of a run (ramp, steady part, spike, what follows): how many queries were under way, that is
    due and not ended, and the seconds in which the SLO was violated by the queries that were due in them.

    References: MLPerf Inference rules (server scenario). Schroeder, Wierman, Harchol-Balter, NSDI 2006 (open and
    closed). Conover, Practical Nonparametric Statistics (quantile test). Pettitt, Applied Statistics 1979 (step).

    ## What it cannot show
    Traffic that is not like the arrivals here: real bursts last longer than Poisson's. What comes less often than a
    few times in a run. The network between users and the server, and other tenants of it. How much fresh processes of
    a server differ, and caches as in `latency`.

    ## Example
    ```yaml
    - check: load
      dataset: test
      arrivals: {kind: poisson}
      rates: [100 qps, 500 qps]
      slo: latency_p99 <= 100 ms
      require:
        - max_rate >= 500 qps
        - error_rate <= 0.1 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(
            Metric(name, "ms", "lower", f"Latency from the due time that {100 * p:g} % of queries stay within.",
                   parts="rate", interval=_COUNTED, shows=shown_by(name),
                   label=f"{ordinal(p)} percentile of latency")
            for name, p in PERCENTILES.items()
        ),
        Metric("error_rate", "%", "lower", "Share of queries that failed or timed out.", parts="rate",
               interval="binomial with a design effect", label="failed queries"),
        Metric("goodput", "qps", "higher", "Queries a second that were answered within the SLO.", parts="rate",
               interval="rate times the share in time; binomial with a design effect", shows=("late answers",)),
        Metric("max_rate", "qps", "higher", "Highest rate at which the SLO holds.",
               interval="the SLO's own test on the planned queries at the rate", shows=("late answers",),
               label="highest rate within the SLO"),
        Metric("good_share", "%", "higher", "Share of queries that were due in which all of `good:` held.",
               parts="rate", interval="binomial with a design effect", shows=("late answers",),
               label="queries within all limits"),
        Metric("output_rate", "tokens/s", "higher", "Tokens that arrived a second, of all users together.",
               parts="rate", interval="t over blocks of time"),
        *token_metrics("rate", _COUNTED),
        Metric("spike_factor", "x", "lower", "p99 in the spike by p99 before it.", parts="rate",
               interval="quotient of two percentiles' bounds at half the level each", shows=("late answers",)),
        Metric(
            "generator_lag_p99", "ms", "lower", "How late the load generator was, at the worst rate.", exact=True,
            label="lag of the load generator",
        ),
        Metric("offline_server_ratio", "x", "neither", "Items a second with nothing waiting, by `max_rate`.",
               exact=True),
    )  # fmt: skip

    check: Literal["load"] = "load"
    dataset: DatasetName
    arrivals: Arrivals = Field(default_factory=Arrivals, description="When queries come.")
    rates_qps: Annotated[tuple[Annotated[QueryRate, Field(gt=0, le=1e6)], ...], Listing()] = Field(
        (), alias="rates", description="Offered rates; default: that of `max_rate >=`."
    )
    good: Good | None = Field(
        None, description="Objectives of one request, all of which must hold, for `good_share` and `goodput`."
    )
    queries: Annotated[int | None, Effort()] = Field(
        None, ge=20, description="At each rate; default: what the requirements need."
    )
    duration_s: Duration | None = Field(None, gt=0, alias="duration", description="At each rate, instead of queries.")
    design_effect: Annotated[float, Effort()] = Field(
        50.0, ge=1, le=10_000, description="Dependent queries that say as much as one; 50, or what a pilot run showed."
    )
    processes: Annotated[int, Effort()] = Field(
        5, ge=5, le=100, description="Fresh processes that the queries of each rate are spread over; a server is one."
    )
    max_batch: int = Field(1, ge=1, le=65_536, description="Waiting queries that are served together, in process.")
    queue_delay_s: Duration = Field(
        0.0, ge=0, le=60, alias="queue_delay", description="How long a query waits at most for others to join it."
    )
    timeout_s: Duration = Field(10.0, gt=0, le=3600, alias="timeout", description="A query that takes longer failed.")
    clients: Annotated[int, Effort()] = Field(1, ge=1, le=64, description="Client processes that drive a server.")
    connections: int = Field(64, ge=1, le=10_000, description="Connections of each client to a server.")
    warmup: Annotated[int, Effort()] = Field(32, ge=3, description="Queries before measuring, at each rate.")
    search: Annotated[bool, Effort()] = Field(
        True, description="Search for the highest rate within the SLO, for the report."
    )
    offline: Annotated[bool, Effort()] = Field(
        False, description="Measure without waiting too, for `offline_server_ratio`."
    )
    caching_audit: Annotated[bool, Effort()] = Field(True, description="Ask for items twice; a cache voids the check.")

    _whole: int | None = PrivateAttr(None)
    """Processes of the check of which this is an early look; None: it is none."""

    def looks(self, known: Known) -> tuple[Load, ...]:
        """After 3 processes at each rate what fails by far; not of a server, which is one process."""
        if self.searches or self.offline or self.arrivals.beside_poisson or self.model in known.served:
            return ()
        return (*(with_fewer(self, some, _whole=self.processes) for some in looks_at(self.processes)[:1]), self)

    @property
    def objective(self) -> Requirement | None:
        """The SLO on a percentile, in ms; None where there is none."""
        slo = self.slo
        held = slo is not None and (slo.metric in PERCENTILES or slo.metric in FIRST_TOKENS) and slo.model is None
        return slo if held else None

    @property
    def wanted_qps(self) -> tuple[float, ...]:
        """Rates of ``max_rate >= R``."""
        return tuple(r.threshold for r in self.requirements if r.metric == "max_rate" and r.model is None)

    @property
    def part_rates(self) -> tuple[float, ...]:
        """Rates that are parts, rising."""
        return tuple(sorted(set(self.rates_qps or self.wanted_qps)))

    @property
    def all_rates(self) -> tuple[float, ...]:
        """Rates that are run as planned, rising."""
        return tuple(sorted({*self.part_rates, *self.wanted_qps}))

    @property
    def searches(self) -> bool:
        """There is an objective to search by."""
        return self.search and self.objective is not None and self.arrivals.kind != TRACE and bool(self.all_rates)

    @property
    def assumed_design_effect(self) -> float | None:
        """Its own field, where that decides how many queries there are."""
        return self.design_effect if self.queries is None and self.duration_s is None else None

    def planned(self, rate: float) -> int:
        """Queries of the steady part at this rate."""
        if self.queries is not None:
            return self.queries
        if self.duration_s is not None:
            return max(20, ceil(rate * self.duration_s - 1e-9))
        needed = [self._least(r, rate) for r in self.requirements]
        return ceil(self.design_effect * (max(needed, default=0) or DEFAULT_QUERIES))

    def spread(self, inputs: Inputs) -> int:
        """Processes that the queries of a rate are spread over: a server is one, whoever asks it."""
        if inputs.draft or inputs.model_facts(self.model).get("served"):
            return 1
        return self._whole or self.processes

    @property
    def is_look(self) -> bool:
        """True at an early look, where nothing passes: bursts need all queries to be seen."""
        return self._whole is not None

    def driven(self, inputs: Inputs) -> int:
        """Those of them that this check drives: all, but at an early look."""
        return min(self.processes, self.spread(inputs))

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """One part for each rate."""
        if metric.parts != "rate":
            return None
        return (TRACE,) if self.arrivals.kind == TRACE else tuple(rate_part(rate) for rate in self.part_rates)

    def check_names(self, names: SpecNames) -> str | None:
        if self.arrivals.problem is not None:
            return self.arrivals.problem
        if self.good is not None and not self.good.limits_ms:
            return "`good:` holds no objective; write such as {ttft: 500 ms, tpot: 40 ms}"
        if self.queries is not None and self.duration_s is not None:
            return "`queries:` and `duration:` say the same thing twice; keep one"
        if self.arrivals.kind != TRACE:
            return None if self.all_rates else "the rate of queries is missing; add `rates:`, such as [100 qps]"
        if self.rates_qps:
            return "a trace has a rate of its own; remove `rates:`, or set `speed_up:`"
        if self.queries is not None or self.duration_s is not None:
            return "a trace is as long as it is; remove `queries:` and `duration:`"
        return None

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model, and rows of a trace."""
        rows = tuple(need for need in self.inspects() if need.columns)
        return (*self.timings(Known()), *rows)

    def timings(self, known: Known) -> tuple[NeedTiming, ...]:
        """Every query of every process, as the check itself will ask for it."""
        recorded = known.seen if isinstance(known.seen, Recorded) else None
        found = estimated(self, 1 if self.model in known.served else self.processes, recorded)
        return (NeedTiming(self.dataset, self.model, found.queries, found.seconds, found.more),)

    def inspects(self) -> tuple[NeedRows, ...]:
        """The trace, and how many rows it may ask for."""
        arrivals = self.arrivals
        if arrivals.dataset is None:
            return ()
        columns = tuple(name for name in (arrivals.time, arrivals.payload, arrivals.size) if name is not None)
        asked = () if arrivals.payload is None else (NeedRows(self.dataset),)
        return (NeedRows(arrivals.dataset, columns=columns), *asked)

    def inspect_rows(self, tables: Mapping[str, pa.Table], rows: Mapping[str, int | None]) -> object:
        """How many queries the trace has, and how long they take.

        Raises:
            InputError: A value of it can't be replayed.
        """
        from evalspec.checks.system.load.trace_rows import read_trace

        found = read_trace(self.arrivals, tables[str(self.arrivals.dataset)], rows.get(self.dataset))
        return Recorded(len(found.times_ns), float(found.times_ns[-1]) / 1e9)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: something it needs is missing, or there are too few queries."""
        if requirement.model is not None:
            return "load has no comparison with another model; compare with `latency` or `throughput`, in pairs"
        missing = self._missing(requirement)
        if missing is not None:
            return missing
        if self.arrivals.kind == TRACE:
            planned = rows.get(self.arrivals.dataset or "")
            needed = self._least(requirement, 0.0)
            return None if planned is None or needed <= planned else _too_few(requirement, planned, needed, TRACE)
        for rate in self._rates_of(requirement):
            needed, planned = self._least(requirement, rate), self.planned(rate)
            if needed > planned:
                return _too_few(requirement, planned, needed, rate_part(rate))
        return None

    def _missing(self, requirement: Requirement) -> str | None:
        """Field that a metric needs and the check does not have."""
        metric = requirement.metric
        if metric == "good_share" and self.good is None:
            return "good_share needs `good:`, such as {ttft: 500 ms, tpot: 40 ms}"
        by_good = metric == "goodput" and self.good is not None
        if metric in ("max_rate", "goodput", "offline_server_ratio") and self.objective is None and not by_good:
            return f"{metric} needs `slo:` with a percentile, such as latency_p99 <= 100 ms"
        if metric in ("max_rate", "offline_server_ratio") and self.arrivals.kind == TRACE:
            return f"{metric} has no meaning for a trace, whose rate is given"
        if metric == "offline_server_ratio" and not self.offline:
            return "offline_server_ratio needs `offline: true`"
        if metric == "offline_server_ratio" and requirement in self.blocking:
            return "offline_server_ratio is a ratio of two estimates without a bound, and can't block; require max_rate"
        if metric == "spike_factor":
            return self._too_short_spike()
        if metric == "goodput":
            low = min(self._rates_of(requirement), default=0.0)
            if requirement.threshold >= low > 0:
                return f"of {format_number(low)} qps no {format_number(requirement.threshold)} qps can be in time"
        return None

    def _too_short_spike(self) -> str | None:
        spike, needed = self.arrivals.spike, DEFAULT_QUERIES
        if spike is None:
            return "spike_factor needs `arrivals: {spike: {factor: 10, duration: 5 s}}`"
        low = min(self.part_rates, default=0.0)
        count = int(low * spike.factor * spike.duration_s)
        if count >= needed:
            return None
        return f"a spike of {count:,} queries has no p99: {needed:,} are needed at least, so make it longer"

    def _rates_of(self, requirement: Requirement) -> tuple[float, ...]:
        """Rates at which a requirement is held."""
        if requirement.metric == "max_rate":
            return (requirement.threshold,)
        return tuple(r for r in self.part_rates if requirement.part in (None, rate_part(r)))

    def _least(self, requirement: Requirement, rate: float) -> int:
        """Queries below which a requirement has no bound at this rate."""
        if requirement.metric == "max_rate":
            return 0 if self.objective is None else least_queries(self.objective)
        if requirement.metric == "goodput" and rate > 0:
            late = 1.0 - requirement.threshold / rate
            return ceil(10 / late - 1e-6) if 0 < late < 1 else 0
        if requirement.metric == "good_share":
            late = 1.0 - from_unit(requirement.threshold, requirement.unit)
            return ceil(10 / late - 1e-6) if 0 < late < 1 else 0
        if requirement.metric == "spike_factor":
            return DEFAULT_QUERIES
        return least_queries(requirement)


def _too_few(requirement: Requirement, planned: int, needed: int, where: str) -> str:
    return f"{planned:,} queries at {where} can't show {requirement.sentence}: {needed:,} are needed at least"

"""`latency`: how long one query takes, and how long the slow ones take."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Circumstance, Effort
from evalspec.language.parts import Check, DatasetName, Known, Need, NeedTiming, SpecNames
from evalspec.language.units import Milliseconds
from evalspec.timing.budget import (
    ALONE_S,
    BLOCK_S,
    EPISODES,
    PERCENTILES,
    POOLED_GAP,
    SETTLING,
    START_S,
    TOKEN_FACTS,
    USER_RATE,
    WARMUP_S,
    least_queries,
    ordinal,
    shown_by,
    token_metrics,
)
from evalspec.timing.looks import LEAST as LEAST_PROCESSES
from evalspec.timing.looks import looks_at, with_fewer

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

DESIGN_EFFECT = 2
"""Of a closed loop, for the plan."""
BURSTS, ENOUGH = 5, 5000
"""So many times the queries that a percentile needs, up to so many, are made in pairs: bursts of 20 are then seen."""
DEFAULT_PERCENTILE = 0.99
LEAST = 100
"""Queries in each process, whatever is required."""
GUESS_MS = 5.0
NOT_PAIRED = (USER_RATE, POOLED_GAP, *TOKEN_FACTS)
"""Metrics of streamed answers that are not compared with another model's."""
LOOK_S = 1.5
"""Each process of a check that may end early is measured at least so long: few must see all bursts."""
LONGEST_LOOK_S = 4.0
"""Up to so long each is measured for the first look to have queries enough."""
AT_A_LOOK = 1.25
"""Times the queries that are planned in all, without which nothing passes at an early look."""
STREAMS = 8
"""As many as in MLPerf's MultiStream."""
AUDITED = 800
"""Queries of the audit for caching, for the plan."""

_BINOMIAL = "binomial on the share of queries over, with a design effect; levels of processes where they differ"
_PAIRS = "against a model t over pairs of processes (log ratios, or differences)"


class Latency(Check):
    """How long one query takes, from sending it to having the answer on the host.

    ## What it measures
    `latency_p50` to `latency_p99_9` [ms] of queries sent one after the other, one item each (`scenario:
    single_stream`), or one item of each of `streams:` together (`multi_stream`: cameras in lockstep; with
    `interval:` a frame comes each so many ms, whether or not the one before has ended); `deadline_miss_rate` with
    `deadline:` (default: the interval); `latency_mean` and `jitter` (mean absolute difference of latencies that
    follow each other). Of a model that streams its answer, one number a request, never a token: `ttft_p50` to
    `ttft_p99_9` [ms, to the first piece with text, reasoning or a tool call; a role alone is none], `ttfa_...` (to
    the first that is not reasoning), `tpot_...` (from the first piece to the last, by the tokens after the first
    piece), `longest_gap_...` (the longest wait for a next piece), and `user_rate_p10` [tokens/s: one by the p90 of
    the time by token]. Over all pieces of all requests: `gap_p99` [ms, between two pieces]. Counted, as a fact of the
    run: `cached_share` [%: tokens of prompts that the server says it knew from before], `token_counts_differ` [%:
    requests that the server and `tokenizer:` count otherwise] and `tokens_per_piece` (under 1 a piece is a part of a
    token, and gaps are not those of tokens). Against another model: the ratio or difference of the two in the same
    pairs of processes.

    ## Why it matters
    People notice the slow answers. A mean hides them: with 1 query in 100 taking ten times as long, the mean moves by
    a tenth and the p99 by ten. So a requirement that blocks stands at a percentile, never at the mean.

    ## Method
    Fresh processes, at least 5, one after the other, each warmed up first and then measured for at least 1 s and the
    planned number of queries, of which the first tenth is dropped unless it failed. Where the first 5 differ by more
    than twice what their queries explain, 5 more are run, if `processes:` is left out and they end in the planned
    time. A percentile is a claim on the share of queries over the threshold. With t over of n it passes when the
    binomial chance of t or fewer is at most 1 - confidence; the upper bound is the (n - t)-th smallest latency.
    Queries depend on each other, so t and n are divided by a design effect (the larger of the summed autocorrelation
    and the spread of 20 blocks, of the indicator of the run's own percentile and of the threshold; few episodes raise
    it by 3/m); where processes differ, a bound from the levels of the processes must show the same (the logarithms of
    their own percentiles, taken as normal, move the slow queries, those of their medians the others: a tolerance
    bound, by generalized p-values), and t over their shares: to pass as they are and as lognormal ones, to fail over
    their logarithms. No bound lies more than ten times beyond what was seen: then there is none. Fewer than 10
    separate slow episodes give no bound, so a percentile needs 10/(1 - p) queries at
    least (p99: 1,000); twice that are planned. Where queries can't be counted so, a low percentile can still be held
    by whole processes (Markov's inequality on the share over in each): five that stay far within a median's threshold
    show it.
    A query that fails counts as slower than any threshold. A stream has failed that holds an error, is cut off, is
    empty, or ends without a reason or `[DONE]`. Tokens are the smaller of the server's count and that of `tokenizer:`;
    where the two differ (by more than one token and 2 %) in over 1 % of requests, what rests on tokens is void, and so
    it is where over 5 % of requests have no time by token. An answer of one piece is judged by its latency and `ttft`.
    Gaps of a request are alike, so for `gap_p99` the request is what counts: the share of gaps over the threshold by
    Clopper-Pearson with the design effect of requests as clusters (Korn and Graubard), times that of requests that
    follow each other; t over the shares of processes where they differ. 300 requests are needed, since all gaps of a
    request may be copies of each other. A failed one has as many gaps as others, each longer than any threshold.
    Mean and jitter: t over processes, and from above also as lognormal. Against another model: A B B A blocks of at
    least 1 s in pairs of fresh processes, the first tenth of each block dropped; t on the log ratio of each pair's
    percentiles, median-unbiased (a difference: t on the differences); fewer than 10 separate episodes over a model's
    percentile in all pairs together pass nothing there either. A failed query is slower than any there too: where more
    failed than a percentile leaves room for (1 % at p99), on either side, nothing passes, and a candidate whose share
    of failed queries is shown to be larger than that is slower than a baseline that answers. Mean and jitter are
    computed from answers, and not compared where over 0.1 % failed.
    A run in which latency rises by more than 10 % (Kendall's trend of block medians), or whose block medians vary by
    more than `max_cv:`, is kept from PASS, not from FAIL. Where most processes of 10 s or more (4 of 5) step up
    (Pettitt's test), what followed must hold the threshold too, and decides (t over processes); one that does so alone
    may have had a neighbour, and is told. Frames that take longer than their interval (fewer ended than came, t over 20
    blocks of time) and are late at the end are over-saturated: FAIL. Void are fewer queries than planned; on a machine
    busy with other work, which can only make answers later, all but what held in spite of it, and jitter and the pairs
    altogether (they are watched by themselves); and, unless the requirement is violated all the same, frames that our
    generator sent late (at the percentile required; decided again without the lag) and answers from a cache.
    The audit for caching asks 400 times twice, or until 20 s have passed and it has asked 60 times: the second time may
    save at most 10 % of the time (95 % lower bound, t over 20 blocks). In process it asks for the same item again, in a
    fresh process before all else. A server has been asked for every row before: there the first of a pair is the row
    with one number changed in its last digits, the second the row itself. Rows without numbers can't be audited so:
    that is told, and keeps from PASS where `caching_audit: true` is written. Slow spells that come at a period (garbage
    collection) are told.

    References: Conover, Practical Nonparametric Statistics (quantile test). Geyer, Statistical Science 1992. Kalibera
    and Jones, ISMM 2013 (pairs). Hirsch, Slack, Smith, Water Resources Research 1982 (trend). Korn and Graubard,
    Survey Methodology 24, 1998 (gaps).

    ## What it cannot show
    Waiting: without `interval:` nothing queues here, so latency under load is longer. What is rarer than the run
    itself, alone or in pairs: slow spells that come three times or less in a run of this length are missed altogether
    in 5 % of runs or more. Processes that are slower than all that were measured: what one in five is like is missed in
    a third of runs (of 10 processes in one of nine); where levels of 5 processes are more skewed than lognormal a p99
    at its limit passes in 13 (t with 3 degrees) to 27 % of runs (exponential), where their shares of stalls vary by a
    factor of 1.8 or more in 8 to 13 %. Other machines, and this one when it is busy. Network and serialisation, unless
    the model is a server. How much fresh processes of a server differ. A cache that takes rows for the same that differ
    in their last digits. Times by token of two models whose tokens are not of the same length: compare `ttft` then.

    ## Example
    ```yaml
    - check: latency
      scenario: single_stream
      dataset: test
      deadline: 10 ms
      require:
        - latency_p99 <= 5 ms
        - latency_p50 <= 1.2x baseline
        - deadline_miss_rate <= 1 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(
            Metric(
                name,
                "ms",
                "lower",
                f"Latency that {100 * p:g} % of queries stay within.",
                interval=f"{_BINOMIAL}; {_PAIRS}",
                shows=shown_by(name),
                label=f"{ordinal(p)} percentile of latency",
            )
            for name, p in PERCENTILES.items()
        ),
        Metric(
            "latency_mean",
            "ms",
            "lower",
            "Mean latency; never decides alone.",
            interval=f"t over processes; {_PAIRS}",
            shows=("late answers",),
            instead=tuple(name for name, share in PERCENTILES.items() if share > 0.5),
        ),
        Metric(
            "jitter",
            "ms",
            "lower",
            "Mean absolute difference of successive latencies.",
            interval=f"t over processes; {_PAIRS}",
            label="jitter",
        ),
        Metric(
            "deadline_miss_rate",
            "%",
            "lower",
            "Share of queries over `deadline:`.",
            interval=_BINOMIAL,
            shows=("late answers",),
            label="queries over the deadline",
        ),
        *token_metrics(interval=_BINOMIAL),
    )

    check: Literal["latency"] = "latency"
    scenario: Annotated[Literal["single_stream", "multi_stream"], Circumstance()] = Field(
        "single_stream", description="One item after the other, or one of each stream together."
    )
    streams: int | None = Field(None, ge=2, le=4096, description="Of multi_stream; default 8.")
    interval_ms: Milliseconds | None = Field(
        None,
        gt=0,
        alias="interval",
        description="Of multi_stream: a frame each so often; default: one after the other.",
    )
    dataset: DatasetName
    processes: Annotated[int, Effort()] = Field(
        5, ge=5, le=100, description="Fresh processes, or pairs of them against another model."
    )
    queries: Annotated[int | None, Effort()] = Field(
        None,
        ge=20,
        description="Queries of all processes together; default: twice what the strictest percentile needs.",
    )
    warmup: Annotated[int, Effort()] = Field(32, ge=3, description="Queries before measuring, in each process.")
    deadline_ms: Milliseconds | None = Field(None, gt=0, alias="deadline", description="For `deadline_miss_rate`.")
    max_cv: Annotated[float, Effort()] = Field(
        0.3, gt=0, description="Variation of block medians (standard deviation by mean) beyond which nothing passes."
    )
    caching_audit: Annotated[bool, Effort()] = Field(True, description="Ask for items twice; a cache voids the check.")

    _whole: int | None = PrivateAttr(None)
    """Processes of the check that may end at a look, of which this has as many or fewer; None: it may not."""

    def looks(self, known: Known) -> tuple[Latency, ...]:
        """After 3 processes, and after two thirds of them."""
        counts = (*looks_at(self.processes), self.processes)
        return tuple(with_fewer(self, some, _whole=self.processes) for some in counts)

    @property
    def least_s(self) -> float:
        """Time that each process is measured at least; longer where few processes may have to see all bursts."""
        return ALONE_S if self._whole is None else LOOK_S

    def queries_each(self, query_ms: float | None = None) -> int:
        """Queries that each process makes at least, so that as many as are planned count.

        They are as many as the first look needs to pass anything, where that takes little time.

        Args:
            query_ms: What a query was seen to take, in a process that is not among these; None: nobody knows.
        """
        planned = ceil(self.planned / self.processes / (1.0 - SETTLING))
        if self._whole is None or query_ms is None:
            return planned
        enough = ceil(AT_A_LOOK * self.planned / self.processes * self._whole / LEAST_PROCESSES / (1.0 - SETTLING)) + 1
        return max(planned, enough) if enough * query_ms <= 1e3 * LONGEST_LOOK_S else planned

    def expected(self, planned: int) -> int:
        """Queries without which nothing passes at an early look: a quarter more than are planned to its end.

        Bursts that come five times in as many queries as are planned are all missed by three fifths of them in 5 % of
        runs, whatever the margin to the threshold; by so many in one of 500.

        Args:
            planned: Of this form.
        """
        whole = self._whole or self.processes
        return 0 if whole == self.processes else ceil(AT_A_LOOK * planned * whole / self.processes)

    @property
    def batch(self) -> int:
        """Items of a query."""
        return (self.streams or STREAMS) if self.scenario == "multi_stream" else 1

    @property
    def limit_ms(self) -> float | None:
        """The deadline, or the interval that stands for it."""
        return self.deadline_ms if self.deadline_ms is not None else self.interval_ms

    def check_names(self, names: SpecNames) -> str | None:
        """Streams and their interval are of multi_stream."""
        if self.scenario == "multi_stream" or (self.streams is None and self.interval_ms is None):
            return None
        return "`streams:` and `interval:` are of `scenario: multi_stream`; name it, or remove them"

    @property
    def planned(self) -> int:
        """Queries of all processes together."""
        needed = max((least_queries(r) for r in self.requirements), default=0)
        if not self.requirements:
            needed = ceil(EPISODES / (1.0 - DEFAULT_PERCENTILE) - 1e-9)
        processes = self._whole or self.processes
        total = self.queries if self.queries is not None else max(DESIGN_EFFECT * needed, LEAST * processes)
        return self.processes * ceil(total / processes)

    @property
    def planned_pairs(self) -> int:
        """Queries of each model in all pairs together, of p99 so many that few bursts of slow ones are all missed."""
        if self.queries is not None:
            return self.planned
        needed = max((least_queries(one) for one in self.requirements if one.model is not None), default=0)
        each = ceil(min(BURSTS * needed, ENOUGH) / (self._whole or self.processes))
        return max(self.planned, self.processes * each)

    @property
    def may_add_processes(self) -> bool:
        """Nobody said how many there are to be."""
        return "processes" not in self.model_fields_set and self._whole in (None, self.processes)

    @property
    def alone_s(self) -> float:
        """Seconds that the model alone is planned to take."""
        each = self.interval_ms or GUESS_MS
        return self.planned * each / 1e3 + self.processes * (START_S + WARMUP_S + self.least_s)

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model, and pairs with every model that a requirement names."""
        alone = self.alone_s + (START_S + AUDITED * GUESS_MS / 1e3 if self.caching_audit else 0.0)
        needs = [NeedTiming(self.dataset, self.model, self.planned, alone, ahead=True)]
        for baseline in self.baselines:
            pairs = self.processes * (2 * START_S + 4 * BLOCK_S)
            needs.append(NeedTiming(self.dataset, baseline, self.planned_pairs, pairs))
        return tuple(needs)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: a mean that blocks, no deadline, or too few queries."""
        if requirement.metric == "latency_mean" and requirement in self.blocking:
            return (
                "a mean is not a service level: it hides the slow queries; require latency_p99, or put this under "
                "`warn:`"
            )
        if requirement.metric == "deadline_miss_rate" and self.limit_ms is None:
            return "deadline_miss_rate needs `deadline:`, such as 10 ms"
        if requirement.model is not None and requirement.metric == "deadline_miss_rate":
            return "deadline_miss_rate has no paired comparison; compare a percentile, such as latency_p99"
        if requirement.model is not None and requirement.metric in NOT_PAIRED:
            return f"{requirement.metric} has no paired comparison; compare it with a number, or compare tpot_p90"
        needed = least_queries(requirement)
        if needed <= self.planned:
            return None
        return f"{self.planned:,} queries can't show {requirement.sentence}: {needed:,} are needed at least"

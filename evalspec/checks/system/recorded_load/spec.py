"""`recorded_load`: percentiles of what a load tool logged, request by request."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.checks.system.recorded_load.defects import log_defects
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Need, NeedRows
from evalspec.timing.budget import EPISODES, ordinal

if TYPE_CHECKING:
    from evalspec.language.defects import Defect
    from evalspec.language.requirement import Requirement

TIMES = {
    "ttft": "Time to the first piece of the answer",
    "tpot": "Time of each token after the first",
    "latency": "Time to the end of the answer",
}
SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
PERCENTILES = {f"{time}_{name}": p for time in TIMES for name, p in SHARES.items()}
_BINOMIAL = "binomial on the share of requests over, with a design effect"


class RecordedLoad(Check):
    """Percentiles of the requests that a load tool logged, decided here and not by the tool.

    ## What it measures
    Of a log, `kind: request_log` (AIPerf, vLLM, GuideLLM, inference-perf) or a table with the same columns: `ttft_p50`
    to `ttft_p99` [ms] to the first piece of the answer, `tpot_p50` to `tpot_p99` [ms] of each token after it,
    `latency_p50` to `latency_p99` [ms] to its end; `error_rate` [%]; `output_rate` [tokens/s].

    ## Why it matters
    Load tools print a percentile of the requests that ended well, without an interval, and exit with 0 whatever it is.
    A stream that broke after three tokens is then a fast answer, and 200 requests show a p99.

    ## Method
    Only single requests are read. A request failed where the log shows it: an error, cancelled, no token, a stream
    without a finish reason or with an error in it (inference-perf logs streams), under way when the run ended. What
    failed is slower than any threshold, and counts in every percentile.
    Times count from when a request was due where the log says so of all of them (AIPerf's credit, GuideLLM's and vLLM's
    schedule), else from when it was sent. `tpot` is the time from the first piece to the last by the tokens less one: a
    first piece is taken for one token. Answers of one token have none; over 5 % of answers without a time, or where two
    counts of tokens differ by more than one and 2 % in over 1 % of answers, void what needs them; the smaller counts.
    A percentile is decided as in `latency`, by counting requests over the threshold, with the design effect that
    requests in the order in which they were sent show, as one process. Where the log has no times of sending, it
    is unknown how they depend on each other, and `design_effect:` (50) is taken. A latency that rises in the course of
    the run by more than 10 % (Kendall's trend of block medians) keeps a percentile from PASS.
    `output_rate` is over ten blocks of time from the first request to the last that was sent, so that the drain is left
    out; tokens of an answer are spread from its first piece to its end; t over blocks, each at least three times as
    long as the p90 of the latency.

    References: Conover, Practical Nonparametric Statistics (quantile test). MLPerf Inference rules.

    ## What it cannot show
    Which artifact answered, on which machine, with which settings, and when: a log is what its writer says, and the
    verdict says so each time. That a run was not repeated until it looked well. AIPerf, vLLM and GuideLLM do not log
    why a server stopped, so an answer that was cut off counts as answered; vLLM's first piece may be an empty one.
    What comes less often than a few times in a run. How much fresh processes of a server differ: the log is one. Of
    inference-perf, requests of several stages are one mixture.

    ## Example
    ```yaml
    - check: recorded_load
      dataset: test
      require:
        - ttft_p95 <= 500 ms
        - tpot_p95 <= 40 ms
        - error_rate <= 1 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    uses_model: ClassVar[bool] = False
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(
            Metric(f"{time}_{name}", "ms", "lower", f"{what} that {100 * p:g} % of requests stay within.",
                   interval=_BINOMIAL, label=f"{ordinal(p)} percentile of {what[:1].lower()}{what[1:]}")
            for time, what in TIMES.items() for name, p in SHARES.items()
        ),
        Metric(
            "error_rate", "%", "lower", "Share of requests that failed.", interval=_BINOMIAL,
            label="failed queries",
        ),
        Metric("output_rate", "tokens/s", "higher", "Tokens of answers a second, of all requests together.",
               interval="t over 10 blocks of time"),
    )  # fmt: skip

    check: Literal["recorded_load"] = "recorded_load"
    dataset: DatasetName = Field(description="The log, `kind: request_log`.")
    design_effect: Annotated[float, Effort()] = Field(
        50.0, ge=1, le=10_000, description="Dependent requests that say as much as one, where a log has no times."
    )

    def needs(self) -> tuple[Need, ...]:
        """The rows of the log."""
        return (NeedRows(self.dataset, ("ttft_ms", "tpot_ms", "latency_ms", "output_tokens", "failed")),)

    def defects(self) -> tuple[Defect, ...]:
        """Requests that are slower, and that failed."""
        return tuple(log_defects(self.dataset))

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: too few requests beyond the percentile."""
        n, p = rows.get(self.dataset), PERCENTILES.get(requirement.metric)
        if n is None or p is None:
            return None
        needed = ceil(EPISODES / (1.0 - p) - 1e-6)
        if n >= needed:
            return None
        return f"{n:,} requests can't show {requirement.sentence}: {needed:,} are needed at least"

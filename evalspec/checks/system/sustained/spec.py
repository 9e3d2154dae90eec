"""`sustained`: whether a model goes on as fast as it began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Known, Need, NeedTiming
from evalspec.language.units import Duration
from evalspec.timing.budget import BATCHES, CONNECTIONS, START_S, WARMUP_S
from evalspec.timing.looks import looks_at, with_fewer

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

SHORTEST_S = 30.0
LEAST_PROCESSES = 5
"""With fewer `sustained_ratio` has no bound."""


class Sustained(Check):
    """Sustained speed: a model goes on as fast as it began, once the machine has become warm.

    ## What it measures
    Batches back to back for `duration:` (30 s at least). `sustained_ratio` [x]: throughput in the last fifth by that
    in the first. `throttled` (1 or 0): the device slowed itself down in this run: on a GPU by NVML's reasons
    (hardware slowdown, hardware or software thermal, power brake; a software power cap is shown and does not count),
    on a CPU by the kernel's count of thermal throttling. `temperature_max` [C] of the device.

    ## Why it matters
    A device without a fan is fast for half a minute; then it is as fast as it can be cooled. Numbers from short runs
    are those of a cold device, and what it has in the field is the sustained rate, sometimes half of it.

    ## Method
    Fresh processes, 5 unless told otherwise, each measured for `duration:` after a short warm-up, which is short on
    purpose: the rest is compared with the start. One ratio from each process, t on their logarithms. A machine
    that is still warm from the process before begins slow, so the ratio is that of each end by the fastest start of
    all processes, which may be too small and is never too large. For FAIL it is each end by its own start, or by that
    of the first process (two tests, half the level each). The error of the start that all are compared with counts as
    that of one more process. With fewer than 5 processes there is a value and no bound: one process can't show how long
    its noise lasts. Counters are read twice a second by another process; that it did not throttle is a fact where
    they were read in every process. Batches that still grow slower by more than 10 % in the second half (Kendall's
    trend of block medians) keep the ratio from PASS: the end is not reached. Much work of other processes, or much
    stolen time, voids the measurement; throttling is what the system does by itself, and does not.
    A server has `connections:` requests under way at any time (the result says how many): windows lie where all of
    them are, and a query counts by the share of its time that lies in one. Where our client itself was at work in over
    90 % of the time the ratio is void: it would be the client's.

    References: Reddi and others, MLPerf Mobile, MLSys 2022 (sustained against peak). Hirsch, Slack, Smith, Water
    Resources Research 1982 (trend). NVML API reference, clocks event reasons.

    ## What it cannot show
    What happens later than `duration:`, in a hotter room, or in a case with the lid closed. What made it slower, where
    no counter tells.

    ## Example
    ```yaml
    - check: sustained
      dataset: test
      duration: 60 s
      require:
        - sustained_ratio >= 0.9x
        - throttled == 0
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("sustained_ratio", "x", "higher", "Throughput of the last fifth by that of the fastest first.",
               interval="t over processes (log ratios against the fastest start); with at least 5 processes",
               shows=("sustained share",), label="throughput that is sustained",
           ),
        Metric(
            "throttled", "count", "lower", "1 where the device slowed itself down in this run, else 0.", exact=True,
            most=1.0,
        ),
        Metric(
            "temperature_max", "C", "lower", "Highest temperature of the device in this run.", exact=True,
            label="highest temperature",
        ),
    )  # fmt: skip

    check: Literal["sustained"] = "sustained"
    dataset: DatasetName
    duration_s: Duration = Field(
        SHORTEST_S, ge=SHORTEST_S, alias="duration", description="Of each process; 30 s at least."
    )
    batch: int = Field(1, ge=1, le=65_536, description="Items in a batch.")
    processes: Annotated[int, Effort()] = Field(5, ge=1, le=100, description="Fresh processes, one after the other.")
    connections: int = Field(16, ge=1, le=1000, description=CONNECTIONS)

    _least: int = PrivateAttr(LEAST_PROCESSES)

    @property
    def least_processes(self) -> int:
        """Processes with fewer of which there is no bound."""
        return self._least

    def looks(self, known: Known) -> tuple[Sustained, ...]:
        """After 3 processes, and after two thirds of them; each is as long as it is."""
        return (*(with_fewer(self, some, _least=some) for some in looks_at(self.processes)), self)

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model."""
        seconds = self.processes * (START_S + WARMUP_S + self.duration_s)
        return (NeedTiming(self.dataset, self.model, self.processes * BATCHES, seconds),)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: against another model, or from too few processes."""
        if requirement.model is not None:
            return f"{requirement.metric} is about one model's run, and is not compared with another's"
        if requirement.metric == "sustained_ratio" and self.processes < LEAST_PROCESSES:
            return (
                f"sustained_ratio has no bound from {self.processes} of at least {LEAST_PROCESSES} processes; ask for "
                f"`processes: {LEAST_PROCESSES}`"
            )
        return None

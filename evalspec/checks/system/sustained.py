"""`sustained`: whether a model goes on as fast as it began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from evalspec.checks.system._timed import BATCHES, START_S, WARMUP_S
from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check, CheckResult, DatasetName, Need, NeedTiming
from evalspec.language.units import Duration

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs
    from evalspec.language.requirement import Requirement

SHORTEST_S = 30.0


class Sustained(Check):
    """Whether a model goes on as fast as it began, once the machine has become warm.

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
    purpose: the start is what the rest is held against. One ratio from each process, t on their logarithms. Where all
    processes after the first begin over 10 % slower than it did, the machine had not cooled down, and they are held
    against the first one's start. With `processes: 1` it is t over 5 pairs of blocks, and a claim about that process,
    in which noise that lasts longer than a block (a 25th of `duration:`) looks like a change. Counters are read twice a
    second by another process. Batches that still grow slower by more than 10 % in the second half (Kendall's trend of
    block medians) keep the ratio from PASS: the end is not reached. Much work of other processes, or much stolen
    time, voids the measurement; throttling is what the system does by itself, and does not.

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
        Metric("sustained_ratio", "x", "higher", "Throughput of the last fifth by that of the first.",
               interval="t over processes (log ratios); with one process, over pairs of blocks"),
        Metric("throttled", "count", "lower", "1 where the device slowed itself down in this run, else 0.", exact=True),
        Metric("temperature_max", "C", "lower", "Highest temperature of the device in this run.", exact=True),
    )  # fmt: skip

    check: Literal["sustained"] = "sustained"
    dataset: DatasetName
    duration_s: Duration = Field(
        SHORTEST_S, ge=SHORTEST_S, alias="duration", description="Of each process; 30 s at least."
    )
    batch: int = Field(1, ge=1, le=65_536, description="Items in a batch.")
    processes: int = Field(5, ge=1, le=100, description="Fresh processes, one after the other.")

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model."""
        seconds = self.processes * (START_S + WARMUP_S + self.duration_s)
        return (NeedTiming(self.dataset, self.model, self.processes * BATCHES, seconds),)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: against another model."""
        if requirement.model is not None:
            return f"{requirement.metric} is about one model's run, and is not compared with another's"
        return None

    def run(self, inputs: Inputs) -> CheckResult:
        """Time batches for long."""
        from evalspec.checks.system._sustained import measure

        return measure(self, inputs)

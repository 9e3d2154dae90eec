"""`contention`: how much slower a model becomes beside other work."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Circumstance, Effort
from evalspec.language.parts import Check, DatasetName, Known, Need, NeedTiming, SpecNames
from evalspec.language.units import custom_error
from evalspec.timing.budget import BATCHES, BLOCK_S, CONNECTIONS, START_S, WARMUP_S
from evalspec.timing.looks import forms

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

QUANTILES: dict[str, float] = {"p50": 0.5, "p99": 0.99}
THROUGHPUT = "throughput"
EPISODES = 10


class Contention(Check):
    """How much slower a model becomes while other work runs on the same machine.

    ## What it measures
    `contention_ratio(p50)` and `contention_ratio(p99)` [x]: that percentile of latency beside a background load by the
    same alone. With `scenario: offline` it is `contention_ratio(throughput)`: items a second alone by those under load.
    1x: the load costs nothing; 2x: half as fast.

    ## Why it matters
    Models are measured on idle machines and serve on busy ones. Caches, memory bandwidth, clocks and cores are shared:
    what answers 800 queries a second alone may answer 400 beside its neighbours, and the tail suffers first.

    ## Method
    The load is stated: `background: cpu` (products that stay in the nearest caches), `memory` (copies of four times
    the last cache) or `gpu` (large products), in `workers:` processes of one thread each. In at least 5 pairs of fresh
    processes the model is measured in blocks A B B A, one of the pair beside the load, the other alone; the load runs
    during the blocks of the one only, and the side that waits is asleep. The first tenth of each block is dropped.
    Student's t on the log ratio of each pair's percentiles (or rates).
    A query that failed is slower than any that was answered; a percentile that falls on one counts as the time that
    its process took. More than 1 % of failures keep the ratio from PASS. Counters are read meanwhile: much work of
    others, beside the load that is ours, voids the measurement.
    With `scenario: offline` a server has `connections:` requests under way at any time, so that all of its workers meet
    the load. Where our client itself was at work in over 90 % of the time, the ratio would be the client's, and is
    void.

    References: Kalibera and Jones, ISMM 2013 (pairs). Delimitrou and Kozyrakis, IISWC 2013 (loads by resource).

    ## What it cannot show
    Other neighbours than this one: their mix of cores, memory and network is theirs. Limits that a container or a
    scheduler sets. Load on the network and on disks. A server on another machine, where no load of ours can run. Of one
    on this machine, what the load takes from it alone: the client that asks it meets the load as well.

    ## Example
    ```yaml
    - check: contention
      dataset: test
      background: cpu
      workers: 2
      require:
        - contention_ratio(p50) <= 1.5x
        - contention_ratio(p99) <= 3x
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "contention_ratio", "x", "lower", "How many times as slow beside the load.", parts="percentile",
            interval="t over pairs of processes (log ratios)", label="slowdown beside other work",
        ),
    )  # fmt: skip

    check: Literal["contention"] = "contention"
    dataset: DatasetName
    scenario: Annotated[Literal["single_stream", "offline"], Circumstance()] = Field(
        "single_stream", description="One query after the other, or batches back to back."
    )
    background: Literal["cpu", "memory", "gpu"] = Field("cpu", description="What the load keeps busy.")
    workers: int = Field(1, ge=1, le=256, description="Processes of the load.")
    batch_size: int = Field(1, ge=1, le=65_536, description="Items in a query.")
    processes: Annotated[int, Effort()] = Field(5, ge=5, le=100, description="Pairs of fresh processes.")
    warmup: Annotated[int, Effort()] = Field(32, ge=3, description="Queries before measuring, in each process.")
    connections: int = Field(16, ge=1, le=1000, description=f"scenario: offline. {CONNECTIONS}")

    @model_validator(mode="after")
    def _has_use_for_connections(self) -> Self:
        if "connections" in self.model_fields_set and self.scenario != "offline":
            raise custom_error(
                Problem(
                    f"with `scenario: {self.scenario}` one query comes after the other, over one connection",
                    remedy="remove `connections`, or write `scenario: offline`",
                )
            )
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts that the ratio is asked of."""
        return tuple(QUANTILES) if self.scenario == "single_stream" else (THROUGHPUT,)

    @property
    def each(self) -> int:
        """Queries of each process: twice what a percentile of one process needs, where one is required."""
        if self.scenario == "offline":
            return BATCHES
        asked = {r.part for r in self.requirements if r.part in QUANTILES}
        # A sentence without a percentile, or none at all, is about each of them.
        every = not asked or any(r.part is None for r in self.requirements)
        strictest = max(share for part, share in QUANTILES.items() if every or part in asked)
        return 2 * ceil(EPISODES / (1.0 - strictest) - 1e-9)

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """Percentiles, or throughput."""
        return self.parts

    def looks(self, known: Known) -> tuple[Contention, ...]:
        """After 3 pairs, and after two thirds of them."""
        return forms(self)

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model in pairs."""
        seconds = self.processes * (2 * (START_S + WARMUP_S) + 4 * BLOCK_S)
        return (NeedTiming(self.dataset, self.model, 2 * self.each * self.processes, seconds),)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: another model on the right, or a part that this scenario does not have."""
        if requirement.model is not None:
            return "contention_ratio compares a model with itself; compare it with a number, such as 1.5x"
        if requirement.part is not None and requirement.part not in self.parts:
            return f"scenario {self.scenario} has no {requirement.part!r}; choices: {', '.join(self.parts)}"
        return None

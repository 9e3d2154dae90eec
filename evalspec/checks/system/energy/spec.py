"""`energy`: what an answer costs in joules, and what a model draws while it works and while it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Known, Need, NeedTiming
from evalspec.language.units import Duration, Share
from evalspec.timing.budget import BATCHES, CONNECTIONS, START_S, WARMUP_S
from evalspec.timing.looks import forms

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

INTERVAL = "t over processes"
PAIRS = "t over processes; against a model t over pairs of processes (log ratios, or differences)"
Boundary = Literal["gpu", "package", "package_and_memory", "gpu_and_package", "platform"]


class Energy(Check):
    """Energy of an answer in joules, at the very throughput that was measured with it.

    ## What it measures
    Inside a `boundary:` that the spec names: `energy_per_inference` [J] and its inverse `throughput_per_watt`
    [samples/J], batches back to back; `active_power` [W] meanwhile; `idle_power` [W] of a process that has the model in
    memory and nothing to do. Of a model that streams its answers, one request a row, also `energy_per_token` [J]: the
    energy of the window by the tokens that arrived in it. With `duty_cycle: 1 %`, `effective_power` [W] of a device
    that works for that share of the time: an estimate from the two. With `levels: [10 %, 50 %]`, power and energy at
    these shares of the throughput.

    ## Why it matters
    Energy is what a battery holds and a data centre pays for. Work measured at full load and power measured near idle
    make any device look good, so both come from one window here. The fastest batch size is often not the one that
    costs least, and a device that mostly waits is judged by its idle power.

    ## Method
    Fresh processes, at least 5, of `duration:` each; the first tenth is dropped, since the first inferences draw more
    and meters average over time. Energy is the difference of an energy counter (NVML's of the GPU board, RAPL's of
    processor package, memory, platform) between the ends of the very window whose answers are counted, read where
    the counter moved; the window must hold 10 of its updates. Where a GPU has no counter, readings of its power are
    integrated (trapezoid), and the result is called an estimate. Counter and power x time are compared, and a
    difference over 5 % is reported. One number from each process, t over the processes (from above also
    as lognormal: energies are skewed; work by energy is not). Idle power is that of the
    second half of `idle:`. No meter, no number: the check is then not run. Much work of others
    voids powers and pairs, and of energies (theirs is in the boundary) what did not hold in spite of it.
    A server has `connections:` requests under way at any time; the window lies between two answers while all of them
    are. Tokens are counted as in `latency`, and void where two counts differ. Where our client itself was at work in
    over 90 % of the time, the server had to wait for it: the numbers under load are void.

    References: Yang, Adamek, Armour, Part-time power measurements, arXiv 2312.02741 (NVML's readings of power). Linux,
    Documentation/power/powercap (RAPL). Lange, Identifying shades of green, IEEE Computer 42(3), 2009 (load levels,
    active idle).

    ## What it cannot show
    What lies outside the boundary: power supply, fans, disks, network, and for `gpu` the host that feeds it. Energy
    that other processes use inside the boundary counts as the model's; so does that of the client which asks a server
    of this machine, within every boundary but `gpu`: how long it worked is in the notes. Swings between readings of
    power, where there is no counter. A server on another machine. Accuracy of the meters themselves.
    Processes that are worse than all that were measured: of 5, what one in five is like is missed in a third of runs,
    and what one in twenty is like in three of four (of 10: in one of nine, and in 60 %). Nor what a machine that is
    slow for minutes does to processes that follow each other: where a process
    is mostly like the one before (correlation 0.8) a requirement that just fails passes in 28 % of runs.

    ## Example
    ```yaml
    - check: energy
      dataset: test
      boundary: gpu
      batch: 32
      duty_cycle: 5 %
      require:
        - energy_per_inference <= 50 mJ
        - effective_power <= 90 W
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "energy_per_inference", "J", "lower", "Energy of the window by its answered items.", interval=PAIRS,
            label="energy of an inference",
        ),
        Metric("energy_per_token", "J", "lower", "Energy of the window by the tokens that arrived in it.",
               interval=PAIRS, label="energy of a token",
           ),
        Metric(
            "idle_power", "W", "lower", "Power with the model in memory and nothing to do.",
            interval=INTERVAL, shows=("cost of idling",),
        ),
        Metric("active_power", "W", "lower", "Power while batches run back to back.", interval=PAIRS),
        Metric("effective_power", "W", "lower", "Of a duty cycle: estimated from idle and active power.",
               interval=INTERVAL),
        Metric("throughput_per_watt", "samples/J", "higher", "Answered items of the window by its energy.",
               interval=PAIRS),
    )  # fmt: skip

    check: Literal["energy"] = "energy"
    dataset: DatasetName
    boundary: Boundary = Field(description="What is metered: always named, since numbers mean nothing without it.")
    batch: int = Field(1, ge=1, le=65_536, description="Items in a batch.")
    duration_s: Duration = Field(10.0, ge=1.0, alias="duration", description="Of each process, at least.")
    idle_s: Duration = Field(10.0, ge=4.0, alias="idle", description="Of waiting, in a process of its own.")
    processes: Annotated[int, Effort()] = Field(
        5, ge=5, le=100, description="Fresh processes, or pairs of them against another model."
    )
    duty_cycle: Annotated[Share, Field(ge=0.0, le=1.0)] | None = Field(
        None, description="Share of the time in which it works, for `effective_power`."
    )
    levels: tuple[Annotated[Share, Field(gt=0.0, lt=1.0)], ...] = Field(
        (), description="Shares of the throughput that are offered as a steady load."
    )
    connections: int = Field(16, ge=1, le=1000, description=CONNECTIONS)

    def looks(self, known: Known) -> tuple[Energy, ...]:
        """After 3 processes, and after two thirds of them; not where load levels follow from the throughput of all."""
        return () if self.levels else forms(self)

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model, and pairs with every model that a requirement names."""
        active_s = START_S + WARMUP_S + self.duration_s
        alone = self.processes * ((1 + len(self.levels)) * active_s + START_S + self.idle_s)
        needs = [NeedTiming(self.dataset, self.model, self.processes * BATCHES, alone)]
        pairs = 2 * self.processes * active_s
        needs += [NeedTiming(self.dataset, one, self.processes * BATCHES, pairs) for one in self.baselines]
        return tuple(needs)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: no duty cycle, or a comparison that is not made."""
        if requirement.metric == "effective_power" and self.duty_cycle is None:
            return "effective_power needs `duty_cycle:`, such as 5 %"
        if requirement.model is not None and requirement.metric in ("idle_power", "effective_power"):
            return f"{requirement.metric} has no paired comparison; compare energy_per_inference, or active_power"
        return None

"""`throughput`: how many items a model gets through when nothing waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Circumstance, Effort, Listing
from evalspec.language.parts import Check, DatasetName, Known, Need, NeedTiming, SpecNames
from evalspec.language.units import Duration
from evalspec.timing.budget import BATCHES, CONNECTIONS, START_S, WARMUP_S, batch_part, batch_parts
from evalspec.timing.looks import LEAST, with_fewer

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement


TOKENS = "t over processes; against a model t over pairs (log ratios)"


BEST_BATCH = "best_batch"


class Throughput(Check):
    """How many items a second a model gets through, batch size by batch size.

    ## What it measures
    `throughput(batch 8)` [samples/s]: items by seconds, batches back to back (`scenario: offline`), in each fresh
    process. Without a part it is that of the best batch size; `best_batch` says which one that was. The table has the
    latency of a batch beside it, the memory that was in use and, where the machine has a meter that moves at least 10
    times in `duration:` (NVML's: take 2 s), the energy of an item; another names the best batch size for each of these.
    Of a model that streams its answers, one request a row (`batch_sizes: [1]`; in process any), with `connections:` of
    them under way: `output_rate` [tokens/s: all that arrived, by the time], `decode_rate` [tokens/s of one answer, in
    process of a batch, from its first piece to its last] and, with `connections: 1` or in process, `prefill_rate`
    [tokens/s of prompts].

    ## Why it matters
    Larger batches keep the hardware busy, until memory or its bandwidth ends; beyond that they only make answers
    late. Jobs that run over night are paid by the item, so throughput is their price.

    ## Method
    At least 5 processes for each batch size, each warmed up first, each measured for at least `duration:` and 20
    batches. One number from each process; Student's t over the processes. "The best batch size reaches X" is shown
    when one of K sizes is shown to at level a/K; "none reaches X" when all are shown not to. Against another model:
    A B B A blocks in pairs of fresh processes at each size, t on the log ratio of each pair. Best against best: the
    candidate's size is the one that was best by itself, before the pairs. "Faster" is shown when that size is shown to
    be against every size of the other; "slower" when every size of the candidate is, at level a/K, against one of the
    K of the other. No size is picked by the numbers that decide. Much work of others voids the pairs, and
    alone what was not reached in spite of it.
    Tokens are counted as in `latency`, and void where two counts differ. `output_rate` counts from when as many answers
    have ended as requests are under way until the last one is sent. In process `prefill_rate` is the tokens of the
    prompts of a batch by the time until its first token. A client sees no prefill: there it is one by
    the slope of the time to the first token over the tokens of the prompt that no cache knew, a line through the
    medians of 8 groups of prompts by length, the longest of which is half as long again as the shortest, or longer.
    Beside other requests that time is also one of waiting, so there it is not measured. t over the slopes of
    the processes, and as lognormal.
    The first three processes of the batch size that is timed first are those in which `latency`, or another
    `throughput`, has just timed the same model of `kind: sklearn` or `onnx` on the same rows, where that is the check
    before in the same run, the model runs on a processor and no code that `--trust` lets run (with it a file of
    scikit-learn may hold some), its files have up to 256 MiB, and the run may use 4 GiB of memory: the first three that
    it timed, however many followed. They have slept since, and warm up again. `processes_timed_before` says how many;
    the two checks then rest on the same draw of processes, and host memory is that of the others alone.
    A run whose batches grow slower by more than 10 % from start to end is kept from PASS, not from FAIL.
    A server has `connections:` requests under way at any time, so that each of its workers has some; the result says
    how many, and holds for that many. Each process measures at least 4 batches over each connection, and waits
    for the last. Where our client itself was at work in over 90 % of the time, the server may get through more: then
    there is no upper bound, nothing fails, and pairs are void.

    References: Georges, Buytaert, Eeckhout, OOPSLA 2007 (processes). Kalibera and Jones, ISMM 2013 (pairs). Berger,
    Technometrics 24, 1982 (best against best).

    ## What it cannot show
    What it can serve while each answer is in time: that is less, and needs load. Whether it lasts: a hot machine slows
    down after minutes. Prefill and waiting of a server apart, but as the slope says.
    Reading and decoding inputs, unless a preprocessing stage does it. Of a server: what more
    connections would get through it, which the notes report where its answers took no longer than to a single one.
    Processes that are worse than all that were measured: of 5, what one in five is like is missed in a third of runs,
    and what one in twenty is like in three of four (of 10: in one of nine, and in 60 %). Nor what a machine that is
    slow for minutes does to processes that follow each other: where a process
    is mostly like the one before (correlation 0.8) a requirement that just fails passes in 28 % of runs.

    ## Example
    ```yaml
    - check: throughput
      scenario: offline
      dataset: test
      batch_sizes: [1, 8, 32]
      require:
        - throughput >= 500 samples/s
        - throughput(batch 8) >= 1.1x baseline
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "throughput", "samples/s", "higher", "Items a second; without a part, those of the best batch size.",
            parts="batch", whole=True,
            interval="t over processes, the best of K sizes at level a/K; against a model t over pairs (log ratios), "
            "intersection-union over the sizes",
        ),
        Metric(
            "best_batch", "count", "neither", "Batch size with the highest throughput in this run.",
            exact=True, shows=("best batch",),
        ),
        Metric("output_rate", "tokens/s", "higher", "Tokens that arrived a second, of all requests under way.",
               parts="batch", whole=True, interval=TOKENS),
        Metric("prefill_rate", "tokens/s", "higher", "Tokens of prompts a second, of one request alone.",
               parts="batch", whole=True, interval=TOKENS, label="tokens of prompts a second",
           ),
        Metric("decode_rate", "tokens/s", "higher", "Tokens a second of one answer, after its first piece.",
               parts="batch", whole=True, interval=TOKENS, label="tokens of answers a second",
           ),
    )  # fmt: skip

    check: Literal["throughput"] = "throughput"
    scenario: Annotated[Literal["offline"], Circumstance()] = Field("offline", description="Batches back to back.")
    dataset: DatasetName
    batch_sizes: Annotated[tuple[Annotated[int, Field(ge=1, le=65_536)], ...], Listing()] = Field(
        (1, 8, 32), min_length=1, description="Items in a batch."
    )
    processes: Annotated[int, Effort()] = Field(5, ge=5, le=100, description="Processes for each batch size.")
    duration_s: Duration = Field(1.0, gt=0, alias="duration", description="Measured in each process, at least.")
    warmup: Annotated[int, Effort()] = Field(5, ge=3, description="Batches before measuring, in each process.")
    connections: int = Field(16, ge=1, le=1000, description=CONNECTIONS)

    _left_out: tuple[int, ...] = PrivateAttr(())
    """Sizes that an early look leaves out."""

    def looks(self, known: Known) -> tuple[Throughput, ...]:
        """After 3 processes: of the largest size and those that are named; then of all sizes."""
        if self.processes <= LEAST:
            return ()
        every = with_fewer(self, LEAST)
        if any(one.metric == BEST_BATCH for one in self.requirements):
            return (every, self)
        named = {one.part for one in self.requirements}
        chosen = tuple(size for size in self.sizes if size == self.sizes[-1] or batch_part(size) in named)
        left_out = tuple(size for size in self.sizes if size not in chosen)
        first = with_fewer(self, LEAST, batch_sizes=chosen, _left_out=left_out)
        return (first, every, self) if left_out else (every, self)

    @property
    def left_out(self) -> tuple[int, ...]:
        """Sizes that are not timed, since the others may decide by themselves."""
        return self._left_out

    @property
    def sizes(self) -> tuple[int, ...]:
        """Batch sizes, each once, rising."""
        return tuple(sorted(set(self.batch_sizes)))

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """One part for each batch size."""
        return batch_parts(self.batch_sizes) if metric.parts == "batch" else None

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model, and pairs with every model that a requirement names."""
        runs = len(self.sizes) * self.processes
        alone = runs * (START_S + WARMUP_S + self.duration_s)
        needs = [NeedTiming(self.dataset, self.model, runs * BATCHES, alone, ahead=True, shares_processes=True)]
        for baseline in self.baselines:
            pairs = runs * (2 * (START_S + WARMUP_S) + 4 * self.duration_s)
            needs.append(NeedTiming(self.dataset, baseline, runs * BATCHES, pairs))
        return tuple(needs)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass, or decide: `best_batch` has no bound."""
        if requirement.metric == "best_batch" and requirement.model is not None:
            return "best_batch is a fact of one run, and can't be compared with another model's"
        if requirement.metric == "best_batch" and requirement in self.blocking:
            return "best_batch changes from run to run without a bound, and can't block; require throughput(batch N)"
        return None

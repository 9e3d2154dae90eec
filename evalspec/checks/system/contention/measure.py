"""Measurement of `contention`, and its blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.contention.spec import QUANTILES, THROUGHPUT
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import AnyBlock, Column, Interval, Intervals, Reference, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.reasons import Cause, Reason
from evalspec.evidence.words import in_percent
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.stats.timing.processes import PairedTiming, paired_log_ratio
from evalspec.timing import device
from evalspec.timing import samples as timing_samples
from evalspec.timing import saturated_server as server
from evalspec.timing.budget import BLOCK_S, WARMUP_S
from evalspec.timing.surroundings import EVERY_S, surroundings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.contention.spec import Contention
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Samples

DRAFT_QUERIES = 20
DRAFT_S = 0.05
MOST_FAILED = 0.01
NOTHING = 1.02
LEAST = 2
"""Queries of a process that a percentile is made of."""


@dataclass(frozen=True)
class PairedQuantity:
    """One quantity of every pair.

    Args:
        busy: Beside the load, shape (k,).
        alone: Without it, shape (k,).
        unit: Of both.
        inverse: More is better: the ratio is alone / busy.
    """

    busy: NDArray[np.float64]
    alone: NDArray[np.float64]
    unit: str
    inverse: bool = False

    @property
    def pairs(self) -> PairedTiming:
        """The slower side by the faster one."""
        return paired_log_ratio(self.alone, self.busy) if self.inverse else paired_log_ratio(self.busy, self.alone)


def measure(check: Contention, inputs: Inputs) -> CheckResult:
    """Times the model beside the load and alone, in pairs.

    Args:
        check: Its fields.
        inputs: Where timings come from.

    Raises:
        NotRunError: The model runs on another machine, or no pair has queries on both sides.
    """
    if inputs.model_facts(check.model).get("elsewhere"):
        raise NotRunError(f"{check.model} runs on another machine, and a load on this one would not be beside it")
    processes = 2 if inputs.draft else check.processes
    each = DRAFT_QUERIES if inputs.draft else _planned(check, inputs)
    schedule = Schedule(
        kind=check.scenario, queries=each, processes=processes, batch=check.batch_size, warmup_queries=check.warmup,
        warmup_s=DRAFT_S if inputs.draft else WARMUP_S, min_s=DRAFT_S if inputs.draft else BLOCK_S,
        background=check.background, background_workers=check.workers, telemetry_s=EVERY_S,
        connections=check.connections if check.scenario == "offline" else 1,
    )  # fmt: skip
    # A model beside itself: the load runs during the blocks of the first side only.
    busy, alone = inputs.measure_paired(schedule, check.dataset, check.model)
    quantities, missing = _pairs(check, busy, alone)
    if not quantities and not missing:
        raise NotRunError("no pair of processes has queries both beside the load and alone")
    everything = [*busy, *alone]
    counts = timing_samples.counted(everything, 2 * processes * each)
    made = counts.used + counts.errored
    around = surroundings(everything)
    limited = server.bottleneck(everything) if server.is_bottleneck(everything) else None
    withhold = None
    if counts.errored > MOST_FAILED * made:
        withhold = Reason(f"{100 * (counts.errored / made):.1f} % of queries failed", Cause.FAILED_QUERIES)
    ratios: dict[str, Estimate | Fact] = {}
    for part, beside in quantities.items():
        ratio = beside.pairs.ratio()
        if ratio is None:
            missing[f"contention_ratio({part})"] = "a process answered nothing, so there is no ratio"
        else:
            ratios[part] = ratio
    return CheckResult(
        estimates={
            "contention_ratio": Measured(
                Parts(ratios),
                invalid=timing_samples.too_short(everything, 2 * processes, each // 2 * 2) or around.invalid or limited,
                withhold=withhold,
            )
        },
        missing=missing,
        blocks=_blocks(check, quantities, inputs.confidence),
        counts=counts,
        conditions={**_scenario(check, everything), "batch": check.batch_size, "background": check.background,
                    "background_workers": check.workers, "pairs": len(busy), "queries": made,
                    **timing_samples.conditions(inputs, check.model, everything)},
        notes=[*_notes(check, quantities, inputs.confidence), *around.notes, *timing_samples.notes(everything, None)],
    )  # fmt: skip


def _planned(check: Contention, inputs: Inputs) -> int:
    """Queries of each process; of a server each of its two blocks holds as many as its connections need."""
    if check.scenario != "offline" or not inputs.model_facts(check.model).get("served"):
        return check.each
    return 2 * server.least_batches(inputs, check.connections, check.model)


def _scenario(check: Contention, everything: list[Samples]) -> dict[str, Cell]:
    return {"scenario": check.scenario, **(server.conditions(everything) if check.scenario == "offline" else {})}


def _pairs(
    check: Contention, busy: list[Samples], alone: list[Samples]
) -> tuple[dict[str, PairedQuantity], dict[str, str]]:
    """Percentiles or rates of every pair, without the start of each block; and why there are none."""
    pairs = list(zip(busy, alone, strict=False))
    if check.scenario == "offline":
        rates = [
            np.array([timing_samples.rate(one, timing_samples.settled(one)) for one in side])
            for side in zip(*pairs, strict=True)
        ]
        return ({THROUGHPUT: PairedQuantity(rates[0], rates[1], "samples/s", inverse=True)} if rates else {}), {}
    kept = [(one, other) for one, other in pairs if min(_count(one), _count(other)) >= LEAST]
    quantities: dict[str, PairedQuantity] = {}
    missing: dict[str, str] = {}
    if not kept:
        return quantities, missing
    for part, p in QUANTILES.items():
        beside = np.array([_percentile(one, p, at_least=True) for one, _ in kept])
        by_itself = np.array([_percentile(other, p) for _, other in kept])
        if np.isfinite(by_itself).all():
            quantities[part] = PairedQuantity(beside, by_itself, "ms")
        else:
            missing[f"contention_ratio({part})"] = (
                f"over {100 * (1 - p):.0f} % of a process's queries failed without the load, so nothing can be "
                f"compared with its {part}"
            )
    return quantities, missing


def _count(samples: Samples) -> int:
    return int(timing_samples.settled(samples).sum())


def _percentile(samples: Samples, p: float, *, at_least: bool = False) -> float:
    """Of a process's latencies, ms, without the start of its blocks. A query that failed is slower than all others.

    Args:
        samples: Of the process.
        p: Of the percentile.
        at_least: Where so many failed that it is infinite, the time that the whole process took instead: slower than
            any query was, and a number that a ratio can be made of.
    """
    latency_ms = timing_samples.quantile(timing_samples.latencies_ms(samples)[timing_samples.settled(samples)], p)
    if at_least and not np.isfinite(latency_ms):
        begin, end = device.span(samples)
        return (end - begin) / 1e6
    return latency_ms


def _notes(check: Contention, quantities: dict[str, PairedQuantity], confidence: float) -> list[str]:
    """Note that the load left no mark, which may mean that it was no load for this model."""
    uppers = []
    for beside in quantities.values():
        ratio = beside.pairs.ratio()
        uppers.append(None if ratio is None else ratio.bound(confidence, "upper"))
    if uppers and all(upper is not None and upper < NOTHING for upper in uppers):
        return [
            f"{check.workers} processes of {check.background} load leave no mark on this model: they may leave it as "
            "many cores, caches and bandwidth as it needs."
        ]
    return []


def _blocks(check: Contention, quantities: dict[str, PairedQuantity], confidence: float) -> list[AnyBlock]:
    percent = in_percent(confidence)
    forest: list[Interval] = []
    rows: list[tuple[Cell, ...]] = []
    for part, beside in quantities.items():
        ratio = beside.pairs.ratio()
        value = None if ratio is None else ratio.value
        low = None if ratio is None else ratio.bound(confidence, "lower")
        high = None if ratio is None else ratio.bound(confidence, "upper")
        forest.append(Interval(label=part, value=value, lower=low, upper=high, n=len(beside.busy)))
        for pair, (one, other) in enumerate(zip(beside.busy.tolist(), beside.alone.tolist(), strict=True), start=1):
            slower = (other / one if beside.inverse else one / other) if one > 0 and other > 0 else None
            rows.append((part, pair, other, one, beside.unit, slower))
    load = f"{check.workers} x {check.background}"
    columns = (Column(name="of"), Column(name="pair", unit="count"), Column(name="alone"), Column(name="beside"),
               Column(name="unit"), Column(name="ratio", unit="x"))  # fmt: skip
    references = [Reference(label="no effect", value=1.0, axis="x")]
    references += [
        Reference(label=one.sentence, value=one.threshold, axis="x", says_value=True)
        for one in check.requirements
        if one.metric == "contention_ratio"
    ]
    return [
        Intervals(
            title=f"How many times as slow beside {load}", unit="x", rows=tuple(forest), references=tuple(references),
            caption=f"Over pairs of fresh processes; each {percent} bound by itself.",
        ),
        Table(title="Pairs", columns=columns, rows=tuple(rows), caption=f"Background load: {load}."),
    ]  # fmt: skip

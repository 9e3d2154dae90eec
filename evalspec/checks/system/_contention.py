"""What `contention` computes and shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system import _samples
from evalspec.checks.system._throughput import rate
from evalspec.checks.system._timed import BLOCK_S, WARMUP_S
from evalspec.checks.system.contention import QUANTILES, THROUGHPUT
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import AnyBlock, Column, Interval, Intervals, Reference, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.record import Counts
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.stats.timing import PairedTiming, paired_log_ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.contention import Contention
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Samples

DRAFT_QUERIES = 20
DRAFT_S = 0.05
MOST_FAILED = 0.01
NOTHING = 1.02


@dataclass(frozen=True)
class Beside:
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
        NotRunError: No pair has queries on both sides.
    """
    processes = 2 if inputs.draft else check.processes
    each = DRAFT_QUERIES if inputs.draft else check.each
    schedule = Schedule(
        kind=check.scenario, queries=each, processes=processes, batch=check.batch_size, warmup_queries=check.warmup,
        warmup_s=DRAFT_S if inputs.draft else WARMUP_S, min_s=DRAFT_S if inputs.draft else BLOCK_S,
        background=check.background, background_workers=check.workers,
    )  # fmt: skip
    # A model beside itself: the load runs during the blocks of the first side only.
    busy, alone = inputs.measure_paired(schedule, check.dataset, check.model)
    found = _pairs(check, busy, alone)
    if not found:
        raise NotRunError("no pair of processes has answered queries both beside the load and alone")
    everything = [*busy, *alone]
    failed = sum(int((~one.ok).sum()) for one in everything)
    total = sum(len(one.ok) for one in everything)
    invalid = _samples.too_short(everything, 2 * processes, each // 2 * 2)
    withhold = None
    if failed > MOST_FAILED * total:
        withhold = f"{failed / total:.1%} of queries failed, and have no latency to compare"
    ratios: dict[str, Estimate | Fact] = {}
    missing: dict[str, str] = {}
    for part, beside in found.items():
        ratio = beside.pairs.ratio()
        if ratio is None:
            missing[f"contention_ratio({part})"] = "a process answered nothing, so there is no ratio"
        else:
            ratios[part] = ratio
    return CheckResult(
        estimates={"contention_ratio": Measured(Parts(ratios), invalid=invalid, withhold=withhold)},
        missing=missing,
        blocks=_blocks(check, found, inputs.confidence),
        counts=Counts(attempted=2 * processes * each, used=total - failed, errored=failed),
        conditions={"scenario": check.scenario, "batch": check.batch_size, "background": check.background,
                    "background_workers": check.workers, "pairs": len(busy), "queries": total,
                    **_samples.conditions(inputs, check.model, everything)},
        notes=[*_notes(check, found, inputs.confidence), *_samples.notes(everything, None)],
    )  # fmt: skip


def _pairs(check: Contention, busy: list[Samples], alone: list[Samples]) -> dict[str, Beside]:
    """Percentiles or rates of every pair, without the start of each block."""
    if check.scenario == "offline":
        rates = [np.array([rate(one, _samples.settled(one)) for one in side]) for side in (busy, alone)]
        return {THROUGHPUT: Beside(rates[0], rates[1], "samples/s", inverse=True)} if len(rates[0]) else {}
    kept: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for one, other in zip(busy, alone, strict=False):
        first, second = _answered(one), _answered(other)
        if min(len(first), len(second)) >= 2:
            kept.append((first, second))
    if not kept:
        return {}
    return {
        part: Beside(
            np.array([_quantile(one, p) for one, _ in kept]), np.array([_quantile(other, p) for _, other in kept]), "ms"
        )
        for part, p in QUANTILES.items()
    }


def _answered(samples: Samples) -> NDArray[np.float64]:
    latencies = _samples.latencies_ms(samples)[_samples.settled(samples)]
    return latencies[np.isfinite(latencies)]


def _quantile(values: NDArray[np.float64], p: float) -> float:
    return float(np.quantile(values, p, method="inverted_cdf"))


def _notes(check: Contention, found: dict[str, Beside], confidence: float) -> list[str]:
    """That the load left no mark, which may mean that it was no load for this model."""
    uppers = []
    for beside in found.values():
        ratio = beside.pairs.ratio()
        uppers.append(None if ratio is None else ratio.bound(confidence, "upper"))
    if uppers and all(upper is not None and upper < NOTHING for upper in uppers):
        return [
            f"{check.workers} processes of {check.background} load leave no mark on this model: they may leave it as "
            "many cores, caches and bandwidth as it needs."
        ]
    return []


def _blocks(check: Contention, found: dict[str, Beside], confidence: float) -> list[AnyBlock]:
    percent = f"{confidence:.0%}"
    forest: list[Interval] = []
    rows: list[tuple[Cell, ...]] = []
    for part, beside in found.items():
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
        Reference(label=one.sentence, value=one.threshold, axis="x")
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

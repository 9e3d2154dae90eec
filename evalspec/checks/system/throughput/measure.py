"""Measurement of `throughput`, and its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.throughput.costs import EVERY_S, Costs, best_sizes, columns, costs
from evalspec.checks.system.throughput.paired import BestBeside
from evalspec.checks.system.throughput.spec import BEST_BATCH
from evalspec.checks.system.throughput.token_rates import pair_of, token_rates
from evalspec.evidence.blocks import AnyBlock, Column, Curve, Reference, Series, Table
from evalspec.evidence.estimate import ComparisonParts, Estimate, Fact, Measured, Parts, Side
from evalspec.evidence.frozen import Cell
from evalspec.evidence.reasons import Cause, Reason, gravest, only_worse
from evalspec.evidence.words import in_percent
from evalspec.language.inputs import Schedule
from evalspec.language.parts import CheckResult
from evalspec.language.timings import TIMED_BEFORE
from evalspec.stats.conjunction import AllParts
from evalspec.stats.timing.processes import PairedTiming, drift, over_processes, paired_log_ratio
from evalspec.timing import samples as timing_samples
from evalspec.timing import saturated_server, streams
from evalspec.timing.budget import TOKEN_RATES, batch_part
from evalspec.timing.samples import rate
from evalspec.timing.surroundings import surroundings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.throughput.spec import Throughput
    from evalspec.language.inputs import Inputs, Samples

DRAFT_S = 0.05
THROUGHPUT = "throughput"
NO_PAIR = "not both models streamed answers whose tokens are counted"


@dataclass(frozen=True)
class BestOf(Estimate):
    """The largest of several throughputs.

    That it is over a threshold is shown when one of K parts is, at level a/K: the best one was picked after looking.
    That it is below is shown when all parts are.

    Args:
        sizes: By part, at least one.
    """

    sizes: Mapping[str, Estimate]

    @property
    def _all(self) -> AllParts:
        # "All are at most x" is what AllParts decides for a metric that is better when lower.
        return AllParts(self.sizes, "lower")

    @property
    def value(self) -> float | None:
        """The largest value."""
        return self._all.value

    @property
    def n(self) -> int:
        """Processes of the best part."""
        return self._all.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        count = len(self.sizes)
        kinds = list(dict.fromkeys(one.method for one in self.sizes.values()))
        return kinds[0] if count == 1 else f"best of {count} batch sizes, Bonferroni: {kinds[0]}"

    def bound(self, confidence: float, side: Side) -> float | None:
        """From below the largest of the parts' bounds at level a/K, from above the largest at level a."""
        if side == "upper":
            return self._all.bound(confidence, side)
        stricter = 1.0 - (1.0 - confidence) / len(self.sizes)
        bounds = [one.bound(stricter, side) for one in self.sizes.values()]
        return max((bound for bound in bounds if bound is not None), default=None)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """K times the smallest p-value (over the threshold), or the largest (below it)."""
        return self._all.p_value(threshold, side)

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Processes, as the best part says."""
        best = self._all.worst
        return None if best is None else self.sizes[best].n_to_decide(threshold, alpha / len(self.sizes))


@dataclass(frozen=True)
class AtBatch:
    """Timings at one batch size.

    Args:
        samples: One per process.
        rates: shape (k,), items a second in each process; 0 where nothing was answered.
    """

    samples: list[Samples]
    rates: NDArray[np.float64]

    @property
    def estimate(self) -> Estimate:
        """Throughput over the processes; at least this, where it was a server that our client could not keep busy."""
        throughput = over_processes(self.rates, least=0.0)
        return saturated_server.AtLeast(throughput) if saturated_server.is_bottleneck(self.samples) else throughput


FEWEST_BATCHES = 3
"""Batch sizes that a curve is drawn through; fewer stand in the table."""


def measure(check: Throughput, inputs: Inputs) -> CheckResult:
    """Times every batch size, alone and in pairs with every model that a requirement names.

    Args:
        check: Its fields.
        inputs: Where timings come from.
    """
    batches: dict[int, AtBatch] = {}
    reasons: list[str | None] = []
    for size in check.sizes:
        schedule = _schedule(check, inputs, size)
        samples = inputs.measure(schedule, check.dataset, check.model)
        batches[size] = AtBatch(samples, np.array([rate(one) for one in samples]))
        reasons.append(timing_samples.too_short(samples, schedule.processes, schedule.queries))
    estimates = {batch_part(size): at.estimate for size, at in batches.items()}
    best = max(batches, key=lambda size: float(batches[size].rates.mean()) if len(batches[size].rates) else -1.0)
    tokens = token_rates({size: at.samples for size, at in batches.items()})
    missing = {name: one.why_not for name, one in tokens.items() if one.why_not}
    best_rates = {name: max(one.sizes, key=lambda size, at=one: at.sizes[size].value or 0.0)  # type: ignore[misc]
                  for name, one in tokens.items() if one.sizes}  # fmt: skip
    comparisons: dict[tuple[str, str], ComparisonParts] = {}
    beside: list[str] = []
    for baseline in check.baselines:
        pairs, notes = _pairs(check, inputs, baseline, {THROUGHPUT: best, **best_rates})
        comparisons |= {(name, baseline): pair for name, pair in pairs.items()}
        missing |= {f"{name} vs {baseline}": NO_PAIR for name in TOKEN_RATES if name not in pairs}
        beside += notes
    everything = [one for at in batches.values() for one in at.samples]
    around = surroundings(everything)
    invalid = next((reason for reason in reasons if reason), around.invalid)
    device = timing_samples.device_of(inputs, check.model)
    spent = {size: costs(at.samples, device) for size, at in batches.items()}
    withhold = _withhold(batches)
    found: dict[str, Measured | Fact] = {
        THROUGHPUT: Measured(
            Parts(estimates, whole=BestOf(estimates)), invalid=only_worse(invalid), withhold=withhold
        ),
    }  # fmt: skip
    if check.left_out:
        missing[BEST_BATCH] = f"sizes {_listed(check.left_out)} were not timed: the others decided"
    else:
        found[BEST_BATCH] = Fact(float(best), len(batches), "largest mean throughput", in_this_run=True)
    for name, one in tokens.items():
        if one.sizes:
            parts = {batch_part(size): estimate for size, estimate in one.sizes.items()}
            void = gravest(one.invalid, only_worse(invalid))
            found[name] = Measured(Parts(parts, whole=BestOf(parts)), invalid=void, withhold=withhold)
    return CheckResult(
        estimates=found,
        comparisons=comparisons,
        missing=missing,
        blocks=_blocks(check, batches, spent, inputs.confidence),
        counts=timing_samples.counted(everything),
        conditions={"scenario": check.scenario, **saturated_server.conditions(everything),
                    "processes": check.processes, **_timed_before(everything), **streams.facts(everything),
                    **timing_samples.conditions(inputs, check.model, everything)},
        notes=[*_not_timed(check), *around.notes, *beside, *streams.notes(everything),
               *saturated_server.notes({size: at.samples for size, at in batches.items()}),
               *timing_samples.notes(everything, _batch_ms(batches[min(batches)]))],
    )  # fmt: skip


def _timed_before(samples: Sequence[Samples]) -> dict[str, Cell]:
    """Number of processes in which another check had timed the model before, where there are any."""
    count = sum(1 for one in samples if one.details.get(TIMED_BEFORE))
    return {"processes_timed_before": count} if count else {}


def _not_timed(check: Throughput) -> list[str]:
    if not check.left_out:
        return []
    one = len(check.left_out) == 1
    return [f"Batch size{'' if one else 's'} {_listed(check.left_out)} {'was' if one else 'were'} not timed."]


def _listed(sizes: Sequence[int]) -> str:
    return " and ".join(str(size) for size in sizes)


def _schedule(check: Throughput, inputs: Inputs, size: int, baseline: str | None = None) -> Schedule:
    least = saturated_server.least_batches(inputs, check.connections, check.model, baseline)
    return Schedule(
        kind="offline",
        queries=2 if inputs.draft else least,
        processes=1 if inputs.draft else check.processes,
        batch=size,
        warmup_queries=check.warmup,
        warmup_s=DRAFT_S if inputs.draft else timing_samples.warmup_s(inputs, check.model, *check.baselines),
        min_s=DRAFT_S if inputs.draft else check.duration_s,
        telemetry_s=EVERY_S,
        connections=check.connections,
    )


def _pairs(
    check: Throughput, inputs: Inputs, baseline: str, best: Mapping[str, int]
) -> tuple[dict[str, ComparisonParts], list[str]]:
    """Both models in pairs of processes at every batch size, the whole with the candidate's best; and notes.

    Args:
        check: Its fields.
        inputs: Where timings come from.
        baseline: The other model.
        best: Metric: the candidate's best batch size by itself.
    """
    parts: dict[str, dict[int, PairedTiming]] = {name: {} for name in best}
    everything: list[Samples] = []
    short: str | None = None
    for size in check.sizes:
        schedule = _schedule(check, inputs, size, baseline)
        ours, theirs = inputs.measure_paired(schedule, check.dataset, baseline)
        short = short or timing_samples.too_short([*ours, *theirs], 2 * schedule.processes, schedule.queries // 2 * 2)
        rates = [np.array([rate(one, timing_samples.settled(one)) for one in side]) for side in (ours, theirs)]
        parts[THROUGHPUT][size] = paired_log_ratio(rates[0], rates[1])
        for name in best:
            pair = None if name == THROUGHPUT else pair_of(name, ours, theirs)
            if pair is not None:
                parts[name][size] = pair
        everything += [*ours, *theirs]
    around = surroundings(everything)
    limited = saturated_server.bottleneck(everything) if saturated_server.is_bottleneck(everything) else None
    counts = streams.miscounted(everything)
    comparisons = {
        name: ComparisonParts(
            {batch_part(size): pair for size, pair in pairs.items()}, BestBeside(pairs, best[name]),
            invalid=gravest(None if name == THROUGHPUT else counts, short or around.invalid or limited),
        )
        for name, pairs in parts.items()
        if best[name] in pairs
    }  # fmt: skip
    return comparisons, [f"Beside {baseline}: {note}" for note in around.notes]


def _withhold(batches: Mapping[int, AtBatch]) -> str | None:
    """Batches that grow slower in the course of a process, at any size."""
    for size, at in batches.items():
        spent = [saturated_server.under_way_ms(one) for one in at.samples]
        trend = drift([series[np.isfinite(series)] for series in spent])
        if trend is not None and trend.direction == "up":
            return Reason(
                f"at batch {size} a batch takes {100 * trend.change:.0f} % longer at the end of a "
                "process than at its start: "
                "no steady state was reached",
                Cause.NO_STEADY_STATE,
            )
    return None


def _batch_ms(at: AtBatch) -> float | None:
    """Median latency of a batch, or None where nothing was answered."""
    pooled = np.concatenate([saturated_server.under_way_ms(one) for one in at.samples] or [np.empty(0)])
    answered = pooled[np.isfinite(pooled)]
    return float(np.median(answered)) if len(answered) else None


def _blocks(
    check: Throughput, batches: Mapping[int, AtBatch], spent: Mapping[int, Costs], confidence: float
) -> list[AnyBlock]:
    percent = in_percent(confidence)
    more = columns(spent)
    rows: list[tuple[Cell, ...]] = []
    for size, at in batches.items():
        estimate = at.estimate
        lower, upper = estimate.bound(confidence, "lower"), estimate.bound(confidence, "upper")
        spread = float(at.rates.std(ddof=1) / at.rates.mean()) if len(at.rates) > 1 and at.rates.mean() > 0 else None
        slow = float(at.rates.min()) if len(at.rates) else None
        batch = _batch_ms(at)
        percentage = None if spread is None else 100.0 * spread
        beside = (cells[size] for _, cells in more)
        rows.append((size, estimate.value, lower, upper, len(at.rates), slow, percentage, batch, *beside))
    head = (
        Column(name="batch", unit="count"), Column(name="throughput", unit="samples/s"),
        Column(name=f"lower {percent}", unit="samples/s"), Column(name=f"upper {percent}", unit="samples/s"),
        Column(name="processes", unit="count"), Column(name="slowest process", unit="samples/s"),
        Column(name="variation of processes", unit="%"), Column(name="batch latency p50", unit="ms"),
        *(column for column, _ in more),
    )  # fmt: skip
    connections = saturated_server.connections_of([one for at in batches.values() for one in at.samples])
    caption = "Mean over the processes; each bound by itself."
    if connections is not None:
        caption += f" Requests to the server under way at a time: {connections}; the latency is with all of them."
    caption = " ".join([caption, *_not_timed(check)])
    table = Table(title="Throughput by batch size", caption=caption, columns=head, rows=tuple(rows))
    best = best_sizes(
        {size: at.estimate.value for size, at in batches.items()},
        {size: _batch_ms(at) for size, at in batches.items()},
        spent,
    )  # fmt: skip
    curve = [_curve(check, batches, confidence)] if len(batches) >= FEWEST_BATCHES else []
    # Of sizes of which some were not timed none is the best.
    return [*curve, table, *([] if check.left_out else [best])]


def _curve(check: Throughput, batches: Mapping[int, AtBatch], confidence: float) -> Curve:
    points = []
    for size, at in batches.items():
        estimate = at.estimate
        value = float(at.rates.mean()) if len(at.rates) else 0.0
        lower, upper = estimate.bound(confidence, "lower"), estimate.bound(confidence, "upper")
        points.append((float(size), value, value if lower is None else lower, value if upper is None else upper))
    x, y, low, high = (tuple(column) for column in zip(*points, strict=True))
    lines = tuple(
        Reference(label=r.sentence, value=r.threshold, axis="y", says_value=True)
        for r in check.requirements
        if r.metric == "throughput" and r.model is None
    )
    return Curve(
        title="Throughput against batch size",
        caption="Mean over the processes; the band is its bounds.",
        x_label="batch size", y_label="throughput", y_unit="samples/s", log_x=True,
        series=(Series(name=check.model, x=x, y=y, lower=low, upper=high),),
        references=lines,
    )  # fmt: skip

"""Blocks of `load`: latency against load, its course and tail, goodput, errors, and how well it was driven."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from evalspec.checks.system.load.course import POINTS, course_table, depth_curves, drawn
from evalspec.checks.system.load.generator import lag, void_percentiles
from evalspec.evidence.blocks import AnyBlock, Bar, Bars, Column, Curve, Reference, Series, Table
from evalspec.evidence.frozen import Cell
from evalspec.evidence.reasons import OnlyWorse
from evalspec.evidence.units import format_quantity
from evalspec.evidence.words import in_percent
from evalspec.measure.arrivals import describe
from evalspec.scoring.on_demand import shown_bounds
from evalspec.stats.timing.percentile import percentile
from evalspec.timing import samples, streams_show
from evalspec.timing.budget import PERCENTILES
from evalspec.timing.generator_lag import allowed_ms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.load.measure import LoadResult
    from evalspec.checks.system.load.one_rate import AtRate
    from evalspec.checks.system.load.spec import Load
    from evalspec.language.inputs import Samples

SHOWN = ("latency_p50", "latency_p95", "latency_p99")
_MS = "ms"


def blocks(check: Load, found: LoadResult, confidence: float) -> list[AnyBlock]:
    """All blocks; only tables where no query was answered.

    Args:
        check: Its requirements become lines.
        found: Everything that was run.
        confidence: Of each bound by itself.
    """
    runs = found.planned
    shown: list[AnyBlock] = []
    if any(np.isfinite(run.latencies_ms).any() for run in runs.values()):
        void = {part: list(void_percentiles(check, run, confidence)) for part, run in runs.items()}
        shown += [*_against_load(check, runs, void, confidence), _tail(check, runs), *_courses(check, runs)]
        shown += depth_curves(check, runs)
    if check.good is not None or check.objective is not None:
        shown.append(_goodput(check, runs))
    shown += streams_show.blocks(
        {part: run.samples for part, run in runs.items()}, {part: run.steady for part, run in runs.items()}
    )
    shown += [_rates(check, runs, confidence), course_table(check, runs), _driven(runs)]
    shown += [table for table in (_served(runs), _outcomes(runs)) if table is not None]
    if found.poisson:
        shown.append(_beside(found.parts, found.poisson))
    if found.search is not None and (found.search.tried or found.confirmed is not None):
        shown.append(_searched(found))
    return shown


def _lines(check: Load, parts: Collection[str | None], axis: Literal["x", "y"]) -> tuple[Reference, ...]:
    """Requirements on a percentile as lines; only those that hold at these rates, None: at every rate."""
    return tuple(
        Reference(label=r.sentence, value=r.threshold, axis=axis, says_value=True)
        for r in check.requirements
        if r.metric in PERCENTILES and r.model is None and r.part in parts
    )


def _void_words(names: Sequence[str]) -> str:
    """Which percentiles of a rate are void; empty: none is."""
    if not names:
        return ""
    return "void" if len(names) == len(PERCENTILES) else f"{', '.join(names)} void"


def _against_load(
    check: Load, runs: Mapping[str, AtRate], void: Mapping[str, Sequence[str]], confidence: float
) -> list[Curve]:
    """Percentiles against the rate; the band is that of the p99. None for fewer than 2 rates.

    A requirement on one rate is no line here: it would seem to hold at the others.
    """
    if len(runs) < 2:
        return []
    series = []
    for name in SHOWN:
        points = []
        for run in runs.values():
            estimate = run.latency(name)
            if estimate.value is None:
                continue
            lower, upper = shown_bounds(estimate, confidence)
            value = estimate.value
            points.append(
                (run.traffic.asked_qps, value, value if lower is None else lower, value if upper is None else upper)
            )
        if points:
            x, y, low, high = (tuple(float(v) for v in column) for column in zip(*points, strict=True))
            band = {"lower": low, "upper": high} if name == SHOWN[-1] else {}
            series.append(Series(name=name.removeprefix("latency_"), x=x, y=y, **band))
    doubts = "; ".join(
        part if len(names) == len(PERCENTILES) else f"{', '.join(names)} at {part}"
        for part, names in void.items()
        if names
    )
    return [
        Curve(
            title="Latency against load",
            caption=f"From the due time; the band has the {in_percent(confidence)} bounds of the p99, if there are any."
            + (f" Not to be trusted: {doubts}." if doubts else ""),
            x_label="offered rate", x_unit="qps", y_label="latency", y_unit=_MS, log_y=True,
            series=tuple(series), references=_lines(check, (None,), "y"),
        )
    ]  # fmt: skip


def _courses(check: Load, runs: Mapping[str, AtRate]) -> list[Curve]:
    """Median of short stretches over time at each rate, with the fastest and slowest query as edges.

    Each rate has a chart: their runs differ in length, and bands over each other hide the lines.
    """
    parts = drawn(list(runs))
    left = f" {len(parts)} of {len(runs)} rates are drawn." if len(parts) < len(runs) else ""
    found = []
    for part in parts:
        series = samples.stretches("median", runs[part].due_s, runs[part].latencies_ms, POINTS)
        if series is None:
            continue
        found.append(
            Curve(
                title=f"Latency over time at {part}",
                caption="Median of short stretches, from the due time, one process after the other; the band reaches "
                f"from the fastest to the slowest query.{left}",
                x_label="due time", x_unit="s", y_label="latency", y_unit=_MS, log_y=True,
                series=(series,), references=_lines(check, (None, part), "y"),
            )
        )  # fmt: skip
    return found


def _tail(check: Load, runs: Mapping[str, AtRate]) -> Curve:
    """Share of queries slower than each latency; points are densest in the tail."""
    series = []
    for part, run in runs.items():
        answered = np.sort(run.judged_ms[np.isfinite(run.judged_ms)])
        total = len(run.judged_ms)
        if not len(answered):
            continue
        slower = (total - np.arange(1, len(answered) + 1)) / total
        keep = np.unique(len(answered) - np.geomspace(1, len(answered), POINTS).astype(np.int64))
        keep = keep[slower[keep] > 0]
        if len(keep):
            series.append(Series(name=part, x=tuple(answered[keep].tolist()), y=tuple(slower[keep].tolist())))
    return Curve(
        title="Tail",
        caption="Share of queries that take longer; 1 % is the p99. Failed queries are slower than all.",
        x_label="latency", x_unit=_MS, y_label="share slower", log_x=True, log_y=True,
        series=tuple(series), references=_lines(check, (None, *runs), "x"),
    )  # fmt: skip


def _in_time(check: Load, run: AtRate) -> NDArray[np.bool_]:
    """Judged queries that were served as they should be."""
    if check.good is not None:
        return np.concatenate([one.by_limits(check.good.limits_ms)[one.steady] <= 1.0 for one in run.runs])
    assert check.objective is not None
    metric, limit_ms = check.objective.metric, check.objective.threshold
    return np.concatenate([one.time_of(metric)[one.steady] <= limit_ms for one in run.runs])


def _goodput(check: Load, runs: Mapping[str, AtRate]) -> Bars:
    bars = []
    sentence = ", ".join(
        f"{time} <= {format_quantity(limit, _MS)}"
        for time, limit in (check.good.limits_ms if check.good else {}).items()
    ) or (check.objective.sentence if check.objective is not None else "")
    for part, run in runs.items():
        asked = run.traffic.asked_qps
        answered, in_time = np.isfinite(run.judged_ms), _in_time(check, run)
        for label, share in (("offered", 1.0), ("answered", _mean(answered)), ("in time", _mean(in_time))):
            bars.append(Bar(label=label, value=asked * share, group=part))
    return Bars(
        title="Goodput",
        caption=f"What was offered, what of it was answered, and what in time ({sentence}).",
        unit="qps",
        bars=tuple(bars),
    )


def _rates(check: Load, runs: Mapping[str, AtRate], confidence: float) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for part, run in runs.items():
        tail = run.latency("latency_p99")
        saturated = run.saturation
        void = _void_words(list(void_percentiles(check, run, confidence)))
        disturbed = "disturbed" if isinstance(run.invalid, OnlyWorse) else ""
        remarks = [void, disturbed, "over-saturated" if saturated and saturated.growing else ""]
        served = None if saturated is None else saturated.served_qps
        failed = 100.0 * (1.0 - _mean(np.isfinite(run.judged_ms)))
        values = [run.latency(name).value for name in PERCENTILES]
        rows.append(
            (part, tail.n, *values, tail.bound(confidence, "upper"), failed, served, tail.measured.design_effect,
             len(run.runs), "; ".join(one for one in remarks if one))
        )  # fmt: skip
    columns = (
        Column(name="rate"), Column(name="queries", unit="count"),
        *(Column(name=name.removeprefix("latency_"), unit=_MS) for name in PERCENTILES),
        Column(name=f"upper {in_percent(confidence)} of p99", unit=_MS), Column(name="failed", unit="%"),
        Column(name="served", unit="qps"), Column(name="design effect", unit="x"),
        Column(name="processes", unit="count"), Column(name="remark"),
    )  # fmt: skip
    caption = (
        "The steady part of each run. The design effect is how many dependent queries say as much as one. What is void "
        "is not the system's doing, and decides nothing."
    )
    return Table(title="Rates", caption=caption, columns=columns, rows=tuple(rows))


def _driven(runs: Mapping[str, AtRate]) -> Table:
    """Arrivals against what was asked for, and how late the generator was."""
    rows: list[tuple[Cell, ...]] = []
    for part, run in runs.items():
        times = run.steady_times_ns
        made = describe(times) if len(times) > 1 else None
        rows.append(
            (part, run.traffic.kind, run.traffic.asked_qps, None if made is None else made.rate_qps, run.traffic.gap_cv,
             None if made is None else made.gap_cv, None if made is None else made.lag1, *lag(run),
             allowed_ms(min(run.limits_ms.values(), default=None)))
        )  # fmt: skip
    columns = (
        Column(name="rate"), Column(name="arrivals"), Column(name="asked", unit="qps"), Column(name="made", unit="qps"),
        Column(name="asked spread of gaps", unit="x"), Column(name="made", unit="x"),
        Column(name="correlation of neighbouring gaps", unit="score"), Column(name="lag p50", unit=_MS),
        Column(name="lag p99", unit=_MS), Column(name="worst lag", unit=_MS), Column(name="allowed", unit=_MS),
    )  # fmt: skip
    caption = (
        "Arrivals as they were made before the run (spread: standard deviation by mean; Poisson has 1), and how late "
        "the generator sent queries by its own fault."
    )
    return Table(title="Load generator", caption=caption, columns=columns, rows=tuple(rows))


def _served(runs: Mapping[str, AtRate]) -> Table | None:
    """Time to the first byte of a server's answer, and how many queries were served together; None: neither."""
    rows: list[tuple[Cell, ...]] = []
    for part, run in runs.items():
        first = [_first_ms(one) for one in run.samples]
        sizes = [one.together[one.ok] for one in run.samples if one.together is not None]
        together = np.concatenate(sizes or [np.empty(0, dtype=np.int64)])
        # A batch of k stands k times among its queries.
        batches = float((1.0 / together[together > 0]).sum())
        served = int((together > 0).sum())
        rows.append(
            (part, *(percentile(first, p).value for p in (0.5, 0.99)), served / batches if batches else None,
             int(together.max()) if served else None)
        )  # fmt: skip
    if all(cell is None for row in rows for cell in row[1:]):
        return None
    columns = (
        Column(name="rate"), Column(name="first byte p50", unit=_MS), Column(name="first byte p99", unit=_MS),
        Column(name="mean batch", unit="count"), Column(name="largest batch", unit="count"),
    )  # fmt: skip
    caption = "From sending to the first byte of the answer, where it is told; queries that were served together."
    return Table(title="Serving", caption=caption, columns=columns, rows=tuple(rows))


def _first_ms(one: Samples) -> NDArray[np.float64]:
    if one.first_ns is None:
        return np.empty(0)
    told = one.ok & (one.first_ns > one.sent_ns)
    found: NDArray[np.float64] = (one.first_ns - one.sent_ns)[told] / 1e6
    return found


def _outcomes(runs: Mapping[str, AtRate]) -> Table | None:
    """Outcomes of the queries; None where all were answered."""
    counts = {part: run.outcomes() for part, run in runs.items()}
    names = list(dict.fromkeys(name for found in counts.values() for name in found))
    if names in ([], ["answered"]):
        return None
    rows = tuple((part, *(found.get(name, 0) for name in names)) for part, found in counts.items())
    columns = (Column(name="rate"), *(Column(name=name, unit="count") for name in names))
    caption = "All queries of each run, ramp and spike included."
    return Table(title="Outcomes", caption=caption, columns=columns, rows=rows)


def _beside(runs: Mapping[str, AtRate], poisson: Mapping[str, AtRate]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for part, run in runs.items():
        own, plain = (
            [one.latency(name).value for name in ("latency_p50", "latency_p99")] for one in (run, poisson[part])
        )
        ratio = own[1] / plain[1] if own[1] is not None and plain[1] else None
        rows.append((part, run.traffic.kind, *own, *plain, ratio))
    columns = (
        Column(name="rate"), Column(name="arrivals"), Column(name="p50", unit=_MS), Column(name="p99", unit=_MS),
        Column(name="p50 under Poisson", unit=_MS), Column(name="p99 under Poisson", unit=_MS),
        Column(name="p99 by p99", unit="x"),
    )  # fmt: skip
    caption = "The same rate with bursts and with Poisson arrivals; real traffic is burstier than Poisson."
    return Table(title="Bursts beside Poisson", caption=caption, columns=columns, rows=tuple(rows))


def _searched(found: LoadResult) -> Table:
    rows: list[tuple[Cell, ...]] = []
    if found.search is not None:
        rows += [(rate, "short run", value, holds) for rate, value, holds in found.search.tried]
    if found.confirmed is not None:
        once = found.confirmed
        rows.append((once.rate_qps, "fresh queries", None, once.holds if once.void is None else "not admissible"))
    columns = (
        Column(name="rate", unit="qps"), Column(name="run"), Column(name="the SLO's percentile", unit=_MS),
        Column(name="SLO held"),
    )  # fmt: skip
    caption = "Doubling, then bisection over short runs, then one run on fresh queries. It decides nothing."
    return Table(title="Search for the highest rate", caption=caption, columns=columns, rows=tuple(rows))


def _mean(mask: NDArray[np.bool_]) -> float:
    return float(mask.mean()) if len(mask) else 0.0

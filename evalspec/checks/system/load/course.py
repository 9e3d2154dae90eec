"""Course of a load: queries under way over time, and the seconds in which the SLO did not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import Column, Curve, Reference, Table
from evalspec.evidence.frozen import Cell
from evalspec.timing import samples
from evalspec.timing.budget import percentile_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.load.one_process import Driven
    from evalspec.checks.system.load.one_rate import AtRate
    from evalspec.checks.system.load.spec import Load

POINTS = 200
MOST_COURSES = 4
"""Rates whose course over time is drawn."""
SECOND_NS = 1_000_000_000


def drawn(parts: Sequence[str]) -> list[str]:
    """Rates whose course is drawn, the lowest and the highest among them."""
    return [parts[at] for at in sorted({round(at) for at in np.linspace(0, len(parts) - 1, MOST_COURSES)})]


def under_way(one: Driven) -> NDArray[np.int64]:
    """Queries that were due and had not ended when each query was due, itself among them; shape (q,).

    Their number rises with a query alone, so the largest of these is the largest there was.
    """
    due = one.due_ns
    ended = np.sort(one.samples.end_ns - one.samples.intended_ns + due)
    found: NDArray[np.int64] = np.arange(1, len(due) + 1) - np.searchsorted(ended, due, side="right")
    return np.maximum(found, 0)


def limits_of(check: Load, run: AtRate) -> dict[str, float]:
    """Percentile: the tightest latency that is required of it at a rate, that of the SLO among them."""
    limits = dict(run.limits_ms)
    if check.objective is not None:
        name, limit = check.objective.metric, check.objective.threshold
        limits[name] = min(limit, limits.get(name, limit))
    return limits


def seconds_over(
    due_ns: NDArray[np.int64], times_ms: Mapping[str, NDArray[np.float64]], limits_ms: Mapping[str, float]
) -> tuple[int, int]:
    """Seconds with queries, and those of them in which a limit did not hold.

    A second counts by the queries that were due in it: more of them than the percentile leaves took longer.

    Args:
        due_ns: shape (q,), rising.
        times_ms: Percentile: the time that it is of, shape (q,), infinite where a query failed.
        limits_ms: Percentile: its limit.
    """
    if not len(due_ns):
        return 0, 0
    second = (due_ns - due_ns[0]) // SECOND_NS
    queries = np.bincount(second)
    over = np.zeros(len(queries), dtype=np.bool_)
    for name, limit in limits_ms.items():
        late = np.bincount(second[times_ms[name] > limit], minlength=len(queries))
        over |= late > (1.0 - (percentile_of(name) or 0.5)) * queries + 1e-9
    return int((queries > 0).sum()), int(over.sum())


def course_table(check: Load, runs: Mapping[str, AtRate]) -> Table:
    """Each stretch of each rate: how many queries were under way, and how many seconds were over the limit."""
    rows = tuple(row for part, run in runs.items() for row in _rows(check, part, run))
    columns = (
        Column(name="rate"), Column(name="stretch"), Column(name="queries", unit="count"),
        Column(name="under way p50", unit="count"), Column(name="most under way", unit="count"),
        Column(name="watched", unit="s"), Column(name="SLO violated", unit="s"),
    )  # fmt: skip
    caption = (
        "Under way: due and not yet ended, as each query found it that came, itself among them. The SLO is violated "
        "in a second if more of the queries due in it than the percentile leaves took longer than its limit (the "
        "SLO's, or a requirement's at this rate), or failed; all processes together. Only the steady part is judged."
    )
    return Table(title="Queue and seconds over the limit", caption=caption, columns=columns, rows=rows)


def depth_curves(check: Load, runs: Mapping[str, AtRate]) -> list[Curve]:
    """Queries under way over time, of each rate in the process that had most; ramp and spike are marked."""
    found = []
    for part in drawn(list(runs)):
        depths = [under_way(one) for one in runs[part].runs]
        worst = int(np.argmax([depth.max(initial=0) for depth in depths]))
        one = runs[part].runs[worst]
        series = samples.stretches("under way", one.due_ns / 1e9, depths[worst].astype(np.float64), POINTS)
        if series is None:
            continue
        found.append(
            Curve(
                title=f"Queries under way over time at {part}",
                caption="Due and not yet ended, in the process in which most were: median of short stretches, the band "
                "reaches from the fewest to the most.",
                x_label="due time", x_unit="s", y_label="queries under way", y_unit="count",
                series=(series,), references=tuple(_marks(check, one)),
            )
        )  # fmt: skip
    return found


def _marks(check: Load, one: Driven) -> Iterator[Reference]:
    """Where the ramp ends, and from when to when the spike lasts."""
    if check.arrivals.ramp_s > 0:
        yield Reference(label="the ramp ends", value=check.arrivals.ramp_s, axis="x")
    spike = one.due_ns[one.spike] / 1e9
    if len(spike):
        yield Reference(label="the spike begins", value=float(spike[0]), axis="x")
        yield Reference(label="the spike ends", value=float(spike[-1]), axis="x")


def _rows(check: Load, part: str, run: AtRate) -> Iterator[tuple[Cell, ...]]:
    limits = limits_of(check, run)
    depths = [under_way(one) for one in run.runs]
    of_process = [_stretches(one, ramp=check.arrivals.ramp_s > 0) for one in run.runs]
    for name in dict.fromkeys(name for one in of_process for name in one):
        chosen = [(one, depth, parts[name]) for one, depth, parts in zip(run.runs, depths, of_process, strict=True)]
        depth = np.concatenate([depth[mask] for _, depth, mask in chosen])
        if not len(depth):
            continue
        watched = [
            seconds_over(one.due_ns[mask], {metric: one.time_of(metric)[mask] for metric in limits}, limits)
            for one, _, mask in chosen
        ]
        seconds, over = (sum(column) for column in zip(*watched, strict=True))
        yield part, name, len(depth), float(np.median(depth)), int(depth.max()), seconds, over if limits else None


def _stretches(one: Driven, *, ramp: bool) -> dict[str, NDArray[np.bool_]]:
    """Stretch of each query, in the order of time; shapes (q,)."""
    at = np.arange(len(one.due_ns))
    begins = int(np.argmax(one.steady)) if one.steady.any() else len(at)
    before = at < begins
    return {
        "ramp and lead-in" if ramp else "lead-in": before,
        "steady": one.steady,
        "spike": one.spike,
        "after the spike": ~(before | one.steady | one.spike),
    }

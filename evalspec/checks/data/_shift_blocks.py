"""What `shift` shows: every column's distance, the columns that moved most, what gives the rows away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.data._shift_columns import Compared
from evalspec.evidence.blocks import (
    AnyBlock,
    Bar,
    Bars,
    Column,
    Histogram,
    Interval,
    Intervals,
    Reference,
    Table,
)
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.frozen import Cell
from evalspec.stats.shift import category_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data._c2st import Told
    from evalspec.checks.data.shift import Shift

ROWS_SHOWN = 60
WORST_SHOWN = 4
CELLS = 30
BARS_SHOWN = 12
PER = 1_000


def blocks(
    check: Shift,
    columns: Sequence[Compared],
    distances: Mapping[str, Estimate],
    missing: Mapping[str, Estimate],
    told: Told | None,
    confidence: float,
) -> list[AnyBlock]:
    """All blocks.

    Args:
        check: Its fields.
        columns: The columns.
        distances: By column or summary of a column.
        missing: Difference of missing shares, by column.
        told: What the classifier made of it.
        confidence: Of each bound by itself.
    """
    worst = sorted(columns, key=lambda column: -(distances[column.name].value or 0.0))
    shown: list[AnyBlock] = [
        _forest(check, worst, distances, confidence),
        _table(check, worst, distances, missing, confidence),
    ]
    shown += [_overlay(check, column) for column in worst[:WORST_SHOWN] if _both(column)]
    if told is not None:
        shown.append(_giveaway(check, told))
    return shown


def _both(column: Compared) -> bool:
    return bool(len(column.reference.values) and len(column.current.values))


def _forest(
    check: Shift, columns: Sequence[Compared], distances: Mapping[str, Estimate], confidence: float
) -> Intervals:
    rows = []
    for column in columns[:ROWS_SHOWN]:
        distance = distances[column.name]
        lower, upper = distance.bound(confidence, "lower"), distance.bound(confidence, "upper")
        rows.append(Interval(label=column.name, value=distance.value, lower=lower, upper=upper, n=distance.n))
    more = f" The {ROWS_SHOWN} largest of {len(columns)}." if len(columns) > ROWS_SHOWN else ""
    return Intervals(
        title="Shift per column",
        caption=f"Distance with {confidence:.0%} bounds on either side, largest first.{more}",
        rows=tuple(rows),
        references=(Reference(label="tolerance", value=check.tolerance, axis="x"),),
    )


def _table(
    check: Shift,
    columns: Sequence[Compared],
    distances: Mapping[str, Estimate],
    missing: Mapping[str, Estimate],
    confidence: float,
) -> Table:
    percent = f"{confidence:.0%}"
    heads = (
        Column(name="column"), Column(name="kind"), Column(name="distance", unit="score"),
        Column(name=f"lower {percent}", unit="score"), Column(name=f"upper {percent}", unit="score"),
        Column(name=check.reference), Column(name=check.current),
        Column(name=f"missing in {check.reference}", unit="%"), Column(name=f"missing in {check.current}", unit="%"),
        Column(name="difference", unit="pp"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        distance, difference = distances[column.name], missing[column.source].value
        rows.append((
            column.name, column.kind, distance.value, distance.bound(confidence, "lower"),
            distance.bound(confidence, "upper"), _typical(column.reference.values), _typical(column.current.values),
            100.0 * float(column.reference.missing.mean()), 100.0 * float(column.current.missing.mean()),
            None if difference is None else 100.0 * difference,
        ))  # fmt: skip
    caption = "Under the names of the datasets: the median of numbers, the most frequent category."
    return Table(title="Columns", caption=caption, columns=heads, rows=tuple(rows))


def _typical(values: NDArray[np.float64] | NDArray[np.str_]) -> Cell:
    if not len(values):
        return None
    if values.dtype.kind == "U":
        names, counts = np.unique(values, return_counts=True)
        return str(names[int(np.argmax(counts))])
    return float(np.median(values.astype(np.float64)))


def _overlay(check: Shift, column: Compared) -> AnyBlock:
    if column.kind == "category":
        return _categories(check, column)
    first, second = column.reference.values.astype(np.float64), column.current.values.astype(np.float64)
    # Equal weight to both sides, so that the larger one does not set the range.
    low = min(np.quantile(first, 0.005), np.quantile(second, 0.005))
    high = max(np.quantile(first, 0.995), np.quantile(second, 0.995))
    edges = np.linspace(low, high if high > low else low + 1.0, CELLS + 1)
    counts = {
        name: tuple(int(c) for c in np.round(PER * np.histogram(np.clip(v, edges[0], edges[-1]), edges)[0] / len(v)))
        for name, v in ((check.reference, first), (check.current, second))
    }
    return Histogram(
        title=f"{column.name}: {check.reference} and {check.current}",
        caption="Rows in 1,000 of each dataset; the outermost cells hold everything beyond them.",
        x_label=column.name,
        y_label="rows in 1,000",
        edges=tuple(float(edge) for edge in edges),
        counts=counts,
    )


def _categories(check: Shift, column: Compared) -> Bars:
    names, a, b = category_counts(column.reference.values, column.current.values)
    shares = a / a.sum(), b / b.sum()
    order = np.argsort(-np.abs(shares[0] - shares[1]), kind="stable")[:BARS_SHOWN]
    bars = [
        Bar(label=names[i], value=100.0 * float(share[i]), group=group)
        for i in order
        for group, share in ((check.reference, shares[0]), (check.current, shares[1]))
    ]
    more = f" The {BARS_SHOWN} that moved most of {len(names)}." if len(names) > BARS_SHOWN else ""
    title = f"{column.name}: {check.reference} and {check.current}"
    return Bars(title=title, caption=f"Share of rows.{more}", unit="%", bars=tuple(bars))


def _giveaway(check: Shift, told: Told) -> Bars:
    order = sorted(told.gain, key=lambda name: -told.gain[name])[:BARS_SHOWN]
    auc = "unknown" if told.auc.value is None else f"{told.auc.value:.3f}"
    return Bars(
        title="What gives the rows away",
        caption=(
            f"A classifier tells {check.reference} from {check.current} with an AUC of {auc} on held-out rows; "
            "the bars are what it loses when a column is shuffled."
        ),
        unit="score",
        bars=tuple(Bar(label=name, value=told.gain[name]) for name in order),
    )

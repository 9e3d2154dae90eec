"""Blocks of `shift`: every column's distance, the columns that moved most, the features that give the rows away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.data.shift.columns import RawColumnPair
from evalspec.evidence.blocks import (
    AnyBlock,
    Bar,
    Bars,
    Column,
    Histogram,
    Interval,
    Intervals,
    Reference,
    SmallHistogram,
    SmallHistograms,
    Table,
)
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import in_percent
from evalspec.stats.drift.columns import CategoryCounts, Numbers
from evalspec.stats.drift.distances import Distance, matched_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.shift.classifier import ClassifierResult
    from evalspec.checks.data.shift.spec import Shift
    from evalspec.stats.drift.ranks import Ranks

ROWS_SHOWN = 60
WORST_SHOWN = 4
CELLS, SMALL_CELLS = 30, 16
BARS_SHOWN = 12
PER = 1_000


def blocks(
    check: Shift,
    columns: Sequence[RawColumnPair],
    distances: Mapping[str, Distance],
    missing: Mapping[str, Estimate],
    told: ClassifierResult | None,
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
        _forest(check, distances, confidence),
        _table(check, worst, distances, missing, confidence),
    ]
    shown += [_overlay(check, column) for column in worst[:WORST_SHOWN] if _both(column)]
    if len(worst) > WORST_SHOWN:
        shown.append(_all_columns(check, worst, distances))
    if told is not None:
        shown.append(_giveaway(check, told))
    return shown


def _both(column: RawColumnPair) -> bool:
    return bool(column.reference.n and column.current.n)


def _forest(check: Shift, distances: Mapping[str, Distance], confidence: float) -> Intervals:
    rows = []
    worst = sorted(distances, key=lambda name: -(distances[name].value or 0.0))
    for name in worst[:ROWS_SHOWN]:
        distance = distances[name]
        lower, upper = distance.bound(confidence, "lower"), distance.bound(confidence, "upper")
        rows.append(Interval(label=name, value=distance.value, lower=lower, upper=upper, n=distance.n))
    more = f" The {ROWS_SHOWN} largest of {len(worst)}." if len(worst) > ROWS_SHOWN else ""
    return Intervals(
        title="Shift per column",
        caption=f"Distance with {in_percent(confidence)} bounds on either side, largest first.{more}",
        rows=tuple(rows),
        references=(Reference(label="tolerance", value=check.tolerance, axis="x"),),
    )


def _table(
    check: Shift,
    columns: Sequence[RawColumnPair],
    distances: Mapping[str, Distance],
    missing: Mapping[str, Estimate],
    confidence: float,
) -> Table:
    percent = in_percent(confidence)
    heads = (
        Column(name="column"), Column(name="kind"), Column(name="distance", unit="score"),
        Column(name=f"lower {percent}", unit="score"), Column(name=f"upper {percent}", unit="score"),
        Column(name=check.reference), Column(name=check.current),
        Column(name=f"missing in {check.reference}", unit="%"), Column(name=f"missing in {check.current}", unit="%"),
        Column(name="difference", unit="pp"), Column(name="smallest detectable", unit="score"),
        Column(name=f"largest shown within {check.tolerance:g}", unit="score"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for column in columns:
        distance, difference = distances[column.name], missing[column.source].value
        rows.append((
            column.name, column.kind, distance.value, distance.bound(confidence, "lower"),
            distance.bound(confidence, "upper"), _typical(column.reference), _typical(column.current),
            100.0 * _absent(column.reference), 100.0 * _absent(column.current),
            None if difference is None else 100.0 * difference, *_reach(check, distance, confidence),
        ))  # fmt: skip
    caption = (
        "Under the names of the datasets: the median of numbers, the most frequent category. Last, what so many rows "
        f"can tell at {percent}: the smallest distance of the samples that is shown to be one, and the largest that is "
        "shown to be within the tolerance."
    )
    return Table(title="Columns", caption=caption, columns=heads, rows=tuple(rows))


def _reach(check: Shift, distance: Distance, confidence: float) -> tuple[Cell, Cell]:
    """Distances that so many rows can tell from 0, and from the tolerance; nothing where none is small enough."""
    below = distance.below_by(confidence)
    room = None if below is None else check.tolerance - below
    return distance.told_from_zero(confidence), None if room is None or room < 0 else room


def _typical(side: Numbers | CategoryCounts) -> Cell:
    if not side.n:
        return None
    if isinstance(side, CategoryCounts):
        return max(sorted(side.counts), key=lambda name: side.counts[name])
    return float(side.ranks().quantile([0.5])[0])


def _absent(side: Numbers | CategoryCounts) -> float:
    """Share of cells without a value."""
    absent = side.absent if isinstance(side, Numbers) else side.missing
    return absent / (absent + side.n)


def _overlay(check: Shift, column: RawColumnPair) -> AnyBlock:
    if isinstance(column.reference, CategoryCounts) or isinstance(column.current, CategoryCounts):
        return _categories(check, column)
    first, second = column.reference.ranks(), column.current.ranks()
    edges = _edges((first, second), CELLS)
    counts = {
        name: tuple(int(c) for c in np.round(PER * _in_cells(ranks, edges) / ranks.n))
        for name, ranks in ((check.reference, first), (check.current, second))
    }
    return Histogram(
        title=f"{column.name}: {check.reference} and {check.current}",
        caption="Rows in 1,000 of each dataset; the outermost cells hold everything beyond them.",
        x_label=column.name,
        y_label="rows in 1,000",
        edges=tuple(float(edge) for edge in edges),
        counts=counts,
    )


def _all_columns(check: Shift, columns: Sequence[RawColumnPair], distances: Mapping[str, Distance]) -> SmallHistograms:
    both = [column for column in columns if _both(column)]
    items = tuple(_small(check, column, distances[column.name].value) for column in both[:ROWS_SHOWN])
    more = f"; the {ROWS_SHOWN} of {len(both)} columns that moved most" if len(both) > ROWS_SHOWN else ""
    caption = f"Share of rows in each cell, filled for {check.reference}; largest distance first{more}."
    return SmallHistograms(title="Every column", caption=caption, items=items)


def _small(check: Shift, column: RawColumnPair, distance: float | None) -> SmallHistogram:
    first, second = column.reference, column.current
    if isinstance(first, CategoryCounts) or isinstance(second, CategoryCounts):
        shares, low, high = *_category_shares(check, column), ""
    else:
        ranks = {check.reference: first.ranks(), check.current: second.ranks()}
        edges = _edges(list(ranks.values()), SMALL_CELLS)
        shares = {name: 100.0 * _in_cells(one, edges) / one.n for name, one in ranks.items()}
        low, high = f"{edges[0]:.3g}", f"{edges[-1]:.3g}"
    told = {name: tuple(float(f"{share:.3g}") for share in values) for name, values in shares.items()}
    note = "" if distance is None else f"{distance:.2f}"
    return SmallHistogram(label=column.name, note=note, first=low, last=high, shares=told)


def _category_shares(check: Shift, column: RawColumnPair) -> tuple[dict[str, NDArray[np.float64]], str]:
    """Percent of rows in the most frequent categories, and the name of the first, with how many follow."""
    assert isinstance(column.reference, CategoryCounts) and isinstance(column.current, CategoryCounts)
    names, a, b = matched_counts(column.reference.counts, column.current.counts)
    order = np.argsort(-(a / a.sum() + b / b.sum()), kind="stable")[:BARS_SHOWN]
    shares = {check.reference: 100.0 * a[order] / a.sum(), check.current: 100.0 * b[order] / b.sum()}
    first = names[order[0]]
    return shares, first if len(order) == 1 else f"{first}, {len(order) - 1} more"


def _edges(sides: Sequence[Ranks], cells: int) -> NDArray[np.float64]:
    """Ends of cells that hold 99 % of all sides, with equal weight, so that the largest one does not set the range."""
    ends = [side.quantile([0.005, 0.995]) for side in sides]
    low, high = min(float(end[0]) for end in ends), max(float(end[1]) for end in ends)
    return np.linspace(low, high if high > low else low + 1.0, cells + 1)


def _in_cells(ranks: Ranks, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values between edges, the outermost cells with all beyond them, shape (edges - 1,)."""
    below, _ = ranks.at(edges)
    counts = below.mean(axis=0)
    counts[0], counts[-1] = 0, ranks.n
    return np.diff(counts)


def _categories(check: Shift, column: RawColumnPair) -> Bars:
    assert isinstance(column.reference, CategoryCounts) and isinstance(column.current, CategoryCounts)
    names, a, b = matched_counts(column.reference.counts, column.current.counts)
    shares = a / a.sum(), b / b.sum()
    order = np.argsort(-np.abs(shares[0] - shares[1]), kind="stable")[:BARS_SHOWN]
    bars = [
        Bar(label=name, value=100.0 * float(share[i]), group=names[i])
        for i in order
        for name, share in ((check.reference, shares[0]), (check.current, shares[1]))
    ]
    more = f"; the {BARS_SHOWN} of {len(names)} categories that moved most" if len(names) > BARS_SHOWN else ""
    title = f"{column.name}: {check.reference} and {check.current}"
    return Bars(title=title, caption=f"Share of rows, largest difference first{more}.", unit="%", bars=tuple(bars))


def _giveaway(check: Shift, told: ClassifierResult) -> Bars:
    order = sorted(told.gain, key=lambda name: -told.gain[name])[:BARS_SHOWN]
    auc = "unknown" if told.auc.value is None else f"{told.auc.value:.3f}"
    return Bars(
        title="What the classifier uses",
        caption=(
            f"A classifier tells {check.reference} from {check.current} with an AUC of {auc} on held-out rows; "
            "the bars are what it loses when a column is shuffled."
        ),
        unit="score",
        bars=tuple(Bar(label=name, value=told.gain[name]) for name in order),
    )

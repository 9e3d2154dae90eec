"""Percentile over groups, such as users: each group scored by itself, and counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.answers.arrays import plain_values
from evalspec.cells import values_of
from evalspec.errors import InputError, did_you_mean
from evalspec.evidence.blocks import AnyBlock, Column, Histogram, Reference, Table
from evalspec.evidence.words import in_percent
from evalspec.scoring.catalogue.metrics import SLICED
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.scores import Estimators, Share
from evalspec.scoring.slicing import column_of
from evalspec.scoring.tasks import score
from evalspec.stats.shares.over_groups import HOLDING, VIOLATED, OverGroups, share_bounds
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Inputs

METRICS = {metric.name: metric for metric in SLICED}
WORST_SHOWN = 20
BINS = 20


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows by the values of a column.

    Args:
        column: Name of the column.
        names: Names of the groups.
        codes: shape (n,), group of each row, -1 where the column is missing.
    """

    column: str
    names: tuple[str, ...]
    codes: NDArray[np.int64]

    @property
    def missing(self) -> int:
        """Number of rows that belong to no group."""
        return int(np.count_nonzero(self.codes < 0))


@dataclass(frozen=True, eq=False)
class _ByGroup:
    """Values and bounds of each group that has a value.

    Args:
        groups: shape (K,), codes of the groups.
        rows: shape (K,), number of rows.
        values: shape (K,).
        holding: shape (K,), bound towards worse, at 80 %; the worst value possible where there is no bound.
        violated: shape (K,), bound towards better, at 95 %; the best value possible where there is no bound.
    """

    groups: NDArray[np.int64]
    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    holding: NDArray[np.float64]
    violated: NDArray[np.float64]


@dataclass(frozen=True)
class GroupPercentile:
    """Percentile of a metric over groups.

    Args:
        estimate: Estimate of the percentile.
        blocks: Blocks to show.
        notes: Sentences for the reader.
    """

    estimate: Estimate
    blocks: Sequence[AnyBlock] = ()
    notes: Sequence[str] = ()


def groups_of(inputs: Inputs, dataset: str, name: str) -> Groups:
    """Groups of a column, in the order of their first rows.

    Args:
        inputs: Inputs of the check.
        dataset: Name of the dataset.
        name: Name of the column; ``class`` is the label.

    Raises:
        InputError: There is no such column, or its values can't name groups.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = inputs.table(dataset).column_names
    column = column_of(inputs, dataset, name)
    if column not in columns:
        remedy = did_you_mean(name, columns)
        raise InputError(f"{name!r} is not a column of dataset {dataset!r}", choices=tuple(columns), remedy=remedy)
    values = plain_values(inputs.table(dataset, [column]).column(0))
    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind):
        raise InputError(
            f"column {column!r} of {dataset!r} ({kind}) names no groups",
            remedy="take a column of text or whole numbers",
        )
    distinct = pc.drop_null(pc.unique(values))
    indices = pc.index_in(values, value_set=distinct) if len(distinct) else pa.nulls(len(values), pa.int32())
    codes = np.asarray(pc.fill_null(indices, -1).to_numpy(), dtype=np.int64)
    return Groups(column, tuple(str(value) for value in values_of(distinct)), codes)


def percentile(metric: str, share: float, rows: Scored, groups: Groups, tools: Estimators) -> GroupPercentile:
    """Estimate a percentile of a metric over groups.

    Args:
        metric: Name of the metric.
        share: Share of the groups that may be worse, in 0..1.
        rows: Rows of the candidate.
        groups: Groups of the same rows.
        tools: What estimates need beside rows.

    Raises:
        Undefined: No group has a value.
    """
    one = score(metric, None, rows)
    groups = replace(groups, codes=rows.spread(groups.codes))
    spread = _spread(rows, groups)
    if spread is not None:
        return GroupPercentile(ValueOnly(None, 0, f"no bound: {spread}"), notes=(spread,))
    rows = _within(rows, groups)
    higher = METRICS[metric].better == "higher"
    if isinstance(one, Share) and rows.clusters is None:
        by_group = _shares(one, rows, groups)
    else:
        by_group = _one_by_one(metric, rows, groups, tools, higher)
    if not len(by_group.values):
        raise Undefined(f"no group of {groups.column!r} has a value of {metric}")
    estimate = OverGroups(by_group.values, by_group.holding, by_group.violated, share, higher)
    return GroupPercentile(
        estimate, _blocks(metric, groups, by_group, estimate), tuple(_notes(metric, groups, by_group))
    )


def _spread(rows: Scored, groups: Groups) -> str | None:
    """Reason why groups are not independent: they share clusters; None where they don't."""
    if rows.clusters is None:
        return None
    inside = groups.codes >= 0
    pairs = np.unique(np.stack([rows.clusters[inside], groups.codes[inside]]), axis=1)
    shared = len(pairs[0]) - len(np.unique(pairs[0]))
    if shared == 0:
        return None
    return (
        f"rows of one cluster of {rows.where} lie in several groups of {groups.column!r}, so that these are not "
        "independent; take groups that hold whole clusters"
    )


def _within(rows: Scored, groups: Groups) -> Scored:
    """Rows without clusters, where each group is one cluster: what its rows share is what makes it a group."""
    if rows.clusters is None:
        return rows
    inside = groups.codes >= 0
    clusters = len(np.unique(rows.clusters[inside]))
    return replace(rows, clusters=None) if clusters == len(np.unique(groups.codes[inside])) else rows


def _shares(one: Share, rows: Scored, groups: Groups) -> _ByGroup:
    """Score all groups at once, by a share of rows."""
    counted = one.counted(rows) & (groups.codes >= 0)
    codes = groups.codes[counted]
    size = np.bincount(codes, minlength=len(groups.names))
    hits = np.bincount(codes, weights=one.hit(rows)[counted], minlength=len(groups.names)).astype(np.float64)
    there = np.flatnonzero(size)
    lower, upper = share_bounds(hits[there], np.asarray(size[there], dtype=np.float64))
    return _ByGroup(there, size[there], hits[there] / size[there], lower, upper)


def _one_by_one(metric: str, rows: Scored, groups: Groups, tools: Estimators, higher: bool) -> _ByGroup:
    worst = -np.inf if higher else np.inf
    towards_worse, towards_better = ("lower", "upper") if higher else ("upper", "lower")
    kept: list[int] = []
    figures: list[tuple[int, float, float, float]] = []
    for code, numbers in _rows_of(groups):
        inside = rows.part(numbers)
        try:
            estimate = score(metric, None, inside).estimate(inside, tools)
        except Undefined:
            continue
        if estimate.value is None:
            continue
        holding = estimate.bound(1.0 - HOLDING, towards_worse)  # type: ignore[arg-type]  # both are sides
        violated = estimate.bound(1.0 - VIOLATED, towards_better)  # type: ignore[arg-type]  # both are sides
        kept.append(code)
        figures.append(
            (inside.n, estimate.value, worst if holding is None else holding, -worst if violated is None else violated)
        )
    size, values, holding_, violated_ = np.array(figures, dtype=np.float64).reshape(-1, 4).T
    return _ByGroup(np.array(kept, dtype=np.int64), size.astype(np.int64), values, holding_, violated_)


def _rows_of(groups: Groups) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Groups, each with the numbers of its rows."""
    inside = np.flatnonzero(groups.codes >= 0)
    in_order = inside[np.argsort(groups.codes[inside], kind="stable")]
    ends = np.cumsum(np.bincount(groups.codes[inside], minlength=len(groups.names)))
    yield from enumerate(np.split(in_order, ends[:-1]) if len(ends) else ())


def _blocks(metric: str, groups: Groups, by_group: _ByGroup, estimate: OverGroups) -> Sequence[AnyBlock]:
    declared, column = METRICS[metric], groups.column
    low, high = float(by_group.values.min()), float(by_group.values.max())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    counts, _ = np.histogram(by_group.values, edges)
    percent = estimate.share if estimate.higher else 1.0 - estimate.share
    histogram = Histogram(
        title=f"{metric} over the groups of {column}",
        caption="One value a group; groups of few rows spread more than their truth does.",
        x_label=metric, y_label="groups", x_unit=declared.unit, edges=tuple(edges.tolist()),
        counts={"groups": tuple(int(count) for count in counts)},
        references=(Reference(label=f"{100 * percent:g} % of groups below", value=estimate.value, axis="x"),),
    )  # fmt: skip
    order = np.argsort(by_group.values if estimate.higher else -by_group.values, kind="stable")[:WORST_SHOWN]
    side = "lower" if estimate.higher else "upper"
    lines = tuple(
        (
            groups.names[by_group.groups[i]], int(by_group.rows[i]), float(by_group.values[i]),
            float(by_group.holding[i]) if np.isfinite(by_group.holding[i]) else None,
        )
        for i in order
    )  # fmt: skip
    table = Table(
        title=f"Worst groups of {column} by {metric}",
        caption=f"The worst {len(lines)} of {len(by_group.values)} groups.",
        columns=(
            Column(name=column), Column(name="rows", unit="rows"), Column(name=metric, unit=declared.unit),
            Column(name=f"{side} {in_percent(1 - HOLDING)}", unit=declared.unit),
        ),
        rows=lines,
    )  # fmt: skip
    return histogram, table


def _notes(metric: str, groups: Groups, by_group: _ByGroup) -> Iterator[str]:
    without = len(groups.names) - len(by_group.values)
    if without:
        yield f"{without} of {len(groups.names)} groups of {groups.column!r} have no value of {metric}"
    unsure = int(np.count_nonzero(~np.isfinite(by_group.holding)))
    if unsure:
        yield f"{unsure} groups of {groups.column!r} have too few rows for a bound of {metric}: they count as not shown"

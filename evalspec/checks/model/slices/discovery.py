"""Weak slices that nobody named: found on one half of the rows, confirmed on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.slices.binning import Cuts, cut
from evalspec.errors import InputError, did_you_mean
from evalspec.evidence.blocks import AnyBlock, Column, Table, Text
from evalspec.evidence.words import in_percent
from evalspec.scoring.catalogue.metrics import LABEL_WORD, SLICED
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.scores import Estimators, MeanLoss, Share
from evalspec.scoring.slicing import column_of
from evalspec.scoring.tasks import score
from evalspec.stats.clusters import cluster_codes, design_effect
from evalspec.stats.drift.discovery import search
from evalspec.stats.drift.weak_slices import Planted, WeakSlices
from evalspec.stats.invert import FEWEST_CARRYING, carrying
from evalspec.stats.means.mean import SMALLEST_N, mean
from evalspec.stats.shares.proportion import proportion
from evalspec.stats.shares.two_shares import apart

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.slices.spec import Discover, Slices
    from evalspec.evidence.estimate import Estimate
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs

METRICS = {metric.name: metric for metric in SLICED}
USUAL = {"values": "mae", "labels": "subset_accuracy", "text": "exact_match"}
"""Task: metric that is searched by where the spec names none."""
TOLERANCE = 0.1
"""Share of ``gap``: a slice is weak where it is shown to be worse than the rest by more than this."""


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses of single rows, whose mean says how bad a model is.

    Args:
        metric: Metric that is searched by.
        values: shape (m,), losses of the rows that count; higher is worse.
        rows: shape (m,), numbers of these rows in the dataset.
        share: True if losses are 0 and 1, and the metric is 1 minus their mean.
        clusters: shape (m,), or None.
    """

    metric: str
    values: NDArray[np.float64]
    rows: NDArray[np.int64]
    share: bool
    clusters: NDArray[np.int64] | None

    def estimate(self, inside: NDArray[np.bool_], tools: Estimators) -> Estimate:
        """Estimate of the mean loss of some rows."""
        clusters = None if self.clusters is None else self.clusters[inside]
        if self.share:
            return proportion(self.values[inside] > 0.5, clusters)
        return mean(self.values[inside], rng=tools.rng("discover", self.metric), clusters=clusters, alpha=tools.alpha)

    def only(self, chosen: NDArray[np.bool_]) -> Losses:
        """Losses of some of the rows."""
        clusters = None if self.clusters is None else self.clusters[chosen]
        return Losses(self.metric, self.values[chosen], self.rows[chosen], self.share, clusters)

    def shown(self, value: float | None) -> float | None:
        """Value of the metric for a mean loss."""
        return None if value is None else (1.0 - value if self.share else value)


@dataclass(frozen=True)
class WeakSlice:
    """Slice that was found on one half of the rows and scored on the other.

    Args:
        where: Its definition.
        searched: Number of its rows in the half that was searched.
        rows: Number of its rows in the confirming half.
        inside: Mean loss of its rows in the confirming half.
        rest: Mean loss of the other rows of that half.
        apart: inside - rest.
        p: p-value that it is worse than the rest by more than the tolerance; None where either has no bound.
    """

    where: str
    searched: int
    rows: int
    inside: Estimate
    rest: Estimate
    apart: Estimate
    p: float | None


@dataclass(frozen=True)
class Discovery:
    """Findings of a search for weak slices.

    Args:
        weak: Number of weak slices.
        blocks: Blocks to show.
        notes: Sentences for the reader.
        unsearched: Reasons why columns that were asked for could not be looked through, one sentence each.
    """

    weak: WeakSlices
    blocks: Sequence[AnyBlock]
    notes: Sequence[str]
    unsearched: Sequence[str] = ()


def discover(check: Slices, asked: Discover, inputs: Inputs, rows: Scored, tools: Estimators) -> Discovery:
    """Search one half of the rows, and confirm on the other.

    Args:
        check: The check.
        asked: Columns to search, and how.
        inputs: Inputs of the check.
        rows: Rows of the candidate.
        tools: What estimates need beside rows.

    Raises:
        InputError: There is no such column.
        Undefined: The metric has no value here, or is no mean over rows.
    """
    metric = asked.metric or USUAL.get(rows.task, "accuracy")
    losses = _losses(metric, rows)
    cuts, notes = _cuts(check.dataset, asked, inputs, rows)
    half = halved(losses, tools.rng("discover"))
    gap = asked.gap_pp / 100.0 if losses.share else (asked.factor - 1.0) * float(losses.values.mean())
    slices = searched(losses, cuts, half, asked, TOLERANCE * gap, tools)
    planted = _planted(losses, asked, gap, len(cuts))
    weak = WeakSlices(
        tuple(one.p for one in slices), len(losses.values), planted, _what(asked, losses), inputs.confidence
    )
    return Discovery(weak, _blocks(losses, slices, weak, inputs.confidence), notes, tuple(notes))


def searched(
    losses: Losses, cuts: Sequence[Cuts], half: NDArray[np.bool_], asked: Discover, tolerance: float, tools: Estimators
) -> list[WeakSlice]:
    """Find candidates on one half of the rows, and test them on the other.

    Args:
        losses: Losses of m rows.
        cuts: Columns of the dataset, cut into pieces.
        half: shape (m,), True for the rows that are searched.
        asked: How to search; slices of half of its ``share`` of the rows are candidates too.
        tolerance: A slice is weak where its mean loss is higher than that of the rest by more than this.
        tools: What estimates need beside rows.
    """
    axes = [one.axis.rows(losses.rows) for one in cuts]
    # What is brought up must have rows enough for a bound on the other half too, which may hold a few less.
    fewest = max(1 if losses.share else ceil(1.2 * SMALLEST_N), ceil(0.25 * asked.share * len(losses.values)))
    candidates = search(losses.values[half], [axis.rows(half) for axis in axes], fewest, crosses=asked.crosses)
    confirming = losses.only(~half)
    slices: list[WeakSlice] = []
    for candidate in candidates:
        inside = candidate.inside(axes)
        where = " and ".join(cuts[axis].wheres[index] for axis, index in candidate.parts)
        rows = int(np.count_nonzero(inside & half))
        slices.append(_confirmed(confirming, inside[~half], where, rows, tolerance, tools))
    return slices


def _losses(metric: str, rows: Scored) -> Losses:
    one = score(metric, None, rows)
    if isinstance(one, Share):
        among = np.flatnonzero(one.counted(rows))
        values = 1.0 - one.hit(rows)[among]
    elif isinstance(one, MeanLoss) and METRICS[metric].better == "lower":
        among, values = np.arange(rows.n), one.losses(rows)
    else:
        raise Undefined(f"{metric} is not a mean over rows, so no slice can be searched by it")
    clusters = None if rows.clusters is None else rows.clusters[among]
    numbers = rows.number(among)
    return Losses(metric, np.asarray(values, dtype=np.float64), numbers, isinstance(one, Share), clusters)


def _cuts(dataset: str, asked: Discover, inputs: Inputs, rows: Scored) -> tuple[list[Cuts], list[str]]:
    columns = inputs.table(dataset).column_names
    cuts: list[Cuts] = []
    notes: list[str] = []
    for name in asked.columns:
        column = column_of(inputs, dataset, name)
        if column not in columns:
            raise InputError(
                f"{name!r} is not a column of dataset {dataset!r}", choices=tuple(columns),
                remedy=did_you_mean(name, columns),
            )  # fmt: skip
        named = rows.classes is not None and (column == inputs.label(dataset) or name == LABEL_WORD)
        one = cut(column, inputs.table(dataset, [column]).column(0), asked.share, category=named)
        if isinstance(one, str):
            notes.append(one)
        else:
            cuts.append(one)
            notes.extend(one.unseen)
    return cuts, notes


def halved(losses: Losses, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mask of the rows to search, shape (m,): half of the rows, or of the clusters."""
    count = len(losses.values)
    codes, units = np.arange(count), count
    if losses.clusters is not None:
        codes, units = cluster_codes(losses.clusters, count)
    chosen = np.zeros(units, dtype=np.bool_)
    chosen[rng.permutation(units)[: units // 2]] = True
    half: NDArray[np.bool_] = chosen[codes]
    return half


def _confirmed(
    losses: Losses, inside: NDArray[np.bool_], where: str, searched: int, tolerance: float, tools: Estimators
) -> WeakSlice:
    here, rest = losses.estimate(inside, tools), losses.estimate(~inside, tools)
    difference = apart(here, rest)
    p = difference.p_value(tolerance, "lower")
    rows = int(np.count_nonzero(inside))
    return WeakSlice(where, searched, rows, here, rest, difference, p)


def _planted(losses: Losses, asked: Discover, gap: float, columns: int) -> Planted:
    values, average = losses.values, float(losses.values.mean())
    inside = outside = float(values.std())
    if losses.share:
        worse = min(1.0, average + gap)
        inside, outside = sqrt(worse * (1.0 - worse)), sqrt(average * (1.0 - average))
    effect = 1.0
    if losses.clusters is not None:
        codes, groups = cluster_codes(losses.clusters, len(values))
        effect = design_effect(values, codes, groups).effect
    fewest = 0 if losses.share else _fewest_for_a_mean(values)
    return Planted(asked.share, gap, TOLERANCE * gap, inside, outside, columns, asked.crosses, effect, fewest)


def _fewest_for_a_mean(values: NDArray[np.float64]) -> int:
    """Number of rows like these from which on their mean has a bound."""
    carried = carrying(values - values.mean())
    return max(SMALLEST_N, ceil(FEWEST_CARRYING * len(values) / carried)) if carried > 0 else SMALLEST_N


def _what(asked: Discover, losses: Losses) -> str:
    by = f"{asked.gap_pp:g} pp" if losses.share else f"{asked.factor:g}x"
    return f"a slice of {100 * asked.share:g} % of the rows whose {losses.metric} is {by} worse"


def _blocks(losses: Losses, slices: Sequence[WeakSlice], weak: WeakSlices, confidence: float) -> Sequence[AnyBlock]:
    unit = METRICS[losses.metric].unit
    adjusted = weak.adjusted()
    confirmed = set(weak.confirmed(confidence))
    order = sorted(range(len(slices)), key=lambda i: (i not in confirmed, adjusted[i]))
    lines = tuple(_line(losses, slices[i], adjusted[i], i in confirmed, confidence) for i in order)
    percent = in_percent(confidence)
    table = Table(
        title="Slices that nobody named",
        caption=f"Found on one half of the rows; rows, {losses.metric} and p on the other half, which had no part in "
        "finding them. Bounds of each by itself; p after Holm.",
        columns=(
            Column(name="where"), Column(name="weak"), Column(name="rows, searched", unit="rows"),
            Column(name="rows, confirming", unit="rows"), Column(name=losses.metric, unit=unit),
            Column(name=f"lower {percent}", unit=unit), Column(name=f"upper {percent}", unit=unit),
            Column(name="rest", unit=unit), Column(name="gap", unit="pp" if losses.share else unit), Column(name="p"),
        ),
        rows=lines,
    )  # fmt: skip
    text = Text(title="What the search can find", text=f"{weak.chance()[0].upper()}{weak.chance()[1:]}.")
    named = [slices[i].where for i in order if i in confirmed]
    if not slices:
        return (text,)
    return (table, text, _paste(named)) if named else (table, text)


def _line(losses: Losses, one: WeakSlice, p: float, weak: bool, confidence: float) -> tuple[Cell, ...]:
    low, high = one.inside.bound(confidence, "lower"), one.inside.bound(confidence, "upper")
    if losses.share:
        low, high = losses.shown(high), losses.shown(low)
    gap = one.apart.value
    if losses.share and gap is not None:
        gap *= 100.0
    return (
        one.where, "yes" if weak else "not shown", one.searched, one.rows, losses.shown(one.inside.value), low, high,
        losses.shown(one.rest.value), gap, None if one.p is None else p,
    )  # fmt: skip


def _paste(wheres: Sequence[str]) -> Table:
    lines = []
    for number, where in enumerate(wheres, start=1):
        doubled = where.replace("'", "''")
        lines.append((f"- {{name: weak_{number}, where: '{doubled}'}}",))
    return Table(
        title="To be watched from now on", caption="Put these into `slices:` of the spec and their names into `by:`.",
        columns=(Column(name="slices:"),), rows=tuple(lines),
    )  # fmt: skip

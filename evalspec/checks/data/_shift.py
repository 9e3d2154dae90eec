"""What `shift` computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.data import _c2st, _shift_blocks
from evalspec.checks.data._row_names import row_names, row_names_note
from evalspec.checks.data._shift_columns import Compared, compare_columns
from evalspec.checks.data._shift_more import Drawn, compare_drawn_texts, draw, look_further
from evalspec.checks.data._shift_pairs import Pair, pair_columns
from evalspec.checks.data._shift_text import texts_table
from evalspec.checks.data._summaries import summarize
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Measured, Parts
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.stats import shift as stats
from evalspec.stats.columns import Categories, Numbers
from evalspec.stats.conjunction import AbsoluteDifference, ShareOfParts
from evalspec.stats.macro import mover_difference
from evalspec.stats.proportion import Proportion, proportion
from evalspec.stats.shift_ranks import ks_of_ranks, wasserstein_of
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.shift import Shift
    from evalspec.language.inputs import Inputs

Clusters = tuple["NDArray[np.int64] | None", "NDArray[np.int64] | None"]


@dataclass(frozen=True)
class Classified:
    """`c2st_auc`, or why there is none."""

    told: _c2st.Told | None
    why: str = ""
    withhold: str | None = None
    pool: _c2st.Pool | None = None


def measure(check: Shift, inputs: Inputs) -> CheckResult:
    """Distances of every column, missing cells, and a classifier that tells the two apart.

    Args:
        check: Its fields.
        inputs: Where rows come from.

    Raises:
        InputError: A column is missing or differs in type, or a dataset has no rows.
    """
    names = tuple(dict.fromkeys(check.columns or inputs.feature_columns(check.reference)))
    if not names:
        raise InputError("there is no column that can be compared", remedy="name some in `columns:`")
    scans = [summarize(inputs, dataset, names) for dataset in (check.reference, check.current)]
    for dataset, scan in zip((check.reference, check.current), scans, strict=True):
        if not scan.rows:
            raise InputError(f"{dataset} has no rows")
    sizes = scans[0].rows, scans[1].rows
    # Of large data by the rows that were drawn.
    named_by = () if check.columns else row_names([scan.sample()[0] for scan in scans], names,
                                                  inputs.stated_columns(check.reference))  # fmt: skip
    names = tuple(name for name in names if name not in named_by)
    pairs, notes = pair_columns(scans[0], scans[1], names)
    notes += [row_names_note(name, f"{check.reference} and of {check.current}", "columns") for name in named_by]
    if not pairs:
        raise InputError("there is no column that can be compared", remedy="name some in `columns:`")
    clusters = inputs.clusters(check.reference), inputs.clusters(check.current)
    wide = _Clustered(check, inputs, names, pairs, clusters)
    distances = {pair.name: wide.widened(pair.name, _distance(check, inputs, pair)) for pair in pairs}
    missing = {pair.source: _missingness(pair, sizes, wide) for pair in reversed(pairs)}
    missing = {source: missing[source] for source in dict.fromkeys(pair.source for pair in pairs)}
    drawn = draw(scans, names, pairs, clusters)
    texts = compare_drawn_texts(drawn, pairs, inputs.rng)
    distances |= {name: distance for text in texts for name, distance in text.distances.items()}
    classified = _classify(check, inputs, drawn, min(sizes))
    more = look_further(check, inputs, pairs, drawn, classified.pool, classified.why)
    estimates: dict[str, Estimate | Parts | Measured] = {
        "drifted_columns": ShareOfParts(distances, check.tolerance, "lower"),
        "shift": Parts(distances),
        "missingness_shift": Parts(missing),
    }
    unseen = _unseen(pairs, wide)
    if unseen:
        estimates["unseen_categories"] = Parts(unseen)
    absent = more.missing | ({} if unseen else {"unseen_categories": "there is no column of categories"})
    if classified.told is None:
        absent["c2st_auc"] = classified.why
    else:
        estimates["c2st_auc"] = Measured(classified.told.auc, withhold=classified.withhold)
    return CheckResult(
        estimates=estimates | more.estimates,
        missing=absent,
        blocks=[
            *_shift_blocks.blocks(check, pairs, distances, missing, classified.told, inputs.confidence),
            *([texts_table(texts, check.reference, check.current)] if texts else []),
            *more.blocks,
        ],
        counts=Counts(attempted=sum(sizes), used=sum(sizes)),
        conditions={"reference": check.reference, "current": check.current, "columns": len(pairs),
                    "tolerance": check.tolerance, "distance": check.distance, "classifier": _c2st.CLASSIFIER},
        notes=[*notes, *_notes(check, distances), *more.notes],
    )  # fmt: skip


def _notes(check: Shift, distances: Mapping[str, stats.Distance]) -> list[str]:
    """Columns without a bound, and why."""
    reasons = {distance.reason for distance in distances.values() if distance.reason}
    return [f"No bound for some columns: {reason}." for reason in sorted(reasons)]


def _distance(check: Shift, inputs: Inputs, pair: Pair) -> stats.Distance:
    first, second = pair.reference, pair.current
    if isinstance(first, Categories) or isinstance(second, Categories):
        assert isinstance(first, Categories) and isinstance(second, Categories)
        _, a, b = stats.matched_counts(first.counts, second.counts)
        return stats.total_variation(a, b, rng=inputs.rng, alpha=inputs.alpha_fail)
    if check.distance == "wasserstein":
        return wasserstein_of(first, second, rng=inputs.rng, alpha=inputs.alpha_fail)
    return ks_of_ranks(first.ranks(), second.ranks())


class _Clustered:
    """What rows that share clusters do to the bounds; for that all rows are held in memory."""

    def __init__(
        self, check: Shift, inputs: Inputs, names: Sequence[str], pairs: Sequence[Pair], clusters: Clusters
    ) -> None:
        self._clusters = clusters
        self._means = check.distance == "wasserstein"
        self._columns: dict[str, Compared] = {}
        if any(ids is not None for ids in clusters):
            tables = [inputs.table(dataset, list(names)) for dataset in (check.reference, check.current)]
            columns, _ = compare_columns(tables[0], tables[1], names, {pair.name for pair in pairs})
            self._columns = {column.name: column for column in columns}

    def widened(self, name: str, distance: stats.Distance) -> stats.Distance:
        """A distance with the bounds that clusters leave."""
        column = self._columns.get(name)
        if column is None:
            return distance
        sides = column.reference, column.current
        levels = stats.indicators(sides[0].values, sides[1].values, means=self._means)
        effects = [
            stats.largest_design_effect(indicator, None if ids is None else ids[side.rows])
            for indicator, side, ids in zip(levels, sides, self._clusters, strict=True)
        ]
        return stats.clustered(distance, len(sides[0].rows), len(sides[1].rows), effects[0], effects[1])

    def missing(self, pair: Pair) -> tuple[Proportion, Proportion] | None:
        """Shares of missing cells; None: rows are independent."""
        column = self._columns.get(pair.name)
        if column is None:
            return None
        first, second = (
            proportion(side.missing, ids)
            for side, ids in zip((column.reference, column.current), self._clusters, strict=True)
        )
        return first, second

    def hits(self, name: str, known: Mapping[str, int]) -> Proportion | None:
        """Share of current cells that are not among the known categories; None: rows are independent."""
        column = self._columns.get(name)
        if column is None:
            return None
        side, ids = column.current, self._clusters[1]
        return proportion(~np.isin(side.values, list(known)), None if ids is None else ids[side.rows])


def _absent(side: Numbers | Categories) -> int:
    return side.absent if isinstance(side, Numbers) else side.missing


def _missingness(pair: Pair, sizes: tuple[int, int], wide: _Clustered) -> Estimate:
    """Difference in the share of missing cells of a column."""
    shares = wide.missing(pair) or tuple(
        Proportion(float(_absent(side)), n) for side, n in zip((pair.reference, pair.current), sizes, strict=True)
    )
    return AbsoluteDifference(mover_difference(shares[1], shares[0]))


def _unseen(pairs: Sequence[Pair], wide: _Clustered) -> dict[str, Estimate]:
    """Share of current cells whose category the reference does not have."""
    found: dict[str, Estimate] = {}
    for pair in pairs:
        if isinstance(pair.reference, Categories) and isinstance(pair.current, Categories) and pair.current.n:
            known = pair.reference.counts
            new = sum(count for name, count in pair.current.counts.items() if name not in known)
            share = wide.hits(pair.name, known) or Proportion(float(new), pair.current.n)
            fewer = min(pair.reference.n, pair.current.n)
            reason = f"no bound: {fewer} rows on one side are too few, {stats.SMALLEST_N} are needed"
            found[pair.name] = share if fewer >= stats.SMALLEST_N else ValueOnly(share.value, share.n, reason)
    return found


def _classify(check: Shift, inputs: Inputs, drawn: Drawn, smaller: int) -> Classified:
    """Trains the classifier on drawn rows; withholds PASS where it would miss a shift of the tolerance's size."""
    why = _c2st.why_not(smaller)
    if why is not None:
        return Classified(None, why)
    tolerance = _c2st.planted_at(check.requirements, "c2st_auc")
    sizes = drawn.tables[0].num_rows, drawn.tables[1].num_rows
    pool = _c2st.make_pool(drawn.columns, sizes, drawn.clusters, inputs.rng)
    assert pool.rows is not None
    pool = replace(pool, rows=(drawn.rows[0][pool.rows[0]], drawn.rows[1][pool.rows[1]]))
    told = _c2st.tell_apart(pool, tolerance, inputs.confidence, inputs.rng)
    return Classified(told, "", told.withhold(tolerance), pool)

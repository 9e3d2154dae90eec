"""Measurement of `shift`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.data.shift import classifier, show
from evalspec.checks.data.shift.columns import Paired, RawColumnPair, pair_columns
from evalspec.checks.data.shift.extras import Drawn, compare_drawn_texts, draw, look_further
from evalspec.checks.data.shift.reweighting import unlike_rows
from evalspec.checks.data.shift.summaries import summary_scans, table_summary
from evalspec.checks.data.shift.text import texts_table
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Measured, Parts
from evalspec.evidence.reasons import NoEvidence
from evalspec.evidence.record import Counts
from evalspec.evidence.words import plural, verb
from evalspec.imports import sklearn_alone
from evalspec.language.parts import CheckResult
from evalspec.language.scans import Scan
from evalspec.scoring.on_demand import shown
from evalspec.stats.conjunction import ShareOfParts
from evalspec.stats.drift import distances as stats
from evalspec.stats.drift.columns import CategoryCounts, Numbers
from evalspec.stats.drift.rank_distances import ks_of_ranks, wasserstein_of
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.value_only import ValueOnly
from evalspec.tables.columns import ColumnPair, compare_columns
from evalspec.tables.row_names import row_names, row_names_note

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.checks.data.shift.spec import Shift
    from evalspec.checks.data.shift.summaries import TableSummary
    from evalspec.language.inputs import Inputs

Clusters = tuple["NDArray[np.int64] | None", "NDArray[np.int64] | None"]


OF_COLUMNS = ("drifted_columns", "shift", "missingness_shift", "unseen_categories")
"""Metrics for which no classifier is trained."""


@dataclass(frozen=True)
class Classified:
    """`c2st_auc`, or why there is none."""

    told: classifier.ClassifierResult | None
    why: str = ""
    withhold: str | None = None
    pool: classifier.Pool | None = None


def load_ahead() -> None:
    """Import what is needed once the rows were looked at; a run does so while it reads them.

    Raises:
        ImportError: There is no scikit-learn, and no classifier.
    """
    sklearn_alone()


def measure(check: Shift, inputs: Inputs) -> CheckResult:
    """Distances of every column, missing cells, and a classifier that tells the two apart.

    Args:
        check: Its fields.
        inputs: Where rows come from.

    Raises:
        InputError: A column is missing or differs in type, or a dataset has no rows.
    """
    wanted = scans_of(check, inputs)
    watchers = inputs.scan(wanted)
    half = len(wanted) // 2
    names = tuple(wanted[half - 1].columns or ())
    scans = [table_summary(watchers[:half]), table_summary(watchers[half:])]
    for dataset, scan in zip((check.reference, check.current), scans, strict=True):
        if not scan.rows:
            raise InputError(f"{dataset} has no rows")
    sizes = scans[0].rows, scans[1].rows
    names, paired = _pair(check, inputs, scans, names)
    pairs = paired.pairs
    clusters = inputs.clusters(check.reference), inputs.clusters(check.current)
    wide = _Clustered(check, inputs, names, pairs, clusters)
    missing = {pair.source: _missingness(pair, sizes, wide) for pair in reversed(pairs)}
    missing = {source: missing[source] for source in dict.fromkeys(pair.source for pair in pairs)}
    missing |= {name: wide.nulls(name, scans) for name in paired.unreadable}
    with ThreadPoolExecutor(1) as beside:
        # Large arrays are sorted beside the training of the classifier.
        exact = {pair.name: beside.submit(_of_ranks, pair) for pair in pairs if not _draws(check, pair)}
        chance = {pair.name: _with_draws(check, inputs, pair) for pair in pairs if _draws(check, pair)}
        drawn = draw(scans, names, pairs, clusters)
        texts = compare_drawn_texts(drawn, pairs, inputs.rng)
        needed = shown() or any(one.metric not in OF_COLUMNS for one in check.requirements)
        classified = _classify(check, inputs, drawn, min(sizes)) if needed else Classified(None, "nothing needs it")
    by_column = chance | {name: one.result() for name, one in exact.items()}
    distances = {pair.name: wide.widened(pair.name, by_column[pair.name]) for pair in pairs}
    distances |= {name: distance for text in texts for name, distance in text.distances.items()}
    notes = [*paired.notes, *_notes(distances)]
    distances |= {name: _unknown(why, sum(sizes)) for name, why in (paired.unreadable | paired.uncounted).items()}
    more = look_further(check, inputs, pairs, drawn, classified.pool, classified.why)
    estimates: dict[str, Estimate | Parts | Measured] = {
        "drifted_columns": ShareOfParts(distances, check.tolerance, "lower"),
        "missingness_shift": Parts(missing),
    }
    absent = more.missing | _take_parts(estimates, paired, distances, _unseen(pairs, wide))
    infinite = _infinite(check, pairs)
    _withhold(estimates, infinite)
    if classified.told is None:
        absent["c2st_auc"] = classified.why
    else:
        estimates["c2st_auc"] = Measured(classified.told.auc, withhold=classified.withhold)
    return CheckResult(
        estimates=estimates | more.estimates,
        missing=absent,
        blocks=[
            *show.blocks(check, pairs, distances, missing, classified.told, inputs.confidence),
            *([texts_table(texts, check.reference, check.current)] if texts else []),
            *more.blocks,
        ],
        counts=Counts(attempted=sum(sizes), used=sum(sizes)),
        conditions={"reference": check.reference, "current": check.current, "columns": len(pairs),
                    "tolerance": check.tolerance, "distance": check.distance, "classifier": classifier.CLASSIFIER},
        notes=[*notes, *(f"{why[0].upper()}{why[1:]}." for why in infinite.values()), *more.notes],
    )  # fmt: skip


def scans_of(check: Shift, inputs: Inputs) -> tuple[Scan, ...]:
    """Scans of either dataset: the columns that are looked at, and a sample of the rows.

    Args:
        check: Its fields.
        inputs: Names of columns, and randomness.

    Raises:
        InputError: There is no column to look at.
    """
    names = tuple(dict.fromkeys(check.columns or inputs.feature_columns(check.reference)))
    if not names:
        raise InputError("there is no column that can be compared", remedy="name some in `columns:`")
    both = (check.reference, check.current)
    return tuple(one for dataset in both for one in summary_scans(dataset, names, inputs.rng, check.name))


def _pair(
    check: Shift, inputs: Inputs, scans: Sequence[TableSummary], names: tuple[str, ...]
) -> tuple[tuple[str, ...], Paired]:
    """Columns that are compared, and how."""
    # Of large data by the rows that were drawn.
    named_by = () if check.columns else row_names(
        [scan.sample()[0] for scan in scans], names, inputs.stated_columns(check.reference), [one.rows for one in scans]
    )  # fmt: skip
    names = tuple(name for name in names if name not in named_by)
    paired = pair_columns(scans[0], scans[1], names)
    for name, why in paired.unreadable.items():
        if name in check.columns:
            raise InputError(why, remedy="leave it out of `columns:`")
        paired.notes.append(f"{why} It counts as one that was not shown to be alike; `columns:` says what to compare.")
    both = f"{check.reference} and of {check.current}"
    paired.notes.extend(row_names_note(name, both, "columns") for name in named_by)
    if not paired.pairs:
        raise InputError("there is no column that can be compared", remedy="name some in `columns:`")
    return names, paired


def _take_parts(
    estimates: dict[str, Estimate | Parts | Measured], paired: Paired, distances: Mapping[str, stats.Distance],
    unseen: dict[str, Estimate],
) -> dict[str, str]:  # fmt: skip
    """Adds distances and unseen categories; says which there are none of, and why."""
    known = {name: distance for name, distance in distances.items() if not distance.why}
    absent = {f"shift({name})": one.why for name, one in distances.items() if one.why}
    if known:
        estimates["shift"] = Parts(known)
    else:
        absent["shift"] = next(iter(absent.values()))
    if unseen:
        estimates["unseen_categories"] = Parts(unseen)
    uncounted = paired.uncounted | {
        pair.name: "no row of the current data has a value"
        for pair in paired.pairs
        if pair.kind == "category" and pair.name not in unseen
    }
    if not unseen:
        absent["unseen_categories"] = next(iter(uncounted.values()), "there is no column of categories")
    return absent | {f"unseen_categories({name})": why for name, why in uncounted.items()}


def _infinite(check: Shift, pairs: Sequence[RawColumnPair]) -> dict[str, str]:
    """Columns with infinite numbers, which no distance counts, and how many they are."""
    found = {}
    for pair in pairs:
        sides = zip((check.reference, check.current), (pair.reference, pair.current), strict=True)
        counts = [f"{one.infinite:,} of {name}" for name, one in sides if isinstance(one, Numbers) and one.infinite]
        if counts:
            found[pair.name] = f"infinite numbers in {pair.name!r} ({', '.join(counts)}) are in no distance"
    return found


def _withhold(estimates: dict[str, Estimate | Parts | Measured], infinite: Mapping[str, str]) -> None:
    """Keep from PASS what infinite numbers might have moved."""
    shift, drifted = estimates.get("shift"), estimates["drifted_columns"]
    if not infinite:
        return
    assert not isinstance(drifted, Measured)
    estimates["drifted_columns"] = Measured(drifted, withhold=NoEvidence(next(iter(infinite.values()))))
    if isinstance(shift, Parts):
        parts = {
            name: Measured(part, withhold=NoEvidence(infinite[name]))
            if name in infinite and not isinstance(part, Measured)
            else part
            for name, part in shift.parts.items()
        }
        estimates["shift"] = replace(shift, parts=parts)


def _unknown(why: str, n: int) -> stats.Distance:
    return replace(stats.empty_distance(n, "no distance", 1.0), why=why)


def _notes(distances: Mapping[str, stats.Distance]) -> list[str]:
    """Columns without a bound, and why."""
    reasons = {distance.reason for distance in distances.values() if distance.reason}
    return [f"No bound for some columns: {reason}." for reason in sorted(reasons)]


def _draws(check: Shift, pair: RawColumnPair) -> bool:
    """Bounds of its distance are drawn."""
    return pair.kind == "category" or check.distance == "wasserstein"


def _of_ranks(pair: RawColumnPair) -> stats.Distance:
    assert isinstance(pair.reference, Numbers) and isinstance(pair.current, Numbers)
    return ks_of_ranks(pair.reference.ranks(), pair.current.ranks())


def _with_draws(check: Shift, inputs: Inputs, pair: RawColumnPair) -> stats.Distance:
    first, second = pair.reference, pair.current
    if isinstance(first, Numbers):
        assert isinstance(second, Numbers)
        return wasserstein_of(first, second, rng=inputs.rng, alpha=inputs.alpha_fail)
    assert isinstance(second, CategoryCounts)
    _, a, b = stats.matched_counts(first.counts, second.counts)
    return stats.total_variation(a, b, rng=inputs.rng, alpha=inputs.alpha_fail)


class _Clustered:
    """Effect of shared clusters on the bounds; for that all rows are held in memory."""

    def __init__(
        self, check: Shift, inputs: Inputs, names: Sequence[str], pairs: Sequence[RawColumnPair], clusters: Clusters
    ) -> None:
        self._clusters = clusters
        self._means = check.distance == "wasserstein"
        self._columns: dict[str, ColumnPair] = {}
        self._tables: list[pa.Table] = []
        if any(ids is not None for ids in clusters):
            self._tables = [inputs.table(dataset, list(names)) for dataset in (check.reference, check.current)]
            columns, _ = compare_columns(self._tables[0], self._tables[1], names, {pair.name for pair in pairs})
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

    def missing(self, pair: RawColumnPair) -> tuple[Proportion, Proportion] | None:
        """Shares of missing cells; None: rows are independent."""
        column = self._columns.get(pair.name)
        if column is None:
            return None
        first, second = (
            proportion(side.missing, ids)
            for side, ids in zip((column.reference, column.current), self._clusters, strict=True)
        )
        return first, second

    def nulls(self, name: str, scans: Sequence[TableSummary]) -> Estimate:
        """Difference in the share of missing cells of a column whose values can't be compared."""
        if not self._tables:
            counted = [Proportion(float(scan.columns[name].null), scan.rows) for scan in scans]
        else:
            masks = [table.column(name).is_null().to_numpy(zero_copy_only=False) for table in self._tables]
            counted = [proportion(mask, ids) for mask, ids in zip(masks, self._clusters, strict=True)]
        return stats.missingness_difference(counted[0], counted[1])

    def hits(self, name: str, known: Mapping[str, int]) -> Proportion | None:
        """Share of current cells that are not among the known categories; None: rows are independent."""
        column = self._columns.get(name)
        if column is None:
            return None
        side, ids = column.current, self._clusters[1]
        return proportion(~np.isin(side.values, list(known)), None if ids is None else ids[side.rows])


def _absent(side: Numbers | CategoryCounts) -> int:
    return side.absent if isinstance(side, Numbers) else side.missing


def _missingness(pair: RawColumnPair, sizes: tuple[int, int], wide: _Clustered) -> Estimate:
    """Difference in the share of missing cells of a column."""
    shares = wide.missing(pair) or tuple(
        Proportion(float(_absent(side)), n) for side, n in zip((pair.reference, pair.current), sizes, strict=True)
    )
    return stats.missingness_difference(shares[0], shares[1])


def _unseen(pairs: Sequence[RawColumnPair], wide: _Clustered) -> dict[str, Estimate]:
    """Share of current cells whose category the reference does not have."""
    found: dict[str, Estimate] = {}
    for pair in pairs:
        if isinstance(pair.reference, CategoryCounts) and isinstance(pair.current, CategoryCounts) and pair.current.n:
            known = pair.reference.counts
            new = sum(count for name, count in pair.current.counts.items() if name not in known)
            share = wide.hits(pair.name, known) or Proportion(float(new), pair.current.n)
            fewer = min(pair.reference.n, pair.current.n)
            few = f"{plural(fewer, 'row')} on one side {verb(fewer, 'is', 'are')} too few"
            reason = f"no bound: {few}, {stats.SMALLEST_N} are needed"
            found[pair.name] = share if fewer >= stats.SMALLEST_N else ValueOnly(share.value, share.n, reason)
    return found


def _classify(check: Shift, inputs: Inputs, drawn: Drawn, smaller: int) -> Classified:
    """Trains the classifier on drawn rows; withholds PASS where it would miss a shift of the tolerance's size."""
    why = classifier.why_not(smaller)
    if why is not None:
        return Classified(None, why)
    tolerance = classifier.planted_at(check.requirements, "c2st_auc")
    sizes = drawn.tables[0].num_rows, drawn.tables[1].num_rows
    pool = classifier.make_pool(drawn.columns, sizes, drawn.clusters, inputs.rng)
    assert pool.rows is not None
    unlike = unlike_rows(drawn.columns, sizes)[pool.rows[1]]
    pool = replace(pool, rows=(drawn.rows[0][pool.rows[0]], drawn.rows[1][pool.rows[1]]), unlike=unlike)
    told = classifier.tell_apart(pool, tolerance, inputs.confidence, inputs.rng)
    return Classified(told, "", told.withhold(tolerance), pool)

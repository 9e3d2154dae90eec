"""Lists of rows ranked by score: how their metrics are scored over queries, what is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.cells import values_of
from evalspec.evidence.blocks import Column, Histogram, Reference, Table
from evalspec.scoring.catalogue.ranking import NAMES
from evalspec.scoring.catalogue.ranking import RANKING as DECLARED
from evalspec.scoring.family import Family, QualityContext
from evalspec.scoring.ranking.lists import Lists, lists
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.show import EXAMPLES_SHOWN
from evalspec.stats.means.bounded import SHARE
from evalspec.stats.means.mean import mean, paired_mean
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.estimate import Comparison, Estimate
    from evalspec.evidence.frozen import Cell
    from evalspec.scoring.family import ScoringFields
    from evalspec.scoring.scores import Estimators, Score

    OfLists = Callable[[Lists, int], NDArray[np.float64]]

_OF: dict[str, OfLists] = {
    "ndcg": lambda rankings, k: rankings.gains(k),
    "mrr": lambda rankings, k: rankings.reciprocal(),
    "recall_at": lambda rankings, k: rankings.found(k),
    "hit_rate": lambda rankings, k: rankings.hits(k).astype(np.float64),
}


ORDERS = 20
"""Random orders over which the mean is taken."""


@dataclass(frozen=True, slots=True)
class OverQueries:
    """A mean over queries that have a relevant row.

    Args:
        metric: Its name.
        k: Rows of each list that count; of ``mrr`` not used.
    """

    metric: str
    k: int = 1

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """BCa, or Gaffke's bound where few queries carry; Clopper-Pearson of hits."""
        values, clusters = self._values(rows)
        if self.metric == "hit_rate":
            return proportion(values > 0, clusters)
        return mean(values, rng=tools.rng(self.metric), clusters=clusters, alpha=tools.alpha, limits=SHARE)

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Paired by query: the same of the differences, of hits Tango's score interval."""
        first, clusters = self._values(candidate)
        second, _ = self._values(baseline)
        rng = tools.rng(self.metric, "paired")
        if self.metric == "hit_rate":
            return paired_proportion(first > 0, second > 0, clusters, rng=rng, alpha=tools.alpha)
        return paired_mean(first, second, rng=rng, clusters=clusters, alpha=tools.alpha, limits=SHARE)

    def _values(self, rows: Scored) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Value of each query that counts, shape (q,), and its cluster."""
        rankings = lists(rows)
        counted = rankings.counted
        if not counted.any():
            raise Undefined(f"no query of {rows.where} has a relevant row: {self.metric} is 0/0")
        values = _OF[self.metric](rankings, self.k)[counted]
        clusters = clusters_of(rows, rankings.queries)
        return values, None if clusters is None else clusters[counted]


def clusters_of(rows: Scored, queries: int) -> NDArray[np.int64] | None:
    """Cluster of each query, shape (queries,): clusters that share a query are one. None: there are none.

    Args:
        rows: Rows with queries.
        queries: How many there are.
    """
    if rows.clusters is None or rows.queries is None:
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    seen, codes = np.unique(rows.clusters, return_inverse=True)
    size = queries + len(seen)
    ties = coo_array((np.ones(rows.n), (rows.queries, queries + codes)), shape=(size, size))
    _, parts = connected_components(ties, directed=False)
    return np.asarray(parts[:queries], dtype=np.int64)


def at_random(rows: Scored, metric: str, part: str | None = None) -> float | None:
    """Mean score of rows in a random order, over a few drawn with a fixed seed; None: it has none.

    Args:
        rows: Rows with queries.
        metric: Name of the metric.
        part: k.
    """
    rng = np.random.default_rng(0)
    means = []
    for _ in range(ORDERS):
        drawn = rng.random(rows.n)
        shares = None if rows.probabilities is None else np.column_stack([1.0 - drawn, drawn])
        try:
            shuffled = lists(replace(rows, values=None if rows.values is None else drawn, probabilities=shares))
        except Undefined:
            return None
        if shuffled.counted.any():
            means.append(float(_OF[metric](shuffled, int(part or 1))[shuffled.counted].mean()))
    return float(np.mean(means)) if means else None


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """Score as `evalspec.scoring.tasks.score`."""
    lists(rows)
    return OverQueries(metric) if part is None else OverQueries(metric, int(part))


def listed(rows: Scored, check: ScoringFields) -> tuple[str, ...]:
    """Names of all metrics, where rows are candidates of queries."""
    try:
        lists(rows)
    except Undefined:
        return ()
    return NAMES


def _asked(seen: QualityContext) -> Lists | None:
    """Lists, where a metric of them was computed."""
    return lists(seen.rows) if any(name in seen.found.estimates for name in NAMES) else None


def notes(seen: QualityContext) -> Sequence[str]:
    """Queries that do not count; rows that tie."""
    rankings = _asked(seen)
    if rankings is None:
        return ()
    told = []
    left = int((~rankings.counted).sum())
    if left:
        told.append(f"{left:,} of {rankings.queries:,} queries have no relevant row and do not count")
    scores = seen.rows.values if seen.rows.values is not None else seen.rows.shares()[:, seen.rows.positive or 0]
    ordered = scores[rankings.order]
    ties = (
        (ordered[1:] == ordered[:-1])
        & (rankings.query[1:] == rankings.query[:-1])
        & (rankings.gain[1:] != rankings.gain[:-1])
    )
    if ties.any():
        several = len(np.unique(rankings.query[1:][ties]))
        told.append(
            f"in {several:,} of {rankings.queries:,} queries rows of other relevance have the same score: "
            "the less relevant ones count as ahead"
        )
    return told


def conditions(seen: QualityContext) -> Mapping[str, Cell]:
    """Queries, and rows of each."""
    rankings = _asked(seen)
    if rankings is None:
        return {}
    sizes = np.bincount(rankings.query, minlength=rankings.queries)
    return {
        "queries": int(rankings.counted.sum()),
        "rows a query": f"{int(sizes.min())} to {int(sizes.max())}, {np.median(sizes):g} in the middle",
        "gain": "linear, over log2(1 + rank); ties against the model",
    }


def blocks(seen: QualityContext) -> Sequence[AnyBlock]:
    """Ranks of the first relevant row, and the queries where it stands last."""
    rankings = _asked(seen)
    if rankings is None:
        return ()
    counted = np.flatnonzero(rankings.counted)
    ranks = np.round(1.0 / rankings.reciprocal()[counted]).astype(np.int64)
    edges = np.append(np.arange(1, min(int(ranks.max()), 20) + 1), int(ranks.max()) + 1) - 0.5
    edges = np.unique(edges)
    shown: list[AnyBlock] = [
        Histogram(
            title="Rank of the first relevant row",
            caption="One count for each query that has one; the last bar holds all that are further down.",
            edges=tuple(edges.tolist()),
            counts={"queries": tuple(int(count) for count in np.histogram(ranks, edges)[0])},
            x_label="rank",
            y_label="queries",
            references=(Reference(label="middle", value=float(np.median(ranks)), axis="x"),),
        )
    ]
    return [*shown, _worst(seen, rankings, counted, ranks)] if seen.check.show_examples else shown


def _worst(seen: QualityContext, rankings: Lists, counted: NDArray[np.int64], ranks: NDArray[np.int64]) -> Table:
    rows = seen.rows
    assert seen.check.query is not None
    last = np.argsort(-ranks, kind="stable")[:EXAMPLES_SHOWN]
    sizes = np.bincount(rankings.query, minlength=rankings.queries)
    relevant = np.bincount(rankings.query, weights=rankings.gain > 0, minlength=rankings.queries)
    first_row = rankings.order[np.searchsorted(rankings.query, counted[last])]
    names = values_of(seen.inputs.table(rows.dataset, [seen.check.query]).column(0).take(first_row.tolist()))
    cells = tuple(
        (str(name), int(sizes[query]), int(relevant[query]), int(rank))
        for name, query, rank in zip(names, counted[last].tolist(), ranks[last].tolist(), strict=True)
    )
    columns = (
        Column(name=seen.check.query), Column(name="rows", unit="rows"), Column(name="relevant", unit="rows"),
        Column(name="rank of the first"),
    )  # fmt: skip
    return Table(
        title="Queries to look at", caption="Those whose first relevant row stands furthest down.", columns=columns,
        rows=cells,
    )  # fmt: skip


RANKING = Family(DECLARED, score, listed, blocks=blocks, notes=notes, conditions=conditions, of_lists=True)

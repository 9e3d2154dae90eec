"""Rows that are copies: inside a test set, exact or with noise, and in two datasets that should differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evalspec.answers.arrays import column_array
from evalspec.errors import InputError
from evalspec.evidence.screens import Suspicion
from evalspec.screens.evidence import Look
from evalspec.screens.pairs import alike, compared, judged, train_and_test
from evalspec.sources.reading.copies import find_copies
from evalspec.sources.reading.rows import row_digests
from evalspec.tables.comparable import family

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.parts import Check
    from evalspec.screens.evidence import Evidence

SHARE = 0.05
"""Least share of rows that are copies."""
NEAR_SHARE = 0.1
"""Least share of rows that have a near copy."""
NEAR = 0.1
"""A near copy lies within this share of the distance to the tenth neighbour."""
PLACE = 10
FEWEST = 100
TIMES = 10.0
"""As many equal rows as in a dataset that should be alike."""
LOOKED_AT = 1_000
"""Rows whose neighbours are looked for."""
COLUMNS = 4
"""Measured quantities that it takes to tell near from equal by chance."""
FEW_COLUMNS = 8
"""Measured quantities up to which a tree finds neighbours faster than looking at all rows does."""


class TableDigests:
    """Digests of the rows of each dataset in some columns, made once: several questions are about the same ones."""

    def __init__(self, evidence: Evidence) -> None:
        """``evidence`` of the run."""
        self._evidence = evidence
        self._known: dict[tuple[str, tuple[str, ...]], NDArray[np.uint64]] = {}

    def of(self, dataset: str, names: Iterable[str]) -> NDArray[np.uint64]:
        """Digest of each row that screens are handed: shape (k,)."""
        key = (dataset, tuple(names))
        if key not in self._known:
            self._known[key] = row_digests(self._evidence.rows(dataset).select(key[1]))[:, 0]
        return self._known[key]


def look(evidence: Evidence) -> Look:
    """Datasets that were judged, and pairs of datasets."""
    found: list[Suspicion] = []
    digests = TableDigests(evidence)
    questions = 0
    for dataset in judged(evidence):
        # What shares a cluster is counted as one anyway.
        if evidence.dataset(dataset).cluster is not None or evidence.count(dataset) < FEWEST:
            continue
        surplus = 0
        # Of columns such as maps nothing is known of equal rows.
        with suppress(InputError):
            surplus = _equal(evidence, digests, dataset)
        if surplus:
            found += _told_equal(evidence, digests, dataset, surplus)
        else:
            questions += 1
            found += _near(evidence, dataset)
    for first, second in _pairs(evidence):
        with suppress(InputError):
            found += _shared(evidence, digests, first, second)
    return Look(tuple(found), questions)


def _pairs(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Datasets that claim to be different rows; two views of one file say by their `where` what they are."""
    new = judged(evidence)
    found = [*alike(evidence), *((a, b) for a in new for b in new if a < b)]
    # Whatever else a spec names beside rows that are judged: rows for few examples or for timing come from others.
    trained = {train for train, _ in train_and_test(evidence.checks)}
    found += [(one, other) for one in evidence.datasets if one in trained for other in new]
    seen: set[frozenset[str]] = set()
    for pair in found:
        paths = {getattr(evidence.dataset(name), "path", name) for name in pair}
        if set(pair) <= set(evidence.datasets) and len(paths) == 2 and frozenset(pair) not in seen:
            seen.add(frozenset(pair))
            yield pair


def _equal(evidence: Evidence, digests: TableDigests, dataset: str) -> int:
    """Rows that are equal to an earlier one in all that is read; 0: no more than chance makes."""
    table, names = evidence.rows(dataset), list(evidence.features(dataset))
    copies = find_copies(table.column, names) if names else None
    surplus = _more_than_elsewhere(evidence, digests, dataset) if copies is None else copies.n - copies.different
    return surplus if surplus >= SHARE * table.num_rows else 0


def _told_equal(evidence: Evidence, digests: TableDigests, dataset: str, surplus: int) -> Iterator[Suspicion]:
    table = evidence.rows(dataset)
    if any(_counts_them(evidence, digests, check, dataset, surplus) for check in evidence.checks):
        return
    sentence = f"{surplus:,} of {table.num_rows:,} rows of {dataset} are equal to an earlier one in all that is read"
    fields: dict[str, object] = {"dataset": dataset, "duplicates_by": list(evidence.features(dataset))}
    suggestion = evidence.requirement("data", "integrity", "duplicate_rows == 0 rows", fields)
    yield evidence.suspicion(dataset, sentence, suggestion)


def _counts_them(evidence: Evidence, digests: TableDigests, check: Check, dataset: str, surplus: int) -> bool:
    """A requirement counts equal rows in columns in which these are equal as well: a time in each row hides copies."""
    if (
        not any(one.metric == "duplicate_rows" for one in check.requirements)
        or getattr(check, "dataset", "") != dataset
    ):
        return False
    table, key = evidence.rows(dataset), evidence.dataset(dataset).key
    names = getattr(check, "duplicates_by", ()) or [name for name in table.column_names if name != key]
    try:
        compared_rows = digests.of(dataset, names)
    except InputError:
        # Rows that hold a map are not counted.
        return False
    return _surplus(evidence, compared_rows, table.num_rows) >= surplus / 2


def _more_than_elsewhere(evidence: Evidence, digests: TableDigests, dataset: str) -> int:
    """Rows that are equal to another one, where as many rows of a dataset that should be alike have hardly any; else 0.

    Of whole numbers and categories chance makes equal rows, but in both.
    """
    for pair in compared(evidence.checks):
        other = next((name for name in pair if name != dataset), dataset)
        if dataset not in pair or other not in evidence.datasets:
            continue
        theirs = evidence.features(other)
        names = [name for name in evidence.features(dataset) if name in theirs]
        n = min(evidence.rows(dataset).num_rows, evidence.rows(other).num_rows)
        if not names or n < FEWEST:
            continue
        ours, elsewhere = (_surplus(evidence, digests.of(name, names), n) for name in (dataset, other))
        if ours > TIMES * (elsewhere + 1):
            return _surplus(evidence, digests.of(dataset, names), evidence.rows(dataset).num_rows)
    return 0


def _surplus(evidence: Evidence, digests: NDArray[np.uint64], n: int) -> int:
    """Rows of n, drawn at random, that are equal to an earlier one by their digests."""
    drawn = digests if n == len(digests) else digests[evidence.rng.permutation(len(digests))[:n]]
    return n - len(np.unique(drawn))


def _shared(evidence: Evidence, digests: TableDigests, first: str, second: str) -> Iterator[Suspicion]:
    if any(evidence.asks(metric, (first, second)) for metric in ("exact_duplicates", "near_duplicates")):
        return
    theirs = evidence.features(second)
    names = [name for name in evidence.features(first) if name in theirs]
    tables = [evidence.rows(name).select(names) for name in (first, second)]
    if not names or any(one.type != other.type for one, other in zip(*(one.schema for one in tables), strict=True)):
        return
    both = pa.concat_tables([one.replace_schema_metadata(None) for one in tables])
    copies, ours = find_copies(both.column, names), tables[0].num_rows
    if copies is not None:
        shared = int(np.isin(copies.groups[ours:], copies.groups[:ours]).sum())
    else:
        shared = _more_than_within(digests.of(first, names), digests.of(second, names), evidence.rng)
    if shared < SHARE * tables[1].num_rows:
        return
    sentence = f"{shared:,} of {tables[1].num_rows:,} rows of {second} are also in {first}"
    fields: dict[str, object] = {"train": [first], "test": second}
    suggestion = evidence.requirement("data", "contamination", "exact_duplicates == 0 rows", fields)
    yield evidence.suspicion(f"{first} and {second}", sentence, suggestion)


def _more_than_within(ours: NDArray[np.uint64], theirs: NDArray[np.uint64], rng: np.random.Generator) -> int:
    """Rows of the second dataset that stand in the first, where its own halves have hardly any in common; else 0.

    Args:
        ours: Digests of the rows of the first.
        theirs: Of the second.
        rng: Draws the halves.
    """
    shared = int(np.isin(theirs, ours, kind="sort").sum())
    halves = np.array_split(rng.permutation(theirs), 2)
    within = 2 * int(np.isin(halves[0], halves[1], kind="sort").sum())
    return shared if shared > TIMES * (within + 1) else 0


def _near(evidence: Evidence, dataset: str) -> Iterator[Suspicion]:
    """Rows whose neighbour is nearer than points of a cloud of as many dimensions ever lie.

    Of k neighbours of a point in d dimensions the share (d_1 / d_k)^d is the smallest of k - 1 uniform numbers, and d
    is told from d_5 and d_10 (Levina and Bickel, Maximum likelihood estimation of intrinsic dimension, NIPS 2004).
    """
    points = _points(evidence.rows(dataset), evidence.features(dataset))
    if points.shape[1] < COLUMNS:
        return
    some = np.unique(np.linspace(0, len(points) - 1, min(len(points), LOOKED_AT)).astype(np.int64))
    distances = neighbours(points, some)
    far = distances[:, PLACE - 1]
    near = distances[:, 0] < NEAR * far
    share = float(near.mean())
    if share < NEAR_SHARE:
        return
    from scipy.special import bdtrc

    whole = (distances[:, 4] > 0) & (far > 0)
    logs = np.log(far[whole, None] / distances[whole, 4 : PLACE - 1])
    dimension = 1.0 / float(logs.mean()) if whole.any() and logs.mean() > 0 else 1.0
    chance = 1.0 - (1.0 - NEAR ** max(1.0, dimension / 2)) ** (PLACE - 1)
    # A pair shows in both of its rows.
    p_value = float(bdtrc(int(near.sum()) // 2 - 1, len(some) // 2, chance))
    sentence = (
        f"{100 * share:.0f} % of the rows of {dataset} have a near copy in it, within a tenth of the distance to their "
        f"tenth neighbour: name what copies share in `cluster:` of {dataset}, and scores count each once"
    )
    yield evidence.suspicion(dataset, sentence, "", p_value)


def _points(table: pa.Table, names: tuple[str, ...]) -> NDArray[np.float32]:
    """Measured quantities of each row, each over its spread; numbers of arrays over that of the array."""
    found = []
    for name in names:
        kind = table.schema.field(name).type
        if family(kind) == "array":
            values = column_array(table, name).reshape(table.num_rows, -1).astype(np.float32)
            spread = float(np.nanstd(values)) * np.sqrt(values.shape[1])
        elif pa.types.is_floating(kind):
            values = np.asarray(table.column(name).to_numpy(), np.float32)[:, None]
            # Logarithms of a few amounts are no more measured than whole numbers.
            if (values == np.round(values)).all() or len(np.unique(values)) < len(values) / 10:
                continue
            spread = float(np.nanstd(values))
        else:
            continue
        if np.isfinite(spread) and spread > 0:
            found.append(np.nan_to_num(values) / np.float32(spread))
    return np.concatenate(found, axis=1) if found else np.zeros((table.num_rows, 0), np.float32)


def neighbours(points: NDArray[np.float32], some: NDArray[np.int64]) -> NDArray[np.float64]:
    """Distances to the first ten neighbours: shape (k, 10), rising."""
    if points.shape[1] <= FEW_COLUMNS:
        from scipy.spatial import KDTree

        # Boxes that are halved in their middle stay small where many rows are equal.
        tree = KDTree(points, balanced_tree=False)
        # Each row is its own nearest, and so far from it as an equal one is.
        return np.asarray(tree.query(points[some], k=PLACE + 1)[0][:, 1:], np.float64)
    found = []
    centred = (points - points.mean(axis=0)).astype(np.float64)
    lengths = (centred**2).sum(axis=1)
    for start in range(0, len(some), 100):
        rows = some[start : start + 100]
        squares = lengths[rows, None] + lengths - 2.0 * centred[rows] @ centred.T
        squares[np.arange(len(rows)), rows] = np.inf
        found.append(np.sort(np.partition(squares, PLACE, axis=1)[:, :PLACE], axis=1))
    return np.asarray(np.sqrt(np.maximum(np.concatenate(found), 0.0)))

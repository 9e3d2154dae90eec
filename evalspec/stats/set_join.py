"""Pairs of sets that share enough of their elements, all of them: a join by prefixes of the rarest elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.duplicates import Accept, Matches, Rows, Search
from evalspec.stats.hashing import Words
from evalspec.stats.lookup import Lookup
from evalspec.stats.minhash import ELEMENT_BITS, Sets, jaccard

PAIRS_AT_A_TIME = 1 << 20
CELL_BITS = 9
_CELLS, _CELL_SHIFT = 1 << CELL_BITS, np.uint64(64 - CELL_BITS)
# Sizes and shares are compared with a hair's width, so that rounding leaves no pair out.
_HAIR = 1e-9


class SetIndex:
    """Test sets by their rarest elements, so that sets that stream past find those that they resemble.

    Two sets with a Jaccard similarity of t share at least t times the size of either. So, with elements in one order,
    rarest first, they share one among the first ``size - ceil(t * size) + 1`` of each. What no test set holds is rarer
    than all else, and most training sets hold so much of it that nothing is left to look up. No pair is missed.

    Args:
        sets: m test sets.
        similarity: Jaccard similarity from which on a pair counts, in (0, 1].

    References:
        Chaudhuri, Ganti, Kaushik (2006), A primitive operator for similarity joins in data cleaning, ICDE.
        Bayardo, Ma, Srikant (2007), Scaling up all pairs similarity search, WWW.
        Xiao, Wang, Lin, Yu, Wang (2011), Efficient similarity joins for near-duplicate detection, ACM TODS 36(3).
    """

    def __init__(self, sets: Sets, similarity: float) -> None:
        self._sizes = sets.sizes
        self._similarity = similarity
        # 48-bit elements moved up, as the lookup reads them from their highest bits on.
        self._lookup = Lookup(_high(sets.elements))
        ids = self._lookup.index(_high(sets.elements))
        held_by = np.bincount(ids, minlength=len(self._lookup))
        self._rank = np.empty(len(self._lookup), np.int64)
        self._rank[np.argsort(held_by, kind="stable")] = np.arange(len(self._lookup))
        rows = np.repeat(np.arange(len(sets)), self._sizes)
        ranks, owners = self._first(self._rank[ids], rows, _prefix(self._sizes, similarity))
        order = np.argsort(ranks, kind="stable")
        self._owners = owners[order]
        self._bounds = np.concatenate(([0], np.cumsum(np.bincount(ranks, minlength=len(self._lookup)))))

    def promising(self, elements: Words, sets: Rows, count: int) -> Rows:
        """Sets that may resemble a test set; for all others it is shown that they don't.

        Elements that no test set holds fall into cells. A set has at least as many of them as it fills cells, and with
        so many the others are too few to be `similarity` of it, even were they all distinct.

        Args:
            elements: shape (e,), 64-bit hashes as in `Sets.of`, repeated or not.
            sets: shape (e,), the set that each belongs to.
            count: How many sets.

        Returns:
            Their numbers, rising.
        """
        there = self._lookup.maybe(elements)
        shared = np.bincount(sets[there], minlength=count)
        absent = np.flatnonzero(~there)
        cells = np.zeros(count * _CELLS, bool)
        cells[sets[absent] * _CELLS + (elements[absent] >> _CELL_SHIFT).view(np.int64)] = True
        other = np.count_nonzero(cells.reshape(count, _CELLS), axis=1)
        enough = shared * (1 - self._similarity) >= self._similarity * other - _HAIR
        return np.flatnonzero(enough & (shared > 0))

    def candidates(self, train: Sets) -> Iterator[tuple[Rows, Rows]]:
        """Pairs that may be similar enough, each once in a portion; portions are bounded.

        Args:
            train: n sets.

        Yields:
            Test rows and train rows, pair by pair.
        """
        at, ids = self._lookup.find(_high(train.elements))
        held = np.diff(np.searchsorted(at, train.offsets))
        sizes = train.sizes
        allowed = _prefix(sizes, self._similarity) - (sizes - held)
        near = np.flatnonzero((allowed > 0) & (sizes > 0))
        if not len(near):
            return
        rows = np.searchsorted(train.offsets, at, side="right") - 1
        wanted = np.zeros(len(train), bool)
        wanted[near] = True
        kept = wanted[rows]
        ranks, train_rows = self._first(self._rank[ids[kept]], rows[kept], allowed)
        lengths = self._bounds[ranks + 1] - self._bounds[ranks]
        portions = np.cumsum(lengths) // PAIRS_AT_A_TIME
        for part in np.split(np.arange(len(ranks)), np.flatnonzero(np.diff(portions)) + 1):
            counts = lengths[part]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            tests = self._owners[np.repeat(self._bounds[ranks[part]], counts) + within]
            yield self._fitting(tests, np.repeat(train_rows[part], counts), sizes)

    def _fitting(self, tests: Rows, trains: Rows, sizes: Rows) -> tuple[Rows, Rows]:
        """Pairs whose sizes are near enough to each other, each once."""
        ours, theirs = self._sizes[tests], sizes[trains]
        fit = np.minimum(ours, theirs) >= self._similarity * np.maximum(ours, theirs) - _HAIR
        pairs = np.unique(trains[fit] * len(self._sizes) + tests[fit])
        return pairs % len(self._sizes), pairs // len(self._sizes)

    def _first(self, ranks: Rows, rows: Rows, counts: Rows) -> tuple[Rows, Rows]:
        """The lowest ranks of each row, so many as ``counts`` says.

        Args:
            ranks: shape (e,).
            rows: shape (e,), rising.
            counts: shape (rows,).
        """
        ordered = np.sort(rows * np.int64(len(self._lookup)) + ranks)
        at = np.arange(len(rows))
        begins = np.concatenate(([True], rows[1:] != rows[:-1]))[: len(rows)]
        place = at - np.maximum.accumulate(np.where(begins, at, 0))
        first = ordered[place < counts[rows]]
        return first % max(len(self._lookup), 1), first // max(len(self._lookup), 1)


def join_sets(train: Sets, test: Sets, *, similarity: float, accept: Accept | None = None) -> Matches:
    """Test sets that have a train set with at least this Jaccard similarity. Empty sets have none.

    Args:
        train: n sets.
        test: m sets.
        similarity: Jaccard similarity from which on a pair is a duplicate, in (0, 1].
        accept: What else must agree.

    Returns:
        Closeness is the Jaccard similarity.
    """

    def judge(test_rows: Rows, train_rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        close = jaccard(test, train, test_rows, train_rows)
        good = close >= similarity - 1e-12
        if accept is not None:
            good[good] = accept(test_rows[good], train_rows[good])
        return close, good

    search = Search(len(test), judge)
    for test_rows, train_rows in SetIndex(test, similarity).candidates(train):
        pending = search.train_row[test_rows] < 0
        search.pairs(test_rows[pending], train_rows[pending])
    return Matches(search.train_row, search.closeness, 1.0, method_of(similarity))


def method_of(similarity: float) -> str:
    """How pairs are looked for, in words."""
    return (
        f"Jaccard similarity >= {similarity:g}, looked for by the rarest of what is shared, which misses no pair, and "
        "verified (recall 100 %)"
    )


def _high(elements: Words) -> Words:
    return np.asarray(elements << (np.uint64(64) - ELEMENT_BITS))


def _prefix(sizes: Rows, similarity: float) -> Rows:
    return np.asarray(sizes - np.ceil(similarity * sizes - _HAIR).astype(np.int64) + 1)

"""Pairs of sets that share enough of their elements, all of them: a join by prefixes of the rarest elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.sets.duplicates import Accept, Matches, Rows, Search
from evalspec.stats.sets.hashing import Words
from evalspec.stats.sets.lookup import Lookup
from evalspec.stats.sets.packed_sets import ELEMENT_BITS, Sets, jaccard
from evalspec.stats.sets.set_sketches import Sketches, cells_for

PAIRS_AT_A_TIME = 1 << 20
SETS_AT_A_TIME = 1 << 10
# Where pairs are as dense as this, marking them is faster than sorting them.
CELLS_A_PAIR = 16
# Fewer pairs are verified as fast as they are sketched.
FEWEST_SKETCHED, FINER = 1 << 12, 8
CELL_BITS = 9
_CELLS, _CELL_SHIFT = 1 << CELL_BITS, np.uint64(64 - CELL_BITS)
# Sizes and shares are compared with a hair's width, so that rounding leaves no pair out.
_HAIR = 1e-9


class _Postings(NamedTuple):
    """Test sets by the rank of their rare elements.

    Args:
        sets: How many test sets there are in it.
        owners: shape (p,), test sets, those of one element after those of the element before, small ones first.
        rests: shape (p,), how many elements of the set are more frequent than this one.
        places: shape (p,), rising: the element's rank and the size of the set, as one number.
    """

    sets: int
    owners: Rows
    rests: Rows
    places: Rows


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
        # Sets of a and b elements and similarity t share t / (1 + t) of a + b.
        self._share = similarity / (1 + similarity)
        # 48-bit elements moved up, as the lookup reads them from their highest bits on.
        self._lookup = Lookup(_high(sets.elements))
        ids = self._lookup.index(_high(sets.elements))
        held_by = np.bincount(ids, minlength=len(self._lookup))
        self._rank = np.empty(len(self._lookup), np.int64)
        self._rank[np.argsort(held_by, kind="stable")] = np.arange(len(self._lookup))
        rows = np.repeat(np.arange(len(sets)), self._sizes)
        ranks, owners, places = self._first(self._rank[ids], rows, _prefix(self._sizes, similarity))
        self._largest = int(self._sizes.max(initial=0))
        keyed = self._keyed(ranks, self._sizes[owners])
        order = np.argsort(keyed, kind="stable")
        self._all = _Postings(len(sets), owners[order], (self._sizes[owners] - places - 1)[order], keyed[order])
        self._postings = self._all
        self._sketches = tuple(Sketches(sets, finer * cells_for(sets)) for finer in (1, FINER))

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

    def candidates(self, train: Sets, wanted: NDArray[np.bool_] | None = None) -> Iterator[tuple[Rows, Rows]]:
        """Pairs that may be similar enough, each once in a portion; portions are bounded.

        Args:
            train: n sets.
            wanted: shape (m,), test sets that are still looked for, also when a portion has been dealt with; None: all.

        Yields:
            Test rows and train rows, pair by pair.
        """
        postings = self._postings if wanted is None else self._shortened(wanted)
        at, ids = self._lookup.find(_high(train.elements))
        held = np.diff(np.searchsorted(at, train.offsets))
        sizes = train.sizes
        allowed = _prefix(sizes, self._similarity) - (sizes - held)
        near = np.flatnonzero((allowed > 0) & (sizes > 0))
        if not len(near):
            return
        rows = np.searchsorted(train.offsets, at, side="right") - 1
        kept = np.isin(rows, near)
        ranks, train_rows, places = self._first(self._rank[ids[kept]], rows[kept], allowed)
        rests = held[train_rows] - places - 1
        first, lengths = self._ranges(postings, ranks, sizes[train_rows], rests)
        sketches = [one.like(train) for one in self._sketches]
        portions = np.cumsum(lengths) // PAIRS_AT_A_TIME
        for part in np.split(np.arange(len(ranks)), np.flatnonzero(np.diff(portions)) + 1):
            counts = lengths[part]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            at = np.repeat(first[part], counts) + within
            tests, trains = postings.owners[at], np.repeat(train_rows[part], counts)
            # After the first element that two sets share, both must hold enough to share.
            some = postings.rests[at] + 1 >= self._share * (self._sizes[tests] + sizes[trains]) - _HAIR
            if wanted is not None:
                some &= wanted[tests]
            tests, trains = _each_once(tests[some], trains[some], len(self._sizes))
            for ours, theirs in zip(self._sketches, sketches, strict=True):
                if len(tests) >= FEWEST_SKETCHED:
                    some = ours.may_share(theirs, tests, trains, self._similarity)
                    tests, trains = tests[some], trains[some]
            yield tests, trains

    def _ranges(self, postings: _Postings, ranks: Rows, sizes: Rows, rests: Rows) -> tuple[Rows, Rows]:
        """Places of the test sets that hold an element and are of a size that fits.

        Neither too small nor too large, nor larger than what train sets can share enough of, if the element is the
        first that they share: of a pair that is similar enough the first one fits.

        Args:
            postings: Test sets by element.
            ranks: shape (p,), elements of train sets.
            sizes: shape (p,), of these train sets.
            rests: shape (p,), how many more frequent elements of the train set some test set holds.

        Returns:
            The first one and how many, shape (p,) each.
        """
        smallest = np.ceil(self._similarity * sizes - _HAIR)
        largest = np.floor(np.minimum(sizes / self._similarity, (rests + 1) / self._share - sizes) + _HAIR)
        low, high = (np.clip(size, 0, self._largest).astype(np.int64) for size in (smallest, largest))
        first = np.searchsorted(postings.places, self._keyed(ranks, low), side="left")
        last = np.searchsorted(postings.places, self._keyed(ranks, high), side="right")
        return first, np.where(smallest <= np.minimum(largest, self._largest), np.maximum(last - first, 0), 0)

    def _keyed(self, ranks: Rows, sizes: Rows) -> Rows:
        return ranks * (self._largest + 1) + sizes

    def _shortened(self, wanted: NDArray[np.bool_]) -> _Postings:
        """Test sets by element, without most of those that were found: else copies of one text cost their square."""
        count = int(wanted.sum())
        if count > self._postings.sets or 2 * count < self._postings.sets:
            keep = wanted[self._all.owners]
            self._postings = _Postings(count, *(column[keep] for column in self._all[1:]))
        return self._postings

    def _first(self, ranks: Rows, rows: Rows, counts: Rows) -> tuple[Rows, Rows, Rows]:
        """The lowest ranks of each row, so many as ``counts`` says, their rows, and their places in them from 0 on.

        Args:
            ranks: shape (e,).
            rows: shape (e,), rising.
            counts: shape (rows,).
        """
        ordered = np.sort(rows * np.int64(len(self._lookup)) + ranks)
        at = np.arange(len(rows))
        begins = np.concatenate(([True], rows[1:] != rows[:-1]))[: len(rows)]
        place = at - np.maximum.accumulate(np.where(begins, at, 0))
        early = place < counts[rows]
        first = ordered[early]
        return first % max(len(self._lookup), 1), first // max(len(self._lookup), 1), place[early]


def _each_once(tests: Rows, trains: Rows, test_sets: int) -> tuple[Rows, Rows]:
    """Pairs without repeats, by train set and then by test set; trains rise."""
    if not len(tests):
        return tests, trains
    first = int(trains[0])
    cells = (int(trains[-1]) - first + 1) * test_sets
    packed = (trains - first) * test_sets + tests
    if cells <= CELLS_A_PAIR * len(packed):
        marks = np.zeros(cells, bool)
        marks[packed] = True
        packed = np.flatnonzero(marks)
    else:
        packed = np.unique(packed)
    return packed % test_sets, packed // test_sets + first


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
        # What else must agree is looked at first: where all texts are made from one form, most are near.
        good = np.ones(len(test_rows), bool) if accept is None else accept(test_rows, train_rows)
        close = np.full(len(test_rows), np.nan)
        close[good] = jaccard(test, train, test_rows[good], train_rows[good])
        good[good] = close[good] >= similarity - 1e-12
        return close, good

    search = Search(len(test), judge)
    index, wanted = SetIndex(test, similarity), np.ones(len(test), bool)
    for start in range(0, len(train), SETS_AT_A_TIME):
        some = np.arange(start, min(start + SETS_AT_A_TIME, len(train)))
        for test_rows, train_rows in index.candidates(train.take(some), wanted):
            search.pairs(test_rows, some[train_rows])
            wanted &= search.train_row < 0
    return Matches(search.train_row, search.closeness, 1.0, method_of(similarity))


def method_of(similarity: float) -> str:
    """Method of the search for pairs, in words."""
    return (
        f"Jaccard similarity >= {similarity:g}, looked for by the rarest of what is shared, which misses no pair, and "
        "verified (recall 100 %)"
    )


def _high(elements: Words) -> Words:
    return np.asarray(elements << (np.uint64(64) - ELEMENT_BITS))


def _prefix(sizes: Rows, similarity: float) -> Rows:
    return np.asarray(sizes - np.ceil(similarity * sizes - _HAIR).astype(np.int64) + 1)

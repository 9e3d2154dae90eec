"""Near duplicates among sets: MinHash with banding, solved for a stated recall; candidates verified exactly.

References:
    Broder (1997), On the resemblance and containment of documents, SEQUENCES.
    Leskovec, Rajaraman, Ullman (2020), Mining of Massive Datasets, 3rd ed., chapter 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.duplicates import Accept, Matches, Rows, Search
from evalspec.stats.hashing import Words, hash_segments, mix

MOST_HASHES = 192
BANDS_AT_A_TIME = 16
ELEMENTS_AT_A_TIME = 1 << 13
SETS_AT_A_TIME = 1 << 16
# 48 bits of an element and 16 of the set's place in its portion share a word, so that one sort orders both.
ELEMENT_BITS = np.uint64(48)


@dataclass(frozen=True, slots=True)
class Sets:
    """Many sets of 48-bit elements, one after the other.

    Args:
        elements: shape (e,), rising within each set, each once.
        offsets: shape (n + 1,), where each set begins.
    """

    elements: Words
    offsets: Rows

    @classmethod
    def of(cls, elements: Words, offsets: Rows) -> Sets:
        """Sets from 64-bit hashes of their elements, in any order and repeated.

        Two different elements of a set are taken for one with a chance of 2^-48.

        Args:
            elements: shape (e,).
            offsets: shape (n + 1,).
        """
        parts, sizes = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        for first in range(0, len(offsets) - 1, SETS_AT_A_TIME):
            part = offsets[first : first + SETS_AT_A_TIME + 1]
            place = np.repeat(np.arange(len(part) - 1, dtype=np.uint64), np.diff(part))
            packed = (place << ELEMENT_BITS) | (elements[part[0] : part[-1]] >> (np.uint64(64) - ELEMENT_BITS))
            packed.sort()
            packed = packed[np.concatenate(([True], packed[1:] != packed[:-1]))] if len(packed) else packed
            parts.append(packed & np.uint64(2**48 - 1))
            sizes.append(np.bincount((packed >> ELEMENT_BITS).astype(np.int64), minlength=len(part) - 1))
        return cls(np.concatenate(parts), np.concatenate(([0], np.cumsum(np.concatenate(sizes)))).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Rows:
        """Elements of each set; shape (n,)."""
        return np.diff(self.offsets)

    def take(self, rows: Rows) -> Sets:
        """These sets."""
        sizes = self.sizes[rows]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        return Sets(self.elements[np.repeat(self.offsets[:-1][rows], sizes) + within], offsets)

    def digests(self) -> Words:
        """One hash a set; shape (n,)."""
        return hash_segments(mix(self.elements.copy()), self.offsets, 0)


class Bands(NamedTuple):
    """Bands of hashes: a pair is a candidate where one band agrees in all its hashes."""

    bands: int
    hashes: int

    def chance(self, similarity: float) -> float:
        """Chance that a pair of this Jaccard similarity becomes a candidate."""
        return 1.0 - float((1.0 - similarity**self.hashes) ** self.bands)


def solve_bands(similarity: float, recall: float) -> Bands:
    """The most selective bands that find a pair of this similarity with at least this chance.

    Args:
        similarity: Jaccard similarity at the limit, in (0, 1].
        recall: Wanted chance to find a pair at the limit, in (0, 1).
    """
    if similarity >= 1:
        return Bands(1, 8)
    solved = [
        Bands(max(1, math.ceil(math.log1p(-recall) / math.log1p(-(similarity**hashes)))), hashes)
        for hashes in range(1, MOST_HASHES + 1)
        if similarity**hashes > 1e-9
    ]
    affordable = [one for one in solved if one.bands * one.hashes <= MOST_HASHES]
    # Of a similarity so small that even single hashes are too many, single hashes.
    return max(affordable, key=lambda one: one.hashes) if affordable else solved[0]


def jaccard(left: Sets, right: Sets, left_rows: Rows, right_rows: Rows) -> NDArray[np.float64]:
    """Jaccard similarity of pairs of sets; 0 for a pair of empty ones.

    Args:
        left: n sets.
        right: m sets.
        left_rows: shape (p,).
        right_rows: shape (p,).

    Returns:
        shape (p,).
    """
    similarity = np.empty(len(left_rows))
    for start in range(0, len(left_rows), SETS_AT_A_TIME):
        part = slice(start, start + SETS_AT_A_TIME)
        similarity[part] = _jaccard(left, right, left_rows[part], right_rows[part])
    return similarity


def _jaccard(left: Sets, right: Sets, left_rows: Rows, right_rows: Rows) -> NDArray[np.float64]:
    distinct, place = np.unique(right_rows, return_inverse=True)
    held = right.take(distinct)
    # Sets rise one after the other and elements within them, so the packed words are sorted already.
    packed = (np.repeat(np.arange(len(distinct), dtype=np.uint64), held.sizes) << ELEMENT_BITS) | held.elements
    asked = left.take(left_rows)
    wanted = (np.repeat(place.reshape(-1).astype(np.uint64), asked.sizes) << ELEMENT_BITS) | asked.elements
    at = np.minimum(np.searchsorted(packed, wanted), max(len(packed) - 1, 0))
    shared = packed[at] == wanted if len(packed) else np.zeros(len(wanted), bool)
    running = np.concatenate(([0], np.cumsum(shared)))
    both = running[asked.offsets[1:]] - running[asked.offsets[:-1]]
    either = left.sizes[left_rows] + right.sizes[right_rows] - both
    return np.asarray(both / np.maximum(either, 1))


def near_sets(
    train: Sets,
    test: Sets,
    *,
    similarity: float,
    recall: float,
    rng: np.random.Generator,
    accept: Accept | None = None,
) -> Matches:
    """Test sets that have a train set with at least this Jaccard similarity. Empty sets have none.

    Args:
        train: n sets.
        test: m sets.
        similarity: Jaccard similarity from which on a pair is a duplicate, in (0, 1].
        recall: Wanted chance to find a pair just at the limit; closer pairs are found more often.
        rng: Draws the hash functions.
        accept: What else must agree.

    Returns:
        Closeness is the Jaccard similarity.
    """
    bands = solve_bands(similarity, recall)

    def judge(test_rows: Rows, train_rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        close = jaccard(test, train, test_rows, train_rows)
        good = close >= similarity - 1e-12
        if accept is not None:
            good[good] = accept(test_rows[good], train_rows[good])
        return close, good

    search = Search(len(test), judge)
    train_rows = np.flatnonzero(train.sizes > 0)
    if accept is None:
        # Equal sets would be judged one by one; where nothing else is compared, one of them stands for all.
        train_rows = train_rows[np.sort(np.unique(train.digests()[train_rows], return_index=True)[1])]
    test_rows = np.flatnonzero(test.sizes > 0)
    some_train, some_test = train.take(train_rows), test.take(test_rows)
    done = 0
    while done < bands.bands and len(train_rows) and len(test_rows):
        count = min(BANDS_AT_A_TIME, bands.bands - done)
        factors = rng.integers(0, 2**64, (2, count * bands.hashes), np.uint64) | np.uint64(1)
        train_keys, test_keys = (_band_keys(sets, factors, count) for sets in (some_train, some_test))
        for band in range(count):
            keyed = np.zeros(len(test), np.uint64)
            keyed[test_rows] = test_keys[:, band]
            order = np.argsort(train_keys[:, band], kind="stable")
            search.join(train_keys[order, band], keyed, train_rows[order])
        done += count
    found = bands.chance(similarity)
    method = (
        f"Jaccard similarity >= {similarity:g}; MinHash, {bands.bands} bands of {bands.hashes}, candidates verified "
        f"exactly (recall {found:.1%} at the limit, {bands.chance((1 + similarity) / 2):.2%} halfway to equal)"
    )
    return Matches(search.train_row, search.closeness, found, method)


def _band_keys(sets: Sets, factors: Words, bands: int) -> Words:
    """One hash a set and band; shape (n, bands). No set is empty."""
    keyed = np.empty((len(sets), bands), np.uint64)
    first = 0
    while first < len(sets):
        # At least one set a portion, however large it is.
        last = int(np.searchsorted(sets.offsets, sets.offsets[first] + ELEMENTS_AT_A_TIME, side="right")) - 1
        last = max(last, first + 1)
        offsets = sets.offsets[first : last + 1]
        least = _least(mix(sets.elements[offsets[0] : offsets[-1]].copy()), offsets - offsets[0], factors)
        keyed[first:last] = _folded(least, bands)
        first = last
    return keyed


def _least(elements: Words, offsets: Rows, factors: Words) -> NDArray[np.uint32]:
    """MinHash signatures: the least hash of each set under each function; shape (n, functions)."""
    if len(elements) > ELEMENTS_AT_A_TIME:
        # One large set alone.
        parts = range(0, len(elements), ELEMENTS_AT_A_TIME)
        each = [_hashed(elements[start : start + ELEMENTS_AT_A_TIME], factors).min(axis=0) for start in parts]
        return np.asarray(np.min(each, axis=0))[None, :]
    return np.asarray(np.minimum.reduceat(_hashed(elements, factors), offsets[:-1], axis=0))


def _hashed(elements: Words, factors: Words) -> NDArray[np.uint32]:
    hashed = elements[:, None] * factors[0]
    hashed += factors[1]
    hashed >>= np.uint64(32)
    return np.asarray(hashed.astype(np.uint32))


def _folded(least: NDArray[np.uint32], bands: int) -> Words:
    columns = least.reshape(len(least), bands, -1)
    folded = np.zeros((len(least), bands), np.uint64)
    for index in range(columns.shape[2]):
        folded = mix(folded ^ (columns[:, :, index].astype(np.uint64) + np.uint64(index << 33)))
    return folded

"""Many sets of hashed elements, and the Jaccard similarity of pairs of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.sets.duplicates import Rows
from evalspec.stats.sets.hashing import Words

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
        """Take these sets out."""
        sizes = self.sizes[rows]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        return Sets(self.elements[np.repeat(self.offsets[:-1][rows], sizes) + within], offsets)


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

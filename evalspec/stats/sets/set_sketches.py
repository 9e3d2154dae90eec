"""Sketches of sets that show of most pairs at once that they differ in too much; of similar pairs they never do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.sets.duplicates import Rows
from evalspec.stats.sets.hashing import Words
from evalspec.stats.sets.packed_sets import Sets

BITS_AN_ELEMENT = 4
FEWEST_BITS, MOST_BITS = 256, 1 << 13
WORDS_AT_A_TIME = 1 << 18
CELLS_AT_A_TIME = 1 << 22
_HAIR = 1e-9


def cells_for(sets: Sets) -> int:
    """Cells of a sketch: some four for each element of a typical set, a power of two."""
    wanted = BITS_AN_ELEMENT * int(np.median(sets.sizes)) if len(sets) else 0
    return min(max(1 << max(wanted - 1, 0).bit_length(), FEWEST_BITS), MOST_BITS)


class Sketches:
    """For each set one bit a cell: whether it has an odd number of elements there.

    Elements that two sets share change both sketches alike. So their sketches differ in no more bits than the sets
    differ in elements. Sketches are made when they are first asked for.

    Args:
        sets: n sets.
        bits: Cells, a power of two from 64 on.

    References:
        Sandes, Teodoro, Melo (2020), Bitmap filter: speeding up exact set similarity joins with bitwise operations,
        Information Systems 88.
    """

    def __init__(self, sets: Sets, bits: int) -> None:
        self._sets, self._bits = sets, bits
        self._made: Words | None = None

    def like(self, sets: Sets) -> Sketches:
        """Sketches of other sets, as fine, that can be held against these."""
        return Sketches(sets, self._bits)

    def may_share(self, other: Sketches, mine: Rows, theirs: Rows, similarity: float) -> NDArray[np.bool_]:
        """Mask of pairs that may have at least this Jaccard similarity; all others are shown not to.

        Args:
            other: Made by `like`.
            mine: shape (p,), of these sets.
            theirs: shape (p,), of the other ones.
            similarity: In (0, 1].

        Returns:
            shape (p,).
        """
        left, right = self.words, other.words
        # Sets of a and b elements and similarity t share t / (1 + t) of a + b.
        most = (1 - similarity) / (1 + similarity) * (self._sets.sizes[mine] + other._sets.sizes[theirs]) + _HAIR
        may = np.empty(len(mine), bool)
        step = max(1, WORDS_AT_A_TIME // left.shape[1])
        for start in range(0, len(mine), step):
            part = slice(start, start + step)
            differ = np.bitwise_count(left[mine[part]] ^ right[theirs[part]])
            may[part] = differ.sum(axis=1, dtype=np.int64) <= most[part]
        return may

    @property
    def words(self) -> Words:
        """Shape (n, bits / 64)."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> Words:
        made = np.zeros((len(self._sets), self._bits // 64), np.uint64)
        step = max(1, CELLS_AT_A_TIME // self._bits)
        offsets = self._sets.offsets
        for first in range(0, len(self._sets), step):
            last = min(first + step, len(self._sets))
            rows = np.repeat(np.arange(last - first), self._sets.sizes[first:last])
            # Elements are hashes, so their lowest bits are spread evenly.
            cells = (self._sets.elements[offsets[first] : offsets[last]] & np.uint64(self._bits - 1)).view(np.int64)
            counts = np.bincount(rows * self._bits + cells, minlength=(last - first) * self._bits)
            odd = (counts & 1).astype(np.bool_).reshape(last - first, self._bits)
            made[first:last] = np.packbits(odd, axis=1).view(np.uint64)
        return made

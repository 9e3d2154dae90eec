"""Lookup of hashes among many others; one look at a bit rules out most of those that are not there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.sets.hashing import Words

Rows = NDArray[np.int64]

FILTER_BITS_EACH = 16
LARGEST_FILTER, SMALLEST_FILTER = 33, 16


class Lookup:
    """A set of 64-bit hashes that can be asked quickly.

    A bit for each place that a hash can take among `FILTER_BITS_EACH` times as many rules out 15 of 16 that are not
    there. The others are looked for from where their highest bits say that they would stand, so hashes must be spread
    evenly (`evalspec.stats.sets.hashing.mix`). Nothing is missed, and nothing is found that isn't there.

    Args:
        values: In any order, repeated or not.

    References:
        Bloom (1970), Space/time trade-offs in hash coding with allowable errors, CACM 13(7).
    """

    def __init__(self, values: Words) -> None:
        ordered = np.sort(values)
        if len(ordered):
            ordered = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
        self.values: Words = ordered
        """shape (k,), rising, each once."""
        size = max(len(ordered), 1)
        bits = min(max((FILTER_BITS_EACH * size - 1).bit_length(), SMALLEST_FILTER), LARGEST_FILTER)
        self._filter_shift = np.uint64(64 - bits)
        self._filter = np.zeros(1 << (bits - 3), np.uint8)
        if len(ordered):
            place = (ordered >> self._filter_shift).view(np.int64)
            # They rise, so those that share a byte stand together.
            begins = np.flatnonzero(np.concatenate(([True], np.diff(place >> 3) > 0)))
            marks = np.left_shift(np.uint8(1), (place & 7).astype(np.uint8))
            self._filter[place[begins] >> 3] = np.bitwise_or.reduceat(marks, begins)
        bits = max((size - 1).bit_length(), 1)
        self._start_shift = np.uint64(64 - bits)
        each = np.bincount((ordered >> self._start_shift).view(np.int64), minlength=1 << bits)
        self._starts = np.cumsum(each) - each
        # One more, so that a search may run to the end.
        self._padded = np.append(ordered, np.uint64(2**64 - 1))

    def __len__(self) -> int:
        return len(self.values)

    def maybe(self, asked: Words) -> NDArray[np.bool_]:
        """Mask of those that may be there; the others are not. Shape (n,)."""
        place = (asked >> self._filter_shift).view(np.int64)
        byte = self._filter.take(place >> 3)
        byte >>= (place & 7).astype(np.uint8)
        byte &= 1
        return byte.view(np.bool_)

    def find(self, asked: Words) -> tuple[Rows, Rows]:
        """Find which of these are there.

        Args:
            asked: shape (n,).

        Returns:
            Positions in ``asked``, rising, shape (h,); and where each of them stands in `values`, shape (h,).
        """
        maybe = np.flatnonzero(self.maybe(asked))
        some = asked[maybe]
        at = self._at(some)
        there = self._padded[at] == some
        there &= at < len(self.values)
        return maybe[there], at[there]

    def index(self, known: Words) -> Rows:
        """Place of each of these in `values`; all of them are there. Shape (n,)."""
        return self._at(known)

    def _at(self, some: Words) -> Rows:
        at = self._starts.take((some >> self._start_shift).view(np.int64))
        open_rows = np.flatnonzero(self._padded.take(at) < some)
        while len(open_rows):
            at[open_rows] += 1
            open_rows = open_rows[self._padded[at[open_rows]] < some[open_rows]]
        return np.asarray(at)

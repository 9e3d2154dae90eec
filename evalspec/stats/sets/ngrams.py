"""Runs of n tokens of many test texts that occur in training texts which stream past, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalspec.language.states import State, Value
from evalspec.stats.sets.duplicates import Rows
from evalspec.stats.sets.lookup import Lookup
from evalspec.stats.sets.tokens import Tokens, whole_windows, windows

Mask = NDArray[np.bool_]


class NgramCounts:
    """Of each n-gram of the test texts how many training texts of a set hold it, and which one is the first.

    Args:
        size: Different n-grams.
        texts: shape (size,).
        first_row: shape (size,), number of the first text; -1: none.
    """

    def __init__(self, size: int) -> None:
        self.texts = np.zeros(size, np.int64)
        self.first_row = np.full(size, -1, np.int64)

    def merge(self, later: NgramCounts) -> None:
        """Take over texts that come after."""
        new = (self.first_row < 0) & (later.first_row >= 0)
        self.first_row[new] = later.first_row[new]
        self.texts += later.texts

    def fields(self) -> dict[str, Value]:
        """All that is kept, for `evalspec.language.states`."""
        at = np.flatnonzero(self.texts)
        return {"size": len(self.texts), "at": at, "texts": self.texts[at], "rows": self.first_row[at]}

    @classmethod
    def of_fields(cls, fields: State) -> NgramCounts:
        """The counts of which these are the fields."""
        counts, at = cls(fields.scalar("size")), fields.numbers("at")
        counts.texts[at], counts.first_row[at] = fields.numbers("texts"), fields.numbers("rows")
        return counts


class NgramIndex:
    """The n-grams of test texts; training texts are looked at once, and only counts are kept.

    Args:
        tokens: Of m test texts.
        size: n.
    """

    def __init__(self, tokens: Tokens, size: int) -> None:
        self.tokens = tokens
        self.size = size
        hashes = windows(tokens.hashes, size)
        self.starts = np.flatnonzero(whole_windows(tokens.offsets, size, len(hashes)))
        """shape (g,), rising: first token of each n-gram of a test text."""
        self._lookup = Lookup(hashes[self.starts])
        self._ids = self._lookup.index(hashes[self.starts])
        self.sets: dict[int, NgramCounts] = {}
        """Training set: what it holds."""

    def begin(self, train_set: int) -> NgramCounts:
        """Of a training set: nothing so far."""
        if train_set not in self.sets:
            self.sets[train_set] = NgramCounts(len(self._lookup))
        return self.sets[train_set]

    def held(self, train: Tokens) -> tuple[Rows, Rows]:
        """Find n-grams of the test texts in some training texts.

        Args:
            train: Tokens of n texts.

        Returns:
            Position of the first token of each, rising, and which n-gram it is.
        """
        hashes = windows(train.hashes, self.size)
        at, ids = self._lookup.find(hashes)
        whole = whole_windows(train.offsets, self.size, len(hashes))[at]
        return at[whole], ids[whole]

    def see(self, train: Tokens, train_set: int, first_row: int) -> None:
        """Look at some training texts.

        Args:
            train: Tokens of n texts.
            train_set: Index of their training set.
            first_row: Number of the first of them in it.
        """
        at, ids = self.held(train)
        counts = self.begin(train_set)
        if not len(at):
            return
        texts = train.text_of(at)
        # Each text counts once, however often it repeats an n-gram.
        _, once = np.unique(ids * np.int64(len(train)) + texts, return_index=True)
        np.add.at(counts.texts, ids[once], 1)
        new = np.flatnonzero(counts.first_row[ids] < 0)
        _, first = np.unique(ids[new], return_index=True)
        new = new[first]
        counts.first_row[ids[new]] = first_row + texts[new]

    def matched(self, least: int, most: int | None, train_set: int | None = None) -> Mask:
        """n-grams that count as seen.

        Args:
            least: Occur in at least so many training texts, over all sets.
            most: And in no more than so many; None: any number.
            train_set: Only those that this training set holds.

        Returns:
            shape (g,), in the order of `starts`.
        """
        every = np.zeros(len(self._lookup), np.int64)
        for one in self.sets.values():
            every += one.texts
        counts = every[self._ids]
        matched = counts >= least
        if most is not None:
            matched &= counts <= most
        if train_set is not None:
            held = self.sets.get(train_set)
            matched &= held.texts[self._ids] > 0 if held is not None else False
        return matched

    def first_seen(self, at: Rows) -> tuple[Rows, Rows]:
        """Training set and its row in which n-grams were seen first.

        Args:
            at: shape (k,), places in `starts`.

        Returns:
            Two of shape (k,); -1: never.
        """
        ids = self._ids[at]
        sets, rows = (np.full(len(ids), -1, np.int64) for _ in range(2))
        for number, one in sorted(self.sets.items()):
            first = one.first_row[ids]
            new = (sets < 0) & (first >= 0)
            sets[new], rows[new] = number, first[new]
        return sets, rows

    def where(self, train_set: int, row: int, ids: Rows) -> Mask:
        """Mask of those n-grams that were seen first in this row of a training set; shape of ``ids``."""
        first: Mask = np.asarray(self.sets[train_set].first_row[ids] == row)
        for number, one in self.sets.items():
            if number < train_set:
                first &= one.first_row[ids] < 0
        return first

    def texts_with(self) -> Mask:
        """Test texts that are long enough to hold an n-gram; shape (m,)."""
        return self.tokens.counts >= self.size


@dataclass(frozen=True, slots=True)
class Spans:
    """Shares and longest spans that the n-grams which were seen make up in each test text.

    Args:
        share: shape (m,), share of the text's n-grams that were seen; 0 where it holds none.
        begin: shape (m,), first token of its longest span, -1: there is none.
        length: shape (m,), tokens of that span.
        tokens: shape (m,), tokens of the text.
    """

    share: NDArray[np.float64]
    begin: Rows
    length: Rows
    tokens: Rows

    @property
    def longest(self) -> NDArray[np.float64]:
        """Longest span as a share of the text's tokens; shape (m,)."""
        return np.asarray(self.length / np.maximum(self.tokens, 1))


def spans(index: NgramIndex, matched: Mask, skip: int = 0) -> Spans:
    """Put n-grams together to spans: tokens in a row that lie in n-grams which were seen.

    Args:
        index: Of the test texts.
        matched: shape (g,), n-grams that were seen.
        skip: So many tokens between two spans that lie in none don't part them.
    """
    tokens, counts = index.tokens, index.tokens.counts
    offsets = tokens.offsets
    running = np.concatenate(([0], np.cumsum(matched)))
    bounds = np.searchsorted(index.starts, offsets)
    held, hits = np.diff(bounds), running[bounds[1:]] - running[bounds[:-1]]
    step = np.zeros(len(tokens.hashes) + 1, np.int64)
    np.add.at(step, index.starts[matched], 1)
    np.add.at(step, index.starts[matched] + index.size, -1)
    covered = np.cumsum(step[:-1]) > 0
    begins, ends, texts = _runs(covered, offsets, skip)
    begin, length = np.full(len(tokens), -1, np.int64), np.zeros(len(tokens), np.int64)
    # The longest last, of equally long ones the first, so that it is what stays.
    order = np.lexsort((-begins, ends - begins))
    begin[texts[order]], length[texts[order]] = begins[order], (ends - begins)[order]
    return Spans(hits / np.maximum(held, 1), begin, length, counts)


def _runs(covered: Mask, offsets: Rows, skip: int) -> tuple[Rows, Rows, Rows]:
    """Begin, end and text of each run of covered tokens."""
    before, behind = np.zeros(len(covered), bool), np.zeros(len(covered), bool)
    before[1:], behind[:-1] = covered[:-1], covered[1:]
    before[offsets[:-1][offsets[:-1] < len(covered)]] = False
    behind[offsets[1:][offsets[1:] > 0] - 1] = False
    begins, ends = np.flatnonzero(covered & ~before), np.flatnonzero(covered & ~behind) + 1
    texts = np.searchsorted(offsets, begins, side="right") - 1
    if skip and len(begins):
        apart = (begins[1:] - ends[:-1] > skip) | (texts[1:] != texts[:-1])
        begins, ends = begins[np.append(True, apart)], ends[np.append(apart, True)]
        texts = np.searchsorted(offsets, begins, side="right") - 1
    return begins, ends, texts

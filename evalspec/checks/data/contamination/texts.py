"""Rows of one text: equal ones, near ones and spans, all found in one pass over the training texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evalspec.checks.data.contamination.detector import Level, Mask, RowPair, TestSide
from evalspec.checks.data.contamination.first_match import FirstMatches, SetMatches
from evalspec.checks.data.contamination.spans import RowsAt, SpanSearch, Split
from evalspec.sources.reading.rows import row_digests
from evalspec.sources.reading.text import Tokenised, token_shingles, tokenised
from evalspec.stats.sets.duplicates import DigestIndex, Rows
from evalspec.stats.sets.hashing import Words, mix
from evalspec.stats.sets.lookup import Lookup
from evalspec.stats.sets.ngrams import NgramCounts
from evalspec.stats.sets.packed_sets import jaccard
from evalspec.stats.sets.set_join import SetIndex, method_of
from evalspec.stats.sets.tokens import Tokens, whole_windows, windows
from evalspec.tables.comparable import comparable

if TYPE_CHECKING:
    from evalspec.checks.data.contamination.spec import Contamination
    from evalspec.tables.ngram import Ngram

# What is worked on at a time fits into a processor's cache.
BYTES_AT_A_TIME = 1 << 19


def portions(column: pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    """Texts some at a time, about half a megabyte: number of the first, and the texts."""
    first = 0
    for chunk in column.chunks:
        array = chunk.cast(pa.large_string())
        offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
        at = 0
        while at < len(array):
            end = int(np.searchsorted(offsets, offsets[at] + BYTES_AT_A_TIME, side="right")) - 1
            end = min(max(end, at + 1), len(array), at + (1 << 15))
            yield first + at, array.slice(at, end - at)
            at = end
        first += len(array)


class TextDetector:
    """Equal texts, near ones and shared spans of one text column, which is all that is compared.

    Args:
        asked: The test side.
        check: What counts as near, and as a span.
        split: Makes words, characters or tokens of texts.
    """

    def __init__(self, asked: TestSide, check: Contamination, split: Split) -> None:
        (self._column,) = asked.columns
        self._asked, self._check, self._split, self.columns = asked, check, split, asked.named
        test = tokenised(asked.table.column(self._column))
        self._digests = DigestIndex(asked.digests, asked.usable)
        self._alike = Lookup(_alike(test.tokens)[asked.usable])
        self._sets = token_shingles(test.tokens, check.shingle_words)
        self._near_index = SetIndex(self._sets, check.similarity)
        self.spans = span_search(asked, self._column, check.ngram, split, test)
        self._exact, self._near = FirstMatches(asked, "equal"), FirstMatches(asked, "nearly equal")

    def fresh(self) -> TextDetector:
        """The same one, without any training set."""
        other = copy(self)
        other._exact, other._near = (FirstMatches(self._asked, one.title) for one in (self._exact, self._near))
        other.spans = self.spans.fresh()
        return other

    def begin(self, train_set: str) -> None:
        """The batches that follow are of this training set."""
        for search in (self._exact, self._near, self.spans):
            search.begin(train_set)

    @property
    def now(self) -> tuple[SetMatches, SetMatches, NgramCounts]:
        """Matches in the training set that goes by, and counts of its n-grams."""
        return self._exact.now, self._near.now, self.spans.now

    def take(self, found: Sequence[Any]) -> None:
        """Take over what was found in the training set that goes by."""
        exact, near, spans = found
        self._exact.take(exact)
        self._near.take(near)
        self.spans.take(spans)

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Look at some training rows.

        Raises:
            InputError: A text is no UTF-8.
        """
        alike = [np.zeros(0, np.int64)]
        for first, texts in portions(rows.column(self._column)):
            train = tokenised(texts, first_row=first_row + first)
            alike.append(self._alike.find(_alike(train.tokens))[0] + first)
            self._see_near(train.tokens, rows, first, first_row)
            split = train if self._check.ngram.unit == "words" else self._split(texts, first_row + first)
            self.spans.see(split, first_row + first)
        self._see_equal(np.concatenate(alike), rows, first_row)

    def _see_equal(self, some: Rows, rows: pa.Table, first_row: int) -> None:
        # Equal texts have the same words; only those that do are normalised and digested.
        if len(some):
            theirs = comparable(rows.select([self._column]).take(pa.array(some)), [self._column])
            tests, trains = self._digests.find(row_digests(theirs))
            self._exact.add(tests, some[trains], np.full(len(tests), np.nan), rows, first_row)

    def _see_near(self, train: Tokens, rows: pa.Table, first: int, first_row: int) -> None:
        size, counts = self._check.shingle_words, train.counts
        hashes = windows(train.hashes, size)
        hashes = hashes[whole_windows(train.offsets, size, len(hashes))]
        texts = np.repeat(np.arange(len(train)), np.maximum(counts - size + 1, 0))
        promising = self._near_index.promising(hashes, texts, len(train))
        # A text shorter than a shingle is one, and isn't among the runs of words.
        some = np.union1d(promising, np.flatnonzero((counts > 0) & (counts < size)))
        if not len(some):
            return
        sets = token_shingles(train.take(some), size)
        wanted = self._near.open
        for tests, trains in self._near_index.candidates(sets, wanted):
            close = jaccard(self._sets, sets, tests, trains)
            good = close >= self._check.similarity - 1e-12
            self._near.add(tests[good], some[trains[good]] + first, close[good], rows, first_row)
            wanted &= self._near.open

    def levels(self) -> tuple[Level, ...]:
        """Equal, near, spans."""
        near = f"runs of {self._check.shingle_words} words, {method_of(self._check.similarity)}"
        exact = self._exact.level("exact", "exact_duplicates", f"equal in {self._column}, digests of 128 bits")
        return (exact, self._near.level("near", "near_duplicates", near, but=exact), self.spans.level())

    def look_up(self, rows_at: RowsAt) -> None:
        """Read the training rows of spans that are shown."""
        self.spans.look_up(self._split, rows_at, self._shown)

    @property
    def _shown(self) -> Mask:
        return self._exact.anywhere | self._near.anywhere

    def pairs(self) -> tuple[RowPair, ...]:
        """Some of each level; of spans after `look_up`."""
        return (*self._exact.pairs("exact"), *self._near.pairs("near"), *self.spans.pairs(self._shown))


def _alike(tokens: Tokens) -> Words:
    """The same for texts with the same words; shape (n,)."""
    return mix(tokens.sums() ^ mix(tokens.counts.astype(np.uint64)))


def span_search(asked: TestSide, column: str, ngram: Ngram, split: Split, test: Tokenised | None = None) -> SpanSearch:
    """The search for spans of a text column of the test set.

    Args:
        asked: The test side.
        column: The text column.
        ngram: What counts as a span.
        split: Makes words, characters or tokens of texts.
        test: The column's words, where they are known.
    """
    if test is None or ngram.unit != "words":
        test = split(asked.table.column(column), 0)
    return SpanSearch(test, asked, column, ngram)


class SpanDetector:
    """Shared spans of one text column among several columns.

    Args:
        asked: The test side.
        column: The text column.
        ngram: What counts as a span.
        split: Makes words, characters or tokens of texts.
    """

    def __init__(self, asked: TestSide, column: str, ngram: Ngram, split: Split) -> None:
        self._column, self._split = column, split
        self.columns = (column, *((asked.key,) if asked.key else ()))
        self.spans = span_search(asked, column, ngram, split)

    def fresh(self) -> SpanDetector:
        """The same one, without any training set."""
        other = copy(self)
        other.spans = self.spans.fresh()
        return other

    def begin(self, train_set: str) -> None:
        """The batches that follow are of this training set."""
        self.spans.begin(train_set)

    @property
    def now(self) -> tuple[NgramCounts]:
        """Counts of the training set that goes by."""
        return (self.spans.now,)

    def take(self, found: Sequence[Any]) -> None:
        """Take over what the training set that goes by holds."""
        self.spans.take(found[0])

    def look_up(self, rows_at: RowsAt) -> None:
        """Read the training rows that are shown."""
        self.spans.look_up(self._split, rows_at)

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Look at some training rows.

        Raises:
            InputError: A text is no UTF-8.
        """
        for first, texts in portions(rows.column(self._column)):
            self.spans.see(self._split(texts, first_row + first), first_row + first)

    def levels(self) -> tuple[Level, ...]:
        """Spans."""
        return (self.spans.level(),)

    def pairs(self) -> tuple[RowPair, ...]:
        """Some of the rows that were flagged; after `look_up`."""
        return self.spans.pairs()

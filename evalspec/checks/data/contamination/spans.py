"""Test texts that share spans of words with training texts: rules, what they flag, and the spans to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa

from evalspec.cells import value_of
from evalspec.checks.data.contamination.detector import Level, Mask, RowPair, TestSide
from evalspec.checks.data.contamination.examples import PAIRS_SHOWN, example
from evalspec.errors import InputError
from evalspec.evidence.words import plural, verb
from evalspec.sources.reading.text import Tokenised
from evalspec.stats.sets.ngrams import NgramCounts, NgramIndex, Spans, spans
from evalspec.tables.ngram import Ngram

KIND, TITLE = "span", "shares a span"
MOST_EXCERPTS = 2_000
"""Of the training rows in which flagged rows were found the first ones, which may be shown."""
LETTERS_BEFORE, LETTERS_OF_SPAN = 120, 400

Split = Callable[[pa.ChunkedArray | pa.Array, int], Tokenised]
"""Texts, and the number of the first, to what their n-grams are made of; `InputError` where some are no UTF-8."""
RowsAt = Callable[[str, Sequence[int], Sequence[str]], Mapping[int, pa.Table]]
"""Dataset, numbers of rows, and columns, to these rows."""


@dataclass(frozen=True, slots=True)
class SpanMatches:
    """Matches of a rule among the test rows.

    Args:
        rows: shape (m,), flagged.
        spans: What it was judged by.
    """

    rows: Mask
    spans: Spans


def judge(index: NgramIndex, rule: Ngram, train_set: int | None = None) -> SpanMatches:
    """Apply the rule.

    Args:
        index: After all training rows were seen.
        rule: Which rule, and its settings.
        train_set: Look at this training set alone; None: at all of them together.
    """
    found = spans(index, index.matched(rule.min_count, rule.max_rows_used, train_set), rule.skip)
    if rule.rule == "any_hit":
        return SpanMatches(found.length > 0, found)
    share = found.share if rule.rule == "coverage" else found.longest
    # A hair's width, so that 7 of 10 are 70 %.
    return SpanMatches((found.length > 0) & (share >= rule.share_used - 1e-12), found)


class SpanSearch:
    """Looks for n-grams of one text column of the test set in training texts that stream past.

    Args:
        test: The column's texts.
        asked: The test side.
        column: The text column.
        rule: Which rule, and its settings.
    """

    def __init__(self, test: Tokenised, asked: TestSide, column: str, rule: Ngram) -> None:
        self._test, self._asked, self._column, self._rule = test, asked, column, rule
        self._index = NgramIndex(test.tokens, rule.size)
        self._sets: list[str] = []
        # (training set, row): what it is called, and its text around the first n-gram that was found in it.
        self._excerpts: dict[tuple[int, int], tuple[str, str]] = {}
        self._result: SpanMatches | None = None

    def begin(self, train_set: str) -> None:
        """The texts that follow are of this training set."""
        self._sets.append(train_set)

    def see(self, train: Tokenised, first_row: int) -> None:
        """Look at some training texts.

        Args:
            train: n texts.
            first_row: Number of the first of them in its training set.
        """
        self._index.see(train.tokens, len(self._sets) - 1, first_row)

    @property
    def now(self) -> NgramCounts:
        """Counts of the training set that goes by."""
        return self._index.begin(len(self._sets) - 1)

    def take(self, counts: NgramCounts) -> None:
        """Take over counts of the training set that goes by."""
        self._index.sets[len(self._sets) - 1] = counts

    def fresh(self) -> SpanSearch:
        """The same search, without any training text."""
        other = copy(self)
        other._index, other._sets, other._excerpts, other._result = copy(self._index), [], {}, None
        other._index.sets = {}
        return other

    def look_up(self, split: Split, rows_at: RowsAt, shown: Mask | None = None) -> None:
        """Read the training rows that `pairs` shows once more.

        Args:
            split: As the texts were split.
            rows_at: Rows of a training set, by their numbers.
            shown: As of `pairs`.

        Raises:
            InputError: A training set isn't what it was.
        """
        places = [place for _, place in self._chosen(shown)]
        columns = dict.fromkeys((self._column, *((self._asked.key,) if self._asked.key else ())))
        for number in sorted({one for one, _ in places}):
            name = self._sets[number]
            rows = rows_at(name, [row for one, row in places if one == number], tuple(columns))
            for row, one in rows.items():
                train = split(one.column(self._column), row)
                at, ids = self._index.held(train.tokens)
                at = at[self._index.where(number, row, ids)]
                if not len(at):
                    raise InputError(
                        f"row {row:,} of {name} has changed since it was read first: rows change while they are read"
                    )
                called = str(value_of(one.column(self._asked.key)[0])) if self._asked.key else f"row {row:,}"
                self._excerpts[number, row] = (called, train.around(int(at[0]), LETTERS_BEFORE))

    def _chosen(self, shown: Mask | None) -> list[tuple[int, tuple[int, int]]]:
        """Flagged rows to be shown, each with the training set and the row that it was found in."""
        judged = self._judged()
        rows = np.flatnonzero(judged.rows)
        if shown is not None:
            rows = rows[np.argsort(shown[rows], kind="stable")]
        places = list(zip(*(one[rows].tolist() for one in self._first_seen(judged)), strict=True))
        near = set(sorted(set(places))[:MOST_EXCERPTS])
        found = ((row, place) for row, place in zip(rows.tolist(), places, strict=True) if place in near)
        return list(islice(found, PAIRS_SHOWN))

    def _judged(self) -> SpanMatches:
        if self._result is None:
            self._result = judge(self._index, self._rule)
        return self._result

    def level(self) -> Level:
        """Matches so far."""
        judged = self._judged()
        first_set, first_row = self._first_seen(judged)
        train_row: dict[str, np.ndarray] = {}
        closeness, in_set = {}, {}
        for number, name in enumerate(self._sets):
            alone = judged if len(self._sets) == 1 else judge(self._index, self._rule, number)
            in_set[name] = alone.rows
            here = judged.rows & (first_set == number)
            train_row[name] = np.where(here, first_row, -1)
            closeness[name] = np.where(here, self._closeness(judged.spans), np.nan)
        return Level(
            kind=KIND,
            metric="ngram_overlap",
            title=TITLE,
            rows=judged.rows,
            in_set=in_set,
            train_row=train_row,
            closeness=closeness,
            method=self._rule.method,
            what=self._texts(judged),
            judged=self._index.texts_with(),
        )

    def too_often(self) -> int:
        """Test rows that would be flagged, were it not for n-grams that occur in too many training rows."""
        if self._rule.max_rows_used is None:
            return 0
        every = spans(self._index, self._index.matched(self._rule.min_count, None), self._rule.skip)
        return int(((every.length > 0) & ~self._judged().rows).sum())

    def too_short(self) -> Mask:
        """Test rows with fewer words than an n-gram has; shape (m,)."""
        return ~self._index.texts_with()

    def pairs(self, shown: Mask | None = None) -> tuple[RowPair, ...]:
        """Some of the rows that were flagged, with the text that they share; after `look_up`.

        Args:
            shown: shape (m,), rows that another level shows: they come last.
        """
        judged = self._judged()
        return tuple(self._pair(row, at, judged) for row, at in self._chosen(shown) if at in self._excerpts)

    def _pair(self, row: int, place: tuple[int, int], judged: SpanMatches) -> RowPair:
        called, excerpt = self._excerpts[place]
        name = self._sets[place[0]]
        length, words = int(judged.spans.length[row]), int(judged.spans.tokens[row])
        found = f"{length:,} of {words:,} {self._rule.unit}"
        shown = self._span(row, judged)
        alone = replace(self._asked, columns=(self._column,))
        test = example(alone, alone.table, row, found, text=shown)
        train = test.model_copy(update={"title": f"{name}, {called}", "text": excerpt})
        return RowPair(KIND, row, name, place[1], test, train)

    def _first_seen(self, judged: SpanMatches) -> tuple[np.ndarray, np.ndarray]:
        """Training set and row where the first n-gram of each row's longest span was seen first; -1: none."""
        rows = np.flatnonzero(judged.spans.begin >= 0)
        at = np.searchsorted(self._index.starts, judged.spans.begin[rows])
        first_set = np.full(len(judged.rows), -1, np.int64)
        first_row = np.full(len(judged.rows), -1, np.int64)
        first_set[rows], first_row[rows] = self._index.first_seen(at)
        return first_set, first_row

    def _closeness(self, found: Spans) -> np.ndarray:
        return found.share if self._rule.rule == "coverage" else found.longest

    def _span(self, row: int, judged: SpanMatches) -> str:
        first = int(judged.spans.begin[row])
        text = self._test.cut(first, first + int(judged.spans.length[row]) - 1)
        return text if len(text) <= LETTERS_OF_SPAN else text[:LETTERS_OF_SPAN] + " ..."

    def _texts(self, judged: SpanMatches) -> np.ndarray:
        texts = np.full(len(judged.rows), None, object)
        for row in np.flatnonzero(judged.rows).tolist():
            texts[row] = self._span(row, judged)
        return texts


def notes_of(search: SpanSearch, usable: Mask, test: str, rule: Ngram) -> list[str]:
    """Sentences about rows that the rule can say nothing of."""
    short = int((search.too_short() & usable).sum())
    if not short:
        return []
    fewer = f"{verb(short, 'has', 'have')} fewer than {rule.size} {rule.unit}"
    return [f"{plural(short, 'row')} of {test} {fewer}: no span of theirs can be looked for."]


def dropped_of(search: SpanSearch, test: str, rule: Ngram) -> list[str]:
    """Sentences about rows that count as clean by the rule, and may not be."""
    dropped = search.too_often()
    if not dropped:
        return []
    return [
        f"{plural(dropped, 'row')} of {test} {verb(dropped, 'shares', 'share')} only spans that occur in more than "
        f"{rule.max_rows_used} training rows: "
        "`any_hit` drops these as common phrases, but text that was copied often looks the same (`max_rows:`)."
    ]

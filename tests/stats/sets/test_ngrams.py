from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats.sets.ngrams import NgramIndex, spans
from evalspec.stats.sets.tokens import Tokens, tokens

Texts = list[list[int]]


def split(texts: Texts) -> Tokens:
    parts = [" ".join(map(str, text)).encode() for text in texts]
    return tokens(b"".join(parts), np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64))


def grams(text: list[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(text[at : at + size]) for at in range(len(text) - size + 1)]


def drawn(rng: np.random.Generator, count: int, longest: int) -> Texts:
    return [rng.integers(0, 4, rng.integers(0, longest)).tolist() for _ in range(count)]


def naive(
    test: Texts, train: Texts, size: int, least: int, most: int | None, skip: int
) -> list[tuple[float, int, int]]:
    """Share of n-grams seen, first token and length of the longest span, of each text; -1 and 0: none."""
    held = [set(grams(text, size)) for text in train]
    found = []
    for text in test:
        counts = [sum(gram in one for one in held) for gram in grams(text, size)]
        seen = [least <= count and (most is None or count <= most) for count in counts]
        covered = [any(seen[max(at - size + 1, 0) : at + 1]) for at in range(len(text))]
        best, begin, at = 0, -1, 0
        while at < len(text):
            end = at
            while end < len(text) and covered[at]:
                ahead = next((next_ for next_ in range(end, min(end + skip + 1, len(text))) if covered[next_]), None)
                if ahead is None:
                    break
                end = ahead + 1
            if end - at > best:
                best, begin = end - at, at
            at = max(end, at + 1)
        found.append((sum(seen) / max(len(seen), 1), begin, best))
    return found


@pytest.mark.parametrize(("size", "least", "most", "skip"), [
    (3, 1, None, 0), (2, 1, None, 1), (4, 2, None, 0), (3, 1, 3, 0), (5, 1, None, 2), (3, 2, 4, 3),
])  # fmt: skip
def test_against_pythons_loops(size: int, least: int, most: int | None, skip: int) -> None:
    rng = np.random.default_rng(size)
    test, train = drawn(rng, 60, 25), drawn(rng, 25, 14)
    index = NgramIndex(split(test), size)
    for start in range(0, len(train), 7):
        index.see(split(train[start : start + 7]), 0, start)
    found = spans(index, index.matched(least, most), skip)
    expected = naive(test, train, size, least, most, skip)
    assert found.share.tolist() == pytest.approx([share for share, _, _ in expected])
    assert found.length.tolist() == [length for _, _, length in expected]
    assert found.begin[found.length > 0].tolist() == [
        sum(map(len, test[:row])) + begin for row, (_, begin, length) in enumerate(expected) if length
    ]
    assert any(length for _, _, length in expected)
    assert index.texts_with().tolist() == [len(text) >= size for text in test]
    assert (found.longest <= 1).all()


def test_sets_are_told_apart_and_add_up() -> None:
    test = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]
    index = NgramIndex(split(test), 3)
    some = split([[0], [1, 2, 3, 0]])
    index.see(some, 0, 100)
    at, ids = index.held(some)
    assert at.tolist() == [1] and index.where(0, 101, ids).tolist() == [True]
    again = split([[1, 2, 3], [4, 5, 6], [1, 2, 3]])
    index.see(again, 1, 0)
    at, ids = index.held(again)
    # What was seen in an earlier set was not seen first in this one.
    assert at.tolist() == [0, 3, 6] and index.where(1, 1, ids).tolist() == [False, True, False]
    assert index.where(1, 0, ids).tolist() == [False] * 3
    assert index.matched(1, None).sum() == 2
    assert index.matched(1, None, 0).sum() == 1
    assert index.matched(1, None, 1).sum() == 2
    assert index.matched(1, None, 2).sum() == 0
    assert index.matched(3, None).sum() == 1
    sets, rows = index.first_seen(np.arange(len(index.starts)))
    assert sets.tolist() == [0, -1, -1, 1, -1, -1, -1, -1]
    assert rows[sets >= 0].tolist() == [101, 1]


def test_n_grams_end_with_their_text() -> None:
    index = NgramIndex(split([[1, 2], [3, 4]]), 2)
    index.see(split([[2, 3], [9, 1], [2, 9]]), 0, 0)
    assert not index.matched(1, None).any()


def test_nothing_to_look_for() -> None:
    for test in ([], [[]], [[1]]):
        index = NgramIndex(split(test), 2)
        index.see(split([[1, 2, 3]]), 0, 0)
        assert len(index.held(split([[1, 2, 3]]))[0]) == 0
        found = spans(index, index.matched(1, None))
        assert found.length.tolist() == [0] * len(test)

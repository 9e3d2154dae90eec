from __future__ import annotations

import re

import numpy as np
import pytest

from evalspec.stats.sets.tokens import Tokens, Unit, tokens, whole_windows, windows


def split(texts: list[str], unit: Unit = "words") -> Tokens:
    parts = [text.encode() for text in texts]
    return tokens(
        b"".join(parts), np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64), unit
    )


def cut(texts: list[str], found: Tokens) -> list[list[str]]:
    data = "".join(texts).encode()
    words = [data[a:b].decode() for a, b in zip(found.begins, found.ends, strict=True)]
    return [words[a:b] for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)]


TEXTS = [
    "One two,three", "", "...", "four", "five! six", " ", "caf\u00e9 \u4e1c 7", "A-b_c'd",
    f"{'x' * 9} {'y' * 64} {'z' * 65} {'w' * 200}", "\n",
]  # fmt: skip


def test_words_against_a_regular_expression() -> None:
    expected = [re.findall(r"[a-zA-Z0-9\u0080-\uffff]+", text) for text in TEXTS]
    assert cut(TEXTS, split(TEXTS)) == expected


def test_characters() -> None:
    expected = [re.findall(r"[a-zA-Z0-9\u0080-\uffff]", text) for text in TEXTS]
    assert cut(TEXTS, split(TEXTS, "characters")) == expected


def test_nothing_at_all() -> None:
    for texts in ([], [""], ["", ""]):
        found = split(texts)
        assert len(found) == len(texts)
        assert found.counts.tolist() == [0] * len(texts)
        assert len(windows(found.hashes, 2)) == 0


def test_equal_words_and_no_others_have_equal_hashes() -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abc"), size)) for size in rng.integers(1, 140, 3000)]
    words += [word[:-1] + "d" for word in words] + [f"{a}{b}" for a in "ab" * 3 for b in range(300)]
    found = split([" ".join(words).swapcase()])
    by_hash: dict[int, set[str]] = {}
    for word, value in zip(words, found.hashes.tolist(), strict=True):
        by_hash.setdefault(value, set()).add(word)
    assert len(by_hash) == len(set(words))
    assert all(len(one) == 1 for one in by_hash.values())


def test_a_word_is_the_same_wherever_it_stands() -> None:
    long = "pneumonoultramicroscopicsilicovolcanoconiosis" * 4
    found = split([f"{long} a", f"b {long}", "c", f"{long}"])
    assert found.hashes[0] == found.hashes[3] == found.hashes[5]
    assert len(set(found.hashes.tolist())) == 4


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 13, 16, 50])
def test_windows_are_equal_where_their_words_are(size: int) -> None:
    rng = np.random.default_rng(size)
    words = rng.integers(0, 2, 400)
    found = windows(split([" ".join(map(str, words))]).hashes, size)
    assert len(found) == 401 - size
    python = [tuple(words[at : at + size]) for at in range(401 - size)]
    pairs = dict(zip(python, found.tolist(), strict=True))
    assert len(set(pairs.values())) == len(pairs)
    assert [pairs[one] for one in python] == found.tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_windows_within_one_text(size: int) -> None:
    counts = [3, 0, 1, 8, 0, 0, 2, 12, 1]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    total = max(sum(counts) - size + 1, 0)
    owner = np.repeat(np.arange(len(counts)), counts)
    expected = [owner[at] == owner[at + size - 1] for at in range(total)]
    assert whole_windows(offsets, size, total).tolist() == expected


def test_sums_and_some_of_the_texts() -> None:
    found = split(["a b c", "c a b", "a b", "", "a b c"])
    sums = found.sums().tolist()
    assert sums[0] == sums[1] == sums[4] != sums[2]
    some = found.take(np.array([4, 2, 3]))
    assert some.counts.tolist() == [3, 2, 0]
    assert some.sums().tolist() == [sums[4], sums[2], sums[3]]
    assert found.text_of(np.array([0, 3, 6, 8])).tolist() == [0, 1, 2, 4]

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evalspec.sources import _text
from evalspec.sources._text import normalise, shingle_sets, words
from evalspec.stats.minhash import jaccard


def plain(*texts: str | None) -> list[str | None]:
    return list(normalise(pa.chunked_array([pa.array(texts, pa.string())])).to_pylist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello  World", "hello world"),
        ("\t a\n\nb\r\n ", "a b"),
        ("a\u00a0b\u2003c\u2028d\u3000e\x85f\x1fg", "a b c d e f g"),
        ("STRASSE Stra\u00dfe", "strasse strasse"),
        ("\ufb01n\u0065\u0301", "fin\u00e9"),
        ("\uff21\uff22\uff11", "ab1"),
        ("zero\u200bwidth\ufeff soft\u00adhyphen", "zerowidth softhyphen"),
        ("\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "\u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c3"),
        ("", ""),
        (None, None),
    ],
)
def test_normalised(text: str | None, expected: str | None) -> None:
    assert plain("before", text, "after") == ["before", expected, "after"]


def test_normalised_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_text, "TEXTS_AT_A_TIME", 3)
    assert plain(*["A b", None] * 5) == ["a b", None] * 5
    assert plain() == []


def test_words() -> None:
    texts = pa.chunked_array([["don't stop, now!", "", "...", None, "a-b c", "\u6771\u4eac go", "caf\u00e9 1.5"]])
    assert words(texts).to_pylist() == [
        ["don", "t", "stop", "now"],
        [],
        [],
        [],
        ["a", "b", "c"],
        ["\u6771", "\u4eac", "go"],
        ["caf\u00e9", "1", "5"],
    ]


def test_shingles_against_pythons_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_text, "TEXTS_AT_A_TIME", 2)
    texts = ["a b c d", "a b", "b a", "a", "", "a b a b a b", "c d a b", "x a b y"]
    for size in (1, 2, 3):
        sets = shingle_sets(pa.chunked_array([texts]), size)
        python = []
        for text in texts:
            split = text.split()
            runs = [tuple(split[i : i + size]) for i in range(max(len(split) - size + 1, min(len(split), 1)))]
            python.append(set(runs))
        assert sets.sizes.tolist() == [len(one) for one in python]
        for i, one in enumerate(python):
            for j, other in enumerate(python):
                expected = len(one & other) / len(one | other) if one | other else 0.0
                assert jaccard(sets, sets, np.array([i]), np.array([j]))[0] == pytest.approx(expected)

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evalspec.errors import InputError
from evalspec.sources.reading import text as reading_text
from evalspec.sources.reading.text import normalise, spaced, token_shingles, tokenised, words
from evalspec.stats.sets.packed_sets import jaccard
from evalspec.stats.sets.tokens import Tokens, Unit, tokens


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
    monkeypatch.setattr(reading_text, "TEXTS_AT_A_TIME", 3)
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


def test_shingles_against_pythons_sets() -> None:
    texts = ["a b c d", "a b", "b a", "a", "", "a b a b a b", "c d a b", "x a b y"]
    for size in (1, 2, 3):
        sets = token_shingles(tokenised(pa.array(texts)).tokens, size)
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


ODD = [
    *"aZ9 .=<-\n", "\u0338", "\u0301", "\u00e9", "e\u0301", "\u201c", "\u00ad", "\u200b", "\ufb01", "\u00bd", "\u00df",
    "\u03a3", "\u03c2", "\u4e1c", "\u0e01", "\uac00", "\u1100\u1161", "\u0130", "\U0001f600", "\u00b4", "\u2126",
    "\x1f", "\u3000", "\u0660",
]  # fmt: skip


def plainly(texts: pa.Array, unit: Unit) -> Tokens:
    """All of them normalised first."""
    parts = [text.encode() for text in spaced(normalise(pa.chunked_array([texts]))).to_pylist()]
    return tokens(b"".join(parts), np.concatenate(([0], np.cumsum([len(part) for part in parts]))), unit)


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_tokens_are_those_of_normalised_texts(unit: Unit) -> None:
    rng = np.random.default_rng(3)
    texts = ["".join(rng.choice(ODD, size)) for size in rng.integers(0, 40, 800)]
    texts += ["plain words only", "", "\u0338 begins", "x=\u0338y"]
    # Without the mark that changes what stands before it, words are normalised one by one.
    usual = [text for text in texts if "\u0338" not in text]
    for some in ([*texts, None], [*usual, None], usual[-3:], ["only \u201c\u201d quotes"], ["\u201c"]):
        array = pa.array(some, pa.string())
        found, expected = tokenised(array, unit).tokens, plainly(array, unit)
        assert found.offsets.tolist() == expected.offsets.tolist()
        assert found.hashes.tolist() == expected.hashes.tolist()


def test_tokens_know_where_they_stand() -> None:
    texts = pa.array(["It\u2019s the \u201cCAF\u00c9\u201d here", "a b", "\u4eac\u90fd x"])
    found = tokenised(texts)
    assert found.tokens.counts.tolist() == [5, 2, 3]
    assert found.cut(2, 4) == "the \u201cCAF\u00c9\u201d here"
    assert found.cut(5, 6) == "a b"
    assert found.around(6, 100) == "a b"
    assert found.around(2, 3).startswith("... ")


def test_bytes_that_are_no_letters_are_refused() -> None:
    for content in (b"\xff", b"ab \xc3", b"caf\xe9 here"):
        offsets = pa.py_buffer(np.array([0, len(content)], np.int32))
        broken = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(content)])
        with pytest.raises(InputError, match="not UTF-8"):
            tokenised(broken)
        with pytest.raises(InputError, match="not UTF-8"):
            normalise(pa.chunked_array([broken]))

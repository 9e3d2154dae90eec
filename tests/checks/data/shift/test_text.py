"""Texts by their words and characters: what moved is named, equal texts stay equal, odd ones break nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.shift import text as shift_text
from evalspec.checks.data.shift.text import compare_texts, texts_table

WORDS = np.array(["order", "parcel", "late", "refund", "thanks", "Güte"])
EVEN, ANGRY = (0.3, 0.3, 0.1, 0.1, 0.15, 0.05), (0.1, 0.2, 0.35, 0.25, 0.05, 0.05)


def notes(n: int, seed: int, shares: tuple[float, ...] = EVEN, end: str = ".") -> pa.Array:
    rng = np.random.default_rng(seed)
    return pa.array([" ".join(rng.choice(WORDS, 9, p=shares)) + end for _ in range(n)])


def compare(first: pa.Array, second: pa.Array, ids: tuple[object, object] = (None, None)) -> shift_text.TextShift:
    return compare_texts("note", first, second, ids, np.random.default_rng(0))  # type: ignore[arg-type]


def test_equal_texts_stay_and_others_are_found() -> None:
    same = compare(notes(800, 1), notes(800, 2))
    assert list(same.distances) == ["note:characters", "note:words"]
    for one in same.distances.values():
        assert one.p_value(0.1, "upper") < 0.01  # type: ignore[operator]
    other = compare(notes(800, 1), notes(800, 3, ANGRY))
    words = other.distances["note:words"]
    # late 0.25 and refund 0.15 more.
    assert words.value == pytest.approx(0.4, abs=0.03)
    assert words.p_value(0.1, "lower") < 1e-4  # type: ignore[operator]
    assert [word for word, _ in other.moved[:2]] == ["late", "order"]
    assert other.moved[0][1] == pytest.approx(0.25, abs=0.03)
    table = texts_table([other], "test", "traffic")
    assert table.rows[0][0] == "note" and "late +2" in str(table.rows[0][5])


def test_characters_move_where_words_do_not() -> None:
    """Another mark at the end and capital letters: words are read in small letters without marks."""
    shouted = pa.array([text.upper() for text in notes(300, 2, end="!").to_pylist()])
    found = compare(notes(300, 1), shouted).distances
    assert found["note:characters"].value > 0.7  # type: ignore[operator]
    assert found["note:words"].value < 0.05  # type: ignore[operator]


def test_words_that_the_reference_lacks() -> None:
    first = pa.array(["one two three four"] * 100)
    second = pa.array(["one two five six"] * 50 + ["one two three four"] * 50)
    found = compare(first, second)
    assert found.unseen == pytest.approx(0.25) and found.by_chance == 0.0


def test_copies_need_their_clusters() -> None:
    first, second = notes(300, 1), notes(60, 2)
    copies = np.tile(np.arange(60), 5)
    many = second.take(pa.array(copies))
    naive, wide = (compare(first, many, (None, ids)).distances["note:words"] for ids in (None, copies))
    plain = compare(first, second).distances["note:words"]
    assert wide.bound(0.95, "upper") == pytest.approx(plain.bound(0.95, "upper"), abs=0.02)
    assert naive.bound(0.95, "upper") < wide.bound(0.95, "upper") - 0.02  # type: ignore[operator]


def test_odd_texts() -> None:
    odd = pa.array(["", " ", "...", None, "\x00", "日本語のテキスト", "a" * 100_000] * 20)
    found = compare(odd, odd)
    assert found.read == (120, 120)
    assert found.distances["note:words"].value == 0.0 and found.distances["note:characters"].value == 0.0
    empty = compare(pa.array(["", None]), notes(100, 1))
    assert empty.distances["note:words"].value is None and empty.unseen == 1.0
    none = compare(pa.nulls(3, pa.string()), pa.nulls(2, pa.string()))
    assert none.unseen is None and none.distances["note:characters"].value is None


def test_many_texts_are_drawn_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift_text, "MOST_TEXTS", 100)
    found = compare(notes(300, 1), notes(80, 2))
    assert found.read == (100, 80) and found.distances["note:words"].n == 180

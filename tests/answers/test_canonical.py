"""Answers inside texts: numbers by value, letters of any case."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.answers.canonical import canonical
from evalspec.language.predictions import AnswerKind


@pytest.mark.parametrize(
    ("piece", "number"),
    [
        ("1200", "1200"), ("1,200", "1200"), ("1200.0", "1200"), ("$1,200.00", "1200"), ("1.2e3", "1200"),
        (" **18** apples", "18"), ("18.", "18"), ("18, since", "18"), ("(18)", "18"), ("= 18", "18"), ("18 %", "18"),
        ("-3", "-3"), ("\u22123", "-3"), ("-$3", "-3"), ("$-3", "-3"), ("+3", "3"), ("-0", "0"), ("007", "7"),
        (".5", "0.5"), ("0.50", "0.5"), ("12,345,678.9", "12345678.9"), ("5E-3", "0.005"), ("18\nQuestion: 7", "18"),
        ("1/2", None), ("5:30", None), ("3-4", None), ("1,20", None), ("10k", None), ("12.5.3", None), ("2e5x", None),
        ("18 000", None), ("10^5", None), ("x = 5", None), ("the 5", None), ("", None), ("--5", None),
        ("1e9999", None), ("2\u00bd", None),
    ],
)  # fmt: skip
def test_numbers(piece: str, number: str | None) -> None:
    assert canonical(piece, "number") == number


@pytest.mark.parametrize(
    ("piece", "letter"),
    [
        ("B", "B"), ("b", "B"), (" (B) because", "B"), ("**C**", "C"), ("D.", "D"), ("\u0431)", "\u0411"),
        ("Because", None), ("B1", None), ("I'm", None), ("1", None), ("", None),
    ],
)  # fmt: skip
def test_letters(piece: str, letter: str | None) -> None:
    assert canonical(piece, "letter") == letter


@pytest.mark.parametrize(
    ("reference", "kind", "found"),
    [
        ("18", "number", "18"), ("$1,200.", "number", "1200"), ("18 dollars", "number", None), ("(b)", "letter", "B"),
        ("B because", "letter", None), (" a text ", "text", "a text"), (" ", "text", None),
    ],
)  # fmt: skip
def test_references_are_the_answer_alone(reference: str, kind: AnswerKind, found: str | None) -> None:
    assert canonical(reference, kind, whole=True) == found


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**15), max_value=10**15))
def test_equal_values_are_equal_texts(value: Decimal) -> None:
    plain, commas, short = f"{value:f}", f"{value:,f}", f"{value:f}".rstrip("0").rstrip(".")
    assert canonical(plain, "number") == canonical(commas, "number") == canonical(short, "number")
    found = canonical(plain, "number")
    assert found is not None and Decimal(found) == value and canonical(found, "number") == found

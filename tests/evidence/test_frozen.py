"""Cells of a record: what counts as a number."""

from __future__ import annotations

import math

import pytest

from evalspec.evidence.frozen import is_number


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, True), (-3, True), (0.5, True), (math.inf, True), (True, False), (False, False), (None, False),
        ("1", False), ("", False), ([1], False), (1j, False),
    ],
)  # fmt: skip
def test_true_and_false_are_no_numbers(value: object, expected: bool) -> None:
    assert is_number(value) is expected

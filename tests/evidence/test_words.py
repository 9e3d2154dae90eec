from __future__ import annotations

import pytest

from evalspec.evidence.words import first_of, plural, verb


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 rows have"), (1, "1 row has"), (2, "2 rows have"), (1200, "1,200 rows have")]
)
def test_one_is_no_plural(count: int, text: str) -> None:
    assert f"{plural(count, 'row')} {verb(count, 'has', 'have')}" == text


def test_a_plural_of_its_own() -> None:
    assert [plural(count, "category", "categories") for count in (1, 3)] == ["1 category", "3 categories"]


@pytest.mark.parametrize(
    ("names", "total", "text"),
    [
        ([], None, ""), (["a"], None, "a"), (["a", "b"], None, "a and b"), (["a", "b", "c"], None, "a, b and 1 more"),
        (["a", "b"], 1500, "a, b and 1,498 more"), (["a"], 2, "a and 1 more"),
    ],
)  # fmt: skip
def test_the_first_are_named_and_the_others_counted(names: list[str], total: int | None, text: str) -> None:
    assert first_of(names, total) == text

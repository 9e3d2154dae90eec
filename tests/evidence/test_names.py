"""Names of requirements, methods and notes are taken apart in one place."""

from __future__ import annotations

import pytest

from evalspec.evidence.methods import IntervalFamily, family_of, why_no_bound, why_no_value
from evalspec.evidence.names import asked_of, metric_of, owner_of, part_of, quantity_of
from evalspec.evidence.notes import name_in, note_on, text_in


@pytest.mark.parametrize(
    ("name", "against", "quantity", "metric", "part"),
    [
        ("quality/accuracy", None, "accuracy", "accuracy", ""),
        ("quality/recall(class_1)", None, "recall(class_1)", "recall", "class_1"),
        ("slices/recall(a (b) & c=d/e)", None, "recall(a (b) & c=d/e)", "recall", "a (b) & c=d/e"),
        ("quality/accuracy vs before", "before", "accuracy", "accuracy", ""),
        ("slices/accuracy(day vs night) vs before", "before", "accuracy(day vs night)", "accuracy", "day vs night"),
        ("slices/accuracy(day vs night)", None, "accuracy(day vs night)", "accuracy", "day vs night"),
    ],
)
def test_a_requirement_by_its_name(name: str, against: str | None, quantity: str, metric: str, part: str) -> None:
    assert quantity_of(name, against) == quantity
    assert (metric_of(quantity), part_of(quantity)) == (metric, part)
    assert f"{owner_of(name)}/{asked_of(name)}" == name


@pytest.mark.parametrize(
    ("method", "family", "why"),
    [
        ("Clopper-Pearson over 3 clusters", IntervalFamily.CLOPPER_PEARSON, ""),
        ("binomial on order statistics", IntervalFamily.BINOMIAL, ""),
        ("exact binomial on where the rows lie", IntervalFamily.OTHER, ""),
        ("BCa; no bound: 3 rows", IntervalFamily.OTHER, "3 rows"),
        ("", IntervalFamily.OTHER, ""),
    ],
)
def test_a_method(method: str, family: IntervalFamily, why: str) -> None:
    assert (family_of(method), why_no_bound(method)) == (family, why)
    assert family.counted == (family is not IntervalFamily.OTHER)


def test_why_there_is_no_value() -> None:
    assert why_no_value("no value: a class is empty") == "a class is empty"
    assert why_no_value("BCa; no bound: 3 rows") == "3 rows"
    assert why_no_value("BCa") == ""


def test_a_note_on_a_name() -> None:
    note = note_on("night", "no row: of any camera")
    assert (name_in(note), text_in(note)) == ("night", "no row: of any camera")
    assert text_in("all is well") == "all is well"

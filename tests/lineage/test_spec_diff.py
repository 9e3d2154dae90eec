"""What a run asks otherwise than the one before it."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.policy import Policy, Waiver
from evalspec.evidence.profile import Without
from evalspec.evidence.record import AskedOtherwise, Record
from evalspec.lineage.spec_diff import SHOWN, asked_otherwise, settings_otherwise, tightened, weaker, words
from tests.verdict.test_decide import a_check, a_record, a_test


def differences(before: Record, after: Record) -> list[tuple[str, str]]:
    return [(one.of, one.direction) for one in asked_otherwise(before, after, "run-a")]


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        ({}, {}, None),
        ({}, {"sentence": "accuracy >= 0.95"}, None),
        ({"threshold": 0.97}, {"threshold": 0.95}, "loosened"),
        ({"threshold": 0.95}, {"threshold": 0.97}, "tightened"),
        ({"op": "<=", "threshold": 5.0}, {"op": "<=", "threshold": 6.0}, "loosened"),
        ({"op": "<=", "threshold": 5.0}, {"op": "<=", "threshold": 4.0}, "tightened"),
        ({"op": ">"}, {"op": ">="}, "loosened"),
        ({"op": "<="}, {"op": "<"}, "tightened"),
        ({"op": "=="}, {"op": "==", "threshold": 1.0}, "changed"),
        ({"op": "=="}, {"op": "<="}, "changed"),
        ({"unit": "pp"}, {"unit": "x"}, "changed"),
        ({}, {"severity": "warn"}, "loosened"),
        ({"severity": "warn"}, {}, "tightened"),
        ({}, {"severity": "warn", "threshold": 0.97}, "changed"),
        ({}, {"severity": "warn", "threshold": 0.9}, "loosened"),
    ],
)
def test_the_operator_tells_whether_less_is_asked(
    before: dict[str, Any], after: dict[str, Any], way: str | None
) -> None:
    found = differences(a_record(a_check(a_test(**before))), a_record(a_check(a_test(**after))))
    assert found == ([] if way is None else [("quality/accuracy", way)])


def test_what_is_dropped_is_loosened_and_what_is_new_is_tightened() -> None:
    both = a_record(a_check(a_test(), a_test(metric="recall")), a_check(a_test("labels"), id="labels"))
    one = a_record(a_check(a_test()))
    assert differences(both, one) == [("quality/recall", "loosened"), ("labels", "loosened")]
    assert differences(one, both) == [("quality/recall", "tightened"), ("labels", "tightened")]
    # A check that asked nothing is no loss.
    assert differences(a_record(a_check(a_test()), a_check(id="seen")), one) == []


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        ({"confidence": 0.95}, {"confidence": 0.9}, ("policy.confidence", "loosened")),
        ({"confidence": 0.95}, {"confidence": 0.99}, ("policy.confidence", "tightened")),
        ({}, {"inconclusive": "allow"}, ("policy.inconclusive", "loosened")),
        ({"inconclusive": "allow"}, {}, ("policy.inconclusive", "tightened")),
    ],
)
def test_the_policy(before: dict[str, Any], after: dict[str, Any], way: tuple[str, str]) -> None:
    old, new = (a_record(a_check(a_test()), policy=Policy(**one)) for one in (before, after))
    assert differences(old, new) == [way]


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        (None, "2026-12-31", "loosened"),
        ("2026-12-31", None, "tightened"),
        ("2026-12-31", "2027-06-30", "loosened"),
        ("2026-12-31", "2026-11-30", "tightened"),
        ("2026-12-31", "2026-12-31", None),
    ],
)
def test_waivers_and_what_is_set_aside(before: str | None, after: str | None, way: str | None) -> None:
    def record(day: str | None) -> Record:
        waivers = () if day is None else (Waiver(of="quality/accuracy", why="w", owner="o", expires=day),)
        without = () if day is None else (Without(of="energy", why="w", owner="o", expires=day),)
        return a_record(a_check(a_test()), waivers=waivers, without=without)

    wanted = [] if way is None else [("waiver of quality/accuracy", way), ("without energy", way)]
    assert differences(record(before), record(after)) == wanted


def test_without_an_end_is_more_than_any_day() -> None:
    day, ever = (
        a_record(a_check(a_test()), without=(Without(of="energy", why="w", owner="o", expires=end),))
        for end in ("2026-12-31", None)
    )
    assert differences(day, ever) == [("without energy", "loosened")]
    assert differences(ever, day) == [("without energy", "tightened")]


def test_settings_that_no_record_holds_are_read_from_the_specs() -> None:
    before = {
        "slices": [{"name": "dark", "where": "lux < 100"}, {"name": "old", "where": "age > 60"}],
        "datasets": {"test": {"kind": "csv", "path": "a.csv", "where": "x > 1"}},
        "data": [{"check": "shift", "tolerance": 0.1, "require": ["drifted_columns <= 10 %"], "why": "a"}],
        "model": [{"check": "quality", "id": "steady", "dataset": "test"}],
    }
    after = {
        "slices": [{"name": "dark", "where": "lux < 50"}],
        "datasets": {"test": {"kind": "csv", "path": "b.csv"}},
        "data": [{"check": "shift", "tolerance": 0.2, "require": ["drifted_columns <= 20 %"], "why": "b"}],
        "model": [{"check": "quality", "id": "steady", "dataset": "easy"}],
    }
    found = {one.of: (one.before, one.after, one.direction) for one in settings_otherwise(before, after, "run-a")}
    assert found == {
        "slice dark": ("lux < 100", "lux < 50", "changed"),
        "dataset test.where": ("x > 1", "", "changed"),
        "shift.tolerance": ("0.1", "0.2", "changed"),
        "steady.dataset": ("test", "easy", "changed"),
    }
    assert settings_otherwise(before, before, "run-a") == ()
    assert settings_otherwise(None, after, "run-a") == settings_otherwise(before, "text", "run-a") == ()


def test_sentences() -> None:
    one = AskedOtherwise(run="a", of="quality/accuracy", before="`x >= 2`", after="`x >= 1`", direction="loosened")
    assert words(one) == "loosened: quality/accuracy is `x >= 1`, was `x >= 2` in run a"
    assert words(one, "3").endswith("in run 3")
    gone, new = one.model_copy(update={"after": ""}), one.model_copy(update={"before": "", "direction": "tightened"})
    assert words(gone) == "loosened: quality/accuracy is no longer there, was `x >= 2` in run a"
    assert words(new) == "tightened: quality/accuracy is new (`x >= 1`), was not in run a"
    other = one.model_copy(update={"of": "shift.tolerance", "direction": "changed"})
    assert weaker([other, new, one]) == [words(one), words(other)]
    assert tightened([other, new, one]) == "quality/accuracy, since run a" and tightened([one]) == ""
    many = weaker([one] * (SHOWN + 3))
    assert len(many) == SHOWN + 1 and many[-1].startswith("3 more")

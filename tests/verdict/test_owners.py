"""To whom failing requirements point, from how they ended; nothing where evidence is missing."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import PartTest, Test
from evalspec.verdict import decide
from evalspec.verdict.owners import Conclusion, conclude, violated_parts
from tests.verdict.test_decide import FAILING, UNDECIDED, a_check, a_record, a_test

MORE = {"op": "<=", "threshold": 0.1}
ECE_HOLDS = a_test("calibration", "ece", value=0.02, lower=0.01, upper=0.03, **MORE)
ECE_FAILS = a_test("calibration", "ece", **(FAILING | MORE | {"value": 0.2, "lower": 0.18, "upper": 0.22}))
MOVED = a_test("shift", "shift", name="shift/shift(lux)", **(FAILING | MORE | {"value": 0.4, "lower": 0.3}))
DARK = a_test("slices", "accuracy", name="slices/accuracy(dark)", **FAILING)


def of(kind: str, *tests: Test, **changes: Any) -> CheckRecord:
    dimension: Any = {"latency": "system", "load": "system", "shift": "data", "coverage": "data"}.get(kind, "model")
    fields: dict[str, Any] = {"models": () if dimension == "data" else ("candidate",)}
    if kind == "slices":
        fields["conditions"] = {"columns of dark": "lux"}
    return a_check(*tests, id=kind, dimension=dimension).model_copy(update=fields | changes)


def concluded(*checks: CheckRecord) -> tuple[Conclusion, ...]:
    record: Record = a_record(*checks)
    return conclude(record.model_copy(update={"verdict": decide(record)}))


def test_errors_that_go_with_a_column_that_moved_are_the_datas() -> None:
    (found,) = concluded(of("slices", DARK), of("shift", MOVED), of("calibration", ECE_HOLDS))
    assert (found.owner, found.checks) == ("data", ("slices", "shift", "calibration"))
    assert found.sentence == (
        "Errors go with lux: slices/accuracy(dark) and shift/shift(lux) are FAIL, calibration/ece is PASS on these "
        "rows. The pattern points to the data, not to the calibration."
    )


@pytest.mark.parametrize(
    "checks",
    [
        (of("slices", DARK), of("shift", MOVED)),
        (of("slices", DARK), of("shift", MOVED), of("calibration", ECE_FAILS)),
        (of("slices", DARK), of("calibration", ECE_HOLDS)),
        (of("shift", MOVED), of("calibration", ECE_HOLDS)),
        (of("slices", DARK), of("shift", MOVED.model_copy(update={"name": "shift/shift(x)"})),
         of("calibration", ECE_HOLDS)),
        (of("slices", DARK), of("shift", MOVED, datasets=("other", "traffic")), of("calibration", ECE_HOLDS)),
        (of("slices", DARK), of("shift", MOVED), of("calibration", ECE_HOLDS, models=("another",))),
        (of("slices", a_test("slices", "accuracy", name="slices/accuracy(dark)", **UNDECIDED)), of("shift", MOVED),
         of("calibration", ECE_HOLDS)),
        (of("slices", a_test("slices", "accuracy", name="slices/accuracy(dark)", against="old", **FAILING)),
         of("shift", MOVED), of("calibration", ECE_HOLDS)),
    ],
    ids=["no calibration", "calibration fails", "nothing moved", "no slice", "another column moved", "other rows",
         "another model's calibration", "undecided slice", "beside another model"],
)  # fmt: skip
def test_what_is_not_shown_is_not_concluded(checks: tuple[CheckRecord, ...]) -> None:
    assert concluded(*checks) == ()


def test_a_column_among_those_that_drifted_is_found_by_its_own_bound() -> None:
    parts = tuple(
        PartTest(part=name, value=low + 0.1, n=500, lower=low, upper=low + 0.2)
        for name, low in (("lux", 0.3), ("x", 0.0))
    )
    drifted = a_test("shift", "drifted_columns", parts=parts, part_unit="score", **(FAILING | MORE))
    check = of("shift", drifted, conditions={"tolerance": 0.1})
    (found,) = concluded(of("slices", DARK), check, of("calibration", ECE_HOLDS))
    assert found.sentence.startswith("Errors go with lux: slices/accuracy(dark) and shift/drifted_columns are FAIL")
    about_x = of("slices", DARK, conditions={"columns of dark": "x"})
    assert concluded(about_x, check, of("calibration", ECE_HOLDS)) == ()


@pytest.mark.parametrize(
    "lacking",
    [
        a_test("coverage", "representation_gap", exact=True, parts=(PartTest(part="light=dark", value=0.4, n=9),),
               must_hold=1, **(MORE | {"value": 0.4})),
        a_test("coverage", "missing_conditions", exact=True, notes=("light=dark: no row of test",), op="<=",
               threshold=0.0, unit="count", value=1.0),
    ],
    ids=["too few", "none"],
)  # fmt: skip
def test_errors_that_go_with_a_group_that_is_rare_are_the_datas(lacking: Test) -> None:
    parts = tuple(
        PartTest(part=f"light={name}", value=upper - 0.01, n=500, lower=upper - 0.02, upper=upper)
        for name, upper in (("dark", 0.92), ("day", 0.99))
    )
    worst = a_test("slices", "worst_accuracy", parts=parts, must_hold=2, **FAILING)
    assert violated_parts(worst) == ("light=dark",)
    (found,) = concluded(of("slices", worst), of("coverage", lacking), of("calibration", ECE_HOLDS))
    assert found.owner == "data" and found.sentence.startswith("Errors go with light: slices/worst_accuracy and")


def test_confidence_that_is_off_where_answers_hold_is_the_calibrations() -> None:
    even, right = of("slices", a_test("slices", "worst_accuracy")), of("quality", a_test())
    (found,) = concluded(of("calibration", ECE_FAILS), even, right)
    assert found.owner == "calibration" and found.sentence.endswith("The pattern points to the calibration.")
    assert "calibration/ece is FAIL, quality/accuracy and slices/worst_accuracy are PASS" in found.sentence
    wrong = of("quality", a_test(**FAILING))
    for checks in ((even, wrong), (of("slices", DARK), right), (right,), (even,), (even, of("quality"))):
        assert concluded(of("calibration", ECE_FAILS), *checks) == ()


def test_answers_that_are_late_and_right_are_the_systems() -> None:
    late = of("latency", a_test("latency", "latency_p99", **(FAILING | MORE | {"unit": "ms"})))
    (found,) = concluded(late, of("quality", a_test()))
    assert (found.owner, found.checks) == ("system", ("latency", "quality"))
    erring = of("load", a_test("load", "error_rate", **(FAILING | MORE)))
    assert concluded(erring, of("quality", a_test())) == ()
    assert concluded(late) == concluded(late, of("quality", a_test(**FAILING))) == ()
    # A score on rows that are not those of production holds for nobody.
    assert concluded(late, of("quality", a_test()), of("shift", MOVED)) == ()

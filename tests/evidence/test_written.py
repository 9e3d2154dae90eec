"""Numbers in the unit that a requirement is written in."""

from __future__ import annotations

import pytest

from evalspec.evidence.blocks import Column, Curve, Histogram, Interval, Intervals, Matrix, Reference, Series, Table
from evalspec.evidence.record import CheckRecord
from evalspec.evidence.test import PartTest, Test
from evalspec.evidence.written import as_written, block_as_written, unit_of, written_units
from evalspec.language.registry import discover
from evalspec.language.requirement import parse_requirement

REGISTRY = discover(plugins=False)


def a_test(**fields: object) -> Test:
    values: dict[str, object] = {
        "name": "q/accuracy", "check": "q", "sentence": "accuracy >= 95 %", "metric": "accuracy", "op": ">=",
        "threshold": 0.95, "unit": "fraction", "metric_unit": "fraction", "written_unit": "%", "value": 0.986,
        "lower": 0.971, "upper": None, "p_pass": 0.001, "n": 850,
    }  # fmt: skip
    return Test.model_validate(values | fields)


def test_a_share_that_is_asked_in_percent_is_shown_in_percent() -> None:
    parts = (PartTest(part="dark", value=0.07, lower=0.01, n=40),)
    shown = as_written(a_test(parts=parts, must_hold=1))
    assert (shown.unit, shown.threshold, shown.value, shown.lower, shown.upper) == ("%", 95.0, 98.6, 97.1, None)
    assert (shown.parts[0].value, shown.parts[0].lower, shown.p_pass, shown.n) == (7.0, 1.0, 0.001, 850)


def test_parts_with_a_unit_of_their_own_keep_it() -> None:
    parts = (PartTest(part="x", value=0.24, n=40),)
    assert as_written(a_test(parts=parts, part_unit="score", must_hold=1)).parts == parts


def test_what_is_written_in_its_own_unit_stays() -> None:
    for test in (a_test(written_unit=""), a_test(unit="ms", metric_unit="ms", written_unit="", value=3.0)):
        assert as_written(test) is test


def test_points_have_percent_beside_them() -> None:
    test = a_test(
        unit="pp", written_unit="", against="baseline", threshold=-2.0, value=-0.1, lower=-1.2, candidate=0.986,
        baseline=0.987, sentence="accuracy >= baseline - 2 pp",
    )  # fmt: skip
    shown = as_written(test)
    assert (shown.unit, shown.value, shown.lower, shown.threshold) == ("pp", -0.1, -1.2, -2.0)
    assert (shown.metric_unit, shown.candidate, shown.baseline) == ("%", 98.6, 98.7)


def test_seconds_stay_seconds() -> None:
    test = a_test(
        unit="ms", metric_unit="ms", written_unit="s", threshold=2000.0, value=1250.0, lower=None, upper=1300.0
    )
    shown = as_written(test)
    assert (shown.unit, shown.threshold, shown.value, shown.upper) == ("s", 2.0, 1.25, 1.3)


@pytest.mark.parametrize(
    ("kind", "text", "unit", "written"),
    [
        ("quality", "accuracy >= 95 %", "fraction", "%"), ("quality", "accuracy >= 0.95", "fraction", ""),
        ("latency", "latency_p99 <= 2 s", "ms", "s"), ("latency", "latency_p99 <= 20 ms", "ms", ""),
        ("latency", "latency_p99 <= baseline + 1 s", "ms", "s"), ("quality", "accuracy >= baseline - 2 pp", "pp", ""),
        ("latency", "latency_p99 <= 1.1x baseline", "x", ""), ("shift", "drifted_columns <= 10 %", "%", ""),
    ],
)  # fmt: skip
def test_a_sentence_knows_its_unit(kind: str, text: str, unit: str, written: str) -> None:
    found = parse_requirement(text, REGISTRY.check(kind).metrics)
    assert (found.unit, found.written_unit) == (unit, written)


def check_of(*tests: Test) -> CheckRecord:
    return CheckRecord(
        id="q", check="quality", dimension="model", status="measured", tests=tests,
        measured={"accuracy": 0.986, "log_loss": 0.2, "macro_f1": 0.97},
        units={"accuracy": "fraction", "log_loss": "score", "macro_f1": "fraction"},
    )  # fmt: skip


def test_all_shares_of_a_check_follow_its_requirements_where_they_agree() -> None:
    percent, bare = a_test(), a_test(metric="macro_f1", written_unit="", threshold=0.9)
    assert written_units(check_of(percent)) == {"fraction": "%"}
    assert {name: unit_of(check_of(percent), name) for name in ("accuracy", "log_loss", "macro_f1")} == {
        "accuracy": "%", "log_loss": "score", "macro_f1": "%",
    }  # fmt: skip
    both = check_of(percent, bare)
    assert written_units(both) == {}
    assert (unit_of(both, "accuracy"), unit_of(both, "macro_f1")) == ("%", "fraction")


def test_charts_and_tables_follow() -> None:
    units = {"fraction": "%", "ms": "s"}
    table = Table(
        title="t", columns=(Column(name="slice"), Column(name="accuracy", unit="fraction"), Column(name="n")),
        rows=(("dark", 0.07, 40), ("all", None, 850)),
    )  # fmt: skip
    shown = block_as_written(table, units)
    assert isinstance(shown, Table)
    assert shown.columns[1].unit == "%" and shown.rows == (("dark", 7.0, 40), ("all", None, 850))
    curve = Curve(
        title="c", x_label="latency", y_label="share", x_unit="ms", y_unit="fraction",
        series=(
            Series(name="a", x=(1000.0, 2000.0), y=(0.1, 0.2), lower=(0.05, 0.1), upper=(0.2, 0.3), size=(1.0, 2.0)),
        ),
        references=(
            Reference(label="limit", value=1500.0, axis="x"), Reference(label="half", value=0.5),
            Reference(label="even", axis="diagonal"),
        ),
    )  # fmt: skip
    drawn = block_as_written(curve, units)
    assert isinstance(drawn, Curve)
    one = drawn.series[0]
    assert (one.x, one.y, one.lower, one.upper, one.size) == (
        (1.0, 2.0),
        (10.0, 20.0),
        (5.0, 10.0),
        (20.0, 30.0),
        (1.0, 2.0),
    )
    assert [reference.value for reference in drawn.references] == [1.5, 50.0, None]
    forest = Intervals(
        title="f", unit="fraction", rows=(Interval(label="a", value=0.5, lower=0.4, upper=None, n=3),),
        references=(Reference(label="needs", value=0.8, axis="x"),),
    )  # fmt: skip
    again = block_as_written(forest, units)
    assert isinstance(again, Intervals)
    row = again.rows[0]
    assert (again.unit, row.value, row.lower, row.upper, row.n) == ("%", 50.0, 40.0, None, 3)
    assert again.references[0].value == 80.0
    counts = Histogram(
        title="h", x_label="latency", y_label="queries", x_unit="ms", edges=(0.0, 500.0), counts={"a": (3,)}
    )
    steps = block_as_written(counts, units)
    assert isinstance(steps, Histogram)
    assert (steps.edges, steps.x_unit, steps.counts) == ((0.0, 0.5), "s", {"a": (3,)})
    matrix = Matrix(title="m", row_label="r", column_label="c", rows=("a",), columns=("a",), values=((3.0,),))
    assert block_as_written(matrix, units) is matrix

from __future__ import annotations

import pytest

from evalspec.evidence.blocks import Bar, Bars, Column, Interval, Intervals, Matrix, Reference, Table
from evalspec.report.charts.blocks import BarsView, BesideView, ForestView, MatrixView, TableView, aligned, block_view
from evalspec.report.words import DASH


@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        ([0.03, 0.0679, 0.142], "score", ("0.030", "0.068", "0.142")),
        ([0.69, 0.7, 0.74], "ms", ("0.69", "0.70", "0.74")),
        ([0.0301, 0.00804, 0.00332], "score", ("0.0301", "0.0080", "0.0033")),
        ([0.987, 0.0182, 2.3026], "", ("0.987", "0.018", "2.303")),
        ([84, 85], "rows", ("84", "85")),
        ([-0.0, 1.25], "pp", ("0.00", "1.25")),
        ([1234.5, 2.5], "ms", ("1,234.5", "2.5")),
        # What would be rounded to nothing, or to the whole, keeps its digits.
        ([0.5, 0.00000123], "score", ("0.5", "0.00000123")),
        ([0.987, 1.0, 0.9934], "", ("0.987", "1.000", "0.993")),
        ([0.5, 0.99999], "fraction", ("0.50000", "0.99999")),
        ([], "ms", ()),
    ],
)
def test_numbers_of_one_column_have_the_same_decimals(values: list[float], unit: str, texts: tuple[str, ...]) -> None:
    assert aligned(values, unit) == texts


def test_forest() -> None:
    rows = (Interval(label="dark", value=0.7, lower=0.6, upper=0.8, n=10), Interval(label="none", value=None))
    view = block_view(
        Intervals(title="t", unit="fraction", rows=rows, references=(Reference(label="needs", value=0.9),))
    )
    assert isinstance(view, ForestView)
    dark, none = view.rows
    assert dark.strip.title == "dark: 0.7; 0.6 to 0.8"
    # The scale runs from 0.6 to 0.9 with 6 % of room at both ends.
    assert (dark.strip.start, dark.strip.dot, dark.strip.end) == (5.36, 35.12, 64.88)
    assert dark.strip.limits == (94.64,)
    assert none.strip.dot is None
    assert none.strip.title == "none: no value"
    assert view.references == ("needs (0.9)",)


def test_bars_start_at_zero() -> None:
    bars = (Bar(label="a", value=3.0, group="x"), Bar(label="b", value=-1.0, group="y"))
    view = block_view(Bars(title="t", unit="ms", bars=bars))
    assert isinstance(view, BarsView)
    up, down = view.rows
    assert up.start == down.start + down.width
    assert up.width == pytest.approx(3 * down.width, abs=0.05)
    assert (up.series, down.series) == (1, 2)
    assert up.value == "3 ms"


def test_a_matrix_is_warm_where_it_is_large() -> None:
    view = block_view(
        Matrix(
            title="t", row_label="r", column_label="c", rows=("a", "b"), columns=("a", "b"), values=((81, 1), (0, 80))
        )
    )
    assert isinstance(view, MatrixView)
    assert view.rows == (("a", (("81", 9), ("1", 1))), ("b", (("0", 0), ("80", 9))))


def test_a_table_has_its_units_in_the_head() -> None:
    block = Table(
        title="t",
        columns=(Column(name="class"), Column(name="time", unit="ms"), Column(name="ok")),
        rows=(("a", 1.5, True), ("b", 10.25, None), ("c", None, False)),
    )
    view = block_view(block)
    assert isinstance(view, TableView)
    assert [column.text for column in view.columns] == ["class", "time (ms)", "ok"]
    assert [column.number for column in view.columns] == [False, True, False]
    assert [[cell.text for cell in row] for row in view.rows] == [
        ["a", "1.50", "yes"],
        ["b", "10.25", DASH],
        ["c", DASH, "no"],
    ]


def test_a_short_row_is_filled() -> None:
    view = block_view(Table(title="t", columns=(Column(name="a"), Column(name="b")), rows=(("x",),)))
    assert isinstance(view, TableView)
    assert [cell.text for cell in view.rows[0]] == ["x", DASH]


def test_stacked_bars_begin_where_the_one_before_ends() -> None:
    bars = (Bar(label="resize", value=8.0), Bar(label="inference", value=10.0), Bar(label="postprocess", value=2.0))
    references = (Reference(label="undivided", value=25.0, axis="x"),)
    view = block_view(Bars(title="t", unit="ms", bars=bars, stacked=True, references=references))
    assert isinstance(view, BarsView)
    first, second, third = view.rows
    assert second.start == pytest.approx(first.start + first.width, abs=0.02)
    assert third.start == pytest.approx(second.start + second.width, abs=0.02)
    assert second.width / first.width == pytest.approx(10 / 8, rel=0.01)
    assert third.start + third.width < view.limits[0]
    assert second.value == "10 ms"


def test_a_group_of_bars_is_named_once_above_them() -> None:
    bars = tuple(
        Bar(label=label, value=1.0, group=group)
        for group, labels in (("200 qps", ("offered", "in time")), ("1000 qps", ("offered", "refused")))
        for label in labels
    )
    view = block_view(Bars(title="t", unit="qps", bars=bars))
    assert isinstance(view, BarsView)
    assert [row.opens for row in view.rows] == ["200 qps", "", "1000 qps", ""]
    alone = block_view(Bars(title="t", bars=(Bar(label="a", value=1.0), Bar(label="b", value=2.0))))
    assert isinstance(alone, BarsView)
    assert [row.opens for row in alone.rows] == ["", ""]


def test_groups_that_hold_the_same_are_a_row_each() -> None:
    shares = {"north": (30.0, 10.0), "south": (70.0, 90.0)}
    bars = tuple(
        Bar(label=label, value=value, group=zone)
        for zone, values in shares.items()
        for label, value in zip(("test", "current"), values, strict=True)
    )
    view = block_view(Bars(title="zone", unit="%", bars=bars))
    assert isinstance(view, BesideView)
    assert (view.keys, [row.group for row in view.rows]) == (("test", "current"), ["north", "south"])
    assert [row.values for row in view.rows] == ["30 % / 10 %", "70 % / 90 %"]
    # A colour stands for a dataset, not for a category.
    assert [[bar.series for bar in row.bars] for row in view.rows] == [[1, 2], [1, 2]]
    # Groups that are not together, or differ, are no such rows.
    for other in (bars[::2] + bars[1::2], bars[:3]):
        assert isinstance(block_view(Bars(title="zone", unit="%", bars=other)), BarsView)


def test_a_line_far_off_is_told_and_not_drawn() -> None:
    rows = (Interval(label="a", value=1.0, lower=0.9, upper=1.1),)
    far = Reference(label="latency <= 20 ms", value=20.0, axis="x", says_value=True)
    near = Reference(label="all rows", value=1.2, axis="x")
    view = block_view(Intervals(title="t", unit="ms", rows=rows, references=(far, near)))
    assert isinstance(view, ForestView)
    assert view.references == ("all rows (1.2 ms)",)
    assert view.beyond == ("latency <= 20 ms, far beyond the right edge",)
    assert all(row.strip.dot is not None and 20 < row.strip.dot < 60 for row in view.rows)


def test_a_matrix_of_many_classes_has_the_whole_width() -> None:
    def view(count: int, name: str) -> MatrixView:
        names = tuple(f"{name}{index}" for index in range(count))
        made = block_view(
            Matrix(title="m", row_label="true", column_label="predicted", rows=names, columns=names,
                   values=((1.0,) * count,) * count)
        )  # fmt: skip
        assert isinstance(made, MatrixView)
        return made

    assert [view(count, "c").wide for count in (10, 15)] == [False, True]
    assert [view(9, name).upright for name in ("c", "vehicle")] == [False, True]
    assert not view(9, "vehicle").wide, "its heads stand upright, so that half of the page's width is enough"
    assert [view(count, "c").dense for count in (12, 13)] == [False, True]


def test_lines_across_bars_have_numbers_where_there_are_several() -> None:
    def view(*values: float) -> BarsView:
        lines = tuple(Reference(label=f"l{value:g}", value=value, axis="x") for value in values)
        made = block_view(Bars(title="t", bars=(Bar(label="a", value=100.0),), references=lines))
        assert isinstance(made, BarsView)
        return made

    assert view(50.0).marks == ()
    assert [mark.text for mark in view(90.0, 20.0).marks] == ["2", "1"]
    # Two lines that lie together share a text, in the middle of both, and in the order in which they lie.
    (both,) = view(50.0, 52.0).marks
    assert both.text == "1, 2"
    assert [mark.text for mark in view(52.0, 50.0).marks] == ["2, 1"]
    assert view(50.0, 52.0).limits[0] < both.at < view(50.0, 52.0).limits[1]


def test_a_column_of_numbers_without_any_is_still_one() -> None:
    columns = (Column(name="rate"), Column(name="upper", unit="ms"), Column(name="remark"))
    view = block_view(Table(title="t", columns=columns, rows=(("200 qps", None, None), ("400 qps", None, None))))
    assert isinstance(view, TableView)
    assert [column.number for column in view.columns] == [False, True, False]


def test_short_cells_stay_whole() -> None:
    rows = (("200 qps", "a remark that is a good deal longer than a name"),)
    view = block_view(Table(title="t", columns=(Column(name="rate"), Column(name="remark")), rows=rows))
    assert isinstance(view, TableView)
    assert [cell.whole for cell in view.rows[0]] == [True, False]


def test_only_a_long_table_goes_over_a_page() -> None:
    def long(count: int) -> bool:
        view = block_view(Table(title="t", columns=(Column(name="a"),), rows=((1,),) * count))
        assert isinstance(view, TableView)
        return view.long

    assert not long(16) and long(17)

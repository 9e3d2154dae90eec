"""Columns made from columns: pictures, lists, dates."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from evalspec.sources.reading.arrays import array_column
from evalspec.tables.derived import has_weeks, of_lists, of_pictures, of_times, picture_shape


def test_what_is_a_picture() -> None:
    def shape(*axes: int) -> tuple[int, int, int] | None:
        return picture_shape(pa.fixed_shape_tensor(pa.uint8(), list(axes)))

    assert shape(28, 28) == (28, 28, 1)
    assert shape(32, 16, 3) == (32, 16, 3)
    assert shape(3, 32, 32) is None and shape(2, 9) is None and shape(4, 8, 8, 3) is None
    assert picture_shape(pa.list_(pa.float32(), 64)) is None


def test_pictures_by_hand() -> None:
    flat = np.full((5, 5), 40.0)
    dot = flat.copy()
    dot[2, 2] = 80.0
    found = of_pictures(array_column(np.stack([flat, dot]), "x"))
    assert found["brightness"].to_pylist() == pytest.approx([40.0, 40.0 + 40 / 25])
    assert found["contrast"].to_pylist() == pytest.approx([0.0, np.std(dot)])
    # Of the nine inner pixels the dot differs by 40 and its four neighbours by -10.
    laplacian = [40.0, -10, -10, -10, -10, 0, 0, 0, 0]
    assert found["sharpness"].to_pylist() == pytest.approx([0.0, np.std(laplacian)])
    assert found["size"].to_pylist() == [25.0, 25.0]


def test_colours_blur_and_missing_pictures() -> None:
    rng = np.random.default_rng(1)
    sharp = rng.integers(0, 255, (4, 20, 20, 3)).astype(np.uint8)
    blurred = ((sharp.astype(float) + np.roll(sharp, 1, axis=1) + np.roll(sharp, 1, axis=2)) / 3).astype(np.uint8)
    column = array_column(np.concatenate((sharp, blurred)), "x")
    found = {name: np.array(values.to_pylist()) for name, values in of_pictures(column).items()}
    assert (found["sharpness"][4:] < 0.7 * found["sharpness"][:4]).all()
    assert found["brightness"][:4] == pytest.approx(sharp.reshape(4, -1).mean(axis=1), rel=1e-5)
    # Fully seen pixels do not count as a colour.
    clear = np.concatenate((sharp, np.full((4, 20, 20, 1), 255, np.uint8)), axis=3)
    again = of_pictures(array_column(clear, "x"))["brightness"].to_pylist()
    assert again == pytest.approx(found["brightness"][:4])
    gone = pa.ExtensionArray.from_storage(column.type, column.storage.take(pa.array([0, None, 5])))
    some = of_pictures(gone)
    assert some["brightness"].to_pylist()[1] is None and some["size"].null_count == 1
    assert some["sharpness"].to_pylist()[2] == pytest.approx(found["sharpness"][5])


def test_pictures_in_parts_are_those_together(monkeypatch: pytest.MonkeyPatch) -> None:
    from evalspec.tables import derived

    rng = np.random.default_rng(2)
    column = array_column(rng.random((30, 6, 7)), "x")
    whole = of_pictures(column)
    monkeypatch.setattr(derived, "_PIXELS_AT_A_TIME", 100)
    for name, values in of_pictures(column).items():
        assert values.to_pylist() == pytest.approx(whole[name].to_pylist(), rel=1e-5), name
    sliced = of_pictures(column[10:20])
    assert sliced["contrast"].to_pylist() == pytest.approx(whole["contrast"].to_pylist()[10:20], rel=1e-5)


def test_weekdays() -> None:
    days = pa.array([datetime.date(2026, 11, 20), None, datetime.date(2026, 11, 23)])
    assert of_times(days)["weekday"].to_pylist() == ["Friday", None, "Monday"]
    late = datetime.datetime(2026, 11, 20, 23, 30, tzinfo=datetime.UTC)
    # Half an hour before midnight in Greenwich it is Saturday in Tokyo.
    there = pa.array([late], pa.timestamp("us", "Asia/Tokyo"))
    assert of_times(there)["weekday"].to_pylist() == ["Saturday"]
    assert of_times(pa.array([datetime.time(1, 2)])) == {}
    assert has_weeks(0.0, 13.0, pa.date32()) and not has_weeks(0.0, 12.0, pa.date32())
    assert has_weeks(0.0, 13 * 86_400e6, pa.timestamp("us")) and not has_weeks(0.0, 13.0, pa.timestamp("s"))


def test_sizes_of_lists() -> None:
    assert of_lists(pa.array([[1.0], [], None, [1.0, 2.0]]))["size"].to_pylist() == [1.0, 0.0, None, 2.0]
    assert of_lists(pa.array([[1.0], [2.0]], pa.list_(pa.float64(), 1))) == {}

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from evalspec.errors import InputError
from evalspec.sources.reading.rows import ROWS_AT_A_TIME, dataset_digest, row_digests


def digests(values: object, kind: pa.DataType | None = None, name: str = "c") -> list[tuple[int, ...]]:
    array = pa.array(values, kind)  # type: ignore[arg-type]
    return [tuple(row) for row in row_digests(pa.table({name: array})).tolist()]


def one(value: object, kind: pa.DataType | None = None, name: str = "c") -> tuple[int, ...]:
    return digests([value], kind, name)[0]


EQUAL = [
    ((1, pa.int8()), (1, pa.int64())),
    ((1, pa.uint64()), (1, pa.int32())),
    ((1, pa.int64()), (1.0, pa.float64())),
    ((0.5, pa.float32()), (0.5, pa.float64())),
    ((-0.0, pa.float64()), (0.0, pa.float64())),
    ((-0.0, pa.float64()), (0, pa.int64())),
    ((float("nan"), pa.float64()), (float("nan"), pa.float32())),
    (("a", pa.string()), ("a", pa.large_string())),
    (("a", pa.string()), ("a", pa.string_view())),
    (([1, 2], pa.list_(pa.int64())), ([1, 2], pa.list_(pa.uint8(), 2))),
    (([1.0, 2.0], pa.list_(pa.float64())), ([1, 2], pa.large_list(pa.int8()))),
    ((None, pa.string()), (None, pa.int64())),
    ((dt.date(2020, 1, 2), pa.date32()), (dt.date(2020, 1, 2), pa.date64())),
    ((dt.datetime(2020, 1, 2), pa.timestamp("s")), (dt.datetime(2020, 1, 2), pa.timestamp("ns"))),  # noqa: DTZ001
]
DIFFERENT = [
    ((1, pa.int64()), ("1", pa.string())),
    ((1, pa.int64()), (True, pa.bool_())),
    ((2**63, pa.uint64()), (-(2**63), pa.int64())),
    ((0.1, pa.float32()), (0.1, pa.float64())),
    ((1e300, pa.float64()), (1e301, pa.float64())),
    ((float("inf"), pa.float64()), (float("-inf"), pa.float64())),
    ((float("nan"), pa.float64()), (None, pa.float64())),
    ((0, pa.int64()), (None, pa.int64())),
    (("", pa.string()), (None, pa.string())),
    (("a", pa.string()), (b"a", pa.binary())),
    (("a", pa.string()), ("a\x00", pa.string())),
    (("12345678", pa.string()), ("12345678\x00", pa.string())),
    (("aaaaaaaabbbbbbbb", pa.string()), ("bbbbbbbbaaaaaaaa", pa.string())),
    (([1, 2], pa.list_(pa.int64())), ([2, 1], pa.list_(pa.int64()))),
    (([1], pa.list_(pa.int64())), ([1, 0], pa.list_(pa.int64()))),
    (([], pa.list_(pa.int64())), (None, pa.list_(pa.int64()))),
    (([None], pa.list_(pa.int64())), ([0], pa.list_(pa.int64()))),
    ((dt.date(1970, 1, 2), pa.date32()), (1, pa.int64())),
    ((dt.datetime(2020, 1, 2), pa.timestamp("s")), (dt.date(2020, 1, 2), pa.date32())),  # noqa: DTZ001
    ((bytes(16), pa.binary()), ((bytes(7) + b"\x80") * 2, pa.binary())),
    # Both elements differ in their sign bit only: a multilinear hash of raw words cancels that.
    (([1.5, 2.5], pa.list_(pa.float64())), ([-1.5, -2.5], pa.list_(pa.float64()))),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal(a: tuple[object, pa.DataType], b: tuple[object, pa.DataType]) -> None:
    assert one(*a) == one(*b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different(a: tuple[object, pa.DataType], b: tuple[object, pa.DataType]) -> None:
    assert one(*a) != one(*b)


def test_borders_between_columns_count() -> None:
    def row(a: str | None, b: str | None) -> tuple[int, ...]:
        table = pa.table({"a": pa.array([a], pa.string()), "b": pa.array([b], pa.string())})
        return tuple(row_digests(table)[0].tolist())

    rows = [("a,b", "c"), ("a", "b,c"), ("", None), (None, ""), ("a", ""), ("", "a"), (None, None), ("c", "a,b")]
    assert len({row(*pair) for pair in rows}) == len(rows)


def test_columns_count_by_name_and_not_by_order() -> None:
    table = pa.table({"a": [1, 2], "b": [2, 1]})
    assert (row_digests(table) == row_digests(table.select(["b", "a"]))).all()
    assert one(1, name="a") != one(1, name="b")
    assert (row_digests(table)[0] != row_digests(table)[1]).any()
    assert (row_digests(table, ["a"]) == row_digests(table.select(["a"]))).all()


def test_a_slice_has_the_digests_of_its_rows() -> None:
    rng = np.random.default_rng(0)
    n = 200_000
    table = pa.table(
        {
            "f": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.1),
            "s": pa.array([None if i % 7 == 0 else "x" * (i % 20) + str(i % 1000) for i in range(n)]),
            "p": pa.FixedSizeListArray.from_arrays(pa.array(rng.integers(0, 9, 4 * n)), 4),
            "l": pa.array([list(range(i % 4)) for i in range(n)], pa.list_(pa.int64())),
            "d": pa.array(rng.choice(["a", "b"], n)).dictionary_encode(),
            "t": pa.array([{"x": i % 3, "y": None if i % 5 else "q"} for i in range(n)]),
        }
    )
    whole = row_digests(table)
    assert (row_digests(table.slice(70_001, 1000)) == whole[70_001:71_001]).all()
    shuffled = rng.permutation(n)[:5000]
    assert (row_digests(table.take(pa.array(shuffled))) == whole[shuffled]).all()


FAR = 253_402_300_799
"""Seconds of the last one of the year 9999, which stands for "for ever" in many tables."""


@pytest.mark.parametrize("far", [FAR, -FAR])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize(
    "kind", [pa.timestamp, lambda unit: pa.timestamp(unit, "UTC"), pa.duration], ids=["time", "zoned", "span"]
)
def test_a_far_time_says_nothing_of_its_neighbours(kind: Callable[[str], pa.DataType], unit: str, far: int) -> None:
    scale = {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    table = pa.table({"t": pa.array([1_700_000_000 * scale, None, far * scale, far * scale + 1], kind(unit))})
    whole = row_digests(table)
    assert (whole[:2] == row_digests(table.slice(0, 2))).all()
    assert (whole[2:] == row_digests(table.slice(2))).all()
    assert len(np.unique(whole, axis=0)) == 4
    assert (row_digests(pa.table({"t": pa.array([1_700_000_000 * 10**9], kind("ns"))})) == whole[:1]).all()


@pytest.mark.parametrize("far", [FAR, -FAR])
def test_far_times_are_equal_whatever_their_unit(far: int) -> None:
    for kind in (pa.timestamp, lambda unit: pa.timestamp(unit, "UTC"), pa.duration):
        ms, us = (one(far * scale + scale // 2, kind(unit)) for unit, scale in (("ms", 10**3), ("us", 10**6)))
        assert ms == us
        s, ms, us = (one(far * scale, kind(unit)) for unit, scale in (("s", 1), ("ms", 10**3), ("us", 10**6)))
        assert s == ms == us
    of_kind = [one(far, kind) for kind in (pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.duration("s"), pa.int64())]
    assert len({*of_kind}) == 4


def test_milliseconds_that_are_no_whole_day_belong_to_theirs() -> None:
    days = pa.array([0, 86_400_001, -1, None], pa.int64()).view(pa.date64())
    assert (
        row_digests(pa.table({"d": days})) == row_digests(pa.table({"d": pa.array([0, 1, -1, None], pa.date32())}))
    ).all()


def test_hashes_of_times_stay_as_records_have_them() -> None:
    seen = [one(1_700_000_000_123_456, kind)[0] for kind in (
        pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("us"),
    )]  # fmt: skip
    assert seen == [13395747491486074791, 14187225830891041566, 5690913390766987914]


@pytest.mark.proof
def test_digests_tell_a_million_rows_apart() -> None:
    rng = np.random.default_rng(0)
    n = 1_000_000
    columns = {f"c{i}": rng.normal(size=n) if i % 2 else rng.integers(0, 3, n) for i in range(10)}
    table = pa.table(columns)
    found = row_digests(table)
    assert len(np.unique(found[:, 0])) == len(np.unique(found[:, 1])) == n


def test_small_integers_in_many_columns_do_not_collide() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(6)] * 7), axis=-1).reshape(-1, 7)
    table = pa.table({f"c{i}": column for i, column in enumerate(grid.T)})
    for lane in range(2):
        assert len(np.unique(row_digests(table)[:, lane])) == 6**7
    lists = pa.table({"p": pa.FixedSizeListArray.from_arrays(pa.array(grid.reshape(-1)), 7)})
    for lane in range(2):
        assert len(np.unique(row_digests(lists)[:, lane])) == 6**7


def test_short_byte_strings_against_pythons_equality() -> None:
    rng = np.random.default_rng(1)
    strings = [bytes(rng.choice([0, 1, 128, 255], rng.integers(0, 20)).astype(np.uint8)) for _ in range(20_000)]
    for kind in (pa.binary(), pa.large_binary()):
        found = row_digests(pa.table({"c": pa.array(strings, kind)}))
        for lane in range(2):
            assert len(np.unique(found[:, lane])) == len(set(strings))


def test_an_unknown_type_is_refused() -> None:
    column = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    with pytest.raises(InputError, match="column 'c' is of type map"):
        row_digests(pa.table({"c": column}))


def test_no_rows() -> None:
    assert row_digests(pa.table({"a": pa.array([], pa.string())})).shape == (0, 2)


def test_dataset_digest_is_of_content_types_and_order() -> None:
    table = pa.table({"a": [1, 2, None], "s": ["x", None, ""], "l": [[1], [], None]})
    same = [
        pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        pa.concat_tables([table, table]).slice(3),
        table.replace_schema_metadata({"k": "v"}),
    ]
    digest = dataset_digest(table)
    assert digest.startswith("sha256:")
    assert {dataset_digest(other) for other in same} == {digest}
    others = [
        table.take([1, 0, 2]),
        table.slice(0, 2),
        table.rename_columns(["b", "s", "l"]),
        table.set_column(0, "a", pa.array([1, 2, None], pa.int32())),
        table.set_column(0, "a", pa.array([1, 2, 0])),
        table.set_column(1, "s", pa.array(["x", "", ""])),
        table.set_column(2, "l", pa.array([[1], None, []])),
        table.select(["s", "a", "l"]),
    ]
    assert len({dataset_digest(other) for other in others} | {digest}) == len(others) + 1


def test_dataset_digest_covers_every_type() -> None:
    n = 50

    def table(change: int) -> pa.Table:
        numbers = [*range(n - 1), n + change]
        return pa.table(
            {
                "b": [i % 2 == 0 for i in numbers],
                "f": pa.array(numbers, pa.float16()),
                "t": pa.array(numbers, pa.timestamp("ms")),
                "d": pa.array(numbers, pa.date32()),
                "x": pa.array(numbers, pa.decimal128(10, 2)),
                "s": pa.array([{"a": i, "b": [str(i)]} for i in numbers]),
                "i": pa.array([bytes([i]) for i in numbers]),
            }
        )

    for column in table(0).column_names:
        assert dataset_digest(table(0).select([column])) != dataset_digest(table(1).select([column]))


@pytest.mark.parametrize("count", [0, 1, ROWS_AT_A_TIME, ROWS_AT_A_TIME + 1, 2 * ROWS_AT_A_TIME + 7])
def test_rows_of_no_columns_are_all_alike(count: int) -> None:
    table = pa.table({"x": np.arange(count)})
    digests = row_digests(table, [])
    assert digests.shape == (count, 2) and len(np.unique(digests, axis=0)) == min(1, count)

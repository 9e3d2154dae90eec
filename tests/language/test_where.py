from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.errors import InputError, SpecError
from evalspec.language.where import check_columns, mask, parse_where

TABLE = pa.table(
    {
        "lux": [50, 150, None, 90],
        "occlusion": [0.1, float("nan"), 0.4, 0.6],
        "site": ["lab", None, "field", "lab"],
        "hours-per week": [1, 2, 3, 4],
        "ok": [True, False, None, True],
        "day": pa.array(["2026-01-01", "2026-05-01", "2026-06-01", None]).cast(pa.date32()),
        "at": pa.array([f"2026-0{month}-01T00:00:00Z" if month else None for month in (1, 5, 6, 0)]).cast(
            pa.timestamp("us", "UTC")
        ),
        "kind": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "small": pa.array([1, 2, 3, 4], pa.int8()),
        "half": pa.array(np.array([1, 2, np.nan, 4], np.float16)),
        "nothing": pa.nulls(4),
    }
)


@pytest.mark.parametrize(
    ("text", "inside", "missing"),
    [
        ("lux < 100", [1, 0, 0, 1], 1),
        ("100 > lux", [1, 0, 0, 1], 1),
        ("lux < 90.5", [1, 0, 0, 1], 1),
        ("small < 2.5", [1, 1, 0, 0], 0),
        ("small > 1000", [0, 0, 0, 0], 0),
        ("half >= 2", [0, 1, 0, 1], 1),
        ("0.05 < occlusion <= 0.5", [1, 0, 1, 0], 1),
        ("site in ['lab', 'field']", [1, 0, 1, 1], 1),
        ("site not in ['lab']", [0, 0, 1, 0], 1),
        ("lux in [50, 90]", [1, 0, 0, 1], 1),
        ("lux is None", [0, 0, 1, 0], 0),
        ("occlusion is None", [0, 1, 0, 0], 0),
        ("lux is not None and lux > 60", [0, 1, 0, 1], 0),
        ("not (lux < 100 or site == 'lab')", [0, 0, 0, 0], 2),
        ("lux < 100 or site == 'field'", [1, 0, 1, 1], 1),
        ("lux < 100 and site == 'field'", [0, 0, 0, 0], 1),
        ("`hours-per week` >= 3", [0, 0, 1, 1], 0),
        ("site == '`lux`'", [0, 0, 0, 0], 1),
        ("ok == True", [1, 0, 0, 1], 1),
        ("day >= '2026-05-01'", [0, 1, 1, 0], 1),
        ("at >= '2026-05-01'", [0, 1, 1, 0], 1),
        ("at >= '2026-05-01T02:00:00+02:00'", [0, 1, 1, 0], 1),
        ("kind == 'a'", [1, 0, 0, 1], 1),
        ("kind in ['a', 'b']", [1, 1, 0, 1], 1),
        ("nothing == 3", [0, 0, 0, 0], 4),
        ("nothing in [3, 4]", [0, 0, 0, 0], 4),
        ("lux != 50", [0, 1, 0, 1], 1),
        ("lux > -5\nand lux < 100", [1, 0, 0, 1], 1),
    ],
)
def test_a_row_is_inside_outside_or_missing(text: str, inside: list[int], missing: int) -> None:
    found = mask(TABLE, parse_where(text))
    assert found.inside.astype(int).tolist() == inside
    assert found.missing == missing


def test_columns_are_listed_in_the_order_in_which_they_stand() -> None:
    assert parse_where("b < 1 and (a == 2 or b > 0) and `c d` is None").columns == ("b", "a", "c d")


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("__import__('os').system('x')", "__import__('os').system('x')"),
        ("lux < open('x')", "open('x')"),
        ("lux.real < 3", "lux.real"),
        ("lux[0] < 3", "lux[0]"),
        ("lux + 1 < 3", "lux + 1"),
        ("(lambda: 1)()", "(lambda: 1)()"),
        ("[x for x in lux]", "[x for x in lux]"),
        ("f'{lux}' == 'a'", "f'{lux}'"),
        ("lux < 3 if 1 else 2", "lux < 3 if 1 else 2"),
        ("lux & 3", "lux & 3"),
        ("lux in (1, 2)", "(1, 2)"),
        ("lux in []", "[]"),
        ("lux in [site]", "site"),
        ("lux is 3", "3"),
        ("lux == None", "None"),
        ("1 < 2", "1"),
        ("lux < 3 < 4", "3"),
        ("lux < 1j", "1j"),
        ("lux == b'a'", "b'a'"),
        ("lux < 1e999", "1e999"),
        ("lux < 99999999999999999999", "99999999999999999999"),
        ("-site == 'a'", "-site"),
        ("ok == true", "true"),
    ],
)
def test_everything_else_is_refused_and_named(text: str, piece: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_where(text)
    assert caught.value.problems[0].message == f"{piece!r} is not allowed in a where"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "an empty where"),
        ("lux <", "'lux <' is not understood"),
        ("lux := 3", "'lux := 3' is not understood"),
        ("lux < 3; import os", "'lux < 3; import os' is not understood"),
        ("ok", "'ok' alone is not a condition; write ok == True"),
        ("site == lab", "'site' is compared with the column 'lab'; text needs quotes: 'lab'"),
        ("(" * 500 + "lux" + ")" * 500, "is not understood"),
        ("not " * 400 + "lux < 3", "is nested deeper than 50 levels"),
        ("lux < 3 or " * 400 + "lux < 3", "2,000 is the most"),
    ],
)
def test_what_is_not_understood_says_what_is(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_where(text)
    assert sentence in str(caught.value)


def test_columns_are_held_against_a_header() -> None:
    columns = {field.name: str(field.type) for field in TABLE.schema}
    found = check_columns(parse_where("luxx < 3 or kind == 3 or lux == 'a' or ok == 1 or day == '2026-01-01'"), columns)
    assert [(problem.message, problem.remedy) for problem in found] == [
        ("unknown column 'luxx' in where", "did you mean 'lux'?"),
        ("column 'kind' holds dictionary<values=string, indices=int32, ordered=0>, and 3 is not text", "write '3'"),
        ("column 'lux' holds int64, and 'a' is not a number", "write a number"),
        ("column 'ok' holds bool, and 1 is not a truth value", "write True or False"),
    ]


@pytest.mark.parametrize("text", ["luxx < 3", "kind == 3", "day > 'yesterday'"])
def test_columns_that_do_not_fit_are_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        mask(TABLE, parse_where(text))


def test_times_beyond_nanoseconds_and_times_of_a_day() -> None:
    table = pa.table({
        "t": pa.array([0, None], pa.timestamp("ns")), "tod": pa.array([7_200 * 10**9, 60 * 10**9], pa.time64("ns")),
    })  # fmt: skip
    for text, inside, missing in (
        ("t < '9999-12-31'", [True, False], 1), ("t in ['2300-01-01']", [False, False], 1),
        ("tod >= '01:00:00'", [True, False], 0), ("tod == '00:01'", [False, True], 0),
    ):  # fmt: skip
        found = mask(table, parse_where(text))
        assert (found.inside.tolist(), found.missing) == (inside, missing)
    with pytest.raises(InputError, match="can't be compared with its columns: Invalid isoformat string: '2026-01-31'"):
        mask(table, parse_where("tod > '2026-01-31'"))


def test_an_empty_table_has_no_rows_inside() -> None:
    found = mask(TABLE.slice(0, 0), parse_where("lux < 100 and site in ['lab']"))
    assert (found.inside.shape, found.missing) == ((0,), 0)


WORDS = st.sampled_from(
    [
        *(
            "lux",
            "site",
            "<",
            "<=",
            "==",
            "!=",
            "in",
            "not",
            "is",
            "None",
            "and",
            "or",
            "(",
            ")",
            "[",
            "]",
            ",",
            "3",
            "-",
        ),
        *(
            "'a'",
            "True",
            "0.5",
            "`ab`",
            "`",
            "lambda",
            ":",
            "=",
            "*",
            "**",
            "'",
            "\\",
            "\n",
            "if",
            "else",
            "f'{x}'",
            "é",
        ),
        "10" * 20,
    ]
)


@given(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        where = parse_where(text)
    except SpecError:
        return
    try:
        found = mask(TABLE, where)
    except InputError:
        return
    assert int(found.inside.sum()) + found.missing <= TABLE.num_rows

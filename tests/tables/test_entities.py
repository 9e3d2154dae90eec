"""Columns of entities are told by their values: codes that repeat, and what tells other columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evalspec.tables.entities import called_as_code, entity_columns


def visits(rng: np.random.Generator, rows: int = 1000, people: int = 200) -> pa.Table:
    """Visits of people, with what is theirs and what is of the visit."""
    who = rng.integers(0, people, rows)
    sex, born = rng.choice(["m", "f"], people), rng.integers(1930, 2000, people)
    return pa.table({
        "kunde_nr": 70_000 + who, "wer": [f"P{one:05d}" for one in who], "plain": who * 7 % 211,
        "sex": sex[who], "born": born[who], "decade": born[who] // 10, "weight": rng.normal(70.0, 9.0, rows),
        "age": rng.integers(18, 90, rows), "ward": rng.integers(0, 8, rows),
        "region": [f"region {one}" for one in rng.integers(0, 15, rows)], "row_nr": np.arange(rows),
    })  # fmt: skip


def test_what_tells_other_columns_is_an_entity() -> None:
    table = visits(np.random.default_rng(0))
    found = {one.name: one for one in entity_columns(table, table.column_names)}
    assert set(found) == {"kunde_nr", "wer", "plain"}
    assert all(set(one.attributes) == {"sex", "born", "decade"} for one in found.values())
    assert [found[name].is_code for name in found] == [True, True, False]


@pytest.mark.parametrize("seed", range(5))
def test_a_quantity_that_tells_its_group_is_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, 800)
    table = pa.table({"age": age, "band": age // 10, "old": age > 60, "site": rng.choice(["a", "b"], 800)})
    assert list(entity_columns(table, table.column_names)) == []


def test_missing_cells_and_odd_columns_are_no_entities() -> None:
    n = 200
    table = pa.table({
        "empty": pa.nulls(n, pa.string()), "null": pa.nulls(n), "list": [[1.0]] * n, "same": ["P1"] * n,
        "half": pa.array([f"P{row // 4}" if row % 2 else None for row in range(n)]), "nan": np.full(n, np.nan),
        "code": pa.array([f"P{row // 4}" for row in range(n)]).dictionary_encode(), "flag": [True, False] * (n // 2),
    })  # fmt: skip
    assert [one.name for one in entity_columns(table, table.column_names)] == ["half", "code"]


@pytest.mark.parametrize("name", ["row_nr", "case_id", "kundeNr", "KUNDE_NR", "patientID", "no", "order number"])
def test_names_of_codes_end_alike(name: str) -> None:
    assert called_as_code(name)


@pytest.mark.parametrize("name", ["paid", "casino", "age", "monitor", "grid", "region"])
def test_other_names_are_none(name: str) -> None:
    assert not called_as_code(name)

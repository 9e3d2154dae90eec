"""Where other tools crash, alarm for nothing or say nothing: each gets the status that it should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.shift.spec import Shift
from evalspec.errors import InputError
from evalspec.evidence.estimate import Parts
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs

SENTENCES = ("shift(x) <= 0.1", "drifted_columns <= 10 %")


def becomes(folder: Path, first: object, second: object, *sentences: str) -> list[str]:
    """What becomes of requirements on a column of these two samples."""
    tables = {"test": pa.table({"x": first}), "field": pa.table({"x": second})}
    check = Shift.model_validate(
        {"check": "shift", "reference": "test", "current": "field", "require": list(sentences or SENTENCES),
         "report": ["psi", "mmd"]}
    )  # fmt: skip
    result = check.run(FakeInputs(folder, tables=tables))
    assert isinstance(result.estimates["shift"], Parts)
    return [outcome(result, the(check, sentence)) for sentence in sentences or SENTENCES]


def test_a_constant_column_has_not_moved(tmp_path: Path) -> None:
    """Chi-squared and G tests give NaN here, which turns a share of drifted columns into NaN."""
    assert becomes(tmp_path, np.full(800, 3.0), np.full(900, 3.0)) == ["PASS", "PASS"]
    assert becomes(tmp_path, np.full(800, 3.0), np.full(900, 4.0)) == ["FAIL", "FAIL"]
    assert becomes(tmp_path, ["same"] * 800, ["same"] * 900) == ["PASS", "PASS"]


def test_a_column_without_a_value_shows_nothing(tmp_path: Path) -> None:
    for empty in (pa.array([None] * 300, pa.float64()), np.full(300, np.nan), pa.nulls(300)):
        assert becomes(tmp_path, empty, empty) == ["INCONCLUSIVE", "INCONCLUSIVE"]


def test_a_column_that_lost_its_values_is_found(tmp_path: Path) -> None:
    """Tools that drop missing cells first compare the few that are left."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=1000)
    holes = np.where(rng.random(1000) < 0.3, np.nan, values)
    sentences = ("missingness_shift(x) <= 5 pp", "shift(x) <= 0.1")
    assert becomes(tmp_path, values, holes, *sentences) == ["FAIL", "PASS"]


def test_categories_never_seen_are_counted_and_break_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    first, second = rng.choice(["a", "b"], 1000), rng.choice(["a", "b", "new"], 1000, p=[0.45, 0.45, 0.1])
    assert becomes(tmp_path, first, second, "unseen_categories(x) <= 1 %") == ["FAIL"]
    assert becomes(tmp_path, first, first, "unseen_categories(x) <= 1 %") == ["PASS"]


@pytest.mark.parametrize("rows", [1, 5, 30])
def test_few_rows_neither_alarm_nor_reassure(rows: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    found = becomes(tmp_path, rng.normal(size=rows), 3.0 + rng.normal(size=rows))
    assert found == ["INCONCLUSIVE", "INCONCLUSIVE"]


def test_no_rows_are_an_error_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no rows"):
        becomes(tmp_path, np.zeros(0), np.zeros(5))


def test_a_million_rows_of_one_population_have_not_moved(tmp_path: Path) -> None:
    """By p-value a tenth of such columns would be called drifted; as a distance they are shown to be equal."""
    rng = np.random.default_rng(4)
    check = Shift.model_validate(
        {"check": "shift", "reference": "test", "current": "field", "require": ["shift(x) <= 0.005"]}
    )
    tables = {name: pa.table({"x": rng.normal(size=500_000)}) for name in ("test", "field")}
    result = check.run(FakeInputs(tmp_path, tables=tables))
    assert outcome(result, check.requirements[0]) == "PASS"


def both(folder: Path, first: pa.Table, second: pa.Table, *sentences: str, **fields: object) -> list[str]:
    """What becomes of requirements on these two datasets."""
    check = Shift.model_validate(
        {"check": "shift", "reference": "test", "current": "field", "require": list(sentences), **fields}
    )
    result = check.run(FakeInputs(folder, tables={"test": first, "field": second}))
    return [outcome(result, the(check, sentence)) for sentence in sentences]


@pytest.mark.proof
def test_the_more_categories_are_new_the_less_they_pass(tmp_path: Path) -> None:
    """So many different values look like texts, which have no categories: the reference says what the column is."""
    rng = np.random.default_rng(5)
    towns = pa.table({"town": rng.choice([f"town {i}" for i in range(10)], 300), "flag": ["yes"] * 300})
    names = [f"town {i}" for i in range(10)] * 13 + [f"new {i}" for i in range(170)]
    sentences = ("unseen_categories <= 1 %", "unseen_categories(town) <= 1 %", "shift(town) <= 0.1")
    for moved in ([f"new {i}" for i in range(300)], names):
        found = both(tmp_path, towns, pa.table({"town": moved, "flag": ["yes"] * 300}), *sentences)
        assert found == ["FAIL", "FAIL", "FAIL"]
    gone = pa.table({"town": pa.nulls(300, pa.string()), "flag": ["yes"] * 300})
    assert both(tmp_path, towns, gone, *sentences) == ["MISSING", "MISSING", "INCONCLUSIVE"]


def test_categories_that_are_too_many_to_count_are_not_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalspec.stats.drift.columns.MOST_CATEGORIES", 40)
    towns = pa.table({"town": [f"t{i % 9}" for i in range(300)]})
    many = pa.table({"town": [f"t{i % 9 if i % 2 else i % 90 // 10}" if i < 250 else f"u{i}" for i in range(300)]})
    sentences = ("unseen_categories <= 50 %", "shift <= 0.5", "drifted_columns <= 10 %")
    assert both(tmp_path, towns, many, *sentences, tolerance=0.5) == ["MISSING", "MISSING", "INCONCLUSIVE"]


def test_a_column_that_cant_be_compared_is_not_passed_by(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    first, second = (
        pa.table({"a": np.tile(rng.permutation(200), 3), "s": pa.array([{"x": x} for x in rng.normal(by, 1, 600)])})
        for by in (0.0, 5.0)
    )
    sentences = ("shift <= 0.2", "drifted_columns <= 10 %", "shift(a) <= 0.2", "missingness_shift <= 5 pp")
    assert both(tmp_path, first, second, *sentences, tolerance=0.2) == ["MISSING", "INCONCLUSIVE", "PASS", "PASS"]
    with pytest.raises(InputError, match=r"'s' \(struct.*is not compared"):
        both(tmp_path, first, second, *sentences, columns=["s", "a"])
    empty = second.set_column(1, "s", pa.array([{"x": 1.0}] * 300 + [None] * 300))
    assert both(tmp_path, first, empty, "missingness_shift(s) <= 5 pp") == ["FAIL"]


@pytest.mark.proof
def test_a_constant_column_has_no_standard_deviations_to_measure_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    sides = [rng.normal(size=400) for _ in range(2)]
    first, same, other = (
        pa.table({"x": x, "one": np.full(400, one)}) for x, one in zip([*sides, sides[1]], (0.1, 0.1, 0.2), strict=True)
    )
    sentences = ("shift <= 0.3", "shift(x) <= 0.3", "drifted_columns <= 10 %")
    fields = {"distance": "wasserstein", "tolerance": 0.3}
    assert both(tmp_path, first, same, *sentences, **fields) == ["PASS", "PASS", "PASS"]
    assert both(tmp_path, first, other, *sentences, **fields) == ["MISSING", "PASS", "INCONCLUSIVE"]


def test_whole_numbers_far_apart_name_no_rows(tmp_path: Path) -> None:
    """Incomes hardly ever repeat, and they may have moved; a counter goes from one row to the next."""
    rng = np.random.default_rng(8)
    income = rng.choice(10**7, 600, replace=False)
    first, second = (
        pa.table({"income": income * by, "id": np.arange(600) + by, "x": np.arange(600) % 30}) for by in (1, 100)
    )
    assert both(tmp_path, first, second, "shift <= 0.2", "drifted_columns <= 10 %") == ["FAIL", "FAIL"]
    assert both(tmp_path, first, second, "shift(id) <= 0.2", "shift(x) <= 0.2") == ["MISSING", "PASS"]

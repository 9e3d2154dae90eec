"""Where other tools crash, alarm for nothing or say nothing: each gets the status that it should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.shift import Shift
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

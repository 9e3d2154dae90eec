from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.contamination.keys import KeyDetector
from evalspec.errors import InputError
from tests.checks.data.asking import asked, looked


def detector(train: pa.Table, test: pa.Table, key: tuple[str, ...] = ("id",), batch: int = 3) -> KeyDetector:
    made = KeyDetector(asked(test, ["x"]), key)
    looked(made, train, batch)
    return made


def found(made: KeyDetector) -> list[int]:
    return np.flatnonzero(made.levels()[0].rows).tolist()


def test_rows_of_one_key_are_found_whatever_else_they_hold() -> None:
    train = pa.table({"id": ["a", "b", "c", "d", "e"], "x": [1, 2, 3, 4, 5]})
    test = pa.table({"id": ["q", "d", "b", "d"], "x": [9, 4, 7, 8]})
    made = detector(train, test)
    assert found(made) == [1, 2, 3]
    assert made.levels()[0].train_row["train"].tolist() == [-1, 3, 1, 3]
    assert made.other_content.tolist() == [False, False, True, True]
    assert {(pair.test_row, pair.train_row) for pair in made.pairs()} == {(2, 1)}
    assert made.pairs()[0].train.fields["x"] == 2
    assert made.notes == ("2 rows of test have the id of a training row that differs from them.",)


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_of_several_training_rows_with_a_key_one_that_differs_is_enough(batch: int) -> None:
    train = pa.table({"id": [7, 7, 8, 8], "x": [1, 2, 3, 3]})
    test = pa.table({"id": [7, 8], "x": [1, 3]})
    made = detector(train, test, batch=batch)
    assert found(made) == [0, 1]
    assert made.other_content.tolist() == [True, False]


def test_numbers_are_equal_by_value_and_are_no_text() -> None:
    train = pa.table({"id": [1.0, 2.5], "x": [0, 0]})
    assert found(detector(train, pa.table({"id": [1, 3], "x": [0, 0]}))) == [0]
    with pytest.raises(InputError, match="can never be equal"):
        detector(train, pa.table({"id": ["1", "3"], "x": [0, 0]}))


def test_keys_of_several_columns_are_not_run_together() -> None:
    train = pa.table({"a": ["x,y", "k"], "b": ["z", "m"], "x": [0, 0]})
    test = pa.table({"a": ["x", "k", "x,y"], "b": ["y,z", "m", "z"], "x": [1, 1, 1]})
    assert found(detector(train, test, ("a", "b"))) == [1, 2]


def test_a_missing_key_names_nothing() -> None:
    train = pa.table({"id": pa.array([None, "", "a"], pa.string()), "x": [0, 1, 2]})
    test = pa.table({"id": pa.array([None, "", "a"], pa.string()), "x": [0, 1, 2]})
    made = detector(train, test)
    assert found(made) == [2]
    assert made.notes == ("2 rows of test have no id.",)
    numbers = pa.table({"id": [np.nan, 1.0], "x": [0, 1]})
    assert found(detector(numbers, numbers)) == [1]


def test_without_any_shared_key_there_is_nothing_to_show() -> None:
    made = detector(pa.table({"id": [1, 2], "x": [0, 0]}), pa.table({"id": [3, 4], "x": [0, 0]}))
    assert found(made) == [] and made.pairs() == ()
    assert not made.other_content.any()

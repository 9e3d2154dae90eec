"""What a check is without saying it."""

from __future__ import annotations

from typing import ClassVar, Literal

import pytest

from evalspec.errors import SpecError
from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check, DatasetName, Need, NeedRows


class _Rows(Check):
    """A check of rows."""

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("twice", "rows", "lower", "Duplicate rows.", exact=True),)
    check: Literal["rows"] = "rows"
    dataset: DatasetName

    def needs(self) -> tuple[Need, ...]:
        return (NeedRows(self.dataset),)


class _RowsOfAModel(_Rows):
    """A check of rows that a model wrote."""

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    uses_model: ClassVar[bool] = True


class _TwoSides(_Rows):
    """A check of two datasets: its rows may be those of either."""

    other: DatasetName


def made(kind: type[Check], sentence: str) -> Check:
    fields = {"check": "rows", "dataset": "test", "require": [sentence]}
    return kind.model_validate(fields | ({"other": "train"} if kind is _TwoSides else {}))


def test_a_check_of_data_is_about_no_model_unless_it_says_so() -> None:
    assert (_Rows.uses_model, _RowsOfAModel.uses_model, _TwoSides.uses_model) == (False, True, False)
    with pytest.raises(ValueError, match="it has no model"):
        _Rows.model_validate({"check": "rows", "dataset": "test", "model": "candidate", "report_only": True})


@pytest.mark.parametrize("sentence", ["twice <= 500 rows", "twice <= 900 rows", "twice < 501 rows"])
def test_a_count_of_rows_that_is_never_too_large_is_refused(sentence: str) -> None:
    check = made(_Rows, sentence)
    with pytest.raises(SpecError, match="can never fail: test has 500 rows in all"):
        check.check_requirement(check.requirements[0], {"test": 500})
    assert check.check_requirement(check.requirements[0], {"test": None}) is None


def test_rows_of_several_datasets_are_not_held_against_those_of_one() -> None:
    check = made(_TwoSides, "twice <= 900 rows")
    assert check.check_requirement(check.requirements[0], {"test": 500, "train": 2000}) is None

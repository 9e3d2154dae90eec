from __future__ import annotations

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.starting.class_order import in_order
from evalspec.starting.rows import RowsSketch


def rows(values: tuple[str, ...], names: tuple[str, ...] = ()) -> RowsSketch:
    return RowsSketch({"kind": "csv", "path": "t.csv"}, {"y": "string"}, 10, "y", values=names or values, names=names)


def test_a_model_that_tells_its_classes_needs_none_stated() -> None:
    assert in_order(["a", "b"], rows(("a", "b")), 2, None).stated == ()
    assert in_order([0, 1], rows(("0", "1")), 2, None).classes == ("0", "1")


def test_names_of_the_data_rename_numbers_of_the_model() -> None:
    order = in_order([0, 1], rows(("0", "1"), ("ham", "spam")), 2, None)
    assert (order.stated, order.class_names) == (("ham", "spam"), True)
    assert in_order(["ham", "spam"], rows((), ("ham", "spam")), 2, None).stated == ()


def test_the_order_of_the_alphabet_stands_unless_the_rows_clearly_say_another() -> None:
    alike, other = np.array([[40, 5], [5, 40]]), np.array([[5, 40], [40, 5]])
    assert in_order(None, rows(("a", "b")), 2, alike).classes == ("a", "b")
    order = in_order(None, rows(("a", "b")), 2, other)
    assert order.classes == ("b", "a")
    assert "in which 89 % of the first rows agree (in alphabetical order 11 %)" in order.note


def test_labels_that_fit_no_output_are_refused() -> None:
    with pytest.raises(InputError, match="not the model's classes"):
        in_order(["a", "b"], rows(("x", "y", "z")), 2, None)
    with pytest.raises(InputError, match="gives 3 classes, and the first rows hold 2 labels"):
        in_order(None, rows(("x", "y")), 3, None)
    assert in_order(None, rows(("0", "2")), 4, None).classes == ("0", "1", "2", "3")

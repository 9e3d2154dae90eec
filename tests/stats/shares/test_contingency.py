from __future__ import annotations

import numpy as np
import pytest
from scipy.stats.contingency import association as plain_association

from evalspec.stats.shares.contingency import association


def test_one_column_that_tells_the_other() -> None:
    assert association(np.diag([30, 50, 20])) == pytest.approx(1.0, abs=1e-12)
    assert association(np.array([[30, 0, 0], [0, 50, 20]])) == pytest.approx(1.0, abs=1e-2)


def test_nothing_to_do_with_each_other() -> None:
    assert association(np.array([[20, 40], [10, 20]])) == 0.0


def test_the_bias_of_the_plain_one_is_gone() -> None:
    rng = np.random.default_rng(3)
    tables = rng.multinomial(200, np.full(30, 1 / 30), size=200).reshape(200, 5, 6)
    found = np.array([association(table) for table in tables])
    plain = np.array([plain_association(table, method="cramer") for table in tables])
    assert plain.mean() > 0.14
    assert found.mean() < 0.05


def test_with_many_rows_it_is_the_plain_one() -> None:
    table = np.array([[4000, 1000, 500], [1500, 3000, 2500]])
    assert association(table) == pytest.approx(plain_association(table, method="cramer"), abs=1e-3)


@pytest.mark.parametrize("table", [[[5, 7]], [[5], [7]], [[5, 0], [7, 0]], [[0, 0], [0, 0]]])
def test_one_category_has_none(table: list[list[int]]) -> None:
    assert association(np.array(table)) is None

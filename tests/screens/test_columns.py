"""How far the screen of columns looks before it sorts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from evalspec.screens.data.columns import MOVED, _at_most, _distance


@pytest.mark.parametrize("kind", ["normal", "whole", "rounded", "constant", "lognormal", "huge", "tiny"])
def test_the_bound_by_bins_is_never_below_the_distance(kind: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(100):
        first = rng.normal(size=rng.integers(30, 400))
        second = rng.normal(rng.choice([0.0, 0.3, 1.0, 4.0]), rng.choice([0.5, 1.0, 3.0]), size=rng.integers(30, 400))
        first, second = (
            {"normal": side, "whole": np.round(side), "rounded": np.round(side, 1), "constant": np.full(len(side), 2.0),
             "lognormal": np.exp(20.0 * side), "huge": side * 1e307, "tiny": side * 5e-324}[kind]
            for side in (first, second)
        )  # fmt: skip
        exact = float(ks_2samp(first, second).statistic)
        assert _distance(first, second) == pytest.approx(exact, abs=1e-12)
        assert _at_most(first, second) >= exact - 1e-12


def test_alike_columns_need_no_sorting_and_others_do() -> None:
    rng = np.random.default_rng(6)
    first, second = rng.normal(size=(2, 20_000))
    assert _at_most(first, second) < 0.06 < MOVED
    assert _at_most(first, second + 1.0) >= MOVED

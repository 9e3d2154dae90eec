"""Designs that an earlier record tells."""

from __future__ import annotations

import pytest
from scipy.stats import beta

from evalspec.errors import InputError
from evalspec.stats.recorded import recorded_proportion


@pytest.mark.parametrize(("hits", "n", "effect"), [(0, 400, 5.0), (3, 100, 20.0), (95, 100, 8.0), (100, 100, 3.0)])
def test_the_design_effect_is_what_makes_the_bound(hits: int, n: int, effect: float) -> None:
    """The bound on the side of the requirement: of a small share from above, of a large one from below."""
    small = hits <= n / 2
    bound = beta.ppf(0.95, hits + 1, n - hits) if small else beta.ppf(0.05, hits, n - hits + 1)
    found = recorded_proportion(hits / n, float(bound), 0.95, round(n * effect))
    assert found.n == round(n * effect)
    assert found.design_effect == pytest.approx(effect, rel=1e-3)


def test_a_bound_that_is_closer_than_independent_rows_allow_is_that_of_independent_rows() -> None:
    assert recorded_proportion(0.1, 0.101, 0.95, 100).design_effect == 1.0
    assert recorded_proportion(0.01, 1.0, 0.95, 1000).design_effect == pytest.approx(1000.0)


@pytest.mark.parametrize(
    ("value", "bound", "confidence", "n"), [(1.2, 0.5, 0.95, 10), (0.5, 0.6, 0.4, 10), (0.5, 0.6, 0.95, 0)]
)
def test_numbers_that_can_not_be(value: float, bound: float, confidence: float, n: int) -> None:
    with pytest.raises(InputError, match="no design from the share"):
        recorded_proportion(value, bound, confidence, n)

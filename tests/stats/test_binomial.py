"""Tails beside scipy.stats."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from evalspec.stats.binomial import above, at_most, drawn_at_most, rarely_above

SIZES = np.array([1, 2, 7, 50, 299, 1000, 123_456])


@pytest.mark.parametrize("p", [1e-6, 0.01, 0.3, 0.5, 0.95, 0.999])
def test_tails_are_those_of_scipy(p: float) -> None:
    rng = np.random.default_rng(0)
    n = np.repeat(SIZES, 50)
    k = np.clip(rng.binomial(n, p) + rng.integers(-5, 6, len(n)), -2, n + 2)
    np.testing.assert_allclose(at_most(k, n, p), binom.cdf(k, n, p), rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(above(k, n, p), binom.sf(k, n, p), rtol=1e-8, atol=1e-300)


@pytest.mark.parametrize("alpha", [1e-9, 0.002, 0.05, 0.5, 0.99])
@pytest.mark.parametrize("p", [0.001, 0.2, 0.5, 0.98])
def test_the_smallest_count_that_is_rarely_exceeded(alpha: float, p: float) -> None:
    k = rarely_above(alpha, SIZES, p)
    assert (above(k, SIZES, p) <= alpha).all() and (above(k - 1, SIZES, p) > alpha).all()
    np.testing.assert_array_equal(k, binom.isf(alpha, SIZES, p))


@pytest.mark.parametrize(
    ("population", "marked", "drawn"), [(10, 3, 4), (1000, 6, 598), (1_000_000, 5001, 600), (8, 8, 8)]
)
def test_draws_without_replacement_are_those_of_scipy(population: int, marked: int, drawn: int) -> None:
    for k in (0, 1, 2, 5, 50):
        expected = hypergeom.cdf(k, population, marked, drawn)
        assert drawn_at_most(k, population, marked, drawn) == pytest.approx(expected, rel=1e-6, abs=1e-300)

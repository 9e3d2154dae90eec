"""Cramer's V and the population stability index: agreement with their formulas, and nothing by chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats.contingency import association

from evalspec.errors import InputError
from evalspec.stats.drift.association import cramers_v, stability, stability_of_numbers


def test_v_is_that_of_scipy_for_many_rows() -> None:
    """Where rows are many the correction vanishes."""
    table = np.array([[50_000, 30_000, 20_000], [30_000, 30_000, 40_000]])
    assert cramers_v(table[0], table[1]) == pytest.approx(association(table, method="cramer"), abs=2e-4)


def test_v_has_no_bias() -> None:
    """Bergsma's correction by hand: chi2 / n = 0.01, less (C - 1)(R - 1)/(n - 1) = 1/399."""
    v = cramers_v(np.array([110, 90]), np.array([90, 110]))
    phi = 0.01 - 1 / 399
    smaller = 2 - 1 / 399 - 1
    assert v == pytest.approx(np.sqrt(phi / smaller))
    rng = np.random.default_rng(1)
    plain, ours = [], []
    for _ in range(300):
        table = rng.multinomial(100, np.full(12, 1 / 12), size=2)
        ours.append(cramers_v(table[0], table[1]) or 0.0)
        plain.append(association(table, method="cramer"))
    assert np.mean(ours) < 0.1 < 0.2 < np.mean(plain)


def test_v_of_nothing() -> None:
    assert cramers_v(np.array([5, 0]), np.array([3, 0])) is None
    assert cramers_v(np.array([5, 1]), np.array([0, 0])) is None
    assert cramers_v(np.array([40, 0]), np.array([0, 40])) == pytest.approx(1.0, abs=0.02)
    with pytest.raises(InputError, match="2 categories beside 3"):
        cramers_v(np.array([5, 0]), np.array([3, 0, 1]))


def test_stability_is_the_formula_over_reference_deciles() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=50_000), rng.normal(0.3, 1.0, 60_000)
    found = stability_of_numbers(x, y)
    assert found is not None and found.cells == 10
    edges = np.concatenate(([-np.inf], np.quantile(x, np.arange(1, 10) / 10), [np.inf]))
    a, b = (np.histogram(side, edges)[0] / len(side) for side in (x, y))
    assert found.plain == pytest.approx(float(((b - a) * np.log(b / a)).sum()), abs=1e-4)
    assert found.by_chance == pytest.approx(9 * (1 / 50_000 + 1 / 60_000))


def test_what_chance_adds_is_taken_off() -> None:
    """At 200 rows a side and ten cells two equal samples have 0.09 on average, which the field's bands call stable."""
    rng = np.random.default_rng(3)
    found = [stability_of_numbers(rng.normal(size=200), rng.normal(size=200)) for _ in range(400)]
    plain = np.mean([one.plain for one in found if one is not None])
    assert plain == pytest.approx(9 * 2 / 200, abs=0.01)
    assert np.mean([one.value for one in found if one is not None]) < 0.02


def test_stability_of_ties_and_nothing() -> None:
    assert stability_of_numbers(np.zeros(50), np.zeros(50)) is None
    assert stability_of_numbers(np.empty(0), np.zeros(50)) is None
    ties = stability_of_numbers(np.repeat([0.0, 1.0], 50), np.repeat([0.0, 1.0], [20, 80]))
    assert ties is not None and ties.cells == 2
    assert ties.plain == pytest.approx(0.3 * np.log(0.5 / 0.2) + 0.3 * np.log(0.8 / 0.5), abs=0.02)
    # A category that the current data have lost has no infinite share.
    lost = stability(np.array([50, 50]), np.array([100, 0]))
    assert lost is not None and np.isfinite(lost.plain)
    assert stability(np.array([5]), np.array([5])) is None

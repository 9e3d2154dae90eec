"""Overheads of pairs: against scipy, and how often their bounds hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.training.overhead import overhead, t_mean
from evalspec.stats.training.pair_order import pair_order
from evalspec.stats.training.reached import OpenShare


def test_it_is_a_t_test_of_the_log_ratios() -> None:
    draw = np.random.default_rng(3)
    longer, shorter = np.exp(draw.normal(0.1, 0.02, 6)), np.exp(draw.normal(0.0, 0.02, 6))
    found, logs = overhead(longer, shorter), np.log(longer / shorter)
    assert found.value == pytest.approx(math.expm1(logs.mean()))
    assert found.n == 6
    for side, alternative in (("lower", "greater"), ("upper", "less")):
        tested = stats.ttest_1samp(logs, math.log(1.08), alternative=alternative)
        assert found.p_value(0.08, side) == pytest.approx(tested.pvalue)  # type: ignore[arg-type]
    reach = stats.t.ppf(0.95, 5) * logs.std(ddof=1) / math.sqrt(6)
    assert found.bound(0.95, "upper") == pytest.approx(math.expm1(logs.mean() + reach))
    assert found.p_value(-1.0, "lower") == 0.0 and found.p_value(-2.0, "upper") == 1.0
    assert found.n_to_decide(-1.0, 0.05) is None


def test_its_upper_bound_holds_in_19_of_20() -> None:
    draw = np.random.default_rng(5)
    kept = 0
    for _ in range(2_000):
        longer, shorter = np.exp(draw.normal(0.05, 0.03, 5)), np.exp(draw.normal(0.0, 0.03, 5))
        bound = overhead(longer, shorter).bound(0.95, "upper")
        kept += bound is not None and bound >= math.expm1(0.05)
    assert 0.935 <= kept / 2_000 <= 0.965


def test_a_drift_of_the_machine_is_not_told_as_overhead() -> None:
    """10 % slower at the end than at the beginning, and no overhead: `<= 1 %` fails in blocks, and not in turn."""

    def fails(order: list[tuple[int, bool]], draw: np.random.Generator) -> bool:
        drift = np.linspace(0.0, 0.1, len(order))
        took = {one: math.exp(draw.normal(0.0, 0.005)) * (1.0 + late) for one, late in zip(order, drift, strict=True)}
        pairs = range(len(order) // 2)
        found = overhead([took[number, True] for number in pairs], [took[number, False] for number in pairs])
        p = found.p_value(0.01, "lower")
        return p is not None and found.value > 0.01 and p <= 0.05

    assert pair_order(3) == [(0, True), (0, False), (1, False), (1, True), (2, True), (2, False)]
    draw = np.random.default_rng(7)
    blocks = [(number, kept) for kept in (False, True) for number in range(5)]
    always = [(number, kept) for number in range(5) for kept in (False, True)]
    assert sum(fails(pair_order(5), draw) for _ in range(500)) <= 5
    assert sum(fails(blocks, draw) for _ in range(500)) >= 450
    assert sum(fails(always, draw) for _ in range(500)) > sum(fails(pair_order(5), draw) for _ in range(500))


def test_equal_values_have_the_deviation_that_they_are_known_by() -> None:
    assert t_mean([2.0, 2.0], 0.02).standard_deviation == 0.02
    with pytest.raises(ValueError, match="two values"):
        t_mean([1.0])


def test_open_runs_count_for_neither_side() -> None:
    share = OpenShare(Proportion.of_counts(5, 10), Proportion.of_counts(8, 10))
    assert share.value == 0.5 and share.n == 10
    assert share.p_value(0.6, "lower") == share.sure.p_value(0.6, "lower")
    assert share.p_value(0.6, "upper") == share.possible.p_value(0.6, "upper")
    assert share.bound(0.95, "lower") == share.sure.bound(0.95, "lower")
    assert share.bound(0.95, "upper") == share.possible.bound(0.95, "upper")

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from statsmodels.stats.power import TTestPower

from evalspec.stats.power import (
    NormalDesign,
    PairedDesign,
    ProportionDesign,
    chance_of_fail,
    chance_of_pass,
    detectable,
    t_power,
    values_for_t,
)
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import Proportion


@pytest.mark.parametrize("truth", [0.93, 0.95, 0.97, 0.99])
def test_chance_for_a_proportion_is_exact(truth: float) -> None:
    n, threshold = 600, 0.95
    estimates = [Proportion.of_counts(x, n) for x in range(n + 1)]
    chance = binom.pmf(np.arange(n + 1), n, truth)
    design = ProportionDesign(n)
    passes = np.array([estimate.p_value(threshold, "lower") for estimate in estimates], dtype=float) <= 0.05
    fails = np.array([estimate.p_value(threshold, "upper") for estimate in estimates], dtype=float) <= 0.0025
    assert chance_of_pass(design, truth, threshold, "higher", 0.05) == pytest.approx(chance[passes].sum(), abs=1e-9)
    assert chance_of_fail(design, truth, threshold, "higher", 0.0025) == pytest.approx(chance[fails].sum(), abs=1e-9)


def test_headroom_and_violation_are_where_they_say() -> None:
    design = ProportionDesign(1000)
    found = detectable(design, 0.9, "higher", alpha_pass=0.05, alpha_fail=0.0025, family=20)
    assert found.headroom is not None and found.violation is not None
    assert found.pass_chance == pytest.approx(0.995)
    assert chance_of_pass(design, 0.9 + found.headroom, 0.9, "higher", 0.05) == pytest.approx(0.995, abs=1e-4)
    assert chance_of_fail(design, 0.9 - found.violation, 0.9, "higher", 0.0025) == pytest.approx(0.8, abs=1e-4)
    mirrored = detectable(design, 0.1, "lower", alpha_pass=0.05, alpha_fail=0.0025, family=20)
    assert mirrored.headroom == pytest.approx(found.headroom, abs=1e-9)


def test_a_requirement_that_no_truth_can_pass_has_no_headroom() -> None:
    # 0.99^20 = 0.82: even 20 of 20 don't show a share above 0.99.
    found = detectable(ProportionDesign(20), 0.99, "higher", alpha_pass=0.05, alpha_fail=0.05, family=1)
    assert found.headroom is None
    assert found.violation is not None


def test_a_design_effect_divides_the_rows() -> None:
    assert ProportionDesign(1000, 2.0).power(0.95, 0.9, "lower", 0.05) == ProportionDesign(500).power(
        0.95, 0.9, "lower", 0.05
    )
    assert ProportionDesign(1000, 2.0).power(0.001, 0.01, "upper", 0.05) == ProportionDesign(500).power(
        0.001, 0.01, "upper", 0.05
    )
    assert "design effect 2" in ProportionDesign(1000, 2.0).assumed


@pytest.mark.parametrize(("truth", "side", "alpha"), [(0.0, "lower", 0.05), (-0.03, "upper", 0.0025)])
def test_chance_for_a_paired_proportion_is_that_of_the_score_test(truth: float, side: str, alpha: float) -> None:
    n, discordance, margin = 2000, 0.05, -0.01
    rng = np.random.default_rng(0)
    shares = [(discordance + truth) / 2, (discordance - truth) / 2, 1 - discordance]
    wins = 0
    for better, worse, _ in rng.multinomial(n, shares, size=600):
        rows = np.arange(n)
        estimate = paired_proportion(rows >= worse, (rows < worse) | (rows >= worse + better)).difference(1.0, margin)
        p = estimate.p_value(margin, side)  # type: ignore[arg-type]
        wins += p is not None and p <= alpha
    expected = PairedDesign(n, discordance).power(truth, margin, side, alpha)  # type: ignore[arg-type]
    assert wins / 600 == pytest.approx(expected, abs=0.05)


def test_a_point_is_not_decided_by_a_thousand_pairs() -> None:
    # 3,092 pairs give 80 % at a margin of 1 point and 5 % discordance, by the normal approximation.
    chance = [PairedDesign(n, 0.05).power(0.0, -0.01, "lower", 0.05) for n in (1000, 3092)]
    assert chance[0] < 0.45
    assert chance[1] == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    ("effect", "n", "alpha"), [(0.5, 10, 0.05), (2.0, 5, 0.0025), (1.0, 30, 0.05), (-0.5, 10, 0.05)]
)
def test_t_power_is_that_of_statsmodels(effect: float, n: int, alpha: float) -> None:
    expected = TTestPower().power(effect, n, alpha, alternative="larger")
    assert t_power(effect, n, alpha) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("effect", [0.01, 0.3, 1.0, 5.0])
def test_values_for_t_reach_the_power(effect: float) -> None:
    n = values_for_t(effect, 0.05)
    assert t_power(effect, n, 0.05) >= 0.8 - 1e-4
    assert n == 2 or t_power(effect, n - 1, 0.05) < 0.8


def test_t_power_stays_a_chance_far_out() -> None:
    assert t_power(1e6, 5, 0.05) == pytest.approx(1.0)
    assert t_power(-1e6, 5, 0.05) == pytest.approx(0.0)


def test_a_truth_has_no_place_beyond_the_limits() -> None:
    bounded = NormalDesign(0.1, "assumed", lowest=0.0)
    assert detectable(bounded, 0.2, "lower", alpha_pass=0.05, alpha_fail=0.05, family=1).headroom is None

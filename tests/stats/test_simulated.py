"""Simulations that end early: what they let pass, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.stats.simulated import MISSED, allowed, enough, enough_of_each, mostly, rarely, until_settled

REPEATS = 300
MOST = float(allowed(REPEATS, np.array([0.065]))[0])


def drawn(rate: float, seed: int) -> list[bool]:
    errs = np.random.default_rng(seed).random(REPEATS) < rate
    return until_settled(errs.tolist(), lambda one: [one], [MOST], REPEATS)


def test_what_errs_seldom_is_settled_by_a_part_of_the_samples() -> None:
    made = [drawn(0.02, seed) for seed in range(40)]
    assert np.mean([len(one) for one in made]) < REPEATS / 2
    assert all(np.mean(one) <= MOST for one in made)


def test_what_all_samples_show_to_err_too_often_ends_none_early() -> None:
    """At 20 % all 300 samples would be over the limit of 11 % but once in 10,000 cases."""
    made = [drawn(0.2, seed) for seed in range(200)]
    assert all(len(one) == REPEATS and np.mean(one) > MOST for one in made)


@pytest.mark.parametrize("rate", [0.09, 0.11, 0.13])
def test_near_the_limit_the_word_is_that_of_all_samples(rate: float) -> None:
    differ = 0
    for seed in range(100):
        every = np.random.default_rng(seed).random(REPEATS) < rate
        differ += (np.mean(drawn(rate, seed)) <= MOST) != (np.mean(every) <= MOST)
    assert differ <= 4


def test_without_an_error_as_many_are_drawn_as_rule_it_out() -> None:
    """Where none of 100 may err, (1 - p)^100 = 1/1,000 is ruled out by all of them; of 10 % it takes fewer."""
    assert len(until_settled([False] * 100, lambda one: [one], [0.0], 100)) == 100
    some = len(until_settled([False] * 100, lambda one: [one], [0.1], 100))
    assert 20 < some < 60 and 0.0 < MISSED <= 0.001


def test_samples_that_say_nothing_are_not_counted() -> None:
    """One of four tells: four times as many are drawn, and no less than are asked for."""
    every = until_settled([0.0] * 1000, lambda one: [one], [0.1], 1000)
    some = until_settled([math.nan, math.nan, math.nan, 0.0] * 250, lambda one: [one], [0.1], 1000)
    assert len(some) == 4 * len(every)
    assert len(until_settled([0.0] * 1000, lambda one: [one], [0.1], 1000, least=500)) == 500


def test_pairs_and_shares() -> None:
    silent, wrong = (None, 1.0), (0.001, 0.9)
    assert len(enough([silent] * 4000)) < 2000 and len(enough([wrong] * 4000)) == 4000
    fine, bad = enough_of_each([(silent, wrong)] * 500, repeats=500)
    assert len(fine) == len(bad) == 500
    assert rarely([False] * 400, 0.05, 400) == 0.0 and rarely([True] * 400, 0.05, 400) == 1.0
    assert mostly([True] * 400, 0.9, 400) == 1.0 and mostly([False, True] * 200, 0.9, 400) == 0.5

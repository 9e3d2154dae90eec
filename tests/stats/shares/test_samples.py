from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
import pytest

from evalspec.stats.means.bounded import SHARE, BoundedMean
from evalspec.stats.means.mean import mean
from evalspec.stats.shares.samples import pass_all, pass_at
from tests.stats.simulated import Pair, allowed, enough, p_values, wrong_claims

ONE = np.ones(1, dtype=np.int64)


@pytest.mark.parametrize("samples", [1, 3, 8])
def test_it_is_the_share_of_all_ways_to_draw(samples: int) -> None:
    for right in range(samples + 1):
        outcomes = np.arange(samples) < right
        for k in range(1, samples + 1):
            drawn = [outcomes[list(one)] for one in combinations(range(samples), k)]
            at, every = np.mean([one.any() for one in drawn]), np.mean([one.all() for one in drawn])
            assert pass_at(right * ONE, samples * ONE, k)[0] == pytest.approx(at, abs=1e-12)
            assert pass_all(right * ONE, samples * ONE, k)[0] == pytest.approx(every, abs=1e-12)


def test_many_samples_are_the_products_of_the_paper() -> None:
    """1 - prod(1 - k / i) over i = n - c + 1 .. n, as the paper computes it."""
    samples, right, k = 200, np.arange(0, 191), 10
    paper = [1.0 - np.prod(1.0 - k / np.arange(samples - one + 1, samples + 1)) for one in right]
    np.testing.assert_allclose(pass_at(right, np.full(len(right), samples), k), paper, atol=1e-10)


@pytest.mark.parametrize(("of", "power"), [(pass_at, 0), (pass_all, 1)])
def test_its_mean_is_the_chance(of: Callable[..., np.ndarray], power: int) -> None:
    rng, p, k = np.random.default_rng(0), 0.3, 3
    right = rng.binomial(6, p, 200_000)
    truth = p**k if power else 1.0 - (1.0 - p) ** k
    assert of(right, np.full(len(right), 6), k).mean() == pytest.approx(truth, abs=0.004)


def found_in(of: Callable[..., np.ndarray], questions: int, k: int, hard: float, repeats: int) -> Iterator[Pair]:
    """Questions whose chances are beta, some never answered, eight answers each."""
    rng = np.random.default_rng(k * questions)
    p = np.where(rng.random(400_000) < hard, 0.0, rng.beta(0.6, 0.4, 400_000))
    truth = float(np.mean(p**k if of is pass_all else 1.0 - (1.0 - p) ** k))
    for _ in range(repeats):
        right = rng.binomial(8, rng.choice(p, questions))
        yield p_values(mean(of(right, np.full(questions, 8), k), limits=SHARE), truth)


@pytest.mark.parametrize("of", [pass_at, pass_all])
def test_bounds_over_questions_err_as_seldom_as_they_say(of: Callable[..., np.ndarray]) -> None:
    assert np.all(wrong_claims(found_in(of, 60, 3, 0.1, 300)) <= allowed(300))


@pytest.mark.proof
@pytest.mark.parametrize("of", [pass_at, pass_all])
@pytest.mark.parametrize("questions", [20, 60, 164, 400])
@pytest.mark.parametrize("k", [1, 4, 8])
@pytest.mark.parametrize("hard", [0.02, 0.3])
def test_bounds_over_questions_err_as_seldom_in_many_samples(
    of: Callable[..., np.ndarray], questions: int, k: int, hard: float
) -> None:
    assert np.all(wrong_claims(enough(found_in(of, questions, k, hard, 800), allowed(800), 800)) <= allowed(800))


def test_few_questions_have_a_bound_that_holds_at_any_number() -> None:
    right = np.random.default_rng(1).binomial(8, 0.6, 164)
    assert isinstance(mean(pass_at(right, np.full(164, 8), 2), limits=SHARE), BoundedMean)

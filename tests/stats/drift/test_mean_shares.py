"""Total variation of mean shares: its value, its bounds, its error rates."""

from __future__ import annotations

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.stats.drift.distances import Distance, total_variation
from evalspec.stats.drift.mean_shares import MOST_ROWS, mean_shares_distance
from tests.stats.simulated import ALLOWED, REPEATS, bounded, p_values, wrong_claims


def texts(rng: np.random.Generator, rows: int, shares: np.ndarray, words: int) -> np.ndarray:
    """Shares of each text's words; a text keeps to its own matter, so its words are alike."""
    own = rng.dirichlet(20.0 * shares, rows)
    return np.stack([rng.multinomial(words, one) for one in own]) / words


def between(first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> Distance:
    sizes = len(first), len(second)
    return mean_shares_distance(first.mean(axis=0), second.mean(axis=0), sizes, np.concatenate((first, second)), rng)


def test_rows_of_one_cell_are_categories() -> None:
    """Its value and its null are those of the total variation of categories."""
    rng = np.random.default_rng(1)
    first, second = (np.eye(3)[rng.choice(3, n, p=p)] for n, p in ((300, (0.5, 0.3, 0.2)), (200, (0.4, 0.3, 0.3))))
    ours = between(first, second, rng)
    theirs = total_variation(first.sum(axis=0).astype(int), second.sum(axis=0).astype(int), rng=rng)
    assert ours.value == pytest.approx(theirs.value)
    assert ours.bound(0.95, "upper") == pytest.approx(theirs.bound(0.95, "upper"))
    assert ours.null is not None and theirs.null is not None
    assert np.quantile(ours.null, 0.95) == pytest.approx(np.quantile(theirs.null, 0.95), abs=0.01)


def test_a_part_of_the_rows_has_the_null_of_all() -> None:
    rng = np.random.default_rng(2)
    first, second = (texts(rng, n, np.full(8, 1 / 8), 30) for n in (MOST_ROWS, MOST_ROWS))
    whole = between(first, second, rng)
    some = np.concatenate((first, second))[rng.permutation(2 * MOST_ROWS)[:1000]]
    part = mean_shares_distance(first.mean(axis=0), second.mean(axis=0), (MOST_ROWS, MOST_ROWS), some, rng)
    assert whole.null is not None and part.null is not None
    assert np.quantile(part.null, 0.9) == pytest.approx(np.quantile(whole.null, 0.9), rel=0.06)


def test_nothing_has_no_distance() -> None:
    rng = np.random.default_rng(3)
    empty = mean_shares_distance(np.zeros(2), np.zeros(2), (0, 5), np.zeros((5, 2)), rng)
    assert empty.value is None and empty.bound(0.95, "upper") is None
    with pytest.raises(InputError, match="2 cells beside 3"):
        mean_shares_distance(np.zeros(2), np.zeros(3), (5, 5), np.zeros((5, 2)), rng)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "moved"), [(60, 60, 0.0), pytest.param(80, 200, 0.15, marks=pytest.mark.proof)])
def test_error_rates(n: int, m: int, moved: float) -> None:
    rng, found = np.random.default_rng([n, m]), []
    even = np.array([0.4, 0.3, 0.2, 0.1])
    other = even + moved * np.array([-1.0, 0.0, 0.0, 1.0])
    pool = [texts(rng, 20_000, shares, 5) for shares in (even, other)]
    # The truth is that of these two populations.
    truth = float(np.abs(pool[0].mean(axis=0) - pool[1].mean(axis=0)).sum() / 2)
    for _ in range(REPEATS // 16):
        first, second = (one[rng.integers(0, len(one), k)] for one, k in zip(pool, (n, m), strict=True))
        found.append(p_values(between(first, second, rng), truth))
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= ALLOWED).all()

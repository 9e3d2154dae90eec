"""Maximum mean discrepancy: its formula, valid p-values, clusters, what it can't be asked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.stats.drift import mmd
from evalspec.stats.drift.mmd import mmd_test
from tests.stats.simulated import ALLOWED


def plain(x: np.ndarray, y: np.ndarray, width: float) -> float:
    """The unbiased squared discrepancy as Gretton et al. write it, by a full kernel in double precision."""
    pooled = np.concatenate((x, y))
    squares = ((pooled[:, None, :] - pooled[None, :, :]) ** 2).sum(axis=2)
    kernel = np.exp(-squares / (2 * width**2))
    n, m = len(x), len(y)
    a, b, c = kernel[:n, :n], kernel[n:, n:], kernel[:n, n:]
    return float((a.sum() - n) / (n * (n - 1)) + (b.sum() - m) / (m * (m - 1)) - 2 * c.mean())


@pytest.mark.parametrize(("n", "m", "d"), [(60, 60, 3), (130, 50, 1), (700, 300, 8)])
def test_it_is_the_unbiased_estimate(n: int, m: int, d: int) -> None:
    rng = np.random.default_rng(n)
    x, y = 5.0 + rng.normal(size=(n, d)), 5.2 + rng.normal(size=(m, d))
    found = mmd_test(x, y, rng=rng, permutations=19)
    assert found is not None and found.rows == (n, m)
    assert found.squared == pytest.approx(plain(x, y, found.width), abs=2e-6)


def test_the_width_is_the_median_distance_of_pooled_rows() -> None:
    from scipy.spatial.distance import pdist

    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(80, 5)), rng.normal(size=(90, 5))
    found = mmd_test(x, y, rng=rng, permutations=19)
    assert found is not None
    assert found.width == pytest.approx(float(np.median(pdist(np.concatenate((x, y))))), rel=1e-4)


def test_a_shift_is_found_and_p_is_never_zero() -> None:
    rng = np.random.default_rng(2)
    found = mmd_test(rng.normal(size=(200, 4)), 1.0 + rng.normal(size=(200, 4)), rng=rng)
    assert found is not None and found.p_value == 1 / 1000
    assert "999 permutations of 200 and 200 rows" in found.method
    # Nothing in the means: only the spread differs.
    found = mmd_test(rng.normal(size=(300, 4)), 1.7 * rng.normal(size=(300, 4)), rng=rng)
    assert found is not None and found.p_value == 1 / 1000


def test_many_rows_are_drawn_down() -> None:
    rng = np.random.default_rng(3)
    found = mmd_test(rng.normal(size=(900, 2)), rng.normal(size=(300, 2)), rng=rng, most_rows=100, permutations=99)
    assert found is not None and found.rows == (100, 100)


def test_rows_that_are_all_alike_say_nothing() -> None:
    rng = np.random.default_rng(4)
    same = mmd_test(np.ones((50, 3)), np.ones((40, 3)), rng=rng)
    assert same is not None and same.p_value == 1.0 and same.squared == 0.0
    # Most pairs are equal, so that the median distance is 0; the others carry the width.
    mostly = np.zeros((100, 1))
    mostly[:5] = 1.0
    found = mmd_test(mostly, mostly, rng=rng)
    assert found is not None and found.width > 0 and found.p_value > 0.5


def test_too_few_rows_have_no_test() -> None:
    rng = np.random.default_rng(5)
    assert mmd_test(np.zeros((1, 2)), np.zeros((9, 2)), rng=rng) is None
    assert mmd_test(np.zeros((0, 2)), np.zeros((9, 2)), rng=rng) is None
    one = np.zeros(9, dtype=np.int64)
    assert mmd_test(np.zeros((9, 2)), np.zeros((9, 2)), rng=rng, clusters=(one, None)) is None


def test_rows_that_are_no_numbers_are_refused() -> None:
    rng = np.random.default_rng(6)
    with pytest.raises(InputError, match="not finite numbers"):
        mmd_test(np.full((9, 2), math.nan), np.zeros((9, 2)), rng=rng)
    with pytest.raises(InputError, match="2 numbers beside rows of 3"):
        mmd_test(np.zeros((9, 2)), np.zeros((9, 3)), rng=rng)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "size"), [(25, 40, 1), (12, 20, 3)])
def test_p_values_are_valid(n: int, m: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the null at most 5 % lie at or below 0.05; so they do where rows are copies of their cluster's first."""
    rng, found = np.random.default_rng([n, m]), []
    monkeypatch.setattr(mmd, "_BLOCK", 16)
    for _ in range(800):
        x, y = (np.repeat(rng.exponential(size=(k, 2)), size, axis=0) for k in (n, m))
        ids = (None, None) if size == 1 else (np.repeat(np.arange(n), size), np.repeat(np.arange(m), size))
        told = mmd_test(x, y, rng=rng, permutations=99, clusters=ids)
        assert told is not None
        found.append(told.p_value)
    p = np.array(found)
    assert p.min() >= 0.01
    assert np.mean(p <= 0.05) <= ALLOWED[0]
    # Nor does it lean the other way: half of them lie below one half.
    assert np.mean(p <= 0.5) == pytest.approx(0.5, abs=0.05)

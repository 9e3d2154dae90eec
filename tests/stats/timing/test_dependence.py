from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats.timing import dependence


def series(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "sparse":
        return rng.random(n) < 0.01
    if kind == "dense":
        return rng.random(n) < 0.5
    walk = np.convolve(rng.normal(size=n + 7), np.ones(8), mode="valid")
    return walk > 2.0


@pytest.mark.parametrize("kind", ["sparse", "dense", "bursts"])
@pytest.mark.parametrize("lengths", [(4096, 4096), (5000, 3001, 2100), (500, 401, 390, 500)])
def test_lags_counted_one_by_one_are_those_of_the_transform(kind: str, lengths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    over = [series(kind, n, rng) for n in lengths]
    about = [float(np.concatenate(over).mean())] * len(over)
    first = dependence._first_lags(over, about)
    assert first == pytest.approx(dependence._all_lags(over, about), rel=1e-9)
    assert (first > 2) == (kind == "bursts")


@pytest.mark.parametrize("lengths", [(1,), (2, 1), (7, 40, 3), (64, 65), (63,)])
def test_processes_shorter_than_the_lags_that_are_counted(lengths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        over = [series("dense", n, rng) for n in lengths]
        about = [float(one.mean()) for one in over]
        first = dependence._first_lags(over, about)
        if first is not None:
            assert first == pytest.approx(dependence._all_lags(over, about), rel=1e-9)


def test_episodes_of_neighbouring_processes_are_apart() -> None:
    over = [np.array([False, True]), np.array([True, True, False, False, True])]
    assert dependence.separate_episodes(over, 6.0) == 2
    assert dependence.separate_episodes(over, 1.0) == 4


def test_a_run_that_remembers_longer_is_transformed_whole() -> None:
    """Slow as a whole for half of its length: the sum goes on far beyond the first lags."""
    over = [np.repeat([True, False], 4096)]
    assert dependence._first_lags(over, [0.5]) is None
    assert dependence.design_effect(over) > 1000

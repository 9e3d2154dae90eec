from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats import _dependence


def series(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "sparse":
        return rng.random(n) < 0.01
    if kind == "dense":
        return rng.random(n) < 0.5
    walk = np.convolve(rng.normal(size=n + 7), np.ones(8), mode="valid")
    return walk > 2.0


@pytest.mark.parametrize("kind", ["sparse", "dense", "bursts"])
@pytest.mark.parametrize("lengths", [(4096, 4096), (5000, 3001, 2100)])
def test_lags_counted_one_by_one_are_those_of_the_transform(kind: str, lengths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    over = [series(kind, n, rng) for n in lengths]
    about = [float(np.concatenate(over).mean())] * len(over)
    first = _dependence._first_lags(over, about)
    centred = [one.astype(np.float64) - mean for one, mean in zip(over, about, strict=True)]
    assert first == pytest.approx(_dependence._all_lags(centred), rel=1e-9)
    assert (first > 2) == (kind == "bursts")


def test_a_run_that_remembers_longer_is_transformed_whole() -> None:
    """Slow as a whole for half of its length: the sum goes on far beyond the first lags."""
    over = [np.repeat([True, False], 4096)]
    assert _dependence._first_lags(over, [0.5]) is None
    assert _dependence.design_effect(over) > 1000

"""Summaries of columns: exact where they can be, and right about their own error where they can't."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp, wasserstein_distance

from evalspec.stats.drift import ranks as module
from evalspec.stats.drift.columns import CategoryCounts, Numbers
from evalspec.stats.drift.distances import ks_distance
from evalspec.stats.drift.rank_distances import ks_of_ranks, wasserstein_of
from evalspec.stats.drift.ranks import Ranks, RankSketch

Array = np.ndarray


def sketch(values: Array, most: int, step: int = 700) -> RankSketch:
    found = RankSketch(most)
    for start in range(0, len(values), step):
        found.update(values[start : start + step])
    return found


def assert_true(ranks: Ranks, values: Array) -> None:
    """Its counts hold what is so, at its points, between and beyond them."""
    points = np.concatenate((ranks.points, np.linspace(values.min() - 1, values.max() + 1, 999)))
    below, upto = ranks.at(points)
    ordered = np.sort(values)
    for found, side in ((below, "left"), (upto, "right")):
        truth = np.searchsorted(ordered, points, side=side)  # type: ignore[call-overload]
        assert (found[0] <= truth).all() and (truth <= found[1]).all()


def made(name: str, n: int) -> Array:
    rng = np.random.default_rng(3)
    values = {
        "normal": rng.normal(0, 1, n),
        "sorted": np.sort(rng.normal(0, 1, n)),
        "heavy": rng.standard_cauchy(n),
        "tied": np.round(rng.normal(0, 3, n)),
        "spiked": np.where(rng.random(n) < 0.4, 0.0, rng.normal(0, 1, n)),
        "trend": np.arange(n) + rng.normal(0, 5, n),
    }
    return values[name]


@pytest.mark.parametrize("name", ["normal", "sorted", "heavy", "tied", "spiked", "trend"])
def test_a_summary_of_parts_is_right_about_its_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFER", 1000)
    values = made(name, 40_000)
    found = sketch(values, 256).ranks()
    assert found.n == len(values) and len(found.points) <= 256
    assert (found.points[0], found.points[-1]) == (values.min(), values.max())
    assert_true(found, values)
    below, _ = found.at(np.quantile(values, np.linspace(0, 1, 500)))
    # 6 levels of 1 in 256 and a last pruning.
    assert (below[1] - below[0]).max() <= 8 / 256 * len(values)


def test_few_different_values_are_exact_and_merging_is_adding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFER", 1000)
    values = made("tied", 30_000)
    whole = sketch(values, 256)
    assert whole.ranks().exact
    first, second = sketch(values[:11_000], 256), sketch(values[11_000:], 256)
    first.merge(second)
    a, b = first.ranks(), whole.ranks()
    assert (a.points == b.points).all() and (a.upto == b.upto).all() and (a.below == b.below).all()
    parts = sketch(made("normal", 5000), 256)
    parts.merge(sketch(made("trend", 7000), 256))
    assert_true(parts.ranks(), np.concatenate((made("normal", 5000), made("trend", 7000))))
    empty = RankSketch().ranks()
    assert empty.n == 0 and empty.merged(b) is b and ks_of_ranks(empty, b).value is None


def test_the_distance_of_summaries_is_that_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against scipy: equal where all values fit, else within the stated slack."""
    rng = np.random.default_rng(1)
    for x, y in (
        (rng.normal(0, 1, 900), rng.normal(0.2, 1, 1400)),
        (rng.integers(0, 9, 5000).astype(float), rng.integers(1, 9, 900).astype(float)),
        (np.ones(100), np.ones(100)), (np.ones(100), np.full(100, 2.0)),
    ):  # fmt: skip
        found = ks_of_ranks(Ranks.of(x), Ranks.of(y))
        assert found.slack == (0.0, 0.0)
        assert found.value == pytest.approx(ks_2samp(x, y).statistic, abs=1e-12)
        assert found == ks_distance(x, y)
    monkeypatch.setattr(module, "BUFFER", 1000)
    for by in (0.0, 0.05, 0.3):
        x, y = rng.normal(0, 1, 30_000), rng.normal(by, 1, 20_000)
        found = ks_of_ranks(sketch(x, 512).ranks(), sketch(y, 512).ranks())
        truth = ks_2samp(x, y).statistic
        assert found.value is not None and 0 < sum(found.slack) < 0.03
        assert found.value - found.slack[0] - 1e-12 <= truth <= found.value + found.slack[1] + 1e-12
        assert found.value == pytest.approx(truth, abs=0.004)
        exact = ks_distance(x, y)
        wide, narrow = found.bound(0.95, "upper"), exact.bound(0.95, "upper")
        assert wide is not None and narrow is not None and wide >= narrow
        assert (found.bound(0.998, "lower") or 0.0) <= (exact.bound(0.998, "lower") or 0.0)
        p_values = found.p_value(0.02, "upper"), exact.p_value(0.02, "upper")
        assert p_values[0] is not None and p_values[1] is not None and p_values[0] >= p_values[1]


def numbers(values: Array, most: int = 256) -> Numbers:
    found = Numbers()
    found._sketch = RankSketch(most)
    for part in np.array_split(values, 7):
        found.update(part)
    return found


def test_wasserstein_of_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFER", 1000)
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 2, 9000), rng.normal(0.4, 2, 8000)
    found = wasserstein_of(numbers(x), numbers(y), rng=rng)
    truth = wasserstein_distance(x, y) / x.std(ddof=1)
    assert found.value == pytest.approx(truth, abs=0.004)
    assert found.value is not None and abs(found.value - truth) <= found.slack[1]
    assert found.null is not None and np.quantile(found.null, 0.95) < 0.06


def test_moments_and_counts_of_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(1e6, 1, 10_000)
    cells = np.concatenate((values, [np.nan] * 7, [np.inf, -np.inf]))
    rng.shuffle(cells)
    first, second = Numbers(), Numbers()
    for part in np.array_split(cells[:4000], 3):
        first.update(part)
    second.update(np.concatenate((cells[4000:], [np.nan] * 5)), missing=5)
    first.merge(second)
    assert (first.n, first.nan, first.infinite, first.missing, first.absent) == (10_000, 7, 2, 5, 14)
    assert first.mean == pytest.approx(values.mean(), rel=1e-13)
    assert first.variance == pytest.approx(values.var(ddof=1), rel=1e-9)
    assert (first.low, first.high) == (values.min(), values.max())
    assert first.ranks().n == 10_000
    empty = Numbers()
    empty.update(np.full(3, np.nan), missing=2)
    assert (empty.n, empty.nan, empty.missing, empty.variance) == (0, 1, 2, None)


def test_categories_are_counted_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalspec.stats.drift.columns.MOST_CATEGORIES", 3)
    first, second = CategoryCounts(), CategoryCounts()
    first.update({"a": 2, "b": 1}, missing=1)
    second.update({"a": 5, "c": 1})
    first.merge(second)
    assert (dict(first.counts), first.n, first.missing, first.overflown) == ({"a": 7, "b": 1, "c": 1}, 9, 1, False)
    assert dict(first.update({"d": 4, "a": 1})) == {"a": 8, "b": 1, "c": 1, "d": 4}
    assert (dict(first.counts), first.n, first.overflown) == ({}, 14, True)
    second.merge(first)
    assert (second.n, second.overflown, dict(second.counts)) == (20, True, {})


@pytest.mark.parametrize("most", [None, 10])
@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (1, 1), (50, 400), (400, 400)])
def test_two_beside_each_other_say_what_each_says_of_all_points(sizes: tuple[int, int], most: int | None) -> None:
    rng = np.random.default_rng(sum(sizes))
    for make in (lambda n: rng.normal(size=n), lambda n: rng.integers(0, n // 2 + 1, n) - 0.0):
        first, second = (Ranks.of(np.asarray(make(n), dtype=np.float64), most) for n in sizes)
        points, here, there = first.beside(second)
        np.testing.assert_array_equal(points, np.union1d(first.points, second.points))
        for found, ranks in ((here, first), (there, second)):
            np.testing.assert_array_equal(found, ranks.at(points))

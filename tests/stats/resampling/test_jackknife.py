"""The jackknife over groups: values, agreement with the mean, error rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.stats.means.mean import mean
from evalspec.stats.resampling.jackknife import GROUPS, from_groups, jackknife
from tests.stats.simulated import RESAMPLED, Pair, allowed, bounded, enough, p_values, wrong_claims


def test_of_a_mean_it_is_about_the_interval_of_the_mean() -> None:
    rng = np.random.default_rng(1)
    values = rng.exponential(size=4000)
    ours = jackknife(lambda rows: float(values[rows].mean()), 4000, rng=rng)
    theirs = mean(values)
    assert ours.value == pytest.approx(values.mean())
    for side in ("lower", "upper"):
        one, other = ours.bound(0.95, side), theirs.bound(0.95, side)  # type: ignore[arg-type]
        assert one is not None and other is not None
        assert abs(one - other) < 0.25 * abs(other - values.mean())


def test_few_rows_or_clusters_have_a_value_only() -> None:
    rng = np.random.default_rng(1)
    few = jackknife(lambda rows: float(len(rows)), 199, rng=rng)
    clustered = jackknife(lambda rows: float(len(rows)), 1000, rng=rng, clusters=np.arange(1000) // 10)
    assert few.value == 199.0
    assert few.bound(0.95, "lower") is None
    assert clustered.p_value(0.0, "lower") is None
    assert "here are 100" in clustered.method


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="not a number"):
        jackknife(lambda rows: float("nan"), 300, rng=np.random.default_rng(1))


def draw(kind: str, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two columns, and what makes their score: a ratio of means, a correlation, an F1."""
    if kind == "ratio":
        a = rng.exponential(size=n)
        return a, 2.0 * a + rng.exponential(size=n)
    if kind == "correlation":
        a = rng.normal(size=n)
        return a, 0.6 * a + 0.8 * rng.normal(size=n)
    truth = rng.random(n) < 0.3
    return truth, np.where(rng.random(n) < 0.9, truth, ~truth)


def sums(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the score is made of, shape (sums, ..., n)."""
    if kind == "ratio":
        return np.stack([a, b])
    if kind == "correlation":
        return np.stack([np.ones_like(a), a, b, a * a, b * b, a * b])
    return np.stack([(a & b).astype(float), a.astype(float), b.astype(float)])


def score(kind: str, of: np.ndarray) -> np.ndarray:
    if kind == "ratio":
        return np.asarray(of[0] / of[1])
    if kind == "correlation":
        n, a, b, aa, bb, ab = of
        return np.asarray((ab - a * b / n) / np.sqrt((aa - a * a / n) * (bb - b * b / n)))
    return np.asarray(2 * of[0] / (of[1] + of[2]))


TRUTH = {"ratio": 1 / 3, "correlation": 0.6, "f1": 2 * 0.27 / (0.3 + 0.27 + 0.07)}


@pytest.mark.parametrize("kind", ["ratio", "correlation", "f1"])
def test_scores_of_sums_are_those_of_rows(kind: str) -> None:
    """What is simulated below is what the jackknife makes of a score."""
    rng = np.random.default_rng(12)
    a, b = draw(kind, rng, 400)
    parts = sums(kind, a, b)
    ours = jackknife(lambda rows: float(score(kind, parts[:, rows].sum(axis=1))), 400, rng=np.random.default_rng(13))
    group = np.random.default_rng(13).permutation(400) % GROUPS
    without = parts.sum(axis=1)[:, None] - np.stack([np.bincount(group, weights=part) for part in parts])
    theirs = from_groups(float(score(kind, parts.sum(axis=1))), score(kind, without), 400)
    assert ours.bound(0.95, "lower") == pytest.approx(theirs.bound(0.95, "lower"), abs=1e-9)
    assert ours.method == theirs.method


def _f1(rows: np.ndarray) -> float:
    truth, said = rows.real > 0, rows.imag > 0
    return float(2 * (truth & said).sum() / (truth.sum() + said.sum()))


def _labels(rng: np.random.Generator, n: int) -> np.ndarray:
    truth = rng.random(n) < 0.2
    return np.asarray(truth + 1j * np.where(rng.random(n) < 0.95, truth, ~truth))


def _lognormal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.lognormal(size=n)


def _pairs(rng: np.random.Generator, n: int) -> np.ndarray:
    a = rng.exponential(size=n)
    return np.asarray(a + 1j * (2.0 * a + rng.exponential(size=n)))


def _normal_pairs(rng: np.random.Generator, n: int) -> np.ndarray:
    a = rng.normal(size=n)
    return np.asarray(a + 1j * (0.6 * a + 0.8 * rng.normal(size=n)))


Design = tuple[Callable[[np.random.Generator, int], np.ndarray], Callable[[np.ndarray], float], float]
ON_FEW_ROWS: dict[str, Design] = {
    "median": (_lognormal, lambda x: float(np.median(x)), 1.0),
    "median absolute error": (lambda rng, n: np.abs(rng.normal(size=n)), lambda x: float(np.median(x)), 0.674490),
    "95th percentile": (_lognormal, lambda x: float(np.quantile(x, 0.95)), 5.180252),
    "spread of quartiles": (
        _lognormal, lambda x: float(np.quantile(x, 0.75) - np.quantile(x, 0.25)), 1.963031 - 0.509416,
    ),
    "median deviation": (
        lambda rng, n: rng.normal(size=n), lambda x: float(np.median(np.abs(x - np.median(x)))), 0.674490
    ),
    "maximum": (lambda rng, n: rng.random(n), lambda x: float(x.max()), 1.0),
    "mode": (
        lambda rng, n: rng.choice(5, n, p=[0.3, 0.25, 0.2, 0.15, 0.1]),
        lambda x: float(np.bincount(x).argmax()), 0.0,
    ),
    "median of whole numbers": (lambda rng, n: rng.poisson(2.67, n), lambda x: float(np.median(x)), 3.0),
}  # fmt: skip
OF_ALL_ROWS: dict[str, Design] = {
    "mean": (lambda rng, n: rng.exponential(size=n), lambda x: float(x.mean()), 1.0),
    "ratio": (_pairs, lambda x: float(x.real.mean() / x.imag.mean()), 1 / 3),
    "standard deviation": (lambda rng, n: rng.normal(size=n), lambda x: float(x.std()), 1.0),
    "f1": (_labels, _f1, 0.38 / 0.43),
    "correlation": (_normal_pairs, lambda x: float(np.corrcoef(x.real, x.imag)[0, 1]), 0.6),
    "geometric mean": (_lognormal, lambda x: float(np.exp(np.log(x).mean())), 1.0),
}


def _simulated(design: Design, n: int, repeats: int) -> list[Pair]:
    draw, score, truth = design
    rng = np.random.default_rng([n, repeats])
    samples = (draw(rng, n) for _ in range(repeats))
    found = (p_values(jackknife(lambda index, rows=rows: score(rows[index]), n, rng=rng), truth) for rows in samples)
    return enough(found, allowed(repeats, RESAMPLED), repeats)


@pytest.mark.parametrize("score", ON_FEW_ROWS)
def test_a_score_that_hangs_on_few_rows_has_no_bound(score: str) -> None:
    """S7: the jackknife's variance of a median is wrong at any number of rows."""
    assert bounded(_simulated(ON_FEW_ROWS[score], 400, 5)) == 0.0


@pytest.mark.parametrize("score", OF_ALL_ROWS)
def test_a_score_that_rows_add_up_to_keeps_its_bound(score: str) -> None:
    assert bounded(_simulated(OF_ALL_ROWS[score], 400, 5)) == 1.0


@pytest.mark.proof
@pytest.mark.parametrize("n", [200, 400, 1000])
@pytest.mark.parametrize("score", [*ON_FEW_ROWS, *OF_ALL_ROWS])
def test_scores_of_any_kind_err_no_more_often_than_allowed(score: str, n: int) -> None:
    """S7: whether or not a score hangs on few rows."""
    found = _simulated((ON_FEW_ROWS | OF_ALL_ROWS)[score], n, 60)
    assert (wrong_claims(found) <= allowed(60, RESAMPLED)).all()
    assert bounded(found) < 0.15 if score in ON_FEW_ROWS else bounded(found) > 0.75


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 1000])
@pytest.mark.parametrize("kind", ["ratio", "correlation", "f1"])
def test_error_rates(kind: str, n: int) -> None:
    """Rows are drawn independently, so that the first n / 200 of them are as random a group as any."""
    rng = np.random.default_rng([11, n])

    def samples() -> Iterator[Pair]:
        while True:
            groups = sums(kind, *draw(kind, rng, n)).reshape(-1, GROUPS, n // GROUPS).sum(axis=2)
            total = groups.sum(axis=1)
            estimate = from_groups(float(score(kind, total)), score(kind, total[:, None] - groups), n)
            yield p_values(estimate, TRUTH[kind])

    found = enough(samples(), RESAMPLED)
    assert bounded(found) > 0.2
    assert (wrong_claims(found) <= RESAMPLED).all()

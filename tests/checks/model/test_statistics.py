"""Error rates of the statistics that `quality` resamples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

from evalspec.checks.model._statistics import OfMeans, OfPrecision, explained, f1_of
from evalspec.stats import bootstrap
from evalspec.stats.bootstrap import bca

Rows = tuple[np.ndarray, ...]
REPEATS = 500
# A true rate of 5 % exceeds 41 of 500 once in 1,000, and 20 of 200; 0.6 % are 3, and 1.
ALLOWED = {500: [41, 41, 3, 3], 200: [20, 20, 1, 1]}


def misses(
    statistic: object,
    draw: Callable[[np.random.Generator], Rows],
    truth: float,
    smallest: Callable[[Rows], int | None],
    repeats: int = REPEATS,
) -> tuple[np.ndarray, int]:
    """Claims that are wrong (above and below at 95 %, above and below at 99.8 %), and samples that have bounds."""
    rng = np.random.default_rng(17)
    wrong, bounded = np.zeros(4), 0
    for _ in range(repeats):
        rows = draw(rng)
        estimate = bca(statistic, rows, rng=rng, alpha=0.05, smallest_class=smallest(rows))  # type: ignore[arg-type]
        p = [estimate.p_value(truth, "lower"), estimate.p_value(truth, "upper")]
        if p[0] is not None and p[1] is not None:
            bounded += 1
            wrong += [p[0] <= 0.05, p[1] <= 0.05, p[0] <= 0.002, p[1] <= 0.002]
    return wrong, bounded


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """999 reach beyond the levels that are asked for here; more only cost time."""
    monkeypatch.setattr(bootstrap, "FEWEST_RESAMPLES", 999)


def ranked(n: int, share: float, skill: float) -> Callable[[np.random.Generator], Rows]:
    def draw(rng: np.random.Generator) -> Rows:
        positive = rng.random(n) < share
        return (rng.normal(size=n) + skill * positive)[:, None], positive[:, None]

    return draw


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "share", "skill"), [(50, 0.5, 1.0), (200, 0.5, 1.0), (200, 0.15, 2.0), (1000, 0.05, 2.5)]
)
def test_average_precision_errs_no_more_often_than_allowed(n: int, share: float, skill: float) -> None:
    # Of endless rows: the mean over positives of the positives' share among all that score higher.
    score = norm.isf((np.arange(100_000) + 0.5) / 100_000) + skill
    above = share * norm.sf(score - skill)
    truth = float(np.mean(above / (above + (1 - share) * norm.sf(score))))
    repeats = REPEATS if n < 1000 else 200

    def smallest(rows: Rows) -> int:
        return int(min(rows[1].sum(), n - rows[1].sum()))

    wrong, bounded = misses(OfPrecision((0,)), ranked(n, share, skill), truth, smallest, repeats)
    assert bounded > repeats / 5
    assert (wrong <= ALLOWED[repeats]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "n", "right"), [(3, 200, 0.9), (10, 300, 0.9), (10, 1000, 0.95)])
def test_macro_f1_errs_no_more_often_than_allowed(classes: int, n: int, right: float) -> None:
    def draw(rng: np.random.Generator) -> Rows:
        truth = rng.integers(0, classes, n)
        other = (truth + rng.integers(1, classes, n)) % classes
        return truth, np.where(rng.random(n) < right, truth, other)

    wrong, bounded = misses(
        f1_of(range(classes)), draw, right, lambda rows: int(np.bincount(rows[0], minlength=classes).min())
    )
    assert bounded > REPEATS / 5
    assert (wrong <= ALLOWED[REPEATS]).all()


def regression(n: int, kind: str) -> tuple[Callable[[np.random.Generator], Rows], float]:
    """Draws the columns of r2, and the truth: errors have a variance of 0.25."""
    variance = {"normal": 1.0, "t5": 5 / 3, "lognormal": float((np.exp(0.5625) - 1) * np.exp(0.5625))}[kind]

    def draw(rng: np.random.Generator) -> Rows:
        label = {
            "normal": lambda: rng.normal(size=n),
            "t5": lambda: rng.standard_t(5, n),
            "lognormal": lambda: rng.lognormal(0, 0.75, n),
        }[kind]()
        centred = label - label.mean()
        return (np.stack([0.25 * rng.normal(size=n) ** 2, centred, centred**2], axis=1),)

    return draw, 1 - 0.25 / variance


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "kind"), [(50, "normal"), (200, "normal"), (200, "t5"), (200, "lognormal"), (1000, "t5")]
)
def test_r2_errs_no_more_often_than_allowed(n: int, kind: str) -> None:
    draw, truth = regression(n, kind)
    statistic = explained()
    assert isinstance(statistic, OfMeans)
    repeats = REPEATS if n < 1000 else 200
    wrong, _ = misses(statistic, draw, truth, lambda rows: None, repeats)
    assert (wrong <= ALLOWED[repeats]).all()

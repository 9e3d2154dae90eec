"""Error rates of the statistics that `quality` resamples, alone and of two models on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import average_precision_score

from evalspec.scoring.resampled import (
    OfCounts,
    OfMeans,
    OfPrecision,
    explained,
    f1_of,
    precision_of,
    root_mean_square,
)
from evalspec.stats.clusters import cluster_codes
from evalspec.stats.resampling import bootstrap, resample
from evalspec.stats.resampling.bootstrap import bca, paired_statistic
from evalspec.stats.resampling.resample import ResamplingPlan
from tests.stats.simulated import REPEATS, RESAMPLED, Pair, bounded, enough, p_values, wrong_claims

Rows = tuple[np.ndarray, ...]
Statistic = OfMeans | OfCounts | OfPrecision
Draw = Callable[[np.random.Generator], Rows]
DrawPair = Callable[[np.random.Generator], tuple[Rows, Rows]]
RESAMPLES = 999
"""They reach the levels that are asked for here."""
TOGETHER = 100


@contextmanager
def resampled_together(
    statistic: Statistic, samples: Sequence[tuple[Rows, ...]], clusters: np.ndarray | None, rng: np.random.Generator
) -> Iterator[None]:
    """Samples of one or two models share which rows they draw.

    A resample draws rows without a look at what they hold, so each sample's bootstrap is what it would be alone. Rows
    of few kinds lie one kind after the other, and how often a kind is drawn is summed over its rows. Means of all
    samples are made in one product.
    """
    codes, units = (None, len(samples[0][0][0])) if clusters is None else cluster_codes(clusters, len(clusters))
    weights = np.asarray(resample._draw(ResamplingPlan(rows=units), RESAMPLES, rng), dtype=np.float32, order="F")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "FEWEST_RESAMPLES", RESAMPLES)
        if isinstance(statistic, OfMeans):
            ready = list(means_at_once(statistic, samples, weights))
            patch.setattr(bootstrap, "replicates", lambda *_: ready.pop(0))
            yield
            assert not ready
            return
        if codes is not None:
            over_rows = np.asfortranarray(weights[:, codes])
            patch.setattr(bootstrap, "replicates", lambda weighted, *_: weighted(over_rows))
        else:
            to_here = np.append(np.zeros((RESAMPLES, 1), dtype=np.float32), np.cumsum(weights, axis=1), axis=1)
            to_here = np.asfortranarray(to_here)

            def draw(plan: ResamplingPlan, size: int, rng: np.random.Generator) -> np.ndarray:
                assert size == RESAMPLES
                kinds = plan.multiplicity
                return weights if kinds is None else np.diff(to_here[:, np.append(0, np.cumsum(kinds))], axis=1)

            patch.setattr(resample, "_draw", draw)
        yield


def means_at_once(statistic: OfMeans, samples: Sequence[tuple[Rows, ...]], weights: np.ndarray) -> np.ndarray:
    """Replicates of each sample, shape (samples, B, models)."""
    columns = np.concatenate([columns for sample in samples for (columns,) in sample], axis=1)
    means = replace(statistic, function=lambda means: means)((columns,), weights)
    values = statistic.function(means.reshape(len(weights), len(samples), len(samples[0]), -1))
    alone = np.stack([statistic(rows, weights) for rows in samples[-1]], axis=1)
    assert np.allclose(values[:, -1], alone, rtol=1e-4, atol=1e-6)
    return np.ascontiguousarray(np.moveaxis(values, 1, 0))


def alone(
    statistic: Statistic,
    draw: Draw,
    truth: float,
    smallest: Callable[[Rows], int] | None = None,
    clusters: np.ndarray | None = None,
) -> list[Pair]:
    """p-values at the truth in enough samples."""
    rng = np.random.default_rng(17)

    def together() -> list[Pair]:
        samples, found = [draw(rng) for _ in range(TOGETHER)], []
        with resampled_together(statistic, [(rows,) for rows in samples], clusters, rng):
            for rows in samples:
                few = None if smallest is None else smallest(rows)
                estimate = bca(statistic, rows, rng=rng, alpha=0.05, smallest_class=few, clusters=clusters)
                found.append(p_values(estimate, truth))
        return found

    return enough((pair for _ in range(0, REPEATS, TOGETHER) for pair in together()), RESAMPLED)


def paired(
    statistic: Statistic, draw: DrawPair, truth: float, smallest: Callable[[Rows], int] | None = None
) -> list[Pair]:
    """p-values of the difference of two models at the true one in enough samples."""
    rng = np.random.default_rng(18)

    def together() -> list[Pair]:
        samples, found = [draw(rng) for _ in range(TOGETHER)], []
        with resampled_together(statistic, samples, None, rng):
            for candidate, baseline in samples:
                few = None if smallest is None else smallest(candidate)
                pair = paired_statistic(statistic, candidate, baseline, rng=rng, alpha=0.05, smallest_class=few)
                found.append(p_values(pair.difference(), truth))
        return found

    return enough((pair for _ in range(0, REPEATS, TOGETHER) for pair in together()), RESAMPLED)


@pytest.mark.parametrize("ties", [False, True])
def test_average_precision_without_each_row_is_that_of_the_others(ties: bool) -> None:
    rng = np.random.default_rng(1)
    positive = rng.random(120) < 0.3
    scores = rng.normal(size=120) + positive
    scores = np.round(scores, 1) if ties else scores
    others = [np.delete(np.arange(120), row) for row in range(120)]
    expected = [average_precision_score(positive[rows], scores[rows]) for rows in others]
    found = OfPrecision((0,)).without_each((scores[:, None], positive[:, None]))
    assert found == pytest.approx(expected, abs=1e-12)


def test_means_without_each_row_are_those_of_the_others() -> None:
    rng = np.random.default_rng(2)
    label = rng.normal(size=60)
    columns = np.stack([rng.normal(size=60) ** 2, label, label**2], axis=1)
    statistic = explained()
    expected = statistic((columns,), 1.0 - np.eye(60))
    assert np.isfinite(expected).all()
    assert statistic.without_each((columns,)) == pytest.approx(expected, abs=1e-12)


def smaller_side(rows: Rows) -> int:
    positive = int(rows[1].sum())
    return min(positive, len(rows[1]) - positive)


def ranked(rng: np.random.Generator, n: int, share: float, skill: float) -> Rows:
    """As the score falls: the order of rows says nothing, and is found again sooner."""
    positive = rng.random(n) < share
    scores = rng.normal(size=n) + skill * positive
    order = np.argsort(-scores)
    return scores[order, None], positive[order, None]


def precision_truth(share: float, skill: float) -> float:
    """Of endless rows: the mean over positives of the positives' share among all that score higher."""
    score = norm.isf((np.arange(100_000) + 0.5) / 100_000) + skill
    above = share * norm.sf(score - skill)
    return float(np.mean(above / (above + (1 - share) * norm.sf(score))))


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "share", "skill"), [(50, 0.5, 1.0), (200, 0.5, 1.0), (200, 0.15, 2.0), (1000, 0.05, 2.5)]
)
def test_average_precision_errs_no_more_often_than_allowed(n: int, share: float, skill: float) -> None:
    draw = partial(ranked, n=n, share=share, skill=skill)
    found = alone(OfPrecision((0,)), draw, precision_truth(share, skill), smaller_side)
    assert bounded(found) > 0.1
    assert (wrong_claims(found) <= RESAMPLED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("n", "share", "skill"), [(50, 0.5, 1.0), (200, 0.2, 2.0), (1000, 0.05, 2.5)])
def test_differences_of_average_precision_err_no_more_often_than_allowed(n: int, share: float, skill: float) -> None:
    """The baseline sees the same through more noise."""

    def draw(rng: np.random.Generator) -> tuple[Rows, Rows]:
        scores, positive = ranked(rng, n, share, skill)
        return (scores, positive), (scores + 0.75 * rng.normal(size=scores.shape), positive)

    truth = precision_truth(share, skill) - precision_truth(share, skill / 1.25)
    found = paired(OfPrecision((0,)), draw, truth, smaller_side)
    assert bounded(found) > 0.1
    assert (wrong_claims(found) <= RESAMPLED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("classes", "n", "right"), [(2, 50, 0.75), (3, 200, 0.9), (10, 300, 0.9), (4, 1000, 0.95)])
def test_macro_f1_errs_no_more_often_than_allowed(classes: int, n: int, right: float) -> None:
    def draw(rng: np.random.Generator) -> Rows:
        truth = rng.integers(0, classes, n)
        other = (truth + rng.integers(1, classes, n)) % classes
        return truth, np.where(rng.random(n) < right, truth, other)

    found = alone(f1_of(range(classes)), draw, right, lambda rows: int(np.bincount(rows[0], minlength=classes).min()))
    assert bounded(found) > 0.1
    assert (wrong_claims(found) <= RESAMPLED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size"), [(50, 4), (200, 2)])
def test_clustered_macro_f1_errs_no_more_often_than_allowed(groups: int, size: int) -> None:
    """A cluster's rows are of one class; each is answered like the cluster or, in two of five cases, by itself."""
    clusters, right = np.repeat(np.arange(groups), size), 0.8

    def draw(rng: np.random.Generator) -> Rows:
        truth = np.repeat(rng.random(groups) < 0.5, size)
        shared, own = np.repeat(rng.random(groups) < right, size), rng.random(size * groups) < right
        hit = np.where(rng.random(size * groups) < 0.4, own, shared)
        return truth.astype(np.int64), np.where(hit, truth, ~truth).astype(np.int64)

    found = alone(f1_of((0, 1)), draw, right, lambda rows: int(np.bincount(rows[0]).min()), clusters)
    assert bounded(found) > 0.1
    assert (wrong_claims(found) <= RESAMPLED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("metric", ["precision", "f1"])
@pytest.mark.parametrize(("n", "share"), [(50, 0.45), (200, 0.3), (1000, 0.1)])
def test_differences_of_one_class_err_no_more_often_than_allowed(metric: str, n: int, share: float) -> None:
    """Class 1 is found in 85 and 75 % of its rows, and called in 10 and 20 % of the others; half are judged alike."""
    found_in, called_in = (0.85, 0.75), (0.10, 0.20)

    def draw(rng: np.random.Generator) -> tuple[Rows, Rows]:
        positive = rng.random(n) < share
        first, second = rng.random((2, n))
        second = np.where(rng.random(n) < 0.5, first, second)
        one, two = (
            np.where(positive, luck < rate, luck < call)
            for luck, rate, call in zip((first, second), found_in, called_in, strict=True)
        )
        truth = positive.astype(np.int64)
        return (truth, one.astype(np.int64)), (truth, two.astype(np.int64))

    def score(rate: float, call: float) -> float:
        right, said = share * rate, share * rate + (1 - share) * call
        return right / said if metric == "precision" else 2 * right / (share + said)

    truth = score(found_in[0], called_in[0]) - score(found_in[1], called_in[1])
    statistic, smallest = (
        (precision_of((1,)), None) if metric == "precision" else (f1_of((1,)), lambda r: int(r[0].sum()))
    )
    found = paired(statistic, draw, truth, smallest)
    assert bounded(found) > 0.1
    assert (wrong_claims(found) <= RESAMPLED).all()


def labels(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    if kind == "normal":
        return rng.normal(size=n)
    return rng.standard_t(5, n) if kind == "t5" else rng.lognormal(0, 0.75, n)


VARIANCE = {"normal": 1.0, "t5": 5 / 3, "lognormal": float((np.exp(0.5625) - 1) * np.exp(0.5625))}
LABELS = [(50, "normal"), (200, "normal"), (200, "t5"), (200, "lognormal"), (1000, "t5")]


def explained_rows(label: np.ndarray, errors: np.ndarray) -> Rows:
    centred = label - label.mean()
    return (np.stack([errors**2, centred, centred**2], axis=1),)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("n", "kind"), LABELS)
def test_r2_errs_no_more_often_than_allowed(n: int, kind: str) -> None:
    """Errors have a variance of 0.25."""
    found = alone(
        explained(),
        lambda rng: explained_rows(labels(rng, n, kind), 0.5 * rng.normal(size=n)),
        1 - 0.25 / VARIANCE[kind],
    )
    assert (wrong_claims(found) <= RESAMPLED).all()


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("metric", ["r2", "rmse"])
@pytest.mark.parametrize(("n", "kind"), [LABELS[0], LABELS[1], LABELS[3], LABELS[4]])
def test_differences_of_errors_err_no_more_often_than_allowed(metric: str, n: int, kind: str) -> None:
    """The baseline makes the candidate's errors and some of its own: variances of 0.25 and 0.30.

    For rmse the errors are of that kind, about 0; for r2 the labels are.
    """
    variance = VARIANCE[kind]
    mean = float(np.exp(0.28125)) if kind == "lognormal" else 0.0

    def draw(rng: np.random.Generator) -> tuple[Rows, Rows]:
        if metric == "rmse":
            errors = (labels(rng, n, kind) - mean) * np.sqrt(0.25 / variance)
            worse = errors + np.sqrt(0.05) * rng.normal(size=n)
            return (errors[:, None] ** 2,), (worse[:, None] ** 2,)
        label, errors = labels(rng, n, kind), 0.5 * rng.normal(size=n)
        return explained_rows(label, errors), explained_rows(label, errors + np.sqrt(0.05) * rng.normal(size=n))

    truth = 0.05 / variance if metric == "r2" else np.sqrt(0.25) - np.sqrt(0.30)
    found = paired(explained() if metric == "r2" else root_mean_square(), draw, truth)
    assert (wrong_claims(found) <= RESAMPLED).all()

"""Populations of which the truth is known, one for each kind of estimate that a requirement may rest on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri

from evalspec.checks.model.calibration.spec import Calibration
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.metric import Better, Metric
from evalspec.evidence.units import from_unit
from evalspec.language.requirement import Requirement, parse_requirement
from evalspec.scoring.catalogue.metrics import METRICS
from evalspec.stats.agreement.coefficients import kappa
from evalspec.stats.calibration.classwise import classwise_calibration_error
from evalspec.stats.calibration.expected_error import expected_calibration_error
from evalspec.stats.calibration.rms_error import rms_calibration_error
from evalspec.stats.conjunction import AllParts, ShareOfParts
from evalspec.stats.drift import distances, nulls
from evalspec.stats.drift.distances import ks_distance, total_variation, wasserstein
from evalspec.stats.means.auc import roc_auc
from evalspec.stats.means.mean import mean, paired_mean
from evalspec.stats.resampling import bootstrap, resample
from evalspec.stats.resampling.bootstrap import bca
from evalspec.stats.resampling.jackknife import from_groups
from evalspec.stats.shares.macro import MeanOfProportions, f1
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.timing.failing_pairs import paired_quantiles
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.processes import over_processes
from evalspec.stats.timing.share_over import share_over

Draw = Callable[[float, np.random.Generator], Estimate]

ALPHA_FAIL = 0.05 / 25
RANGES = {"mae": (0.0, None), "brier": (0.0, 2.0), "kappa": (-1.0, 1.0)}
"""The smallest and the largest value, as the checks declare them; of other metrics the unit tells, or nothing does."""
SCALES = {one.name: one.scales for one in (*METRICS, *Calibration.metrics)}
"""How errors change with the truth, as the checks declare it."""


@dataclass(frozen=True)
class Population:
    """Samples of one kind.

    Args:
        name: Of the estimate.
        metric: What it is an estimate of.
        sentence: A requirement on it.
        draw: The estimate of a sample of the population whose truth is given, in fractions where it is one.
        easy: A truth at which the requirement holds with ease.
    """

    name: str
    metric: Metric
    sentence: str
    draw: Draw
    easy: float

    @cached_property
    def requirement(self) -> Requirement:
        """The sentence, read."""
        return parse_requirement(self.sentence, [self.metric], blocking=True)

    @cached_property
    def threshold(self) -> float:
        """Of the requirement, fractions in 0..1."""
        one = self.requirement
        return from_unit(one.factor if one.is_ratio else one.threshold, one.unit)


def _accuracy(truth: float, rng: np.random.Generator) -> Estimate:
    return Proportion.of_counts(int(rng.binomial(1000, truth)), 1000)


def _clustered_accuracy(truth: float, rng: np.random.Generator) -> Estimate:
    shares = rng.beta(truth * 9.0, (1.0 - truth) * 9.0, 120)
    codes = np.repeat(np.arange(120), 8)
    return proportion(rng.random(960) < shares[codes], codes)


def _accuracy_drop(truth: float, rng: np.random.Generator) -> Estimate:
    discordant = max(0.06, abs(truth))
    won, lost, _ = rng.multinomial(2000, [(discordant + truth) / 2, (discordant - truth) / 2, 1.0 - discordant])
    candidate, baseline = np.ones(2000, dtype=bool), np.ones(2000, dtype=bool)
    candidate[:lost] = False
    baseline[lost : lost + won] = False
    return paired_proportion(candidate, baseline, rng=rng, alpha=ALPHA_FAIL).difference(1.0, -0.02)


def _absolute_error(truth: float, rng: np.random.Generator) -> Estimate:
    return mean(rng.gamma(2.0, truth / 2.0, 600), rng=rng)


def _squared_error(truth: float, rng: np.random.Generator) -> Estimate:
    return mean(rng.beta(0.5, 0.5 * (1.0 - truth) / truth, 800), rng=rng)


def _loss_change(truth: float, rng: np.random.Generator) -> Estimate:
    baseline = rng.gamma(2.0, 0.2, 700)
    return paired_mean(baseline + truth + rng.normal(0.0, 0.1, 700), baseline, rng=rng).difference(1.0, 0.02)


def _area(truth: float, rng: np.random.Generator) -> Estimate:
    apart = math.sqrt(2.0) * float(ndtri(truth))
    positive = np.arange(600) < 120
    return roc_auc(rng.normal(size=600) + apart * positive, positive)


def _miscalibrated(truth: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Confidences of 0.55 to 0.95, right less often than they say by the truth."""
    said = 0.55 + 0.4 * rng.beta(2.0, 1.2, 1200)
    return said, rng.random(1200) < said - truth


def _ece(truth: float, rng: np.random.Generator) -> Estimate:
    return expected_calibration_error(*_miscalibrated(truth, rng))


def _rms(truth: float, rng: np.random.Generator) -> Estimate:
    return rms_calibration_error(*_miscalibrated(truth, rng))


def _classwise(truth: float, rng: np.random.Generator) -> Estimate:
    """Two classes, each said with a probability that is off by the truth, away from its share."""
    said = rng.uniform(0.55, 0.95, 1500)
    first = rng.random(1500) < 0.5
    right = rng.random(1500) < said - truth
    probabilities = np.where(first, said, 1.0 - said)
    columns = np.column_stack([probabilities, 1.0 - probabilities])
    return classwise_calibration_error(columns, np.where(first == right, 0, 1))


def _tail(truth: float, rng: np.random.Generator) -> Estimate:
    """Lognormal latencies whose p99 is the truth, in five processes that are alike."""
    median = truth / math.exp(0.25 * ndtri(0.99))
    return percentile([median * rng.lognormal(0.0, 0.25, 1000) for _ in range(5)], 0.99)


def _levels(truth: float, rng: np.random.Generator) -> Estimate:
    """The same, where processes differ in level."""
    spread = math.hypot(0.2, 0.06)
    median = truth / math.exp(spread * ndtri(0.9))
    levels = rng.normal(0.0, 0.06, 5)
    return percentile([median * rng.lognormal(level, 0.2, 1000) for level in levels], 0.9)


def _deadline(truth: float, rng: np.random.Generator) -> Estimate:
    return share_over([np.where(rng.random(1200) < truth, 30.0, 10.0 + rng.random(1200)) for _ in range(5)], 20.0)


def _speedup(truth: float, rng: np.random.Generator) -> Estimate:
    drift = rng.normal(0.0, 0.1, 5)
    baseline = [10.0 * rng.lognormal(one, 0.1, 400) for one in drift]
    candidate = [10.0 * truth * rng.lognormal(one + rng.normal(0.0, 0.02), 0.1, 400) for one in drift]
    ratio = paired_quantiles(candidate, baseline, 0.5).ratio()
    assert ratio is not None
    return ratio


def _throughput(truth: float, rng: np.random.Generator) -> Estimate:
    return over_processes(rng.normal(truth, 0.03 * truth, 5), 0.0)


def _macro_recall(truth: float, rng: np.random.Generator) -> Estimate:
    shares = np.clip(truth + np.array([-0.04, 0.0, 0.04]), 0.0, 1.0)
    counts = (200, 300, 500)
    hits = rng.binomial(counts, shares)
    return MeanOfProportions(hits.astype(np.float64), np.array(counts, dtype=np.float64))


def _f1(truth: float, rng: np.random.Generator) -> Estimate:
    """As many wrong alarms as misses: f1 is then the share of either that is right."""
    actual = rng.random(1500) < 0.3
    alarm = 0.3 * (1.0 - truth) / 0.7
    return f1(actual, np.where(actual, rng.random(1500) < truth, rng.random(1500) < alarm))


def _worst(truth: float, rng: np.random.Generator) -> Estimate:
    shares = [truth, *[min(0.99, truth + 0.08)] * 4]
    parts = {f"s{i}": Proportion.of_counts(int(rng.binomial(400, one)), 400) for i, one in enumerate(shares)}
    return AllParts(parts, "higher")


def _kolmogorov(truth: float, rng: np.random.Generator) -> Estimate:
    return ks_distance(rng.random(1500), rng.random(1500) + truth)


def _drifted(truth: float, rng: np.random.Generator) -> Estimate:
    """Ten columns, of which one in ten may drift; two move by the truth."""
    moves = [truth, truth, *[0.0] * 8]
    return ShareOfParts(
        {f"c{i}": ks_distance(rng.random(1500), rng.random(1500) + one) for i, one in enumerate(moves)}, 0.1
    )


def _variation(truth: float, rng: np.random.Generator) -> Estimate:
    before = np.full(8, 0.125)
    after = before + np.repeat([truth / 4, -truth / 4], 4)
    return total_variation(rng.multinomial(2000, before), rng.multinomial(2000, after), rng=rng, alpha=ALPHA_FAIL)


class Shared:
    """Permutations, or resamples, that some samples in a row have in common.

    They are drawn without a look at what rows hold, so that each sample's are what they would be alone.

    Args:
        make: Draws them.
    """

    SAMPLES = 50

    def __init__(self, make: Callable[[np.random.Generator], NDArray[Any]]) -> None:
        self.make = make
        self.rng: np.random.Generator | None = None
        self.used = 0
        self.made = np.empty(0)

    def of(self, rng: np.random.Generator) -> NDArray[Any]:
        """Those of the next sample of this generator."""
        if self.rng is not rng or self.used == self.SAMPLES:
            self.rng, self.used, self.made = rng, 0, self.make(rng)
        self.used += 1
        return self.made


def _permuted(rng: np.random.Generator) -> NDArray[np.float32]:
    """Of 300 rows on either side."""
    labels = np.broadcast_to(np.arange(600) < 300, (distances.permutations_for(ALPHA_FAIL), 600))
    return nulls.heights(rng.permuted(labels, axis=1), 300, 300).astype(np.float32)


def _drawn_again(rng: np.random.Generator) -> NDArray[np.float32]:
    """How often each of 600 rows is drawn."""
    return resample._counts(600, bootstrap.resamples_for(ALPHA_FAIL), rng).astype(np.float32)


def _drawn_to_here(rng: np.random.Generator) -> NDArray[np.float64]:
    """How often rows are drawn of the first 0, 1, ... 500 of as many."""
    drawn = resample._counts(500, bootstrap.resamples_for(ALPHA_FAIL), rng)
    return np.asfortranarray(np.append(np.zeros((len(drawn), 1)), np.cumsum(drawn, axis=1), axis=1))


PERMUTED, DRAWN_AGAIN, DRAWN_TO_HERE = Shared(_permuted), Shared(_drawn_again), Shared(_drawn_to_here)


def _distance(truth: float, rng: np.random.Generator) -> Estimate:
    heights = PERMUTED.of(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distances, "wasserstein_null", lambda gaps, *_: (heights @ gaps.astype(np.float32)).astype(float))
        return wasserstein(rng.normal(size=300), rng.normal(truth, 1.0, 300), rng=rng, alpha=ALPHA_FAIL)


def _kappa(truth: float, rng: np.random.Generator) -> Estimate:
    first = rng.integers(0, 3, 500)
    second = np.where(rng.random(500) < truth, first, rng.integers(0, 3, 500))
    to_here = DRAWN_TO_HERE.of(rng)

    def draw(plan: resample.ResamplingPlan, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Rows of a kind lie one after the other."""
        assert plan.multiplicity is not None and size == len(to_here)
        return np.diff(to_here[:, np.append(0, np.cumsum(plan.multiplicity))], axis=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resample, "_draw", draw)
        return kappa(np.column_stack([first, second]), 3, rng=rng, alpha=ALPHA_FAIL).estimate


def _mean_of(arrays: tuple[np.ndarray, ...], weights: np.ndarray) -> np.ndarray:
    x, y = arrays
    above, below = (weights @ one.astype(weights.dtype) for one in (x * y, x))
    return np.asarray(above / below, dtype=np.float64)


def _resampled(truth: float, rng: np.random.Generator) -> Estimate:
    """Of so many rows that hardly any sample is without a bound."""
    x, weights = rng.gamma(4.0, 1.0, 600), DRAWN_AGAIN.of(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "replicates", lambda weighted, *_: weighted(weights))
        return bca(_mean_of, [x, rng.gamma(3.0, truth / 3.0, 600)], rng=rng, alpha=ALPHA_FAIL)


def _own_metric(truth: float, rng: np.random.Generator) -> Estimate:
    """A ratio of sums, by the jackknife over 200 groups."""
    x, y = rng.gamma(4.0, 1.0, 2000), rng.gamma(3.0, truth / 3.0, 2000)
    xs, xy = x.reshape(200, 10).sum(axis=1), (x * y).reshape(200, 10).sum(axis=1)
    return from_groups(float(xy.sum() / xs.sum()), (xy.sum() - xy) / (xs.sum() - xs), 2000)


def _of(name: str, sentence: str, unit: str, draw: Draw, easy: float) -> Population:
    metric = sentence.split()[0]
    better: Better = "higher" if ">=" in sentence else "lower"
    least, most = RANGES.get(metric, (None, None))
    declared = Metric(
        metric, unit, better, "", interval="by simulation", least=least, most=most, scales=SCALES.get(metric)
    )
    return Population(name, declared, sentence, draw, easy)


POPULATIONS = (
    _of("accuracy", "accuracy >= 0.9", "fraction", _accuracy, 0.95),
    _of("accuracy in clusters", "accuracy >= 0.8", "fraction", _clustered_accuracy, 0.95),
    _of("accuracy against a baseline", "accuracy >= baseline - 2 pp", "fraction", _accuracy_drop, 0.02),
    _of("absolute error", "mae <= 2", "score", _absolute_error, 1.2),
    _of("squared error", "brier <= 0.2", "score", _squared_error, 0.1),
    _of("change of a loss", "mae <= baseline + 0.02", "score", _loss_change, -0.05),
    _of("AUC", "roc_auc >= 0.85", "fraction", _area, 0.97),
    _of("ECE", "ece <= 0.05", "fraction", _ece, 0.0),
    _of("rms calibration", "rms_calibration <= 0.06", "fraction", _rms, 0.0),
    _of("classwise ECE", "classwise_ece <= 0.06", "fraction", _classwise, 0.0),
    _of("p99", "latency_p99 <= 20 ms", "ms", _tail, 12.0),
    _of("p90 of processes that differ", "latency_p90 <= 20 ms", "ms", _levels, 12.0),
    _of("deadline misses", "deadline_miss_rate <= 2 %", "%", _deadline, 0.001),
    _of("ratio of medians", "latency_p50 <= 1.1x baseline", "ms", _speedup, 0.8),
    _of("throughput", "throughput >= 100 samples/s", "samples/s", _throughput, 160.0),
    _of("macro recall", "macro_recall >= 0.85", "fraction", _macro_recall, 0.95),
    _of("F1", "f1 >= 0.8", "fraction", _f1, 0.95),
    _of("worst slice", "worst_accuracy >= 0.8", "fraction", _worst, 0.91),
    _of("Kolmogorov-Smirnov distance", "shift <= 0.15", "score", _kolmogorov, 0.0),
    _of("total variation", "shift <= 0.15", "score", _variation, 0.0),
    _of("Wasserstein distance", "shift <= 0.5", "score", _distance, 0.0),
    _of("kappa", "kappa >= 0.6", "score", _kappa, 0.85),
    _of("resampled ratio", "score <= 3", "score", _resampled, 2.0),
    _of("a metric of one's own", "score <= 3", "score", _own_metric, 2.0),
    _of("drifted columns", "drifted_columns <= 10 %", "%", _drifted, 0.0),
)
"""25; each truth moves what the requirement is about (of drifted columns, the distance that counts as a drift)."""

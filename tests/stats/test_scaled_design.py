"""What an AUC, an F1 and a mean can detect at a planned n: a PASS at the headroom, a FAIL at the violation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.means.auc import roc_auc
from evalspec.stats.means.mean import mean
from evalspec.stats.power import Better, Design, detectable
from evalspec.stats.recorded_design import of_losses, recorded_wald, standard_error
from evalspec.stats.scaled_design import recorded_area, recorded_f1
from evalspec.stats.shares.macro import f1
from tests.stats.few_rows import LARGEST_LOG_LOSS, binormal, calibrated
from tests.stats.simulated import until_settled

Rng = np.random.Generator
Drawn = Callable[[Rng, float], Estimate]
SIDES: dict[Better, tuple[Side, Side]] = {"higher": ("lower", "upper"), "lower": ("upper", "lower")}


def _area(positives: int, others: int) -> Drawn:
    positive = np.arange(positives + others) < positives
    return lambda rng, truth: roc_auc(binormal(truth).sample(rng, positives, others), positive)


def _f1(n: int) -> Drawn:
    """A tenth of the rows is of the class; precision and recall are alike."""

    def draw(rng: Rng, truth: float) -> Estimate:
        actual = rng.random(n) < 0.1
        hit, false = rng.random(n) < truth, rng.random(n) < 0.1 * (1 - truth) / 0.9
        return f1(actual, np.where(actual, hit, false))

    return draw


def _log_loss(n: int) -> Drawn:
    shapes = np.geomspace(2.0, 300.0, 40)
    truths = [calibrated(a, 2, n, log=True).truth for a in shapes]

    def draw(rng: Rng, truth: float) -> Estimate:
        a = float(np.interp(-truth, -np.array(truths), shapes))
        confidence = rng.beta(a, 2, n)
        losses = -np.log(np.where(rng.random(n) < confidence, confidence, 1 - confidence))
        return mean(losses, limits=(0.0, LARGEST_LOG_LOSS))

    return draw


def _planned(estimate: Estimate, better: Better) -> Design | None:
    value, lower, upper = estimate.value, estimate.bound(0.95, "lower"), estimate.bound(0.95, "upper")
    assert value is not None and lower is not None and upper is not None
    if better == "lower":
        growth = of_losses(value, standard_error(value, upper, 0.95), LARGEST_LOG_LOSS, estimate.n)
        return recorded_wald(value, (upper, lower), 0.95, "upper", estimate.n, growth, (0.0, LARGEST_LOG_LOSS))
    if "F1" in estimate.method:
        return recorded_f1(value, lower, 0.95, estimate.n)
    return recorded_area(value, lower, upper, 0.95, estimate.n)


def _missed(draw: Drawn, then: float, threshold: float, better: Better, m: int) -> Iterator[tuple[float, float]]:
    """Whether PASS stays out at the headroom, and FAIL at the violation, over records of a model and new samples.

    NaN where a record promises nothing.
    """
    rng = np.random.default_rng([11, m])
    towards, away = SIDES[better]
    good = 1.0 if better == "higher" else -1.0
    while True:
        no_pass = no_fail = math.nan
        design = _planned(draw(rng, then), better)
        if design is not None:
            found = detectable(design, threshold, better, alpha_pass=0.05, alpha_fail=0.05 / m, family=m)
            if found.headroom is not None and 0.03 < threshold + good * found.headroom < 0.999:
                p = draw(rng, threshold + good * found.headroom).p_value(threshold, towards)
                no_pass = float(p is None or p > 0.05)
            if found.violation is not None and threshold - good * found.violation < 0.999:
                p = draw(rng, threshold - good * found.violation).p_value(threshold, away)
                no_fail = float(p is None or p > 0.05 / m)
        yield no_pass, no_fail


def _shares(
    draw: Drawn, then: float, threshold: float, better: Better, m: int, least: tuple[float, float], repeats: int
) -> tuple[float, float]:
    """How often both come out, `until_settled` that it is at least so often."""
    missed = _missed(draw, then, threshold, better, m)
    found = until_settled(missed, lambda one: one, 1.0 - np.array(least), repeats)
    passed, failed = 1.0 - np.nanmean(found, axis=0)
    return float(passed), float(failed)


DESIGNS: list[tuple[Drawn, float, float]] = [
    (_area(30, 300), 0.85, 0.8),
    (_area(100, 1000), 0.9, 0.85),
    (_area(100, 1000), 0.93, 0.95),
    (_area(200, 200), 0.9, 0.85),
    (_area(15, 200), 0.9, 0.7),
    (_area(40, 400), 0.99, 0.9),
    (_f1(500), 0.85, 0.8),
    (_f1(2000), 0.97, 0.95),
    (_f1(5000), 0.7, 0.8),
]


@pytest.mark.proof
@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("index", range(len(DESIGNS)))
def test_areas_and_f1_pass_at_the_headroom_and_fail_at_the_violation(index: int, m: int) -> None:
    passed, failed = _shares(*DESIGNS[index], "higher", m, (0.85, 0.69), 400)
    assert passed > 0.85 and failed > 0.69


@pytest.mark.proof
@pytest.mark.parametrize(("n", "then", "threshold"), [(2000, 0.35, 0.4), (20_000, 0.3, 0.32), (2000, 0.45, 0.4)])
def test_a_log_loss_passes_at_the_headroom_and_fails_at_the_violation(n: int, then: float, threshold: float) -> None:
    """Few samples: at nine in ten and three in four 120 of them show 0.82 and 0.63 at the least."""
    passed, failed = _shares(_log_loss(n), then, threshold, "lower", 1, (0.82, 0.63), 120)
    assert passed > 0.82 and failed > 0.63


def test_a_record_that_tells_no_error_makes_no_design() -> None:
    assert recorded_area(1.0, 0.9, 1.0, 0.95, 50) is None
    assert recorded_area(0.9, None, None, 0.95, 50) is None
    with pytest.raises(InputError):
        recorded_area(0.9, 0.8, 0.95, 0.4, 50)


def test_no_truth_shows_what_a_threshold_at_an_end_asks() -> None:
    design = recorded_area(0.9, 0.85, 0.94, 0.95, 300)
    assert design is not None and "on the logit" in design.assumed
    assert design.power(0.99, 1.0, "lower", 0.05) == 0.0
    assert "as many rows of the class" in recorded_f1(0.9, 0.85, 0.95, 200).assumed

"""S1 and S2: bounds on calibration errors are about the population, and opposite gaps don't cancel unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest

from evalspec.evidence.estimate import Estimate
from evalspec.stats.calibration.bins import fine_bins
from evalspec.stats.calibration.classwise import classwise_calibration_error
from evalspec.stats.calibration.expected_error import (
    expected_calibration_error,
    maximum_calibration_error,
    rms_calibration_error,
)
from evalspec.stats.calibration.finer_bins import parted
from evalspec.stats.shares.mover import MoverDifference
from tests.stats.calibration.designs import AUDIT, CLASSES, LEARNED, OTHERS, class_sample, class_truth, sample, truth
from tests.stats.simulated import Pair, allowed, bounded, enough, mostly, p_values, until_settled, wrong_claims

RATES = np.array([0.065, 0.065, 0.01, 0.01])
"""Wrong claims: FAIL and PASS side at 95 %, FAIL and PASS side at 99.8 %."""
Kind = Callable[..., Estimate]
KINDS: dict[str, tuple[Kind, int]] = {"ece": (expected_calibration_error, 1), "rms": (rms_calibration_error, 2)}


def simulated(kind: str, name: str, n: int) -> Iterator[Pair]:
    make, power = KINDS[kind]
    rng, at = np.random.default_rng([60, n]), truth(name, power)
    while True:
        yield p_values(make(*sample(name, n, rng)), at)


def holds(samples: Iterable[Pair], repeats: int) -> None:
    found = enough(samples, allowed(repeats, RATES), repeats)
    assert bounded(found) == 1.0
    assert (wrong_claims(found) <= allowed(repeats, RATES)).all(), wrong_claims(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("always right", 300),
        ("sure or at one half, always right", 72),
        ("two confidences that cancel", 300),
        ("crossing at .93", 72),
    ],
)
def test_confidences_are_drawn_and_gaps_do_not_cancel(kind: str, name: str, n: int) -> None:
    """S1, S2: with the confidences taken for known, and in merged bins, PASS erred in 15 to 100 % of these."""
    holds(simulated(kind, name, n), 100)


def test_a_merged_bin_does_not_pass_what_cancels_in_it() -> None:
    """S2: at three times the limit the merged bin's bound was .042 of 300 rows."""
    rng = np.random.default_rng(61)
    found = [expected_calibration_error(*sample("two confidences that cancel", 300, rng)) for _ in range(20)]
    assert all((one.bound(0.95, "upper") or 0.0) > 0.1 for one in found)


def test_a_bin_astride_a_crossing_is_seen_with_enough_rows() -> None:
    """S1: ten bins hide some of an error of .05 at any number of rows, and 33 % of samples of 20,000 passed."""
    holds(simulated("ece", "crossing at .8", 20_000), 60)
    found = expected_calibration_error(*sample("crossing at .8", 20_000, np.random.default_rng(62)))
    assert found.sight[-1][0] == 160 and found.sight[-1][1] < 0.05
    few = expected_calibration_error(*sample("crossing at .8", 300, np.random.default_rng(62)))
    # Five bins may be no finer than those of the value; more are asked for larger errors only.
    assert all(least > 0.05 for bins, least in few.sight if bins > 5)


def test_finer_bins_leave_the_value_as_it_is() -> None:
    said, right = sample("two confidences that cancel", 300, np.random.default_rng(63))
    found = expected_calibration_error(said, right)
    assert len(found.bins.count) == 1 and found.value is not None and found.value < 0.08
    assert found.plug_in == pytest.approx(abs(float(said.mean() - right.mean())))


@pytest.mark.parametrize("n", [72, 300, 2000])
def test_rows_that_are_always_right_do_not_bound_the_largest_gap(n: int) -> None:
    """S1: the maximum erred in 46 to 65 %, since an upper bound was what the sample's mean confidence leaves of 1."""
    rng, found = np.random.default_rng([64, n]), []
    for _ in range(60):
        said, right = sample("sure or at one half, always right", n, rng)
        found.append(p_values(maximum_calibration_error(said, right), truth("sure or at one half, always right")))
    assert (wrong_claims(found)[[1, 3]] <= allowed(60, RATES)[[1, 3]]).all()


def test_a_bin_in_which_gaps_cancel_is_not_within() -> None:
    """S2 inside a bin of the maximum: two confidences side by side, one .15 too sure, the other .1 too modest."""
    rng = np.random.default_rng(65)
    said = np.concatenate((rng.uniform(0.5, 0.7, 4000), rng.uniform(0.8, 0.9, 4000)))
    right = rng.random(8000) < np.where(
        (said > 0.8) & (said < 0.85), said - 0.15, np.where(said > 0.8, said + 0.1, said)
    )
    p = maximum_calibration_error(said, right, bins=2).p_value(0.1, "upper")
    assert p is not None and p > 0.5


@pytest.mark.parametrize("kind", [maximum_calibration_error, expected_calibration_error, rms_calibration_error])
def test_an_upper_bound_is_where_the_largest_p_value_is_the_level(kind: Kind) -> None:
    found = kind(*sample("crossing at .8", 800, np.random.default_rng(71)))
    for confidence in (0.3, 0.95, 0.998):
        bound = found.bound(confidence, "upper")
        assert bound is not None
        below, above = (found.p_value(bound + step, "upper") for step in (-1e-6, 1e-6))
        assert below is not None and above is not None and above <= 1.0 - confidence <= below


def test_few_bins_are_parted_where_bins_of_equal_mass_are_cut() -> None:
    cells = fine_bins(np.linspace(0.005, 0.995, 100), np.ones(100, dtype=np.bool_), bins=100)
    assert parted(cells, np.array([0]), 4).tolist() == [0, 25, 50, 75]
    assert parted(cells, np.array([0, 90]), 4).tolist() == [0, 25, 50, 90]
    assert parted(cells, np.array([0, 10, 20, 30, 40]), 4).tolist() == [0, 10, 20, 30, 40]
    alone = fine_bins(np.full(50, 0.9), np.ones(50, dtype=np.bool_))
    assert parted(alone, np.array([0]), 4).tolist() == [0]


@pytest.mark.parametrize(("name", "n"), [("peaked, always right", 300), ("crossing", 300)])
def test_classwise(name: str, n: int) -> None:
    """S1, S2 of the mean over classes: 15 to 29 %."""
    rng, at = np.random.default_rng([66, n]), class_truth(name)
    holds((p_values(classwise_calibration_error(*class_sample(name, n, rng)), at) for _ in range(60)), 60)


@pytest.mark.proof
@pytest.mark.parametrize("n", [72, 300, 2000, 20_000])
def test_error_rates_of_the_expected_error(n: int) -> None:
    """S1, S2: the audit's populations, others, and learned models."""
    for name in (*AUDIT, *OTHERS, *LEARNED):
        if n < 20_000 or name in AUDIT:
            holds(simulated("ece", name, n), 150 if n < 20_000 else 80)


@pytest.mark.proof
@pytest.mark.parametrize("n", [72, 300, 2000])
def test_error_rates_of_the_root_mean_square(n: int) -> None:
    for name in (*AUDIT, *LEARNED):
        holds(simulated("rms", name, n), 100)


@pytest.mark.proof
@pytest.mark.parametrize("name", CLASSES)
def test_error_rates_of_the_mean_over_classes(name: str) -> None:
    rng, at = np.random.default_rng(67), class_truth(name)
    for n in (72, 300, 2000):
        holds((p_values(classwise_calibration_error(*class_sample(name, n, rng)), at) for _ in range(80)), 80)


@pytest.mark.proof
@pytest.mark.parametrize("name", ["always right", "two confidences that cancel", "forest"])
def test_error_rates_of_an_increase(name: str) -> None:
    """Over a calibrated model; a p-value takes 96 bounds, so only the bound itself is asked."""
    rng, repeats = np.random.default_rng(68), 60

    def wrong() -> Iterator[list[bool]]:
        while True:
            other = rng.beta(8, 2, 300)
            baseline = expected_calibration_error(other, rng.random(300) < other)
            found = MoverDifference(expected_calibration_error(*sample(name, 300, rng)), baseline)
            low, high = found.bound(0.95, "lower"), found.bound(0.95, "upper")
            assert low is not None and high is not None
            yield [low > truth(name), high < truth(name)]

    most = allowed(repeats, RATES)[:2]
    assert (np.mean(until_settled(wrong(), lambda one: one, most, repeats), axis=0) <= most).all()


@pytest.mark.proof
@pytest.mark.parametrize("name", ["always right", "right in 97 % whatever is said", "two confidences that cancel"])
def test_error_rates_with_clusters(name: str) -> None:
    """Two rows of each cluster are copies."""
    rng = np.random.default_rng(69)

    def samples() -> Iterator[Pair]:
        while True:
            said, right = sample(name, 200, rng)
            copies = said.repeat(2), right.repeat(2)
            yield p_values(expected_calibration_error(*copies, clusters=np.arange(200).repeat(2)), truth(name))

    holds(samples(), 150)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("n", "limit", "least"), [(300, 0.12, 0.55), (1000, 0.08, 0.8), (2000, 0.05, 0.7), (10_000, 0.02, 0.6)]
)
def test_a_model_at_half_the_limit_passes_about_as_often_as_by_ten_bins_alone(
    n: int, limit: float, least: float
) -> None:
    """Beta(8, 2), evenly too sure by half the limit; ten bins alone pass in .69, .88, .78 and .71."""
    rng = np.random.default_rng(70)

    def passed() -> Iterator[bool]:
        while True:
            said = rng.beta(8, 2, n)
            found = expected_calibration_error(said, rng.random(n) < said - limit / 2).p_value(limit, "upper")
            yield found is not None and found <= 0.05

    assert mostly(passed(), least, 200) >= least

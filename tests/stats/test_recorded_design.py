"""Designs from one record: what they promise comes true over records, which have noise of their own."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from evalspec.errors import InputError
from evalspec.stats.drift.distances import ks_distance
from evalspec.stats.power import Design, Detectable, detectable
from evalspec.stats.recorded_design import (
    DIFFERING,
    UNLIKE,
    WIDER,
    even,
    of_losses,
    of_range,
    recorded_distance,
    recorded_percentile,
    recorded_share,
    recorded_student,
    recorded_wald,
)

Z = float(norm.ppf(0.95))
ANYWHERE = (-math.inf, math.inf)


def found(design: Design, threshold: float, better: Literal["lower", "higher"] = "lower", m: int = 1) -> Detectable:
    return detectable(design, threshold, better, alpha_pass=0.05, alpha_fail=0.05 / m, family=m)


@pytest.mark.parametrize("processes", [5, 10])
@pytest.mark.parametrize("m", [1, 25])
def test_over_records_of_few_processes_as_many_pass_and_fail_as_promised(processes: int, m: int) -> None:
    """Headroom and violation are so many standard errors of the record, which itself is known from as few values."""
    rng, runs, k = np.random.default_rng(51), 40_000, processes
    edge = float(student.ppf(0.95, k - 1))
    told = found(recorded_student(0.0, (edge, -edge), 0.95, "upper", k, ANYWHERE, log=False), 0.0, m=m)
    assert told.headroom is not None and told.violation is not None
    first, second = rng.normal(size=(2, runs, k))
    noted = first.std(axis=1, ddof=1) / math.sqrt(k)
    mean, error = second.mean(axis=1), second.std(axis=1, ddof=1) / math.sqrt(k)
    passed = np.mean((mean - told.headroom * noted) / error < -edge)
    failed = np.mean((mean + told.violation * noted) / error > student.ppf(1 - 0.05 / m, k - 1))
    assert passed == pytest.approx(1.0 - 0.1 / m, abs=0.006)
    assert failed == pytest.approx(0.8, abs=0.015)


def test_of_many_rows_the_error_is_as_good_as_known() -> None:
    design = recorded_wald(0.0, (Z, -2.0 * Z), 0.95, "upper", 10**6, even, ANYWHERE)
    told = found(design, 0.0)
    assert told.headroom == pytest.approx(Z + norm.ppf(0.9), rel=2e-3)
    assert told.violation == pytest.approx(2.0 * (Z + norm.ppf(0.8)), rel=2e-3)
    few = found(recorded_wald(0.0, (Z, -2.0 * Z), 0.95, "upper", 40, even, ANYWHERE), 0.0)
    assert few.headroom is not None and told.headroom is not None and few.headroom > 1.05 * told.headroom
    with pytest.raises(InputError):
        recorded_wald(0.0, (Z, -Z), 0.4, "upper", 40, even, ANYWHERE)


def test_a_bound_that_is_none_leaves_the_other_error() -> None:
    design = recorded_wald(1.0, (1.0 + Z, 1.0), 0.95, "upper", 10**6, even, ANYWHERE)
    assert (design.passing, design.failing) == pytest.approx((1.0, 1.0))


def test_errors_of_losses_grow_with_the_mean_as_far_as_losses_can_be_uneven() -> None:
    growth = of_losses(0.1, 0.005, None, 800)
    assert [growth(at) for at in (0.05, 0.1, 0.2)] == pytest.approx([1.0, 1.0, 2.0])
    capped = of_losses(0.001, 0.0003, 2.0, 800)
    # At most two values, 0 and the largest.
    assert capped(0.2) == pytest.approx(math.sqrt(0.2 * 1.8 / 800) / 0.0003)
    share = of_range(0.85, -1.0, 1.0)
    assert (share(0.85), share(0.0)) == pytest.approx((1.0, 1.0 / math.sqrt(1.0 - 0.85**2)))


def test_of_processes_the_error_is_in_proportion_where_everything_is_positive() -> None:
    design = recorded_student(12.0, (13.0, 11.5), 0.95, "upper", 5, (0.0, math.inf), log=True)
    assert design.log and "known from 5 processes" in design.assumed
    near, far = (found(design, threshold).headroom for threshold in (20.0, 40.0))
    assert near is not None and far == pytest.approx(2.0 * near)
    assert not recorded_student(1.0, (2.0, -0.5), 0.95, "upper", 5, ANYWHERE, log=True).log
    plain = recorded_student(12.0, (13.0, 11.5), 0.95, "upper", 5, (0.0, math.inf), log=True, counted=True)
    for counted, wider, one in ((True, WIDER, plain), (False, DIFFERING, design)):
        wide = recorded_percentile(one, 12.0, counted=counted)
        assert (wide.passing, wide.failing) == pytest.approx((wider * one.passing, one.failing))


def test_evidence_at_the_threshold_tells_of_a_percentile_how_far_its_bound_grew() -> None:
    """The bound of a median beside rare slow queries lies far off at once, and no further at stricter levels."""
    design = recorded_student(1.28, (6.4, 1.27), 0.95, "upper", 5, (0.0, math.inf), log=True)
    wide = recorded_percentile(design, 1.28, counted=False)
    error = math.log(20.0 / 1.28) / float(student.ppf(1.0 - 0.0012, 4))
    for p_pass, passing in ((0.0012, WIDER * error), (0.2, wide.passing), (0.7, wide.passing)):
        told = recorded_percentile(design, 1.28, counted=False, shown=(20.0, p_pass))
        assert told.passing == pytest.approx(passing)
        assert told.failing == wide.failing
    assert error * WIDER < wide.passing


def test_a_share_has_what_either_bound_tells() -> None:
    plain = recorded_share(0.95, (0.937, 0.961), 0.95, 1000, "lower")
    assert plain.passing.design_effect == pytest.approx(1.0, abs=0.05)
    clusters = recorded_share(0.95, (0.937, 0.961), 0.95, 1000, "lower", clusters=51)
    assert clusters.passing.design_effect == pytest.approx(1.2 * plain.passing.design_effect)
    assert clusters.failing.design_effect == pytest.approx(1.2 * plain.failing.design_effect)
    timed = recorded_share(0.001, (0.002, 0.0), 0.95, 5000, "upper", timed=True)
    # A lower bound of 0 tells nothing.
    assert timed.passing.design_effect == pytest.approx(UNLIKE * timed.failing.design_effect)


def test_a_distance_passes_and_fails_as_promised() -> None:
    """A shift by the truth differs by it all along, so that noise adds as much as it can."""
    rng, n, threshold = np.random.default_rng(52), 500, 0.3
    first = ks_distance(rng.random(n), rng.random(n))
    upper = first.bound(0.95, "upper")
    assert first.value is not None and upper is not None
    told = found(recorded_distance(first.value, first.bound(0.95, "lower"), upper, 0.95, 1.0), threshold, m=25)
    assert told.headroom is not None and told.violation is not None

    def share(truth: float, side: Literal["lower", "upper"], level: float) -> float:
        p = [ks_distance(rng.random(n), rng.random(n) + truth).p_value(threshold, side) for _ in range(600)]
        return float(np.mean([one is not None and one <= level for one in p]))

    # Of 600, 99.6 % is rarely below 98.7 %.
    assert share(threshold - told.headroom, "upper", 0.05) >= 0.987
    assert share(threshold + told.violation, "lower", 0.002) >= 0.75

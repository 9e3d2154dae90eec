"""What a calibration error can detect at a planned n: a PASS at the headroom, a FAIL at the violation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import cycle, islice, tee

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate
from evalspec.stats.calibration.bins import fine_bins, merged
from evalspec.stats.calibration.expected_error import (
    expected_calibration_error,
    maximum_calibration_error,
    rms_calibration_error,
)
from evalspec.stats.error_design import recorded_error, recorded_increase, recorded_largest
from evalspec.stats.power import Design, detectable
from evalspec.stats.shares.mover import MoverDifference
from tests.stats.calibration.designs import pool
from tests.stats.simulated import until_settled

Rng = np.random.Generator
Kind = Callable[..., Estimate]
FAMILIES = ("evenly too sure", "crossing at .8", "too sure where sure", "four waves", "neighbours' shares")


def recorded(found: Estimate) -> Design | None:
    value, upper = found.value, found.bound(0.95, "upper")
    assert value is not None and upper is not None
    if "largest of" in found.method:
        return recorded_largest(value, upper, 0.95)
    return recorded_error(value, upper, 0.95)


ROWS = 200_000
FACTORS = np.linspace(0.0, 12.0, 121)


@cache
def truths(name: str, kind: Kind) -> NDArray[np.float64]:
    """Errors of a population whose gaps are multiplied by each of `FACTORS`."""
    said, right = (rows[:ROWS] for rows in pool(name))
    return np.array([error_of(np.abs(np.clip(said + by * (right - said), 0.0, 1.0) - said), kind) for by in FACTORS])


def error_of(gaps: NDArray[np.float64], kind: Kind) -> float:
    if kind is maximum_calibration_error:
        return float(np.quantile(gaps, 0.95))
    return float(np.mean(gaps**2) ** 0.5 if kind is rms_calibration_error else gaps.mean())


class Family:
    """A population whose gaps are all multiplied until its error is as asked."""

    def __init__(self, name: str, kind: Kind, n: int) -> None:
        self.said, self.right = (rows[:ROWS] for rows in pool(name))
        self.kind, self.n, self.truths = kind, n, truths(name, kind)
        fine = fine_bins(self.said, self.said > 0.5)
        bins = merged(fine, 5.0 * len(self.said) / n)
        place = np.searchsorted(bins.edges[1:-1], self.said)
        gaps = np.abs(np.bincount(place, self.right - self.said, len(bins.count))) / len(self.said)
        self.seen = float(gaps.sum()) / float(np.abs(self.right - self.said).mean())

    def draw(self, rng: Rng, truth: float) -> Estimate | None:
        """A sample; None where no such error can be."""
        if truth > self.truths.max():
            return None
        by = np.interp(truth, np.maximum.accumulate(self.truths), FACTORS)
        rows = rng.integers(0, len(self.said), self.n)
        said = self.said[rows]
        return self.kind(said, rng.random(self.n) < np.clip(said + by * (self.right[rows] - said), 0.0, 1.0))


def designs(family: Family, then: Sequence[float]) -> Iterator[Design | None]:
    """Designs from records of models whose errors are these, one after the other."""
    rng = np.random.default_rng([12, family.n])
    for at in cycle(then):
        record = family.draw(rng, at)
        yield None if record is None else recorded(record)


def missed(family: Family, planned: Iterable[Design | None], threshold: float, m: int) -> Iterator[tuple[float, float]]:
    """Whether PASS stays out at the headroom, and FAIL at the violation, over designs and new samples.

    NaN where a design promises nothing.

    Args:
        family: Of the models.
        planned: What records tell.
        threshold: On the error.
        m: Requirements of the gate.
    """
    rng = np.random.default_rng([13, m, family.n])
    for design in planned:
        no_pass = no_fail = math.nan
        if design is not None:
            found = detectable(design, threshold, "lower", alpha_pass=0.05, alpha_fail=0.05 / m, family=m)
            if found.headroom is not None:
                new = family.draw(rng, threshold - found.headroom)
                no_pass = float(new is None or (new.p_value(threshold, "upper") or 0.0) > 0.05)
            # FAIL is about the bins in print, in which some of the error cancels.
            if found.violation is not None and family.seen > 0.5:
                worse = family.draw(rng, (threshold + found.violation) / family.seen)
                if worse is not None:
                    p = worse.p_value(threshold, "lower")
                    no_fail = float(p is None or p > 0.05 / m)
        yield no_pass, no_fail


@pytest.mark.proof
@pytest.mark.parametrize(
    ("kind", "threshold"),
    [(expected_calibration_error, 0.05), (rms_calibration_error, 0.1), (maximum_calibration_error, 0.15)],
)
def test_an_error_passes_at_the_headroom_and_fails_at_the_violation(kind: Kind, threshold: float) -> None:
    """Few samples: at 0.88 and three in four 40 of them show 0.7 and 0.52 at the least."""
    family = Family("evenly too sure", kind, 3000)
    found = np.array(list(missed(family, islice(designs(family, [0.6 * threshold]), 40), threshold, 1)))
    assert (np.sum(~np.isnan(found), axis=0) > 30).all()
    assert (1.0 - np.nanmean(found, axis=0) >= [0.7, 0.52]).all()


REPEATS, FEWEST_TOLD = 180, 21
"""Records of each family at most, and so many promises that a share of them is asked."""


@pytest.mark.proof
@pytest.mark.parametrize(("n", "threshold"), [(150, 0.1), (500, 0.1), (1500, 0.05), (5000, 0.03)])
@pytest.mark.parametrize("name", FAMILIES)
def test_errors_pass_at_the_headroom_and_fail_at_the_violation(name: str, n: int, threshold: float) -> None:
    """Of records of a model at half the limit, at it, and over it; alone and in a gate of 25."""
    family = Family(name, expected_calibration_error, n)
    for m, planned in zip((1, 25), tee(designs(family, (0.5 * threshold, threshold, 1.5 * threshold))), strict=True):
        least = np.array([1.0 - 0.1 / m - 0.02, 0.75])

        def most(told: int, least: NDArray[np.float64] = least) -> NDArray[np.float64]:
            """Of so many promises, those that may be broken."""
            return told * (1.0 - least) + 3.1 * np.sqrt(told * least * (1.0 - least))

        # The more are told, the more may be broken: no more than of the fewest are enough, however many are told.
        found = until_settled(
            missed(family, planned, threshold, m), np.nan_to_num, most(FEWEST_TOLD) / REPEATS, REPEATS
        )
        for place, column in enumerate(np.array(found).T):
            told = column[~np.isnan(column)]
            assert len(told) < FEWEST_TOLD or told.sum() <= most(len(told))[place], (m, place)


@pytest.mark.proof
def test_an_increase_passes_at_the_headroom_and_fails_at_the_violation() -> None:
    rng, passed, failed, n, limit = np.random.default_rng(14), [], [], 5000, 0.05

    def drawn(increase: float) -> MoverDifference:
        said = rng.beta(8, 2, n)
        first, second = (rng.random(n) < said - gap for gap in (0.03 + increase, 0.03))
        return MoverDifference(expected_calibration_error(said, first), expected_calibration_error(said, second))

    for _ in range(60):
        record = drawn(0.01)
        upper, lower = record.bound(0.95, "upper"), record.bound(0.95, "lower")
        assert record.value is not None and upper is not None
        design = recorded_increase(record.value, lower, upper, 0.95)
        assert design is not None
        found = detectable(design, limit, "lower", alpha_pass=0.05, alpha_fail=0.05, family=1)
        assert found.headroom is not None and found.violation is not None
        if found.headroom <= 0.03 + limit:
            passed.append((drawn(limit - found.headroom).bound(0.95, "upper") or 1.0) <= limit)
        failed.append((drawn(limit + found.violation).bound(0.95, "lower") or 0.0) >= limit)
    assert len(passed) > 30 and np.mean(passed) >= 0.75 and np.mean(failed) >= 0.58


def test_a_record_that_tells_no_noise_makes_no_design() -> None:
    assert recorded_error(0.05, 0.05, 0.95) is None
    assert recorded_error(0.05, 1.0, 0.95) is None
    assert recorded_largest(0.05, 1.0, 0.95) is None
    assert recorded_increase(0.05, None, 0.1, 0.95) is None
    with pytest.raises(InputError):
        recorded_error(0.05, 0.1, 0.4)


def test_the_noise_of_a_record_is_found_again() -> None:
    """Ten bins with a standard error of .005 each: the bound lies where the plain value is a twentieth."""
    design = recorded_error(0.0, 0.0300, 0.95)
    assert design is not None
    other = recorded_error(0.0, 0.0600, 0.95)
    assert other is not None and other.noise == pytest.approx(2.0 * design.noise, rel=1e-6)
    assert "noise adds" in design.assumed and design.limits == (0.0, 1.0)
    # At the limit itself no more passes than the level and the wider deviation leave.
    assert 0.05 < design.power(0.03, 0.03, "upper", 0.05) < 0.15
    assert design.power(0.1, 0.03, "lower", 0.05) > design.power(0.1, 0.03, "lower", 0.002)

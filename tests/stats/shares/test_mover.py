"""The difference of two estimates by their own bounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from evalspec.stats.calibration.expected_error import expected_calibration_error
from evalspec.stats.shares.mover import MoverDifference
from evalspec.stats.shares.proportion import proportion
from evalspec.stats.value_only import ValueOnly
from tests.stats.simulated import until_settled


def share(hits: int, n: int):  # type: ignore[no-untyped-def]
    return proportion(np.arange(n) < hits)


def test_by_hand() -> None:
    one, other = share(80, 100), share(60, 120)
    found = MoverDifference(one, other)
    assert found.value == pytest.approx(0.3)
    assert found.n == 100
    assert found.bound(0.95, "upper") == one.bound(0.975, "upper") - other.bound(0.975, "lower")
    assert found.bound(0.95, "lower") == one.bound(0.975, "lower") - other.bound(0.975, "upper")


def test_p_values_are_the_inverse_of_the_bounds() -> None:
    found = MoverDifference(share(80, 100), share(60, 120))
    for side in ("lower", "upper"):
        at = found.bound(0.9, side)
        assert at is not None
        assert found.p_value(at, side) == pytest.approx(0.1, abs=1e-4)
    assert (found.p_value(0.5, "upper") or 1.0) < 0.05 < (found.p_value(0.31, "upper") or 0.0)
    needed = found.n_to_decide(0.4, 0.05)
    assert needed is not None
    assert needed > 100


def test_without_a_bound_there_is_none() -> None:
    found = MoverDifference(share(8, 10), ValueOnly(0.5, 10, "none"))
    assert found.value == pytest.approx(0.3)
    assert found.bound(0.95, "upper") is None
    assert found.p_value(0.1, "lower") is None
    assert MoverDifference(ValueOnly(None, 0, "none"), share(8, 10)).value is None


@pytest.mark.proof
@pytest.mark.slow
def test_error_rates_of_an_increase_of_calibration_error() -> None:
    """Both models answer the same rows; the candidate is surer by 5 points than it is right."""
    draw = np.random.default_rng(4)

    def samples() -> Iterator[tuple[bool, bool]]:
        while True:
            p = 0.05 + 0.9 * draw.beta(8, 2, 500)
            right = draw.random(500) < p
            surer = np.minimum(p + 0.05, 1.0)
            found = MoverDifference(expected_calibration_error(surer, right), expected_calibration_error(p, right))
            low, high = found.bound(0.95, "lower"), found.bound(0.95, "upper")
            yield low is not None and low > 0.05, high is not None and high < 0.05

    wrong = np.mean(until_settled(samples(), lambda one: one, [0.065, 0.065], 200), axis=0)
    assert (wrong <= 0.065).all(), wrong

from __future__ import annotations

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.stats.shares.label_errors import TrueAccuracy, true_accuracy
from tests.stats.simulated import ALLOWED, p_values, wrong_claims

Population = tuple[np.ndarray, np.ndarray, np.ndarray]


def drawn(n: int, wrong: float, fooled: float, rng: np.random.Generator) -> Population:
    """Rows of a model that is right in 90 %: right as given, label wrong, right in truth.

    Where a label is wrong the model says the same wrong thing with the chance ``fooled``; else it is right as often as
    elsewhere, and then the label makes it look wrong.
    """
    label = rng.random(n) < wrong
    right = rng.random(n) < 0.9
    same = label & (rng.random(n) < fooled)
    return np.where(label, same, right), label, right & ~same


def truth_of(wrong: float, fooled: float) -> float:
    return 0.9 * (1.0 - wrong * fooled)


def test_the_correction_weighs_how_rows_look_by_all_rows() -> None:
    given = np.array([True] * 80 + [False] * 20)
    audited = np.concatenate([np.arange(80) < 20, np.arange(20) < 10])
    label = np.zeros(100, dtype=bool)
    truth = given.copy()
    # Of the audited rows four that look wrong are right, and one that looks right is wrong.
    label[[80, 81, 82, 83, 0]] = True
    truth[[80, 81, 82, 83]] = True
    truth[0] = False
    found = true_accuracy(given, audited, label, truth)
    assert found.claimed.value == 0.8
    assert found.errors.value == pytest.approx(5 / 30)
    assert found.audited.value == pytest.approx((19 + 4) / 30)
    assert found.corrected.value == pytest.approx(0.8 * 19 / 20 + 0.2 * 4 / 10)
    lower, upper = found.corrected.bound(0.95, "lower"), found.corrected.bound(0.95, "upper")
    assert lower is not None and upper is not None and lower < 0.84 < upper


def test_the_correction_says_more_than_the_audited_rows_alone() -> None:
    rng = np.random.default_rng(4)
    given, label, truth = drawn(4000, 0.03, 0.5, rng)
    found = true_accuracy(given, np.arange(4000) < 500, label, truth)
    width = [
        (one.bound(0.95, "upper") or 0.0) - (one.bound(0.95, "lower") or 0.0)
        for one in (found.corrected, found.audited)
    ]
    assert width[0] < 0.8 * width[1]


def test_where_all_audited_rows_look_right_they_stand_alone() -> None:
    given = np.arange(50) < 40
    found = true_accuracy(given, np.arange(50) < 30, ~given, given)
    assert found.corrected is found.audited


def test_at_worst_all_wrong_labels_count_one_way() -> None:
    given = np.arange(2000) % 10 > 0
    label = np.arange(2000) % 25 == 0
    found = true_accuracy(given, np.ones(2000, dtype=bool), label, given)
    lower, upper = found.at_worst(0.95)
    wrong = found.errors.bound(0.975, "upper")
    assert lower is not None and upper is not None and wrong is not None
    assert lower == pytest.approx((found.claimed.bound(0.975, "lower") or 0.0) - wrong)
    assert upper == pytest.approx((found.claimed.bound(0.975, "upper") or 0.0) + wrong)
    assert 0.5 * (upper - lower) > 0.04


def test_where_nobody_looked_there_is_nothing_to_say() -> None:
    given = np.ones(10, dtype=bool)
    found = true_accuracy(given, ~given, ~given, given)
    assert found.at_worst(0.95) == (None, None)
    assert found.corrected.value is None
    assert found.corrected.bound(0.95, "lower") is None


def test_arrays_of_several_lengths_are_refused() -> None:
    row = np.ones(3, dtype=bool)
    with pytest.raises(InputError, match="3, 4 rows"):
        true_accuracy(row, row, row, np.ones(4, dtype=bool))


def test_rows_in_clusters_say_less() -> None:
    rng = np.random.default_rng(3)
    given, label, truth = (np.repeat(one, 4) for one in drawn(250, 0.05, 0.3, rng))
    audited = np.repeat(rng.random(250) < 0.5, 4)
    plain = true_accuracy(given, audited, label, truth)
    clustered = true_accuracy(given, audited, label, truth, np.repeat(np.arange(250), 4))
    bounds = [one.corrected.bound(0.95, "lower") for one in (plain, clustered)]
    assert bounds[0] is not None and bounds[1] is not None and bounds[1] < bounds[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "audited", "wrong", "fooled"), [(400, 100, 0.1, 0.8), (1000, 250, 0.03, 0.0), (3000, 400, 0.06, 0.5)]
)
def test_bounds_err_no_more_often_than_allowed(n: int, audited: int, wrong: float, fooled: float) -> None:
    rng = np.random.default_rng(n)
    truth, looked = truth_of(wrong, fooled), np.arange(n) < audited
    found: list[TrueAccuracy] = [_found(drawn(n, wrong, fooled, rng), looked) for _ in range(400)]
    for name, bounds in (
        ("corrected", [_missed(one, truth) for one in found]),
        ("worst", [_outside(one.at_worst(0.95), truth) for one in found]),
    ):
        assert (np.mean(bounds, axis=0) <= ALLOWED[:2]).all(), (name, np.mean(bounds, axis=0))
    errors = wrong_claims(p_values(one.errors, wrong) for one in found)
    assert (errors <= ALLOWED).all(), errors


def _found(rows: Population, looked: np.ndarray) -> TrueAccuracy:
    given, label, truth = rows
    return true_accuracy(given, looked, label, truth)


def _missed(one: TrueAccuracy, truth: float) -> tuple[bool, bool]:
    return _outside((one.corrected.bound(0.95, "lower"), one.corrected.bound(0.95, "upper")), truth)


def _outside(bounds: tuple[float | None, float | None], truth: float) -> tuple[bool, bool]:
    lower, upper = bounds
    return lower is not None and lower > truth, upper is not None and upper < truth

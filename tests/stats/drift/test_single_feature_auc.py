from __future__ import annotations

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.evidence.estimate import Side
from evalspec.stats.drift.single_feature_auc import (
    GuardedAuc,
    TiedAuc,
    auc_of_counts,
    cells_of,
    cuts_of,
    separation,
    shares_of,
)
from evalspec.stats.means.auc import LogitAuc, roc_auc
from evalspec.stats.means.bounded_area import BoundedArea
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.value_only import ValueOnly
from tests.stats.simulated import ALLOWED, p_values, wrong_claims


def rows(n: int, cells: int, seed: int, lean: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """Cells of rows, the later ones more often positive."""
    rng = np.random.default_rng(seed)
    cell = rng.integers(0, cells, n)
    return cell, rng.random(n) < 1 / (1 + np.exp(-lean * (cell / cells - 0.5) * 4))


def test_few_distinct_numbers_are_cells_of_their_own() -> None:
    values = np.array([3.0, 1.0, np.nan, 2.0, 3.0, 1.0])
    cuts = cuts_of(values)
    assert cuts.tolist() == [1.0, 2.0]
    assert cells_of(values, cuts).tolist() == [2, 0, 3, 1, 2, 0]
    # What training has not seen falls beside its neighbours.
    assert cells_of(np.array([-5.0, 1.5, 99.0, np.inf]), cuts).tolist() == [0, 1, 2, 3]
    assert cuts_of(np.array([np.nan, np.nan])).tolist() == []


def test_many_distinct_numbers_are_cut_into_equal_parts() -> None:
    values = np.random.default_rng(1).lognormal(size=10_000)
    counts = np.bincount(cells_of(values, cuts_of(values)))
    assert len(counts) == 64
    assert (counts.min(), counts.max()) == (156, 157)


def test_shares_are_drawn_to_the_mean_and_empty_cells_have_it() -> None:
    shares = shares_of(np.array([0, 0, 0, 2]), np.array([True, True, True, False]), 4)
    # Three of three, drawn by one row of 0.75: 3.75 / 4; none of one: 0.75 / 2.
    assert shares.tolist() == [0.9375, 0.75, 0.375, 0.75]


@pytest.mark.parametrize("seed", range(4))
def test_area_of_counts_is_that_of_the_rows(seed: int) -> None:
    cell, positive = rows(500, 7, seed)
    shares = np.array([0.1, 0.2, 0.2, 0.4, 0.3, 0.6, 0.9])
    counts = [np.bincount(cell[side], minlength=7).astype(float) for side in (positive, ~positive)]
    found, plain = auc_of_counts(shares, counts[0], counts[1]), roc_auc(shares[cell], positive)
    assert isinstance(found, LogitAuc) and isinstance(plain, LogitAuc)
    assert found.value == pytest.approx(plain.value, abs=1e-12)
    assert found.standard_error == pytest.approx(plain.standard_error, rel=1e-12)


def test_close_to_one_it_is_bounded_as_the_rows_are() -> None:
    positive = np.arange(400) < 100
    found = auc_of_counts(np.array([0.9, 0.1]), np.array([100.0, 0.0]), np.array([1.0, 299.0]))
    plain = roc_auc(np.where(np.arange(400) < 101, 0.9, 0.1), positive)
    assert isinstance(plain, BoundedArea) and isinstance(found, GuardedAuc)
    assert found.bound(0.998, "lower") == plain.bound(0.998, "lower")
    # One row of 300 stands elsewhere: nothing is said from above.
    assert found.bound(0.95, "upper") == pytest.approx(1.0, abs=1e-9)


def test_without_a_class_there_is_no_area() -> None:
    assert auc_of_counts(np.array([0.5]), np.array([3.0]), np.array([0.0])).value is None
    assert separation(np.array([0.5]), np.zeros(60, int), np.zeros(60, bool)).value is None


def test_a_column_that_says_nothing_of_any_row_is_bounded_by_the_rows() -> None:
    found = auc_of_counts(np.array([0.5, 0.5]), np.array([60.0, 40.0]), np.array([90.0, 10.0]))
    assert isinstance(found, TiedAuc)
    # Of 100 rows none stands elsewhere: at half the level Clopper-Pearson leaves 1 - 0.025^(1/100).
    tied = 0.025 ** (1 / 100)
    assert found.bound(0.95, "upper") == pytest.approx(1 - tied**2 / 2)
    assert found.bound(0.95, "lower") == pytest.approx(tied**2 / 2)
    bound = found.bound(0.99, "upper")
    assert bound is not None
    assert found.p_value(bound, "upper") == pytest.approx(0.01, rel=1e-6)
    assert found.n_to_decide(0.9, 0.05) is None


def test_scale_and_what_is_too_little() -> None:
    cell, positive = rows(300, 5, 9)
    shares = np.linspace(0.1, 0.9, 5)
    auc, score = roc_auc(shares[cell], positive), separation(shares, cell, positive)
    assert auc.value is not None and auc.value > 0.5
    assert score.value == pytest.approx(2 * auc.value - 1)
    assert score.p_value(0.2, "lower") == pytest.approx(auc.p_value(0.6, "lower"))
    # Ranked the wrong way round it says nothing, not less than nothing.
    wrong = separation(shares[::-1].copy(), cell, positive)
    assert (wrong.value, wrong.bound(0.95, "lower")) == (0.0, 0.0)
    few = separation(shares, cell[:40], positive[:40])
    assert isinstance(few, ValueOnly)
    assert "50 and 20 are needed" in few.method
    with pytest.raises(InputError, match="2 cells for 3 rows"):
        separation(shares, np.zeros(2, int), np.zeros(3, bool))


def test_rows_that_are_copies_count_once() -> None:
    cell, positive = rows(200, 5, 10)
    shares = np.linspace(0.1, 0.9, 5)
    alone = separation(shares, cell, positive)
    copies = separation(shares, np.repeat(cell, 4), np.repeat(positive, 4), np.repeat(np.arange(200), 4))
    assert copies.value == pytest.approx(alone.value)
    low, as_low = copies.bound(0.95, "lower"), alone.bound(0.95, "lower")
    assert low is not None and as_low is not None
    assert low == pytest.approx(as_low, abs=0.01)
    tied = separation(shares, np.zeros(800, int), np.repeat(positive, 4), np.repeat(np.arange(200), 4))
    upper = tied.bound(0.95, "upper")
    assert upper is not None and upper > 0.03


# Cells of positive and of other rows, ranked in this order, from nothing to nearly everything.
POPULATIONS = {
    "nothing": ([0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]),
    "some": ([0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]),
    "much": ([0.0, 0.02, 0.18, 0.8], [0.7, 0.2, 0.08, 0.02]),
    "nearly all": ([0.0, 0.0, 0.01, 0.99], [0.96, 0.03, 0.01, 0.0]),
    "few tell": ([0.97, 0.0, 0.0, 0.03], [0.995, 0.005, 0.0, 0.0]),
    "some tell": ([0.85, 0.0, 0.0, 0.15], [0.97, 0.03, 0.0, 0.0]),
    "the wrong way": ([0.95, 0.05, 0.0, 0.0], [0.8, 0.0, 0.1, 0.1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("n", [(25, 500), (40, 60), (100, 900)])
@pytest.mark.parametrize("name", list(POPULATIONS))
def test_bounds_hold(name: str, n: tuple[int, int]) -> None:
    first, second = (np.array(one) for one in POPULATIONS[name])
    truth = float(first @ (np.cumsum(second) - 0.5 * second))
    rng = np.random.default_rng(11)
    samples = zip(rng.multinomial(n[0], first, 1000), rng.multinomial(n[1], second, 1000), strict=True)
    shares = np.arange(4.0)
    found = [p_values(auc_of_counts(shares, p.astype(float), q.astype(float)), truth) for p, q in samples]
    assert (wrong_claims(found) <= ALLOWED + np.array([0.012, 0.012, 0.004, 0.004])).all()


@pytest.mark.parametrize("sides", [(60, 100), (300, 20)])
def test_rows_that_all_stand_at_one_place_err_as_seldom_as_they_say(sides: tuple[int, int]) -> None:
    """Counted, not drawn: the chance that none of the rows elsewhere is seen, where the AUC is at the bound."""
    found = TiedAuc(0.5, *(Proportion(0.0, n) for n in sides))
    levels: tuple[tuple[float, Side], ...] = ((0.95, "upper"), (0.998, "upper"))
    for confidence, side in levels:
        bound = found.bound(confidence, side)
        assert bound is not None
        elsewhere = np.linspace(0, 1, 400)
        # For every share of positive rows elsewhere the one of others at which the AUC is the bound.
        other = 1 - 2 * (1 - bound) / np.maximum(1 - elsewhere, 1e-12)
        possible = (other >= 0) & (other < 1)
        seen = (1 - elsewhere[possible]) ** sides[0] * (1 - other[possible]) ** sides[1]
        assert seen.max() <= 1 - confidence + 1e-9

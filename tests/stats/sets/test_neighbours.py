"""Neighbours by direction, beside scikit-learn's exact search."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from evalspec.errors import InputError
from evalspec.stats.sets.neighbours import directions, neighbours


def cloud(n: int, seed: int, d: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def test_it_is_the_exact_search_of_scikit_learn() -> None:
    theirs, ours = cloud(9000, 0), cloud(1500, 1)
    ours[:40] = 3.0 * theirs[100:140] + 0.05 * ours[:40]
    cosines = cosine_similarity(ours.astype(np.float64), theirs.astype(np.float64))
    found = neighbours(directions(theirs), directions(ours), 0.7)
    np.testing.assert_array_equal(found.row, cosines.argmax(axis=1))
    np.testing.assert_allclose(found.similarity, cosines.max(axis=1), atol=1e-6)
    np.testing.assert_array_equal(found.near, (cosines >= 0.7).sum(axis=1))
    assert found.compared == 9000 * 1500
    assert found.pair_share == pytest.approx((cosines >= 0.7).mean())


def test_a_pair_just_at_the_limit_is_near_and_one_below_is_not() -> None:
    angle = np.arccos(0.95)
    theirs = np.array([[1.0, 0.0], [0.0, -1.0]])
    ours = np.array([[np.cos(t), np.sin(t)] for t in (angle, angle + 1e-4, angle - 1e-4)])
    found = neighbours(directions(theirs), directions(ours), 0.95)
    assert found.near.tolist() == [1, 0, 1]


def test_rows_among_themselves_are_not_their_own_neighbours() -> None:
    rows = cloud(5000, 2)
    rows[4900] = rows[10]
    found = neighbours(directions(rows), directions(rows), 0.99, same=True)
    assert found.near.sum() == 2
    assert (found.row[4900], found.row[10]) == (10, 4900)
    assert found.compared == 5000 * 4999


def test_length_means_nothing_and_no_length_is_no_direction() -> None:
    rows = np.array([[3e30, 0.0], [1e-30, 0.0], [0.0, 0.0]])
    unit = directions(rows)
    np.testing.assert_allclose(unit, [[1, 0], [1, 0], [0, 0]])
    assert neighbours(unit, unit, 0.9, same=True).near.tolist() == [1, 1, 0]


def test_of_nothing_there_is_none() -> None:
    found = neighbours(np.zeros((0, 4), np.float32), directions(cloud(3, 0, 4)), 0.9)
    assert found.row.tolist() == [-1, -1, -1]
    assert np.isnan(found.similarity).all()
    assert (found.pairs, found.pair_share) == (0, 0.0)


def test_what_can_not_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="row 1 isn't finite"):
        directions(np.array([[1.0], [np.inf]]))
    with pytest.raises(InputError, match="not vectors"):
        directions(np.zeros((3, 2, 2)))
    with pytest.raises(InputError, match="of 4 and of 5"):
        neighbours(directions(cloud(3, 0, 4)), directions(cloud(3, 0, 5)), 0.9)

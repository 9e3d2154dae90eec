from __future__ import annotations

import numpy as np
import pytest

from evalspec.stats.sets import near_vectors as module
from evalspec.stats.sets.near_vectors import near_vectors


def brute(train: np.ndarray, test: np.ndarray, limit: float, step: float = 0.0) -> np.ndarray:
    apart = test[:, None].astype(float) - train[None].astype(float)
    near = np.sqrt((apart**2).mean(axis=2)) <= limit * (1 + 1e-9)
    if step:
        near |= np.abs(apart).max(axis=2) <= step
    return np.asarray(near.any(axis=1))


@pytest.mark.parametrize("d", [1, 2, 16, 100])
@pytest.mark.parametrize("kind", ["normal", "low rank", "constant", "shifted"])
def test_nothing_is_missed_and_nothing_added(d: int, kind: str) -> None:
    rng = np.random.default_rng(d)
    train, test = rng.normal(size=(700, d)), rng.normal(size=(300, d))
    if kind == "low rank":
        basis = rng.normal(size=(1, d))
        train, test = train[:, :1] * basis, test[:, :1] * basis
    elif kind == "constant":
        train[:], test[:200] = 0.5, 0.5
    elif kind == "shifted":
        train += 1e4
        test += 1e4
    test[:60] = train[:60] + rng.normal(size=(60, d)) * np.linspace(0, 0.2, 60)[:, None]
    found = near_vectors(train, test, limit=0.1, rng=rng)
    assert (found.found == brute(train, test, 0.1)).all()
    hits = np.flatnonzero(found.found)
    apart = np.sqrt(((test[hits] - train[found.train_row[hits]]) ** 2).mean(axis=1))
    assert found.closeness[hits] == pytest.approx(apart)
    assert found.recall == 1.0


def test_whole_numbers_and_steps() -> None:
    rng = np.random.default_rng(0)
    train = rng.integers(0, 17, (400, 64)).astype(np.uint8)
    test = rng.integers(0, 17, (200, 64)).astype(np.uint8)
    test[:50] = np.clip(train[:50].astype(int) + rng.choice([-1, 1], (50, 64)), 0, 16)
    test[50:60] = np.clip(train[50:60].astype(int) + rng.choice([-2, 2], (10, 64)), 0, 16)
    assert near_vectors(train, test, limit=0.3, rng=rng).found.sum() == 0
    found = near_vectors(train, test, limit=0.3, step=1, rng=rng).found
    assert (found == brute(train, test, 0.3, 1)).all()
    assert found[:50].all()
    assert not found[50:].any()


def test_small_portions_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    train, test = rng.normal(size=(500, 8)), rng.normal(size=(400, 8))
    whole = near_vectors(train, test, limit=0.5, rng=rng).found
    monkeypatch.setattr(module, "VALUES_AT_A_TIME", 512)
    monkeypatch.setattr(module, "TEST_ROWS_AT_A_TIME", 16)
    assert (near_vectors(train, test, limit=0.5, rng=rng).found == whole).all()
    assert 0 < whole.sum() < 400


def test_rows_with_nan_have_no_near_duplicate() -> None:
    rng = np.random.default_rng(2)
    train = rng.normal(size=(50, 4))
    train[0, 1] = np.nan
    test = train.copy()
    test[1, 2] = np.inf
    found = near_vectors(train, test, limit=0.01, rng=rng)
    assert not found.found[:2].any()
    assert found.found[2:].all()


def test_no_rows() -> None:
    rng = np.random.default_rng(3)
    assert near_vectors(np.zeros((0, 4)), np.zeros((2, 4)), limit=1.0, rng=rng).found.tolist() == [False, False]
    assert len(near_vectors(np.zeros((2, 4)), np.zeros((0, 4)), limit=1.0, rng=rng).train_row) == 0
    assert near_vectors(np.ones((1, 4)), np.ones((2, 4)), limit=0.0, rng=rng).found.all()


def test_what_else_is_compared_counts() -> None:
    rng = np.random.default_rng(4)
    train = np.zeros((30, 3))
    found = near_vectors(train, train[:2], limit=0.1, rng=rng, accept=lambda test, other: other == 17)
    assert found.train_row.tolist() == [17, 17]

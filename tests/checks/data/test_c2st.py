"""Error rates of `c2st_auc`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evalspec.checks.data import _c2st
from evalspec.checks.data._c2st import Pool, tell_apart
from tests.stats.simulated import ALLOWED, REPEATS, bounded, p_values, wrong_claims

EQUAL = np.array([0.4, 0.3, 0.2, 0.1])
MOVED = np.array([0.3, 0.25, 0.25, 0.2])
TOGETHER = 100


class Kept:
    """What a classifier says of each of four values."""

    def __init__(self, model: Any) -> None:
        self.chance = model.predict_proba(np.arange(4.0)[:, None])

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.chance[rows[:, 0].astype(np.int64)])

    def auc(self, reference: np.ndarray, current: np.ndarray) -> float:
        """In the two populations."""
        above = np.sign(self.chance[:, 1][None, :] - self.chance[:, 1][:, None])
        return float(reference @ (0.5 + 0.5 * above) @ current)


def drawn(rng: np.random.Generator, shares: np.ndarray, groups: int, size: int) -> np.ndarray:
    """Values of the rows of one side; those of a cluster are the same in three of four rows."""
    one = rng.choice(4, groups, p=shares)
    rows = rng.choice(4, (groups, size), p=shares)
    return np.where(rng.random((groups, size)) < (0.75 if size > 1 else 0.0), one[:, None], rows).ravel()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "size", "moved"), [(100, 1, False), (100, 1, True), (200, 1, True), (1000, 1, True), (100, 4, True)]
)
def test_error_rates(groups: int, size: int, moved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one column of four values, for which the true AUC of a trained classifier is known exactly.

    A classifier is trained on half of every hundredth sample and judged on the other halves of a hundred: what it was
    trained on says nothing of the rows that it is judged on. Below 100 rows a side there is none.
    """
    rng, shares, n = np.random.default_rng([groups, size]), MOVED if moved else EQUAL, groups * size
    train, kept, calls = _c2st._fit, [], 0

    def fit(*arguments: Any) -> Kept:
        nonlocal calls
        # Once for the sample itself and once for what is planted.
        if calls % (2 * TOGETHER) == 0:
            kept.append(Kept(train(*arguments)))
        calls += 1
        return kept[-1]

    monkeypatch.setattr(_c2st, "_fit", fit)
    # What is planted, and how much each column adds, doesn't enter the bounds.
    plain = np.zeros((2, 1)), np.array([False, True]), np.arange(2), np.array([True, True])
    monkeypatch.setattr(_c2st, "_plant", lambda *_: plain)
    monkeypatch.setattr(_c2st, "_gain", lambda *_: {})
    units, found = np.repeat(np.arange(2 * groups), size), []
    for _ in range(REPEATS):
        values = np.concatenate((drawn(rng, EQUAL, groups, size), drawn(rng, shares, groups, size)))
        pool = Pool(values[:, None].astype(np.float64), units, size > 1, ("x",), np.zeros(1, dtype=bool))
        told = tell_apart(pool, 0.6, 0.95, rng)
        assert told.rows == n
        found.append(p_values(told.auc, kept[-1].auc(EQUAL, shares)))
    assert len(kept) == REPEATS // TOGETHER
    assert bounded(found) > 0.9
    assert (wrong_claims(found) <= ALLOWED).all()

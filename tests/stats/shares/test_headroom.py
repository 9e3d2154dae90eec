from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from evalspec.stats.shares.headroom import Headroom
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.value_only import ValueOnly


def test_it_is_the_score_seen_from_the_ceiling() -> None:
    score = Proportion.of_counts(970, 1000)
    left = Headroom(score, 0.98)
    assert left.value == pytest.approx(0.01)
    lower, upper = score.bound(0.95, "lower"), score.bound(0.95, "upper")
    assert lower is not None and upper is not None
    assert left.bound(0.95, "lower") == pytest.approx(0.98 - upper)
    assert left.bound(0.95, "upper") == pytest.approx(0.98 - lower)
    assert left.p_value(0.02, "upper") == score.p_value(0.96, "lower")
    assert left.n_to_decide(0.02, 0.05) == score.n_to_decide(0.96, 0.05)
    assert left.n == 1000
    assert left.method.startswith("0.98 minus the score")


def test_a_score_over_the_ceiling_leaves_less_than_nothing() -> None:
    left = Headroom(Proportion.of_counts(99, 100), 0.95)
    assert left.value == pytest.approx(-0.04)


def test_without_a_score_nothing_is_left() -> None:
    left = Headroom(ValueOnly(None, 0, "no rows"), 1.0)
    assert (left.value, left.bound(0.95, "upper")) == (None, None)


def test_it_errs_as_seldom_as_the_score() -> None:
    """Every outcome of 400 rows at a true headroom of 2 points, weighed by its chance."""
    counts = np.arange(401)
    chance = binom.pmf(counts, 400, 0.98)
    left = [Headroom(Proportion.of_counts(int(k), 400), 1.0) for k in counts]
    for level in (0.05, 0.002):
        for side in ("lower", "upper"):
            p = np.array([one.p_value(0.02, "lower" if side == "lower" else "upper") for one in left])
            assert chance[p <= level].sum() <= level

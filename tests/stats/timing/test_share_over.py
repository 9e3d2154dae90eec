"""The share of queries over a deadline: percentiles that are not asked have nothing to add."""

from __future__ import annotations

import numpy as np
import pytest

from evalspec.evidence.estimate import Side
from evalspec.stats.timing.share_over import share_over


@pytest.mark.parametrize("side", ["lower", "upper"])
@pytest.mark.parametrize("kind", ["calm", "bursts", "levels", "far"])
def test_evidence_is_the_best_of_all_shares_between(kind: str, side: Side) -> None:
    rng = np.random.default_rng(1)
    series = [rng.lognormal(0.2 * rng.normal() * (kind == "levels"), 0.25, 600) for _ in range(6)]
    if kind == "bursts":
        series = [
            one * np.where(np.convolve(rng.random(600) < 0.004, np.ones(8), "same") > 0, 3.0, 1.0) for one in series
        ]
    found = share_over(series, 9.0 if kind == "far" else 1.4)
    assert found.value is not None
    for threshold in (0.01, 0.05, 0.08, 0.12, 0.2, 0.5):
        if threshold < found.value if side == "upper" else threshold > found.value:
            continue
        inner = max if side == "lower" else min
        every = [
            found._p(one, inner(threshold, one.far), side)
            for one in found._stretches(side)
            if (one.near >= threshold if side == "lower" else one.near <= threshold)
        ]
        assert found.p_value(threshold, side) == min((p for p in every if p is not None), default=None)

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from evalspec.verdict.holm import holm


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_statsmodels(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # statsmodels collects all garbage of the process each time.
    monkeypatch.setattr("gc.collect", lambda *_: 0)
    rng = np.random.default_rng(seed)
    p_values = {f"r{index}": float(p) for index, p in enumerate(rng.beta(0.3, 3, size=12))}
    expected = multipletests(list(p_values.values()), alpha=0.05, method="holm")[0]
    assert holm(p_values, 0.05) == {name for name, hit in zip(p_values, expected, strict=True) if hit}


def test_no_evidence_counts_as_one() -> None:
    assert holm({"a": 0.02, "b": None}, 0.05) == {"a"}
    assert holm({"a": 0.03, "b": None}, 0.05) == frozenset()


def test_an_empty_family_rejects_nothing() -> None:
    assert holm({}, 0.05) == frozenset()

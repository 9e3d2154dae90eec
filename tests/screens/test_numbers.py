"""Numbers that screens compute, beside other ways to compute them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import kendalltau

from evalspec.language.timings import Samples, Telemetry
from evalspec.screens.data import copies
from evalspec.screens.system.memory_growth import Readings, p_of_trend, resident


@pytest.mark.parametrize("seed", range(5))
def test_the_trend_of_one_process_is_kendalls_exact_one(seed: int) -> None:
    mib = np.random.default_rng(seed).normal(size=9)
    theirs = kendalltau(np.arange(9), mib, alternative="greater", method="exact").pvalue
    assert p_of_trend([Readings(np.arange(9), mib)]) == pytest.approx(theirs, rel=1e-9)


def test_processes_that_all_rise_are_as_unlikely_as_their_orders() -> None:
    rising = Readings(np.arange(4), np.arange(4.0))
    assert p_of_trend([rising] * 3) == pytest.approx(24.0**-3)
    level = Readings(np.arange(4), np.ones(4))
    assert p_of_trend([level] * 3) > 0.5


def test_readings_at_both_ends_of_a_short_window_count() -> None:
    second = 10**9
    sent = np.linspace(0, second, 50).astype(np.int64)
    times = (np.array([-0.6, -0.1, 0.4, 0.9, 1.2, 1.7]) * second).astype(np.int64)
    samples = Samples(
        model="candidate", process=0, block=np.zeros(50, np.int64), intended_ns=sent, sent_ns=sent, end_ns=sent + 1000,
        items=np.arange(50), batch=1, ok=np.ones(50, np.bool_), warmup=0, details={},
        telemetry=Telemetry(times, {"resident_mib": np.arange(6.0)}),
    )  # fmt: skip
    found = resident(samples)
    assert found is not None
    assert found.mib.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_tree_finds_the_neighbours_that_looking_at_all_rows_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    points = rng.normal(size=(400, 5)).astype(np.float32)
    # Equal rows, more of one than there are neighbours.
    points[100:120] = points[100]
    some = np.arange(0, 400, 7)
    by_tree = copies.neighbours(points, some)
    monkeypatch.setattr(copies, "FEW_COLUMNS", 0)
    np.testing.assert_allclose(by_tree, copies.neighbours(points, some), atol=2e-6)


def test_a_check_whose_columns_can_not_be_compared_counts_no_copies() -> None:
    """A map that no model reads must not keep anybody from being told of copies in what is read."""
    table = pa.table({"x": [1, 1], "m": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))})
    evidence: Any = SimpleNamespace(rows=lambda _: table, dataset=lambda _: SimpleNamespace(key=None))
    wanted = [SimpleNamespace(metric="duplicate_rows")]
    check: Any = SimpleNamespace(requirements=wanted, dataset="test", duplicates_by=())
    assert not copies._counts_them(evidence, copies.TableDigests(evidence), check, "test", 1)
    check.duplicates_by = ("x",)
    assert copies._counts_them(evidence, copies.TableDigests(evidence), check, "test", 1)

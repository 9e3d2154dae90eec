"""Rows come into the same bins, and have the same top label, however many they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalspec.stats.calibration import bins
from evalspec.stats.calibration.bins import fine_bins
from evalspec.stats.calibration.expected_error import top_label


@pytest.mark.parametrize("scheme", ["equal_mass", "equal_width"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_rows_that_are_not_sorted_come_into_the_same_bins(scheme: Any, data: st.DataObject) -> None:
    seed, n, places = data.draw(st.tuples(st.integers(0, 10_000), st.integers(1, 400), st.integers(0, 6)))
    rng = np.random.default_rng(seed)
    # Few decimals: many ties, and zeros and ones.
    confidences, correct = np.round(rng.beta(0.5, 0.5, n), places), rng.random(n) < 0.5
    count = data.draw(st.integers(2, 30))
    few = fine_bins(confidences, correct, bins=count, scheme=scheme)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bins, "MANY", 0)
        many = fine_bins(confidences, correct, bins=count, scheme=scheme)
    for name in ("edges", "count", "confidence", "accuracy", "right"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name), err_msg=name)
    # By sorting: rows of each bin, from its edges.
    ordered = np.sort(confidences)
    assert few.edges[0] == ordered[0]
    below = np.searchsorted(ordered, few.edges[1:], side="right")
    if scheme == "equal_mass":
        np.testing.assert_array_equal(np.diff(below, prepend=0), few.count)
        wanted = ordered[np.floor(np.arange(1, count) * n / count + 0.5).astype(int).clip(1) - 1]
        np.testing.assert_array_equal(few.edges[1:], np.unique(np.append(wanted, ordered[-1])))


@pytest.mark.parametrize("classes", [1, 2, 10, 40])
@pytest.mark.parametrize("places", [1, 8])
def test_the_top_label_is_the_first_of_the_most_probable(classes: int, places: int) -> None:
    rng = np.random.default_rng(13)
    # One decimal: many classes tie.
    said = np.round(rng.dirichlet(np.ones(classes), 6000), places)
    truth = rng.integers(0, classes, 6000)
    confidence, correct = top_label(said, truth)
    np.testing.assert_array_equal(confidence, np.minimum(said.max(axis=1), 1.0))
    np.testing.assert_array_equal(correct, said.argmax(axis=1) == truth)
    assert top_label(np.empty((0, classes)), np.empty(0, dtype=np.int64))[0].shape == (0,)

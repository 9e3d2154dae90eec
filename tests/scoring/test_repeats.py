"""Variance within and between rows: by hand, by simulation, and from when on more answers to a row do not pay."""

from __future__ import annotations

import numpy as np
import pytest

from evalspec.scoring.repeats import RepeatedAnswers, recorded


def test_variances_are_those_of_the_rows_and_of_drawing() -> None:
    # Rows that are right with a chance of their own, from Beta(2, 1): between 1/18, within 1/6.
    rng = np.random.default_rng(1)
    easy = rng.beta(2, 1, 4000)
    found = RepeatedAnswers.of("exact_match", (rng.random((8, 4000)) < easy).astype(np.float64))
    assert (found.metric, found.asked) == ("exact_match", 8)
    assert found.between == pytest.approx(1 / 18, rel=0.1)
    assert found.within == pytest.approx(1 / 6, rel=0.05)


def test_enough_is_where_the_interval_is_five_percent_wider_than_without_end() -> None:
    found = RepeatedAnswers("exact_match", 4, within=1 / 6, between=1 / 18)
    assert found.enough == 30
    width = [np.sqrt((1 / 18 + 1 / 6 / k) / (1 / 18)) for k in (29, 30)]
    assert width[0] > 1.05 >= width[1]
    assert found.sentence == (
        "each row was answered 4 times, and 43 % of the variance of exact_match is of that: up to 30 pay, then rows "
        "alone do"
    )


@pytest.mark.parametrize(
    ("within", "between", "enough", "words"),
    [
        (0.0, 0.2, 1, "more than 1 do not pay"), (0.01, 0.2, 1, "more than 1 do not pay"),
        (0.2, 0.0, None, "rows hardly differ"), (0.0, 0.0, 1, "0 % of the variance"),
    ],
)  # fmt: skip
def test_ends_of_the_range(within: float, between: float, enough: int | None, words: str) -> None:
    found = RepeatedAnswers("accuracy", 4, within, between)
    assert found.enough == enough
    assert words in found.sentence


def test_the_record_keeps_what_the_plan_says() -> None:
    found = RepeatedAnswers("accuracy", 4, 0.1, 0.2)
    assert recorded(found.conditions()) == found
    assert recorded({}) is None
    assert recorded({"answers to each row": "four"}) is None

"""Options that are scored by something that is not a probability."""

from __future__ import annotations

import pytest

from evalspec.checks.model.calibration.show import relative


@pytest.mark.parametrize("score", ["per_byte", "per_token", "pmi"])
def test_a_score_that_ranks_is_called_no_probability(score: str) -> None:
    assert f"scored `{score}`, which ranks them and is not a probability" in relative(score)[0]


@pytest.mark.parametrize("score", [None, "letter", "sum"])
def test_probabilities_get_no_sentence(score: str | None) -> None:
    assert relative(score) == []

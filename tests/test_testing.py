"""`evalspec.testing`: a check is tried on rows in memory."""

from __future__ import annotations

import numpy as np
import pytest

from evalspec.checks.data.contamination.spec import Contamination
from evalspec.checks.model.quality.spec import Quality
from evalspec.errors import InputError
from evalspec.testing import run_check

X = np.random.default_rng(0).normal(size=400)
ROWS = {"x": X, "y": np.where(X > 0, "yes", "no")}
CHECK = Quality.model_validate(
    {"check": "quality", "dataset": "test", "require": ["accuracy >= 90 %"], "warn": ["recall(yes) >= 99.9 %"]}
)


@pytest.mark.parametrize(("line", "status"), [(0.0, "PASS"), (1.0, "FAIL"), (0.25, "INCONCLUSIVE")])
def test_a_check_of_a_model_s_answers(line: float, status: str) -> None:
    def model(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"label": np.where(inputs["x"] > line, "yes", "no")}

    outcome = run_check(CHECK, ROWS, label="y", model=model, fields={"classes": ["no", "yes"]})
    one = outcome.requirements["quality/accuracy"]
    share = float(np.mean(np.equal(line < X, X > 0)))
    assert (one.status, one.n, one.unit) == (status, 400, "%")
    assert one.value == pytest.approx(100 * share)
    assert outcome.record.measured["accuracy"] == pytest.approx(share)
    assert "accuracy" in outcome.result.estimates
    with pytest.raises(ValueError, match="too many"):
        _ = outcome.status


def test_a_check_of_several_datasets() -> None:
    check = Contamination.model_validate(
        {"check": "contamination", "train": ["train"], "test": "test", "require": ["exact_duplicates == 0"]}
    )
    outcome = run_check(check, {"train": {"x": X[:300]}, "test": {"x": X[290:]}})
    assert outcome.status == "FAIL"
    assert outcome.requirements["contamination/exact_duplicates"].value == 10
    with pytest.raises(InputError, match="needs rows of train, test"):
        run_check(check, {"x": X})


def test_a_model_is_asked_for() -> None:
    with pytest.raises(InputError, match="asks for a model's answers"):
        run_check(CHECK, ROWS, label="y")

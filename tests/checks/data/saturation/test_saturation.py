"""`saturation`: what is left under the ceiling, how wide the interval is, how old the data are."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.saturation.spec import Saturation
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Fact
from evalspec.language.parts import NeedPredictions, NeedRows, SpecNames
from evalspec.stats.shares.proportion import Proportion
from tests.checks.data.visits import benchmark
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs, regressor


def test_what_is_left_is_the_ceiling_less_the_score(tmp_path: Path) -> None:
    inputs, check = benchmark(tmp_path, 0.03, ceiling="98 %", ceiling_source="people, 2025")
    result = check.run(inputs)
    left, width = result.estimates["headroom"], result.estimates["interval_width"]
    score = Proportion.of_counts(3880, 4000)
    lower, upper = score.bound(0.95, "lower"), score.bound(0.95, "upper")
    assert lower is not None and upper is not None
    assert isinstance(left, Estimate) and isinstance(width, Fact)
    assert left.value == pytest.approx(0.01)
    assert left.bound(0.95, "lower") == pytest.approx(0.98 - upper)
    assert width.value == pytest.approx(upper - lower)
    assert width.in_this_run
    assert result.conditions["source of the ceiling"] == "people, 2025"
    assert len(result.blocks) == 1


def test_a_score_over_the_ceiling_is_said(tmp_path: Path) -> None:
    inputs, check = benchmark(tmp_path, 0.0, ceiling="95 %", ceiling_source="people")
    result = check.run(inputs)
    left = result.estimates["headroom"]
    assert isinstance(left, Estimate) and left.value == pytest.approx(-0.05)
    assert result.notes == ["The accuracy of candidate lies over the ceiling: there is nothing left to show."]
    assert outcome(result, the(check, "headroom >= 1 pp")) == "FAIL"


def test_another_metric(tmp_path: Path) -> None:
    inputs, check = benchmark(tmp_path, 0.03, metric="balanced_accuracy")
    left = check.run(inputs).estimates["headroom"]
    assert isinstance(left, Estimate)
    assert left.value == pytest.approx(0.03)
    assert left.method.startswith("1 minus the score: score interval over 10 classes")


def test_the_age_is_counted_to_the_day_of_the_run(tmp_path: Path) -> None:
    inputs, check = benchmark(tmp_path, 0.03, collected="2026-11-20")
    assert check.run(inputs).estimates["data_age"] == Fact(
        0.0, 4000, "counted from 2026-11-20, as stated, to 2026-11-20"
    )
    inputs.today = datetime.date(2027, 11, 21)
    found = check.run(inputs).estimates["data_age"]
    assert isinstance(found, Fact) and found.value == 366
    assert outcome(check.run(inputs), the(check, "data_age <= 365 days")) == "FAIL"


def test_data_from_tomorrow_are_refused(tmp_path: Path) -> None:
    inputs, check = benchmark(tmp_path, 0.03, collected="2026-11-21")
    with pytest.raises(InputError, match="collected on 2026-11-21, after this run's day"):
        check.run(inputs)


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        ({}, "test does not say when it was collected; add `origin: {collected: 2026-05-01}`"),
        ({"collected": "spring"}, "`collected: spring` in the origin of test is not a day; write such as 2026-05-01"),
    ],
)
def test_without_a_day_there_is_no_age(origin: dict[str, str], why: str, tmp_path: Path) -> None:
    inputs, check = benchmark(tmp_path, 0.03)
    inputs.origins = {"test": origin}
    assert why in check.run(inputs).missing["data_age"]
    assert why in str(check.check_names(SpecNames(("candidate",), ("test",), (), {"test": origin})))
    other = Saturation.model_validate(
        {"check": "saturation", "dataset": "test", "predictions": "candidate", "require": ["headroom >= 1 pp"]}
    )
    assert other.check_names(SpecNames(("candidate",), ("test",), (), {"test": origin})) is None


def test_age_alone_needs_no_model(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, tables={"test": pa.table({"x": [1]})}, origins={"test": {"collected": "2026-11-01"}})
    check = Saturation.model_validate({"check": "saturation", "dataset": "test", "require": ["data_age <= 30 days"]})
    assert check.needs() == (NeedRows("test"),)
    result = check.run(inputs)
    assert outcome(result, check.requirements[0]) == "PASS"
    assert "predictions" in result.missing["headroom"]
    _, scored = benchmark(tmp_path, 0.03)
    assert scored.needs() == (NeedPredictions("test", "candidate"), NeedRows("test", label=True))


def test_a_model_of_values_has_no_share(tmp_path: Path) -> None:
    inputs, check = benchmark(tmp_path, 0.03)
    inputs.answers = {("test", "candidate"): regressor(np.arange(100.0), np.arange(100.0))}
    assert "gives values" in check.run(inputs).missing["headroom"]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"ceiling": "97 %"}, "a ceiling of 97 % needs its source"),
        ({"metric": "mae"}, "mae is not a share"),
        ({"metric": "log_loss"}, "log_loss is not a share"),
        ({"ceiling": 1.0}, "has no unit"),
    ],
)
def test_fields_that_mean_nothing_are_refused(fields: dict[str, Any], what: str) -> None:
    given = {"check": "saturation", "dataset": "test", "predictions": "candidate", "require": ["headroom >= 1 pp"]}
    with pytest.raises(ValueError, match=what):
        Saturation.model_validate(given | fields)


def test_what_can_never_pass_is_said() -> None:
    given = {"check": "saturation", "dataset": "test", "require": ["headroom >= 1 pp"]}
    check = Saturation.model_validate(given)
    assert "needs `predictions:`" in str(check.check_requirement(check.requirements[0], {}))
    check = Saturation.model_validate(
        given | {"predictions": "candidate", "ceiling": "50 %", "ceiling_source": "x", "require": ["headroom >= 60 pp"]}
    )
    assert "would leave 50 pp and no more" in str(check.check_requirement(check.requirements[0], {}))

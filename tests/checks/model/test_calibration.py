"""`calibration`: a planted over-confidence turns the test red, its clean twin stays green."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.checks.model.calibration import Calibration
from evalspec.errors import InputError
from evalspec.evidence.blocks import Curve, Histogram
from evalspec.evidence.estimate import Estimate
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, NeedPredictions
from evalspec.language.requirement import Requirement
from tests.fakes import FakeInputs, classifier, comparison_p_values, p_values, regressor

ECE = Requirement("ece <= 0.05", "ece", None, "<=", 0.05, "fraction")


def below(p: float | None, level: float) -> bool:
    return p is not None and p < level


def predictions(n: int, sharper: float = 1.0, seed: int = 0, model: str = "candidate") -> Predictions:
    """A calibrated model of five classes, or one whose logits are multiplied."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (n, 5))
    true = softmax(logits)
    truth = (rng.random(n)[:, None] > true.cumsum(axis=1)).sum(axis=1)
    return classifier(softmax(sharper * logits), truth, model=model)


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: NDArray[np.float64] = scaled / scaled.sum(axis=1, keepdims=True)
    return result


def run(rows: Predictions, folder: Path, *more: Predictions, **fields: object) -> CheckResult:
    answers = {("test", one.model): one for one in (rows, *more)}
    return Calibration.model_validate({"check": "calibration", "dataset": "test", **fields}).run(
        FakeInputs(folder, answers=answers)
    )


def value(result: CheckResult, metric: str) -> float:
    estimate = result.estimates[metric]
    assert isinstance(estimate, Estimate) and estimate.value is not None
    return estimate.value


def test_a_calibrated_model_passes_and_an_overconfident_one_fails(tmp_path: Path) -> None:
    p_pass, p_fail = p_values(run(predictions(3000), tmp_path), ECE)
    assert p_pass is not None and p_pass < 0.01 and p_fail == 1.0
    p_pass, p_fail = p_values(run(predictions(3000, 2.0), tmp_path), ECE)
    assert p_fail is not None and p_fail < 1e-6 and p_pass is not None and p_pass > 0.99


def test_too_few_rows_decide_nothing(tmp_path: Path) -> None:
    p_pass, p_fail = p_values(run(predictions(60), tmp_path), ECE)
    assert p_pass is not None and p_fail is not None and min(p_pass, p_fail) > 0.05


def test_temperature_repairs_sharpened_logits(tmp_path: Path) -> None:
    result = run(predictions(6000, 2.0), tmp_path)
    assert value(result, "temperature") == pytest.approx(2.0, rel=0.1)
    assert value(result, "ece") > 0.1 > 0.03 > value(result, "ece_after_temperature")
    after = Requirement("ece_after_temperature <= 0.05", "ece_after_temperature", None, "<=", 0.05, "fraction")
    p_pass, _ = p_values(result, after)
    assert p_pass is not None and p_pass < 0.05
    judged = result.estimates["ece_after_temperature"]
    assert isinstance(judged, Estimate) and judged.n == 3000


def test_an_int8_copy_that_keeps_its_accuracy_can_lose_its_calibration(tmp_path: Path) -> None:
    # REQUIREMENTS N83: ECE .031 -> .089 with top-1 nearly unchanged; both bands are named.
    rng = np.random.default_rng(3)
    notes = []
    for gap in (0.031, 0.089):
        confidence = rng.uniform(0.6, 0.95, 40_000)
        right = rng.random(40_000) < confidence - gap
        rows = np.stack([confidence, 1 - confidence], axis=1)
        result = run(classifier(rows, np.where(right, 0, 1)), tmp_path)
        assert value(result, "ece") == pytest.approx(gap, abs=0.008)
        notes.append(result.notes[0])
    assert "well calibrated" in notes[0] and "moderately calibrated" in notes[1]


def test_selective_metrics_are_those_above_the_threshold(tmp_path: Path) -> None:
    rows = np.array([[0.9, 0.1], [0.8, 0.2], [0.95, 0.05], [0.6, 0.4]] * 25)
    truth = np.array([0, 0, 1, 1] * 25)
    result = run(classifier(rows, truth), tmp_path, threshold=0.8)
    assert value(result, "selective_coverage") == pytest.approx(0.75)
    assert value(result, "selective_accuracy") == pytest.approx(2 / 3)
    assert "selective_accuracy" in run(classifier(rows, truth), tmp_path).missing
    assert "0.99" in run(classifier(rows, truth), tmp_path, threshold=0.99).missing["selective_accuracy"]


def test_brier_of_two_classes_is_that_of_the_second(tmp_path: Path) -> None:
    rows = np.array([[0.9, 0.1], [0.2, 0.8]] * 150)
    truth = np.array([0, 0] * 150)
    assert value(run(classifier(rows, truth), tmp_path), "brier") == pytest.approx((0.01 + 0.64) / 2)


def test_what_has_no_interval_says_so(tmp_path: Path) -> None:
    result = run(predictions(500), tmp_path)
    for metric in ("classwise_ece", "temperature"):
        estimate = result.estimates[metric]
        assert isinstance(estimate, Estimate)
        assert estimate.value is not None and estimate.p_value(0.05, "upper") is None
        requirement = Requirement(f"{metric} <= 0.05", metric, None, "<=", 0.05, "fraction")
        message = Calibration(dataset="test").check_requirement(requirement, {})
        assert message is not None and "no interval" in message


def test_stated_intervals(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(0, 1, 1000)
    wide = regressor(np.zeros(1000), truth, lower=np.full(1000, -1.645), upper=np.full(1000, 1.645), label_unit="min")
    narrow = regressor(np.zeros(1000), truth, lower=np.full(1000, -1.0), upper=np.full(1000, 1.0))
    needed = Requirement("interval_coverage >= 85 %", "interval_coverage", None, ">=", 0.85, "fraction")
    assert below(p_values(run(wide, tmp_path), needed)[0], 0.01)
    assert below(p_values(run(narrow, tmp_path), needed)[1], 1e-6)
    # The pinball loss of the 5 % and 95 % quantiles is smallest at the true ones.
    assert value(run(wide, tmp_path), "pinball") < value(run(narrow, tmp_path), "pinball")
    assert "ece" in run(wide, tmp_path).missing


def test_brier_is_paired_with_a_baseline(tmp_path: Path) -> None:
    candidate, baseline = predictions(2000), predictions(2000, 2.0, model="baseline")
    worse = Requirement("brier <= baseline", "brier", None, "<=", 0.0, "score", model="baseline")
    result = run(candidate, tmp_path, baseline, require=(worse,))
    p_pass, p_fail = comparison_p_values(result, worse)
    assert p_pass is not None and p_pass < 1e-6 and p_fail is not None and p_fail > 0.99


def test_blocks_show_the_model_before_and_after(tmp_path: Path) -> None:
    result = run(predictions(2000, 2.0), tmp_path, threshold=0.8)
    curve = next(block for block in result.blocks if isinstance(block, Curve))
    assert [series.name for series in curve.series] == ["as it is", "after temperature scaling"]
    assert curve.references[0].axis == "diagonal"
    for series in curve.series:
        assert series.lower is not None and series.upper is not None
        assert all(a <= b <= c for a, b, c in zip(series.lower, series.y, series.upper, strict=True))
    histogram = next(block for block in result.blocks if isinstance(block, Histogram))
    assert sum(map(sum, histogram.counts.values())) == 2000


def test_what_gives_no_confidence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no label"):
        run(classifier(np.array([[0.5, 0.5]]), None), tmp_path)
    with pytest.raises(InputError, match="without an interval"):
        run(regressor([1.0], [1.0]), tmp_path)


def test_an_empty_dataset_has_no_values(tmp_path: Path) -> None:
    result = run(classifier(np.empty((0, 2)), np.empty(0)), tmp_path)
    estimate = result.estimates["ece"]
    assert isinstance(estimate, Estimate) and estimate.value is None
    assert "temperature" in result.missing and result.blocks == []


@pytest.mark.parametrize(
    ("requirement", "rows", "needed"),
    [
        (ECE, 50, "59"),
        (Requirement("selective_coverage >= 0.99", "selective_coverage", None, ">=", 0.99, "fraction"), 200, "299"),
        (Requirement("interval_coverage >= 90 %", "interval_coverage", None, ">=", 90.0, "%"), 20, "29"),
        (Requirement("ece <= 0", "ece", None, "<=", 0.0, "fraction"), 10_000, "allow a little"),
        (Requirement("ece <= baseline", "ece", None, "<=", 0.0, "fraction", model="baseline"), 500, "paired"),
    ],
)
def test_what_can_never_pass_is_refused(requirement: Requirement, rows: int, needed: str) -> None:
    check = Calibration(dataset="test", threshold=0.8)
    message = check.check_requirement(requirement, {"test": rows})
    assert message is not None and needed in message


def test_what_can_pass_is_not_refused() -> None:
    assert Calibration(dataset="test").check_requirement(ECE, {"test": 59}) is None
    assert Calibration(dataset="test").check_requirement(ECE, {"test": None}) is None
    # At 99 % it takes the first power of 0.95 below 1 %.
    assert "90 are needed" in (Calibration(dataset="test").check_requirement(ECE, {"test": 89}, 0.99) or "")
    assert Calibration(dataset="test").check_requirement(ECE, {"test": 90}, 0.99) is None
    selective = Requirement("selective_accuracy >= 0.9", "selective_accuracy", None, ">=", 0.9, "fraction")
    message = Calibration(dataset="test").check_requirement(selective, {"test": 500})
    assert message is not None and "`threshold:`" in message


def test_needs_name_every_model() -> None:
    brier = Requirement("brier <= baseline", "brier", None, "<=", 0.0, "score", model="baseline")
    check = Calibration(dataset="test", require=(brier,))
    assert check.needs() == (NeedPredictions("test", "candidate"), NeedPredictions("test", "baseline"))

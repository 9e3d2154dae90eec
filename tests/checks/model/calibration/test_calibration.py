"""`calibration`: a planted over-confidence turns the test red, its clean twin stays green."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from evalspec.checks.model.calibration.show import notes
from evalspec.checks.model.calibration.spec import Calibration
from evalspec.errors import InputError
from evalspec.evidence.blocks import Curve, Histogram, Table
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, NeedPredictions, SpecNames
from evalspec.language.requirement import Requirement
from evalspec.scoring.resampled import log_losses as quality_losses
from evalspec.scoring.scored_rows import scored
from evalspec.stats.calibration.expected_error import Bins, CalibrationError, expected_calibration_error
from evalspec.stats.shares.proportion import proportion
from tests.checks.deciding import outcome
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
    tables = {"test": pa.table({"label": np.zeros(rows.n) if rows.truth is None else rows.truth})}
    return Calibration.model_validate({"check": "calibration", "dataset": "test", **fields}).run(
        FakeInputs(folder, tables=tables, answers=answers)
    )


def value(result: CheckResult, metric: str) -> float:
    estimate = result.estimates[metric]
    if isinstance(estimate, Parts):
        assert estimate.whole is not None
        estimate = estimate.whole
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
    said, decided = [], []
    for gap in (0.031, 0.089):
        confidence = rng.uniform(0.6, 0.95, 50_000)
        right = rng.random(50_000) < confidence - gap
        rows = np.stack([confidence, 1 - confidence], axis=1)
        result = run(classifier(rows, np.where(right, 0, 1)), tmp_path)
        assert value(result, "ece") == pytest.approx(gap, abs=0.008)
        decided.append(p_values(result, ECE))
        said.append(result.notes[0])
    # At n = 50,000 the first passes 0.05, the second is shown to violate it, and neither word is in doubt.
    assert below(decided[0][0], 1e-4) and below(decided[1][1], 1e-4)
    assert "well calibrated" in said[0] and "moderately calibrated" in said[1]
    assert not any("reach" in note for note in said)


@pytest.mark.proof
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
    estimate = run(predictions(500), tmp_path).estimates["temperature"]
    assert isinstance(estimate, Estimate)
    assert estimate.value is not None and estimate.p_value(0.05, "upper") is None
    requirement = Requirement("temperature <= 2", "temperature", None, "<=", 2.0, "score")
    message = Calibration(dataset="test").check_requirement(requirement, {})
    assert message is not None and "no interval" in message


def test_every_class_has_an_error_of_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    true = rng.dirichlet([2.0, 2.0, 2.0], 4000)
    truth = np.minimum((rng.random(4000)[:, None] > true.cumsum(axis=1)).sum(axis=1), 2)
    # The first class is said too seldom, the second too often; the third is right.
    moved = np.minimum(true[:, 0], 0.1)
    said = np.stack([true[:, 0] - moved, true[:, 1] + moved, true[:, 2]], axis=1)
    result = run(classifier(said, truth, classes=("fraud", "doubt", "fine")), tmp_path)
    fraud, fine = (
        Requirement("", "classwise_ece", part, "<=", 0.05, "fraction") for part in ("fraud", "fine")
    )  # fmt: skip
    assert below(p_values(result, fraud, "fraud")[1], 1e-4)
    assert below(p_values(result, fine, "fine")[0], 0.01)
    classes = next(block for block in result.blocks if block.title == "Classes")
    assert isinstance(classes, Table)
    assert [row[0] for row in classes.rows][-1] == "fine"
    said_of, true_of = dict((row[0], row[1:3]) for row in classes.rows)["fraud"]
    assert isinstance(said_of, float) and isinstance(true_of, float)
    assert true_of - said_of == pytest.approx(moved.mean(), abs=0.02)


def test_of_many_classes_only_the_worst_are_listed_and_a_mean_that_can_not_fail_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = classifier(rng.dirichlet(np.full(50, 0.2), 600), rng.integers(0, 50, 600))
    result = run(rows, tmp_path, require=["classwise_ece <= 5 %", "classwise_ece(7) <= 0.05"])
    classes = next(block for block in result.blocks if block.title == "Classes")
    assert isinstance(classes, Table) and len(classes.rows) == 20 and "of 50" in classes.caption
    (weak,) = result.weakens
    assert weak.startswith("classwise_ece <= 5 % can never fail with 50 classes") and "0.04" in weak
    assert run(predictions(200), tmp_path, require=["classwise_ece <= 0.05"]).weakens == []


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


@pytest.mark.parametrize(
    ("n", "words"),
    [(40, "are not seen with so few wrong answers"), (2000, "over 20, "), (2000, "bins on; smaller ones")],
)
def test_the_page_says_how_much_of_what_cancels_is_seen(n: int, words: str) -> None:
    """S2: bins that few rows can't part hide opposite gaps."""
    rng = np.random.default_rng(1)
    said = rng.beta(40, 1, n) if n < 100 else rng.beta(8, 2, n)
    right = rng.random(n) < said
    found = notes(expected_calibration_error(said, right), said, right, 0.95)
    assert words in found[-1]


@pytest.mark.parametrize(
    ("shown", "starts"),
    # The edges of REQUIREMENTS R91; a value beside one keeps the digits that tell on which side it lies.
    [
        (0.04996, "ece 0.04996 reads as well calibrated"), (0.05, "ece 0.050 reads as moderately"),
        (0.1, "ece 0.100 reads as moderately"), (0.10003, "ece 0.10003 reads as poorly"),
        (0.031, "ece 0.031 reads as well"),
    ],
)  # fmt: skip
def test_the_word_in_print_fits_the_number_in_print(shown: float, starts: str) -> None:
    # A single bin of as many rows that its noise is gone.
    n = 100_000_000
    bins = Bins(
        np.array([0.9, 0.9]), np.array([n]), np.array([0.8 + shown]), np.array([0.8]), np.array([4 * n // 5]), 10
    )  # fmt: skip
    (word, *_) = notes(CalibrationError(bins, 1.0), np.array([0.9]), np.array([True]), 0.95)
    assert word.startswith(starts)


def test_a_word_that_is_in_doubt_says_so(tmp_path: Path) -> None:
    word = run(predictions(150), tmp_path).notes[0]
    assert "its 95 % bounds reach from well to" in word


def routed(confidence: NDArray[np.float64], truth: NDArray[np.int64], model: str) -> Predictions:
    """A model of two classes that always says the first, this sure."""
    return classifier(np.stack([confidence, 1 - confidence], axis=1), truth, model=model)


ROUTING = Requirement("routing_change <= 5 %", "routing_change", None, "<=", 0.05, "%")


def test_automation_by_confidence_is_misrouted_although_the_accuracy_holds(tmp_path: Path) -> None:
    """REQUIREMENTS F4: INT8 is as accurate, and one row in five is no longer answered alone."""
    rng = np.random.default_rng(6)
    confidence = rng.uniform(0.6, 1.0, 4000)
    truth = np.where(rng.random(4000) < confidence, 0, 1)
    before = routed(confidence, truth, "baseline")
    for squeezed, side in ((0.08, 1), (0.002, 0)):
        after = routed(np.maximum(confidence - squeezed, 0.55), truth, "candidate")
        result = run(after, tmp_path, before, threshold=0.85, baseline="baseline")
        assert below(p_values(result, ROUTING)[side], 1e-4)
        assert below(p_values(result, ROUTING, "to_person")[side], 1e-4)
        assert value(result, "routing_change") == pytest.approx(squeezed / 0.4, abs=0.02)
        to_auto = result.estimates["routing_change"]
        assert isinstance(to_auto, Parts) and getattr(to_auto.parts["to_auto"], "value", None) == 0.0
        table = next(block for block in result.blocks if block.title == "Routing")
        assert isinstance(table, Table)
        counts = {str(row[0]): row[1] for row in table.rows}
        assert sum(count for count in counts.values() if isinstance(count, int)) == 4000
        moved = next(row for row in table.rows if str(row[0]).startswith("to a person now"))
        # Both say the first class, so both are as right on the rows that moved: between 0.85 and 0.93.
        assert moved[5] == moved[6] and moved[5] == pytest.approx(0.89 if squeezed > 0.01 else 0.85, abs=0.12)
        assert any("change sides" in note for note in result.notes)


def test_rows_of_one_cluster_move_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    sure, moved = rng.uniform(0.6, 1.0, 100), rng.random(100) < 0.03
    after = np.where(moved, 0.62, sure)
    clusters = np.repeat(np.arange(100), 10)
    truth = np.zeros(1000, dtype=np.int64)

    def upper(codes: NDArray[np.int64] | None) -> float:
        rows = [
            classifier(np.stack([c, 1 - c], axis=1), truth, model=name, clusters=codes)
            for c, name in ((after.repeat(10), "candidate"), (sure.repeat(10), "baseline"))
        ]
        found = run(rows[0], tmp_path, rows[1], threshold=0.7, baseline="baseline").estimates["routing_change"]
        assert isinstance(found, Parts) and isinstance(found.whole, Estimate)
        limit = found.whole.bound(0.95, "upper")
        assert limit is not None
        return limit

    assert upper(clusters) > 1.5 * upper(None)


def test_bands_know_that_rows_of_a_cluster_are_alike(tmp_path: Path) -> None:
    """25 patients of 40 rows each, all right or all wrong: they say as much as 25 rows."""
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(25), 40)
    right = np.repeat(rng.random(25) < 0.8, 40)
    sure = np.full(1000, 0.8)
    rows = classifier(np.stack([sure, 1 - sure], axis=1), np.where(right, 0, 1), clusters=clusters)
    result = run(rows, tmp_path)
    curve = next(block for block in result.blocks if isinstance(block, Curve))
    table = next(block for block in result.blocks if block.title == "Bins")
    assert isinstance(table, Table) and curve.series[0].lower is not None and curve.series[0].upper is not None
    expected = proportion(right, clusters)
    for low, high in ((curve.series[0].lower[0], curve.series[0].upper[0]), table.rows[0][5:7]):
        assert low == pytest.approx(expected.bound(0.975, "lower"), abs=0.01)
        assert high == pytest.approx(expected.bound(0.975, "upper"), abs=0.01)
    values = rng.integers(0, 100, 1000).astype(np.float64)
    truth = np.where(right, values, values + 50)
    stated = run(regressor(values, truth, lower=values - 1, upper=values + 1, clusters=clusters), tmp_path)
    (line,) = next(block for block in stated.blocks if isinstance(block, Curve)).series
    plain = run(regressor(values, truth, lower=values - 1, upper=values + 1), tmp_path)
    (narrow,) = next(block for block in plain.blocks if isinstance(block, Curve)).series
    assert line.lower is not None and narrow.lower is not None
    # All intervals are as wide, so that tenths are taken in order.
    bounds = [proportion(right[at : at + 100], clusters[at : at + 100]).bound(0.975, "lower") for at in (0, 300)]
    assert [line.lower[0], line.lower[3]] == pytest.approx(bounds)
    assert max(line.lower) < 0.3 < 0.5 < max(narrow.lower)


def test_a_log_loss_is_the_same_number_in_every_check(tmp_path: Path) -> None:
    """Of certainties that are wrong: -ln(2.2e-16), as `quality` has it."""
    truth = np.arange(200) % 2
    shares = np.eye(2)[np.where(np.arange(200) % 5 == 0, 1 - truth, truth)]
    tables = run(classifier(shares, truth), tmp_path).blocks
    table = next(block for block in tables if block.title == "Recalibration")
    assert isinstance(table, Table)
    losses = quality_losses(
        scored(FakeInputs(tmp_path, answers={("test", "m"): classifier(shares, truth)}), "test", "m")
    )
    assert losses.max() == pytest.approx(36.04, abs=0.01)
    line = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert line["log loss"] == pytest.approx((1.0 - line["accuracy"]) * losses.max())  # type: ignore[operator]


def test_only_the_same_rows_and_classes_are_paired(tmp_path: Path) -> None:
    """A sum over three classes is no Brier score of two, and other rows are not pairs."""
    rng = np.random.default_rng(3)
    two = rng.dirichlet([1.0, 1.0], 400)
    truth = (rng.random(400) < two[:, 1]).astype(np.int64)
    rows = classifier(two, truth)
    asked = {"require": ("brier <= baseline - 0.01", "selective_coverage >= baseline - 5 pp")}
    given = {**asked, "threshold": 0.85, "baseline": "baseline"}

    def why(shares: NDArray[np.float64], labels: NDArray[np.int64]) -> str:
        other = classifier(shares, labels, model="baseline")
        check = Calibration.model_validate({"check": "calibration", "dataset": "test", **given})
        inputs = FakeInputs(tmp_path, answers={("test", "candidate"): rows, ("test", "baseline"): other})
        result = check.run(inputs)
        assert not result.comparisons and "routing_change" not in result.estimates
        assert [outcome(result, one) for one in check.requirements] == ["MISSING"] * 2
        reasons = {result.missing[f"{one.metric} vs baseline"] for one in check.requirements}
        (reason,) = reasons | {result.missing["routing_change"]}
        return reason

    three = rng.dirichlet([1.0, 1.0, 1.0], 400)
    assert "only one of them has the class '2'" in why(three, truth)
    assert "they answered other rows (400 and 400)" in why(two, rng.permutation(truth))
    assert "they answered other rows (400 and 150)" in why(two[:150], truth[:150])
    # The same classes in another order are the same answers.
    turned = classifier(two[:, ::-1], 1 - truth, model="baseline", classes=("1", "0"))
    check = Calibration.model_validate({"check": "calibration", "dataset": "test", **given})
    result = check.run(FakeInputs(tmp_path, answers={("test", "candidate"): rows, ("test", "baseline"): turned}))
    assert result.comparisons["brier", "baseline"].difference(1.0, 0.0).value == pytest.approx(0.0, abs=1e-15)  # type: ignore[union-attr]
    moved = result.estimates["routing_change"]
    assert isinstance(moved, Parts) and moved.whole is not None and moved.whole.value == 0.0


def test_a_baseline_without_probabilities_has_no_side(tmp_path: Path) -> None:
    values = regressor(np.zeros(100), np.zeros(100), model="baseline")
    result = run(predictions(100), tmp_path, values, threshold=0.85, baseline="baseline")
    assert "baseline has no probabilities" in result.missing["routing_change"]
    assert "`baseline:`" in run(predictions(100), tmp_path).missing["routing_change"]


def test_routing_needs_a_threshold_and_another_model() -> None:
    names = SpecNames(models=("candidate", "old"), datasets=("test",), slices=())
    asked = Requirement("routing_change <= 5 %", "routing_change", None, "<=", 5.0, "%")
    alone, whole = (Calibration(dataset="test", threshold=0.8, **more) for more in ({}, {"baseline": "old"}))
    assert "`baseline:`" in (alone.check_requirement(asked, {}) or "")
    assert whole.check_requirement(asked, {}) is None and whole.check_names(names) is None
    # No row that moved among 59 is the least that shows 5 %.
    assert "59 are needed" in (whole.check_requirement(asked, {"test": 58}) or "")
    assert "with itself" in (Calibration(dataset="test", threshold=0.8, baseline="candidate").check_names(names) or "")
    assert "`threshold:`" in (Calibration(dataset="test", baseline="old").check_names(names) or "")
    assert whole.baselines == ("old",) and NeedPredictions("test", "old") in whole.needs()
    metric = whole.metric("routing_change")
    assert metric is not None and whole.part_names(metric, names) == ("to_person", "to_auto")


def test_intervals_that_hold_on_average_and_fail_where_it_matters(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    values = rng.uniform(0, 100, 6000)
    truth = values + rng.normal(0, 1 + values / 25, 6000)
    # One width for all: too wide for small values, too narrow for large ones; 90 % on the whole.
    reach = np.quantile(np.abs(truth - values), 0.9) + 0.01 * rng.random(6000)
    rows = regressor(values, truth, lower=values - reach, upper=values + reach, label_unit="min")
    result = run(rows, tmp_path, interval=0.9)
    assert value(result, "interval_coverage") == pytest.approx(0.9, abs=0.01)
    table = next(block for block in result.blocks if block.title == "Coverage by thirds")
    assert isinstance(table, Table) and len(table.rows) == 6 and table.columns[1].unit == "min"
    shares = {str(row[0]): row[4] for row in table.rows}
    low, high = shares["lowest prediction"], shares["highest prediction"]
    assert isinstance(low, float) and isinstance(high, float) and low > 97 and high < 82
    (warning,) = result.notes
    assert "the highest third by prediction" in warning and "width" not in warning
    # The twin whose width follows the spread holds everywhere.
    fitted = 1.645 * (1 + values / 25)
    twin = regressor(values, truth, lower=values - fitted, upper=values + fitted)
    assert run(twin, tmp_path, interval=0.9).notes == []


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
    empty = classifier(np.empty((0, 2)), np.empty(0)), classifier(np.empty((0, 2)), np.empty(0), model="baseline")
    result = run(empty[0], tmp_path, empty[1], threshold=0.8, baseline="baseline")
    for metric in ("ece", "rms_calibration", "mce", "classwise_ece", "routing_change", "selective_coverage"):
        estimate = result.estimates[metric]
        whole = estimate.whole if isinstance(estimate, Parts) else estimate
        assert isinstance(whole, Estimate) and whole.value is None and whole.bound(0.95, "upper") is None
    assert "temperature" in result.missing and result.blocks == [] and result.notes == [] and not result.evidence


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

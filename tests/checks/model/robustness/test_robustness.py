"""`robustness`: each copy, the worst, the mean, the drop; rows count once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.checks.model.robustness.spec import Robustness
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.blocks import Curve, Examples, Table
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, NeedPredictions
from evalspec.stats.shares.proportion import proportion
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs, classifier, regressor

Answers = Callable[[np.ndarray], np.ndarray]


def by_mean(pixels: np.ndarray) -> np.ndarray:
    """Bright or dark by all pixels: noise averages out."""
    return (pixels.mean(axis=1) > 8).astype(np.int64)


def by_corner(pixels: np.ndarray) -> np.ndarray:
    """By one pixel: noise decides."""
    return (pixels[:, 0] > 8).astype(np.int64)


def inputs_of(folder: Path, answers: Answers, n: int = 600, other: Answers | None = None) -> FakeInputs:
    truth = np.arange(n) % 2
    pixels = np.where(truth[:, None] == 1, 9.0, 7.0) * np.ones((n, 64))
    table = pa.table({"pixels": pixels.tolist(), "label": truth})
    says = {"candidate": answers, "baseline": other or answers}

    def told(rows: pa.Table, dataset: str, model: str) -> Predictions:
        given = np.array(rows["pixels"].to_pylist())
        shares = np.eye(2)[says[model](given)] * 0.8 + 0.1
        return classifier(shares, np.asarray(rows["label"]), model=model)

    return FakeInputs(
        evidence=folder, tables={"test": table}, labels={"test": "label"}, answering=told,
        answers={("test", model): told(table, "test", model) for model in says},
    )  # fmt: skip


def check(*require: str, **fields: Any) -> Robustness:
    given = {"corruptions": ["gaussian_noise"], "severities": [1, 5], "range": [0, 16], "report_only": not require}
    return Robustness.model_validate(
        {"check": "robustness", "dataset": "test", "require": list(require)} | given | fields
    )


def value(result: CheckResult, metric: str) -> float:
    found = result.estimates[metric]
    assert isinstance(found, Estimate)
    assert found.value is not None
    return found.value


def test_noise_is_found_and_its_absence_too(tmp_path: Path) -> None:
    asked = check("worst_corruption_accuracy >= 90 %", "robustness_drop <= 5 pp")
    for answers, word in ((by_mean, "PASS"), (by_corner, "FAIL")):
        result = asked.run(inputs_of(tmp_path, answers))
        assert [outcome(result, one) for one in asked.requirements] == [word, word]


def test_one_copy_that_breaks_few_rows_is_decided(tmp_path: Path) -> None:
    """A robust model had no bound up to 1,000 rows: too few rows carried the mean drop."""

    def breaks_few(pixels: np.ndarray) -> np.ndarray:
        right = np.arange(len(pixels)) % 2
        changed = ~np.isin(pixels, (7.0, 9.0)).all(axis=1)
        return np.where(changed & (np.arange(len(pixels)) < 5), 1 - right, right)

    for severities, method in (([5], "Tango"), ([1, 5], "Gaffke")):
        asked = check("robustness_drop <= 3 pp", "mean_corruption_accuracy >= 97 %", severities=severities)
        result = asked.run(inputs_of(tmp_path, breaks_few, n=500))
        drop = result.estimates["robustness_drop"]
        assert isinstance(drop, Estimate) and method in drop.method
        assert drop.value == pytest.approx(0.01)
        assert [outcome(result, one) for one in asked.requirements] == ["PASS", "PASS"]


def test_figures(tmp_path: Path) -> None:
    result = check().run(inputs_of(tmp_path, by_corner))
    parts = result.estimates["corruption_accuracy"]
    assert isinstance(parts, Parts)
    each = {name: part.value for name, part in parts.parts.items() if isinstance(part, Estimate)}
    assert list(each) == ["gaussian_noise 1", "gaussian_noise 5"]
    mean = (each["gaussian_noise 1"] + each["gaussian_noise 5"]) / 2  # type: ignore[operator]
    assert value(result, "mean_corruption_accuracy") == pytest.approx(mean)
    assert value(result, "robustness_drop") == pytest.approx(1.0 - mean)
    assert value(result, "worst_corruption_accuracy") == min(v for v in each.values() if v is not None)
    assert set(result.missing) == {"corruption_mae", "worst_corruption_mae", "mean_corruption_mae", "mae_increase"}
    curve, table, examples = result.blocks
    assert isinstance(curve, Curve)
    assert curve.references[0].value == 1.0
    assert isinstance(table, Table)
    assert len(table.rows) == 2
    assert isinstance(examples, Examples)
    assert all(one.image for one in examples.examples)


def test_a_row_counts_once_however_many_copies(tmp_path: Path) -> None:
    """The interval of the mean over copies is not narrower than rows allow."""
    result = check(severities=[1, 2, 3, 4, 5], corruptions=["gaussian_noise", "brightness"]).run(
        inputs_of(tmp_path, by_corner)
    )
    found = result.estimates["mean_corruption_accuracy"]
    assert isinstance(found, Estimate)
    assert found.n == 600
    copies = result.estimates["corruption_accuracy"]
    assert isinstance(copies, Parts)
    one = proportion(np.arange(600) < 600 * value(result, "mean_corruption_accuracy"))
    width, alone = (abs(e.bound(0.95, "upper") - e.bound(0.95, "lower")) for e in (found, one))  # type: ignore[operator]
    assert 0.2 * alone < width < 1.1 * alone


def test_against_a_model_the_same_copies(tmp_path: Path) -> None:
    asked = check(
        "mean_corruption_accuracy >= baseline - 2 pp", "worst_corruption_accuracy >= baseline - 2 pp",
        "corruption_accuracy(gaussian_noise 5) >= baseline - 2 pp",
    )  # fmt: skip
    same = asked.run(inputs_of(tmp_path, by_mean, other=lambda pixels: by_mean(pixels[:, :40])))
    assert [outcome(same, one) for one in asked.requirements] == ["PASS"] * 3
    worse = asked.run(inputs_of(tmp_path, by_corner, other=by_mean))
    assert [outcome(worse, one) for one in asked.requirements] == ["FAIL"] * 3


def test_values(tmp_path: Path) -> None:
    table = pa.table({"x": np.linspace(0, 10, 400), "y": np.linspace(0, 10, 400)})

    def told(rows: pa.Table, dataset: str, model: str) -> Predictions:
        return regressor(np.asarray(rows["x"]), np.asarray(rows["y"]), model=model)

    inputs = FakeInputs(
        evidence=tmp_path, tables={"test": table}, labels={"test": "y"}, answering=told,
        answers={("test", "candidate"): told(table, "test", "candidate")},
    )  # fmt: skip
    asked = check("mae_increase <= 0.1", "worst_corruption_mae <= 20", corruptions=["number_noise"], range=None)
    result = asked.run(inputs)
    assert [outcome(result, one) for one in asked.requirements] == ["FAIL", "PASS"]
    assert value(result, "mean_corruption_mae") == pytest.approx(value(result, "mae_increase"))


def test_a_copy_that_changes_nothing_shows_nothing(tmp_path: Path) -> None:
    """Survived is what was tried: black pictures have no contrast to lose."""
    table = pa.table({"pixels": np.zeros((300, 16)).tolist(), "label": np.zeros(300, dtype=np.int64)})

    def told(rows: pa.Table, dataset: str, model: str) -> Predictions:
        dark = np.array(rows["pixels"].to_pylist()).mean(axis=1) < 1
        return classifier(np.where(dark[:, None], [0.9, 0.1], [0.1, 0.9]), np.asarray(rows["label"]), model=model)

    inputs = FakeInputs(
        evidence=tmp_path, tables={"test": table}, labels={"test": "label"}, answering=told,
        answers={("test", model): told(table, "test", model) for model in ("candidate", "baseline")},
    )  # fmt: skip
    sentences = (
        "corruption_accuracy(contrast 1) >= 90 %", "worst_corruption_accuracy >= 90 %",
        "mean_corruption_accuracy >= 90 %", "robustness_drop <= 5 pp", "corruption_accuracy >= 90 %",
        "mean_corruption_accuracy >= baseline - 2 pp",
    )  # fmt: skip
    alone = check(*sentences, corruptions=["contrast"])
    result = alone.run(inputs)
    assert [outcome(result, one) for one in alone.requirements] == ["MISSING"] * 6
    assert result.missing["corruption_accuracy(contrast 1)"].startswith(
        "contrast 1 changes none of the 300 rows; remove"
    )
    beside = check(*sentences, corruptions=["contrast", "gaussian_noise"], severities=[1])
    result = beside.run(inputs)
    assert [outcome(result, one) for one in beside.requirements] == ["MISSING"] * 6
    curve, table_, _ = result.blocks
    assert isinstance(curve, Curve)
    assert [one.name for one in curve.series] == ["gaussian_noise"]
    assert isinstance(table_, Table)
    assert [row[:3] for row in table_.rows] == [("contrast 1", 0, None), ("gaussian_noise 1", 300, 1.0)]


def test_only_some_rows_are_copied(tmp_path: Path) -> None:
    result = check(rows=100).run(inputs_of(tmp_path, by_mean))
    assert (result.counts.attempted, result.counts.used, result.counts.dropped) == (600, 100, 500)
    assert "100 of 600 rows were copied" in result.notes[0]


def test_the_plan_knows_the_copies() -> None:
    asked = check("mean_corruption_accuracy >= baseline - 2 pp", corruptions=["blur", "jpeg"], severities=[1, 3, 5])
    needs = [need for need in asked.needs() if isinstance(need, NeedPredictions)]
    assert [(need.model, need.copies) for need in needs] == [("candidate", 6), ("baseline", 6)]
    assert asked.part_names(asked.metrics[0], None) == (  # type: ignore[arg-type]
        "blur 1", "blur 3", "blur 5", "jpeg 1", "jpeg 3", "jpeg 5",
    )  # fmt: skip


def test_too_few_rows_to_show_it() -> None:
    asked = check("worst_corruption_accuracy >= 99 %", rows=200)
    why = asked.check_requirement(asked.require[0], {"test": 5000})
    assert why is not None
    assert "200 rows of test can't show worst_corruption_accuracy >= 99 %" in why
    assert "299 are needed" in why
    assert (
        check("worst_corruption_accuracy >= 99 %", rows=299).check_requirement(asked.require[0], {"test": 300}) is None
    )
    drop = check("robustness_drop <= baseline + 1 pp")
    assert "is not compared between models" in str(drop.check_requirement(drop.require[0], {}))


def test_a_model_that_refuses_a_copy(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path, by_mean)

    def refuses(rows: pa.Table, dataset: str, model: str) -> Predictions:
        raise InputError("input holds NaN")

    inputs.answering = refuses
    with pytest.raises(InputError, match=r"candidate can't answer rows with gaussian_noise 1: input holds NaN"):
        check().run(inputs)
    inputs.answering = None
    with pytest.raises(NotRunError):
        check().run(inputs)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"corruptions": []}, "at least 1"),
        ({"corruptions": ["blur", "blur"]}, "blur is listed twice in `corruptions`"),
        ({"corruptions": ["fog"]}, "gaussian_noise"),
        ({"severities": [0]}, "greater than or equal to 1"),
        ({"range": [16, 0]}, "is not a range"),
        ({"shape": [8]}, "is not a shape"),
    ],
)
def test_fields(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        check(**fields)

"""`confirm:`: saved models are scored by the metric that the target is about, and by no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from pydantic import ValidationError

from evalspec.checks.system.time_to_accuracy.spec import TimeToAccuracy, measure_named
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Fact, Measured
from evalspec.language.header import Header
from evalspec.language.parts import CheckResult, SpecNames
from evalspec.language.predictions import Predictions
from evalspec.runtimes.onnx import Onnx
from evalspec.stats.shares.proportion import Proportion
from tests.fakes import FakeInputs, classifier, regressor
from tests.stories.telling import command
from tests.trainings.runs import recipe_run, recipe_table

ROWS = 400
NAMES = SpecNames(models=("candidate",), datasets=("unseen", "valid"), slices=(), trainings=("recipe",))


def check(target: str, **confirm: Any) -> TimeToAccuracy:
    return TimeToAccuracy.model_validate(
        {
            "check": "time_to_accuracy", "training": "recipe", "target": target,
            "require": ["convergence_rate >= 50 %"],
            "confirm": {"dataset": "unseen", **confirm},
        }
    )  # fmt: skip


def numbers(rows: pa.Table, error: float) -> Predictions:
    draw = np.random.default_rng(5)
    truth = rows.column("y").to_numpy()
    noise = draw.standard_normal(len(truth))
    return regressor(truth + error * noise / np.abs(noise).mean(), truth, model="candidate", dataset="unseen")


def measured(folder: Path, one: TimeToAccuracy, errors: dict[str, float], answer: Any = numbers) -> CheckResult:
    """Five runs, whose models are so far off."""
    measure = one.goal.metric
    runs = [
        recipe_run(str(place), 20.0 + place, metric=measure, model=f"candidate-{place}")
        for place in range(len(errors) - ("candidate" in errors))
    ]
    by_name = {f"candidate-{name}" if name.isdigit() else name: error for name, error in errors.items()}
    rows = pa.table({"x": np.arange(ROWS), "y": np.random.default_rng(3).normal(100.0, 10.0, ROWS)})
    inputs = FakeInputs(
        evidence=folder, tables={"recipe": recipe_table(runs), "unseen": rows},
        answering=lambda some, dataset, model: answer(some, by_name.get(model, 1.0)),
    )  # fmt: skip
    return one.run(inputs)


def rate(result: CheckResult) -> Proportion:
    found = result.estimates["convergence_rate"]
    assert isinstance(found, Proportion)
    return found


def test_an_error_that_falls_is_held_by_the_error_of_the_saved_models(tmp_path: Path) -> None:
    one = check("val_mae <= 0.96", metric="mae")
    well = dict.fromkeys(map(str, range(5)), 0.8) | {"candidate": 0.8}
    assert rate(measured(tmp_path, one, well)).value == 1.0
    stale = well | {"1": 3.0, "3": 3.0}
    result = measured(tmp_path, one, stale)
    assert rate(result).value == pytest.approx(0.6)
    assert any("The saved models of 2 of 5 runs are above the target on unseen" in text for text in result.notes)
    assert any("more than logged (mean)" in text for text in result.notes)


def test_an_error_that_may_be_chance_is_open(tmp_path: Path) -> None:
    errors = dict.fromkeys(map(str, range(5)), 0.98)
    result = measured(tmp_path, check("val_mae <= 0.96", metric="mae"), errors)
    assert any("5 runs are above the target on unseen by no more than chance" in text for text in result.notes)
    found = result.estimates["convergence_rate"]
    assert not isinstance(found, Proportion | Fact | Measured)
    assert (found.bound(0.95, "lower"), found.bound(0.95, "upper")) == (0.0, 1.0)  # type: ignore[union-attr]


def test_a_shipped_model_with_a_smaller_error_than_all_is_a_doubt(tmp_path: Path) -> None:
    errors = dict.fromkeys(map(str, range(5)), 1.0) | {"candidate": 0.5}
    result = measured(tmp_path, check("val_rmse <= 1.2", metric="rmse"), errors)
    (doubt,) = [text for text in result.weakens if "was it chosen among several?" in text]
    assert "%" not in doubt.partition("(")[2].partition(")")[0]


@pytest.mark.parametrize(("accuracy", "doubts"), [(0.85, 1), (0.93, 0), (0.95, 0), (1.0, 0)])
def test_runs_that_log_more_than_their_models_have_are_a_doubt(tmp_path: Path, accuracy: float, doubts: int) -> None:
    def classes(rows: pa.Table, error: float) -> Predictions:
        truth = np.arange(len(rows)) % 2
        said = np.where(np.arange(len(rows)) < accuracy * len(rows), truth, 1 - truth)
        return classifier(np.eye(2)[said], truth, model="candidate", dataset="unseen")

    result = measured(tmp_path, check("val_accuracy >= 80 %"), dict.fromkeys("01234", 1.0), classes)
    assert rate(result).value == 1.0
    said = [text for text in result.weakens if "times to the target are by the log" in text]
    assert len(said) == doubts
    if doubts:
        assert "log val_accuracy 95 % at their end (median)" in said[0] and "have 85 % on unseen" in said[0]


def test_a_metric_that_the_model_s_answers_do_not_give_is_not_run(tmp_path: Path) -> None:
    def classes(rows: pa.Table, error: float) -> Predictions:
        truth = np.arange(len(rows)) % 2
        return classifier(np.eye(2)[truth], truth, model="candidate", dataset="unseen")

    with pytest.raises(NotRunError, match="this metric needs values"):
        measured(tmp_path, check("val_mae <= 0.96", metric="mae"), dict.fromkeys(map(str, range(5)), 1.0), classes)
    result = measured(tmp_path, check("val_macro_f1 >= 90 %", metric="macro_f1"), dict.fromkeys("01234", 1.0), classes)
    assert rate(result).value == 1.0


@pytest.mark.parametrize(
    ("target", "confirm", "said"),
    [
        ("val_accuracy >= 94 %", {}, None),
        ("val_score >= 0.9", {}, None),
        ("val_macro_f1 >= 90 %", {}, "which is not accuracy: name what the saved models are scored by"),
        ("val_macro_f1 >= 90 %", {}, "such as `confirm: {metric: macro_f1}`"),
        ("val_top5_accuracy >= 90 %", {}, "which is not accuracy: name what the saved models are scored by"),
        ("val_macro_f1 >= 90 %", {"metric": "macro_f1"}, None),
        ("eval_loss <= 0.3", {}, "`confirm:` scores accuracy, better when it rises"),
        ("eval_loss <= 0.3", {}, "such as `confirm: {metric: log_loss}`"),
        ("val_accuracy >= 9 %", {"metric": "log_loss"}, "such as `confirm: {metric: accuracy}`"),
        ("eval_loss <= 0.3", {"metric": "log_loss"}, None),
        ("val_mae >= 3", {"metric": "mae"}, "`confirm:` scores mae, better when it falls"),
        (
            "val_mae <= 3 %",
            {"metric": "mae"},
            "which is not a share, and the target 'val_mae <= 3 %' is in %: write it",
        ),
        ("val_accuracy >= 94", {}, "a fraction of 1, and the target is 'val_accuracy >= 94': write one up to 100 %"),
        ("val_accuracy >= 94 %", {"apart_from": ["unseen"]}, "name two datasets"),
    ],
)
def test_what_can_t_confirm_is_refused_in_a_sentence(target: str, confirm: dict[str, Any], said: str | None) -> None:
    fault = check(target, **confirm).check_names(NAMES)
    assert fault is None if said is None else fault is not None and said in fault


def test_only_a_metric_that_can_be_named_is_suggested() -> None:
    fault = check("val_top5_accuracy >= 90 %").check_names(NAMES)
    assert fault is not None and "metric:" not in fault


@pytest.mark.parametrize(("classes", "metric", "ok"), [(3, "f1", False), (2, "f1", True), (3, "macro_f1", True)])
def test_a_metric_of_two_classes_needs_two(tmp_path: Path, classes: int, metric: str, ok: bool) -> None:
    model = Onnx.model_validate(
        {"kind": "onnx", "path": "m.onnx", "inputs": {"x": "x"}, "outputs": {"logits": "l"},
         "classes": [str(one) for one in range(classes)]}
    )  # fmt: skip
    fault = check(f"val_{metric} >= 90 %", metric=metric).fault_of_made("recipe", model)
    expected = "f1 of `confirm:` is of the second of two classes, and the model has 3: name macro_f1"
    assert fault == (None if ok else expected)


def test_a_metric_that_can_t_be_computed_from_answers_is_refused_with_those_that_can() -> None:
    with pytest.raises(ValidationError, match="'accuracy', 'balanced_accuracy'"):
        check("val_perplexity <= 20", metric="perplexity")


def test_errors_of_numbers_need_a_label_of_numbers() -> None:
    one = check("val_mae <= 3", metric="mae")
    for holds, faults in (("string", 1), ("double", 0)):
        header = Header(rows=5, columns={"y": holds})
        assert len(list(one.check_headers({"unseen": header}, {"unseen": "y"}))) == faults


@pytest.mark.parametrize(
    ("measure", "metric"),
    [
        ("val_accuracy", "accuracy"), ("eval/balanced_accuracy", "balanced_accuracy"), ("eval_rougeL", None),
        ("top1_accuracy", "accuracy"), ("top-5-accuracy", "top_k_accuracy"), ("test.R2", "r2"), ("loss", None),
        ("val_f1", "f1"), ("remade", None),
    ],
)  # fmt: skip
def test_measures_are_named_after_metrics(measure: str, metric: str | None) -> None:
    assert measure_named(measure) == metric


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("classes", ["0", "1"]), "system[0]: the model has `classes:`, and mae of `confirm:` can't be computed"),
        (("outputs", {"value": "y"}), None),
    ],
)
def test_validate_knows_what_a_model_that_is_made_will_give(
    tmp_path: Path, change: tuple[str, Any], said: str | None
) -> None:
    rows = tmp_path / "unseen.csv"
    rows.write_text("x,y\n1,2.5\n")
    model = {"kind": "onnx", "path": "{out}/m.onnx", "inputs": {"x": "x"}, "outputs": {"logits": "l"}} | dict([change])
    spec = {
        "evalspec": 1, "name": "made", "models": {"candidate": model},
        "datasets": {"unseen": {"kind": "csv", "path": "unseen.csv", "label": "y"}},
        "trainings": {"recipe": {
            "kind": "command", "run": ["t", "{seed}", "{out}"], "seeds": 8, "limit": "1 min", "makes": "candidate",
            "log": {"kind": "jsonl", "path": "{out}/l", "time": "t"},
        }},
        "system": [{
            "check": "time_to_accuracy", "training": "recipe", "target": "val_mae <= 3",
            "confirm": {"dataset": "unseen", "metric": "mae"}, "require": ["convergence_rate >= 50 %"],
        }],
    }  # fmt: skip
    gate = tmp_path / "gate.yaml"
    gate.write_text(yaml.safe_dump(spec))
    done = command("validate", str(gate))
    assert done.exit_code == (0 if said is None else 2), done.output
    assert said is None or said in done.output

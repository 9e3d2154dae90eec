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
from evalspec.errors import InputError, NotRunError
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


def saved(folder: Path, digests: dict[str, str], seen: pa.Table | None = None, **roles: Any) -> CheckResult:
    """Runs whose models have these digests, and rows of which `seen` are what the runs trained on."""
    one = check("val_mae <= 0.96", metric="mae", **({} if seen is None else {"apart_from": ["valid"]}))
    runs = [
        recipe_run(name, 20.0 + place, metric="val_mae", model=f"candidate-{name}", saved=digest)
        for place, (name, digest) in enumerate(digests.items())
    ]
    draw = np.random.default_rng(3)
    rows = pa.table({"id": np.arange(ROWS), "x": draw.normal(size=ROWS), "y": draw.normal(100.0, 10.0, ROWS)})
    tables = {"recipe": recipe_table(runs), "unseen": rows} | ({} if seen is None else {"valid": seen})
    inputs = FakeInputs(
        evidence=folder, tables=tables, answering=lambda some, dataset, model: numbers(some, 0.8),
        **roles,
    )  # fmt: skip
    return one.run(inputs)


def test_one_model_saved_by_runs_with_different_seeds_confirms_none(tmp_path: Path) -> None:
    names = [str(one) for one in range(5)]
    assert saved(tmp_path, {name: name for name in names}).invalid is None
    result = saved(tmp_path, {name: "0" if name == "3" else name for name in names})
    assert result.invalid is not None and result.invalid.startswith("0 and 3 saved the same model, to the byte")


def test_rows_that_were_numbered_anew_are_the_same_rows(tmp_path: Path) -> None:
    names = {str(one): str(one) for one in range(5)}
    draw = np.random.default_rng(3)
    rows = pa.table({"id": np.arange(ROWS) + 9_000, "x": draw.normal(size=ROWS), "y": draw.normal(100.0, 10.0, ROWS)})
    features = {"features": {"unseen": ("x",), "valid": ("x",)}, "labels": {"unseen": "y", "valid": "y"}}
    said = "400 of 400 rows of unseen are rows of valid, which the runs saw"
    assert saved(tmp_path, names, rows, **features).invalid == said
    as_text = rows.set_column(2, "y", rows["y"].cast(pa.string()))
    assert saved(tmp_path, names, as_text, **features).invalid == said, "a label of another type tells nothing"
    other = rows.set_column(1, "x", pa.array(draw.normal(size=ROWS)))
    assert saved(tmp_path, names, other, **features).invalid is None
    relabelled = rows.set_column(2, "y", pa.array(draw.normal(size=ROWS)))
    assert saved(tmp_path, names, relabelled, **features).invalid is None, "few inputs coincide by chance"
    with pytest.raises(InputError, match="the model reads no column that valid has, too"):
        saved(tmp_path, names, rows.drop_columns(["x"]), **features)


def test_rows_are_the_same_though_one_file_holds_whole_numbers(tmp_path: Path) -> None:
    names = {str(one): str(one) for one in range(5)}
    features = {"features": {"unseen": ("id",), "valid": ("id",)}, "labels": {"unseen": "y", "valid": "y"}}
    draw = np.random.default_rng(3)
    rows = pa.table({"id": np.arange(ROWS) * 1.0, "x": draw.normal(size=ROWS), "y": draw.normal(100.0, 10.0, ROWS)})
    said = "400 of 400 rows of unseen are rows of valid, which the runs saw"
    assert saved(tmp_path, names, rows, **features).invalid == said
    narrow = rows.set_column(1, "x", rows["x"].cast(pa.float32()))
    by_x = features | {"features": {"unseen": ("x",), "valid": ("x",)}}
    with pytest.raises(InputError, match="column 'x' is float in valid and double in the test set"):
        saved(tmp_path, names, narrow, **by_x)


def confirm_rows(folder: Path, unseen: pa.Table, seen: pa.Table, **roles: Any) -> CheckResult:
    """Rows that confirm, and rows that the runs trained on; both have a label `y`."""
    one = check("val_mae <= 0.96", metric="mae", apart_from=["valid"])
    runs = [recipe_run(str(place), 20.0 + place, metric="val_mae", model=f"candidate-{place}") for place in range(5)]
    inputs = FakeInputs(
        evidence=folder, tables={"recipe": recipe_table(runs), "unseen": unseen, "valid": seen},
        answering=lambda some, dataset, model: numbers(some, 0.8),
        **{"labels": {"unseen": "y", "valid": "y"}, **roles},
    )  # fmt: skip
    return one.run(inputs)


def test_texts_are_the_same_however_they_are_spaced_and_spelled(tmp_path: Path) -> None:
    truth = np.random.default_rng(3).normal(100.0, 10.0, ROWS)
    rows = pa.table({"text": [f"Review {one}: well done" for one in range(ROWS)], "y": truth})
    said = "400 of 400 rows of unseen are rows of valid, which the runs saw"
    again = rows.set_column(0, "text", pa.array([f"review {one}:  well done " for one in range(ROWS)]))
    assert confirm_rows(tmp_path, rows, again).invalid == said
    other = rows.set_column(0, "text", pa.array([f"Review {one}: well made" for one in range(ROWS)]))
    assert confirm_rows(tmp_path, rows, other).invalid is None


def test_a_column_that_numbers_rows_makes_none_of_them_another(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    rows = pa.table({"id": np.arange(ROWS), "x": draw.normal(size=ROWS), "y": draw.normal(100.0, 10.0, ROWS)})
    anew = rows.set_column(0, "id", pa.array(np.arange(ROWS)[::-1]))
    said = "400 of 400 rows of unseen are rows of valid, which the runs saw"
    assert confirm_rows(tmp_path, rows, anew).invalid == said
    both = {"unseen": ("id", "x"), "valid": ("id", "x")}
    assert confirm_rows(tmp_path, rows, anew, features=both).invalid is None, "the model reads it"


def test_rows_are_not_the_same_by_a_part_of_what_the_model_reads(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    rows = pa.table({"site": ["a", "b"] * (ROWS // 2), "x": draw.normal(size=ROWS), "y": np.tile([90.0, 110.0], 200)})
    features = {"unseen": ("site", "x")}
    said = "400 of 400 rows of unseen are like rows of valid in site, and valid has no 'x', which the model reads"
    with pytest.raises(InputError, match=said):
        confirm_rows(tmp_path, rows, rows.drop_columns(["x"]), features=features)
    other = rows.drop_columns(["x"]).set_column(0, "site", pa.array(["c"] * ROWS))
    assert confirm_rows(tmp_path, rows, other, features=features).invalid is None


def test_the_run_is_named_whose_model_gives_no_numbers(tmp_path: Path) -> None:
    def broken(rows: pa.Table, error: float) -> Predictions:
        if error > 1.0:
            raise InputError("the output 'value' is NaN in row 0")
        return numbers(rows, error)

    errors = dict.fromkeys(map(str, range(5)), 0.8) | {"3": 2.0}
    with pytest.raises(InputError, match="the model that 3 saved can't be scored: the output 'value' is NaN in row 0"):
        measured(tmp_path, check("val_mae <= 0.96", metric="mae"), errors, broken)


LOGITS, CLASSES = {"outputs": {"logits": "l"}}, {"classes": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("model", "metric", "said"),
    [
        (LOGITS | CLASSES, "map", "the model gives classes, and map of `confirm:` can't be computed from them: name a "
         "metric of classes, such as macro_f1"),
        (LOGITS | CLASSES, "mean_iou", "the model gives classes, and mean_iou"),
        (LOGITS | CLASSES, "bleu", "the model gives classes, and bleu"),
        (LOGITS | CLASSES, "micro_f1", "the model gives classes, and micro_f1"),
        (LOGITS | CLASSES, "roc_auc", None), (LOGITS | CLASSES, "brier", None),
        (LOGITS | CLASSES | {"multilabel": True}, "accuracy", "the model gives several labels a row, and accuracy"),
        (LOGITS | CLASSES | {"multilabel": True}, "micro_f1", None),
        ({"outputs": {"label": "l"}} | CLASSES, "roc_auc", "roc_auc of `confirm:` is of probabilities, and `outputs` "
         "names labels alone"),
        ({"outputs": {"label": "l", "probabilities": "p"}} | CLASSES, "roc_auc", None),
        ({"outputs": {"boxes": "b", "scores": "s", "label": "l"}} | CLASSES, "map", None),
        ({"outputs": {"boxes": "b", "scores": "s", "label": "l"}} | CLASSES, "accuracy", "the model gives boxes, and "
         "accuracy of `confirm:` can't be computed from them: name a metric of boxes, such as map"),
        ({"outputs": {"mask": "m"}} | CLASSES, "map", "the model gives masks, and map"),
        ({"outputs": {"text": "t"}}, "accuracy", "the model gives texts, and accuracy"),
        ({"outputs": {"embedding": "e"}}, "accuracy", "the model gives embeddings, and accuracy of `confirm:` can't be "
         "computed from them"),
        ({"outputs": {"value": "v"}}, "map", "the model gives values, and map"),
        (CLASSES, "map", None), (CLASSES, "rmse", "the model gives classes, and rmse"), ({}, "map", None),
    ],
)  # fmt: skip
def test_a_metric_that_is_not_of_what_the_model_gives(model: dict[str, Any], metric: str, said: str | None) -> None:
    made = Onnx.model_validate({"kind": "onnx", "path": "m.onnx", "inputs": {"x": "x"}, **model})
    falls = metric in ("rmse", "brier")
    fault = check(f"val_score {'<=' if falls else '>='} 0.5", metric=metric).fault_of_made("recipe", made)
    assert fault is None if said is None else fault is not None and fault.startswith(said)


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
        (
            ("classes", ["0", "1"]),
            "system[0]: the model gives classes, and mae of `confirm:` can't be computed from them",
        ),
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

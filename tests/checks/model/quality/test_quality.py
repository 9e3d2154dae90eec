"""`quality`: its numbers against scikit-learn, its worked numbers, its reasons."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn import metrics as sk

from evalspec.checks.model.quality.spec import Quality
from evalspec.errors import InputError
from evalspec.evidence.blocks import Examples, Histogram, Matrix, Points, Table
from evalspec.evidence.estimate import Fact, Measured, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, NeedPredictions, NeedRows
from tests.checks.deciding import outcome, the
from tests.checks.planting import confident
from tests.fakes import FakeInputs, classifier, regressor, writer

CLASSES = ("ant", "bee", "cat")


def check(*require: str, **fields: Any) -> Quality:
    fields.setdefault("report_only", not require)
    return Quality.model_validate({"check": "quality", "dataset": "test", "require": list(require), **fields})


def run(
    folder: Path, asked: Quality, candidate: Predictions, *others: Predictions, table: dict[str, Any] | None = None
) -> CheckResult:
    columns = table if table is not None else {"x": np.arange(candidate.n), "label": np.zeros(candidate.n)}
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table(columns)},
        labels={"test": "label"},
        answers={("test", one.model): one for one in (candidate, *others)},
    )
    return asked.run(inputs)


def value(result: CheckResult, metric: str, part: str | None = None) -> float | None:
    found = result.estimates[metric]
    assert not isinstance(found, Measured)
    if isinstance(found, Parts):
        assert part is not None
        found = found.parts[part]
    assert not isinstance(found, Fact)
    return found.value


def noisy(rows: int, classes: int, seed: int, skill: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Truth, shape (n,), and probabilities, shape (n, C), of a model that is often right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), truth] += skill
    shares = np.exp(logits)
    return truth, shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("classes", "seed"), [(2, 0), (2, 1), (3, 2), (7, 3), (12, 4)])
def test_agrees_with_scikit_learn(classes: int, seed: int, tmp_path: Path) -> None:
    truth, shares = noisy(900, classes, seed)
    said = shares.argmax(axis=1)
    result = run(tmp_path, check(top_k=[1, 2, 5]), classifier(shares, truth))
    names = [str(index) for index in range(classes)]
    expected = {
        "accuracy": sk.accuracy_score(truth, said),
        "balanced_accuracy": sk.balanced_accuracy_score(truth, said),
        "macro_precision": sk.precision_score(truth, said, average="macro"),
        "macro_recall": sk.recall_score(truth, said, average="macro"),
        "macro_f1": sk.f1_score(truth, said, average="macro"),
        "log_loss": sk.log_loss(truth, shares, labels=range(classes)),
        "brier": sk.brier_score_loss(truth, shares, labels=range(classes), scale_by_half="auto"),
    }
    if classes == 2:
        expected["roc_auc"] = sk.roc_auc_score(truth, shares[:, 1])
        expected["average_precision"] = sk.average_precision_score(truth, shares[:, 1])
    else:
        expected["roc_auc"] = sk.roc_auc_score(truth, shares, multi_class="ovr", average="macro")
        expected["average_precision"] = sk.average_precision_score(truth, shares, average="macro")
    for metric, want in expected.items():
        assert value(result, metric) == pytest.approx(want, abs=1e-12), metric
    for metric, scores in (
        ("precision", sk.precision_score(truth, said, average=None)),
        ("recall", sk.recall_score(truth, said, average=None)),
        ("f1", sk.f1_score(truth, said, average=None)),
    ):
        assert [value(result, metric, name) for name in names] == pytest.approx(list(scores), abs=1e-12)
    for k in (1, 2, 5):
        if k < classes:
            want = sk.top_k_accuracy_score(truth, shares if classes > 2 else shares[:, 1], k=k, labels=range(classes))
            assert value(result, "top_k_accuracy", str(k)) == pytest.approx(want, abs=1e-12)


def test_ties_in_scores_agree_with_scikit_learn(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    truth = rng.integers(0, 3, 600)
    shares = rng.choice([0.2, 0.4, 0.6], size=(600, 3))
    shares[np.arange(600), truth] += 0.2
    shares = np.round(shares / shares.sum(axis=1, keepdims=True), 2)
    shares[:, 2] = 1 - shares[:, 0] - shares[:, 1]
    result = run(tmp_path, check(), classifier(shares, truth))
    assert value(result, "roc_auc") == pytest.approx(sk.roc_auc_score(truth, shares, multi_class="ovr"), abs=1e-12)
    assert value(result, "average_precision") == pytest.approx(sk.average_precision_score(truth, shares), abs=1e-12)


def test_one_class_against_the_rest_where_a_positive_one_is_named(tmp_path: Path) -> None:
    truth, shares = noisy(500, 3, 11)
    result = run(tmp_path, check(positive="bee"), classifier(shares, truth, classes=CLASSES))
    assert value(result, "roc_auc") == pytest.approx(sk.roc_auc_score(truth == 1, shares[:, 1]), abs=1e-12)
    assert value(result, "average_precision") == pytest.approx(
        sk.average_precision_score(truth == 1, shares[:, 1]), abs=1e-12
    )
    assert result.conditions["positive class"] == "bee"


def test_regression_agrees_with_scikit_learn(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(1e6, 20.0, 400)
    values = truth + rng.normal(0.0, 5.0, 400)
    result = run(tmp_path, check(), regressor(values, truth))
    assert value(result, "mae") == pytest.approx(sk.mean_absolute_error(truth, values), rel=1e-12)
    assert value(result, "rmse") == pytest.approx(sk.root_mean_squared_error(truth, values), rel=1e-12)
    assert value(result, "r2") == pytest.approx(sk.r2_score(truth, values), rel=1e-9)
    assert set(result.estimates) == {"mae", "rmse", "r2"}
    assert {type(block) for block in result.blocks} == {Table, Histogram, Points, Examples}


def test_a_probability_of_zero_is_a_large_loss_and_no_infinity(tmp_path: Path) -> None:
    truth = np.array([0, 1] * 200)
    shares = confident(truth, np.arange(400) != 3, 2, sure=1.0)
    result = run(tmp_path, check(), classifier(shares, truth))
    assert value(result, "log_loss") == pytest.approx(sk.log_loss(truth, shares), abs=1e-12)
    assert value(result, "log_loss") == pytest.approx(-np.log(np.finfo(float).eps) / 400, rel=1e-9)


def fraud(tp: int, fn: int, fp: int, tn: int) -> Predictions:
    """Rows by true and predicted class."""
    truth = np.repeat([1, 1, 0, 0], [tp, fn, fp, tn])
    said = np.repeat([1, 0, 1, 0], [tp, fn, fp, tn])
    return classifier(confident(truth, truth == said, 2), truth, classes=("legitimate", "fraud"))


def test_worked_number_99_percent_accurate_with_10_percent_recall(tmp_path: Path) -> None:
    """1 % prevalence: TP 0.1 %, FN 0.9 %, FP 0.1 % of rows: precision 50 %, F1 16.7 %, accuracy 99.0 %."""
    asked = check("accuracy >= 98 %", "recall(fraud) >= 80 %", "balanced_accuracy >= 80 %")
    result = run(tmp_path, asked, fraud(10, 90, 10, 9890))
    assert value(result, "accuracy") == 0.99
    assert value(result, "recall", "fraud") == 0.1
    assert value(result, "precision", "fraud") == 0.5
    assert value(result, "f1", "fraud") == pytest.approx(1 / 6, abs=1e-12)
    assert outcome(result, the(asked, "accuracy >= 98 %")) == "PASS"
    assert outcome(result, the(asked, "recall(fraud) >= 80 %")) == "FAIL"
    assert outcome(result, the(asked, "balanced_accuracy >= 80 %")) == "FAIL"
    assert result.notes == ("accuracy 0.99 is not better than the 0.99 of answering always the most frequent class",)


def test_a_classifier_not_shown_above_the_majority_weakens_the_verdict(tmp_path: Path) -> None:
    result = run(tmp_path, check(metrics=["recall"]), fraud(10, 90, 10, 9890))
    assert "accuracy" not in result.estimates
    assert result.weakens == ("accuracy 0.99 is not better than the 0.99 of answering always the most frequent class",)
    result = run(tmp_path, check(), fraud(41, 59, 30, 9870))
    assert result.weakens == (
        "accuracy 0.9911 is not shown to be better than the 0.99 of answering always the most frequent class",
    )
    assert run(tmp_path, check(), fraud(80, 20, 20, 9880)).weakens == ()


def test_values_no_better_than_their_mean_weaken_the_verdict(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(0.0, 5.0, 400)
    blind = run(tmp_path, check(metrics=["mae"]), regressor(np.full(400, truth.mean() + 1.0), truth))
    assert len(blind.weakens) == 1
    assert blind.weakens[0].startswith("r2 -0.0")
    assert blind.weakens[0].endswith(" is not better than the 0 of answering always the mean")
    assert run(tmp_path, check(), regressor(truth + rng.normal(0.0, 4.0, 400), truth)).weakens == ()


def test_worked_number_the_majority_classifier(tmp_path: Path) -> None:
    """99 to 1: 99 % accurate, recall 0, balanced accuracy 50 %; its precision of the class it never says is 0/0."""
    asked = check("accuracy >= 98 %", "recall >= 50 %", "precision(fraud) >= 10 %", "macro_precision >= 10 %")
    result = run(tmp_path, asked, fraud(0, 100, 0, 9900))
    assert value(result, "accuracy") == 0.99
    assert value(result, "recall", "fraud") == 0.0
    assert value(result, "balanced_accuracy") == 0.5
    assert value(result, "f1", "fraud") == 0.0
    assert outcome(result, the(asked, "recall >= 50 %")) == "FAIL"
    assert outcome(result, the(asked, "precision(fraud) >= 10 %")) == "INCONCLUSIVE"
    assert (
        result.missing["precision(fraud)"] == "class 'fraud' is never predicted on dataset 'test': its precision is 0/0"
    )
    assert result.missing["macro_precision"] == result.missing["precision(fraud)"]
    assert "macro_precision" not in result.estimates
    scores = next(block for block in result.blocks if block.title == "Scores")
    assert isinstance(scores, Table)
    accuracy = next(row for row in scores.rows if row[0] == "accuracy")
    assert accuracy[-2:] == (0.99, 0.5)


def test_worked_number_top_1_of_75_and_top_5_of_95_are_20_points_apart(tmp_path: Path) -> None:
    rows, classes = 2000, 10
    truth = np.arange(rows) % classes
    rank = np.repeat([0, 3, 8], [1500, 400, 100])
    # The true class stands at its rank; the others fill the places in rising order.
    order = (truth[:, None] + 1 + np.arange(classes - 1)) % classes
    places = np.array([np.insert(others, at, own) for others, at, own in zip(order, rank, truth, strict=True)])
    shares = np.empty((rows, classes))
    np.put_along_axis(shares, places, np.tile(np.linspace(0.19, 0.01, classes), (rows, 1)), axis=1)
    result = run(tmp_path, check(top_k=[1, 5]), classifier(shares, truth))
    top_1, top_5 = value(result, "top_k_accuracy", "1"), value(result, "top_k_accuracy", "5")
    assert (top_1, top_5) == (0.75, 0.95)
    assert "top-5 is 20 pp above top-1" in result.notes


def test_worked_number_a_better_top_1_with_calibration_destroyed_fails(tmp_path: Path) -> None:
    """76.2 to 76.5 % right, but sure of everything: the gain does not hide the loss."""
    rows = 4000
    truth = np.arange(rows) % 4
    before = classifier(confident(truth, np.arange(rows) < 3048, 4, sure=0.76), truth, model="baseline")
    after = classifier(confident(truth, np.arange(rows) < 3060, 4, sure=0.999), truth)
    asked = check("accuracy >= baseline - 1 pp", "log_loss <= baseline + 0.05", "brier <= 1.05x baseline")
    result = run(tmp_path, asked, after, before)
    assert value(result, "accuracy") == 0.765
    assert outcome(result, the(asked, "accuracy >= baseline - 1 pp")) == "PASS"
    assert outcome(result, the(asked, "log_loss <= baseline + 0.05")) == "FAIL"
    assert outcome(result, the(asked, "brier <= 1.05x baseline")) == "FAIL"


def test_a_class_without_rows_has_no_recall_and_no_macro_average(tmp_path: Path) -> None:
    truth, shares = noisy(300, 2, 5)
    shares = np.column_stack([shares * 0.98, np.full(300, 0.02)])
    asked = check("recall >= 10 %", "balanced_accuracy >= 10 %", "macro_f1 >= 10 %", "roc_auc >= 0.1")
    result = run(tmp_path, asked, classifier(shares, truth, classes=CLASSES))
    reason = "class 'cat' has no rows in dataset 'test': its recall is 0/0"
    assert result.missing["recall(cat)"] == reason
    assert result.missing["balanced_accuracy"] == reason
    assert result.missing["macro_f1"].endswith("is never predicted: its F1 is 0/0")
    assert result.missing["roc_auc"].startswith("class 'cat' has no rows")
    assert value(result, "recall", "cat") is None
    # Over all classes it can't pass, although every class that is there does.
    assert outcome(result, the(asked, "recall >= 10 %")) == "INCONCLUSIVE"
    assert outcome(result, the(asked, "balanced_accuracy >= 10 %")) == "MISSING"


def test_a_model_without_probabilities_is_scored_by_its_labels(tmp_path: Path) -> None:
    truth, shares = noisy(300, 3, 6)
    full = classifier(shares, truth, classes=CLASSES)
    labels_only = Predictions(**{name: getattr(full, name) for name in full.__slots__} | {"probabilities": None})
    asked = check("accuracy >= 10 %", "log_loss <= 1")
    result = run(tmp_path, asked, labels_only)
    assert value(result, "accuracy") == pytest.approx(sk.accuracy_score(truth, shares.argmax(axis=1)))
    assert "gives labels without probabilities" in result.missing["log_loss"]
    assert not {"brier", "roc_auc", "top_k_accuracy"} & {*result.estimates, *result.missing}


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
def test_the_decision_threshold_moves_the_answers(threshold: float, tmp_path: Path) -> None:
    truth, shares = noisy(600, 2, 9)
    answers = classifier(shares, truth, classes=("no", "yes"))
    result = run(tmp_path, check(decision_threshold=threshold), answers)
    said = shares[:, 1] >= threshold
    assert value(result, "recall", "yes") == pytest.approx(sk.recall_score(truth, said), abs=1e-12)
    assert value(result, "accuracy") == pytest.approx(sk.accuracy_score(truth, said), abs=1e-12)
    flipped = run(tmp_path, check(decision_threshold=threshold, positive="no"), answers)
    assert value(flipped, "recall", "no") == pytest.approx(sk.recall_score(1 - truth, shares[:, 0] >= threshold))


@pytest.mark.parametrize(
    ("fields", "answers", "words"),
    [
        ({"decision_threshold": 0.5}, noisy(60, 3, 1), "needs a model with two classes"),
        ({"positive": "bird"}, noisy(60, 3, 1), "has no class 'bird'"),
    ],
)
def test_a_field_that_means_nothing_here_is_an_error(
    fields: dict[str, Any], answers: tuple[np.ndarray, np.ndarray], words: str, tmp_path: Path
) -> None:
    truth, shares = answers
    with pytest.raises(InputError, match=words):
        run(tmp_path, check(**fields), classifier(shares, truth, classes=CLASSES))


def test_no_rows_no_label_and_numbers_that_are_none(tmp_path: Path) -> None:
    truth, shares = noisy(30, 3, 1)
    with pytest.raises(InputError, match="has no rows"):
        run(tmp_path, check(), classifier(shares[:0], truth[:0]))
    with pytest.raises(InputError, match="has no label"):
        run(tmp_path, check(), classifier(shares, None))
    shares[7, 1] = np.nan
    with pytest.raises(InputError, match="not finite in row 7"):
        run(tmp_path, check(), classifier(shares, truth))
    with pytest.raises(InputError, match="labels of 'candidate' on 'test' are not finite in row 0"):
        run(tmp_path, check(), regressor([1.0, 2.0], [np.nan, 2.0]))


def test_metrics_of_the_other_kind_of_model_are_missing_with_the_reason(tmp_path: Path) -> None:
    truth, shares = noisy(300, 3, 1)
    classes = run(tmp_path, check("mae <= 3"), classifier(shares, truth))
    assert classes.missing == {"mae": "model 'candidate' gives classes, and this metric needs values"}
    values = run(tmp_path, check("accuracy >= 90 %", "recall(ant) >= 5 %"), regressor(truth * 1.5, truth))
    assert "gives values, and this metric needs classes" in values.missing["accuracy"]
    assert "gives values, and this metric needs classes" in values.missing["recall"]


def test_an_unknown_class_or_a_k_that_says_nothing_is_missing(tmp_path: Path) -> None:
    truth, shares = noisy(300, 3, 1)
    asked = check("recall(bird) >= 5 %", "top_k_accuracy(3) >= 50 %")
    result = run(tmp_path, asked, classifier(shares, truth, classes=CLASSES))
    assert "has no class 'bird'; its classes are ant, bee, cat" in result.missing["recall(bird)"]
    assert result.missing["top_k_accuracy(3)"] == "top_k_accuracy(3) is always 1 with 3 classes"
    assert outcome(result, the(asked, "recall(bird) >= 5 %")) == "MISSING"
    assert outcome(result, the(asked, "top_k_accuracy(3) >= 50 %")) == "MISSING"


def test_a_constant_label_has_no_r2(tmp_path: Path) -> None:
    result = run(tmp_path, check("r2 >= 0.5"), regressor(np.linspace(0, 1, 300), np.ones(300)))
    assert "doesn't vary" in result.missing["r2"]


def test_a_label_that_varies_by_next_to_nothing_has_no_r2(tmp_path: Path) -> None:
    """The square of 1e-170 is 0, and what is divided by that of 1e-160 is infinite."""
    for size, words in ((1e-170, "doesn't vary"), (1e-160, "is not a number")):
        result = run(tmp_path, check("r2 >= 0.5"), regressor(np.linspace(0, 1, 300), size * (np.arange(300) % 2)))
        assert words in result.missing["r2"]


METRICS_COMPARED = (
    "accuracy", "balanced_accuracy", "macro_precision", "macro_recall", "macro_f1", "precision(bee)", "recall(bee)",
    "f1(bee)", "roc_auc", "average_precision", "top_k_accuracy(2)",
)  # fmt: skip


@pytest.mark.parametrize("metric", METRICS_COMPARED)
def test_against_another_model_the_same_is_shown_not_worse_and_a_poor_one_is_shown_worse(
    metric: str, tmp_path: Path
) -> None:
    rows = 500 if metric == "average_precision" else 1500
    truth, shares = noisy(rows, 3, 21)
    _, poor = noisy(rows, 3, 22, skill=0.0)
    mixed = 0.8 * shares + 0.2 * poor
    sentence = f"{metric} >= baseline - 10 pp"
    asked = check(sentence)
    base = classifier(shares, truth, classes=CLASSES, model="baseline")
    same, near, far = (classifier(one, truth, classes=CLASSES) for one in (shares, mixed, poor))
    assert outcome(run(tmp_path, asked, near, base), the(asked, sentence)) == "PASS"
    assert outcome(run(tmp_path, asked, far, base), the(asked, sentence)) == "FAIL"
    # Where no row differs a resampling method has nothing to go by; it then decides nothing.
    assert outcome(run(tmp_path, asked, same, base), the(asked, sentence)) in ("PASS", "INCONCLUSIVE")


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "recall(bee)", "top_k_accuracy(2)"])
def test_few_differing_rows_decide_where_rows_are_counted(metric: str, tmp_path: Path) -> None:
    """As after quantization: 10 of 1,500 answers differ."""
    truth, shares = noisy(1500, 3, 21)
    changed = shares.copy()
    changed[::150] = changed[::150, [1, 2, 0]]
    asked = check(f"{metric} >= baseline - 5 pp")
    base = classifier(shares, truth, classes=CLASSES, model="baseline")
    result = run(tmp_path, asked, classifier(changed, truth, classes=CLASSES), base)
    assert outcome(result, asked.require[0]) == "PASS"


@pytest.mark.parametrize(
    ("sentence", "allowed"),
    [
        ("mae <= baseline + 0.5", "mae"),
        ("rmse <= baseline + 0.5", "rmse"),
        ("r2 >= baseline - 0.02", "r2"),
        ("mae <= 1.2x baseline", "ratio"),
    ],
)
def test_regression_against_another_model(sentence: str, allowed: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(31)
    truth = rng.normal(0.0, 20.0, 800)
    noise = rng.normal(0.0, 5.0, 800)
    base = regressor(truth + noise, truth, model="baseline")
    asked = check(sentence)
    near = run(tmp_path, asked, regressor(truth + noise + rng.normal(0.0, 0.1, 800), truth), base)
    far = run(tmp_path, asked, regressor(truth + 2.0 * noise + rng.normal(0.0, 0.1, 800), truth), base)
    assert outcome(near, the(asked, sentence)) == "PASS", allowed
    assert outcome(far, the(asked, sentence)) == "FAIL", allowed


def test_classes_in_another_order_are_matched_by_name(tmp_path: Path) -> None:
    truth, shares = noisy(900, 3, 41)
    order = [2, 0, 1]
    base = classifier(shares[:, order], np.argsort(order)[truth], model="baseline", classes=[CLASSES[i] for i in order])
    asked = check("accuracy >= baseline - 1 pp", "recall(bee) >= baseline - 5 pp")
    result = run(tmp_path, asked, classifier(shares, truth, classes=CLASSES), base)
    comparison = result.comparisons["accuracy", "baseline"]
    assert comparison.difference(1.0, -0.01).value == 0.0  # type: ignore[union-attr]
    assert [outcome(result, requirement) for requirement in asked.requirements] == ["PASS", "PASS"]


def test_models_that_can_not_be_paired_say_why(tmp_path: Path) -> None:
    truth, shares = noisy(300, 3, 1)
    candidate = classifier(shares, truth, classes=CLASSES)
    asked = check("accuracy >= baseline - 1 pp")
    others = {
        "only one of them has the class": classifier(shares, truth, classes=("ant", "bee", "dog"), model="baseline"),
        "they answered other rows": classifier(shares[:200], truth[:200], classes=CLASSES, model="baseline"),
        "one gives classes, one gives values": regressor(truth * 1.0, truth, model="baseline"),
    }
    for words, other in others.items():
        result = run(tmp_path, asked, candidate, other)
        assert words in result.missing["accuracy vs baseline"]
        assert not result.comparisons
        assert outcome(result, asked.require[0]) == "MISSING"


@pytest.mark.proof
def test_rows_of_one_cluster_are_no_more_than_one_row(tmp_path: Path) -> None:
    """Each row ten times: the share stays, and its bounds are those of a tenth of the rows, or wider."""
    truth, shares = noisy(300, 2, 3, skill=1.5)
    once = run(tmp_path, check("accuracy >= 50 %"), classifier(shares, truth))
    clusters = np.repeat(np.arange(300), 10)
    copies = classifier(np.repeat(shares, 10, axis=0), np.repeat(truth, 10), clusters=clusters)
    tenfold = run(tmp_path, check("accuracy >= 50 %"), copies)
    free = run(tmp_path, check("accuracy >= 50 %"), classifier(np.repeat(shares, 10, axis=0), np.repeat(truth, 10)))
    for metric in ("accuracy", "balanced_accuracy", "macro_f1", "log_loss", "roc_auc", "average_precision"):
        lows = [_low(result, metric) for result in (once, tenfold, free)]
        assert lows[1] <= lows[0] + 0.01, metric
        assert lows[1] < lows[2], metric


def _low(result: CheckResult, metric: str) -> float:
    found = result.estimates[metric]
    assert not isinstance(found, Parts | Measured | Fact)
    bound = found.bound(0.95, "lower")
    assert bound is not None
    return bound


def _fields(one: Predictions) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def test_the_same_seed_gives_the_same_bounds_whatever_else_is_required(tmp_path: Path) -> None:
    truth, shares = noisy(400, 3, 1)
    alone = run(tmp_path, check("average_precision >= 10 %"), classifier(shares, truth))
    beside = run(tmp_path, check("roc_auc >= 10 %", "average_precision >= 10 %"), classifier(shares, truth))
    assert _low(alone, "average_precision") == _low(beside, "average_precision")


def test_nothing_is_resampled_that_nobody_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalspec.scoring import scores as scoring_scores

    calls: list[str] = []
    real = scoring_scores.bca
    monkeypatch.setattr(scoring_scores, "bca", lambda *args, **named: calls.append("bca") or real(*args, **named))
    truth, shares = noisy(400, 3, 1)
    run(tmp_path, check("accuracy >= 50 %"), classifier(shares, truth))
    assert calls == []
    asked = check("average_precision >= 10 %")
    assert outcome(run(tmp_path, asked, classifier(shares, truth)), asked.require[0]) == "PASS"
    assert calls == ["bca"]


def test_blocks_of_a_small_problem(tmp_path: Path) -> None:
    truth, shares = noisy(300, 3, 1)
    pixels = [list(map(float, np.arange(64) + row)) for row in range(300)]
    table = {"image": pixels, "note": ["a long sentence"] * 300, "label": truth}
    result = run(tmp_path, check(), classifier(shares, truth, classes=CLASSES), table=table)
    matrix = next(block for block in result.blocks if isinstance(block, Matrix))
    assert np.array_equal(matrix.values, sk.confusion_matrix(truth, shares.argmax(axis=1)))
    classes = next(block for block in result.blocks if block.title == "Classes")
    assert isinstance(classes, Table)
    recalls = [row[4] for row in classes.rows]
    assert recalls == sorted(recalls)
    wrong = next(block for block in result.blocks if isinstance(block, Examples))
    said = shares.argmax(axis=1)
    assert wrong.total == int((said != truth).sum())
    assert len(wrong.examples) == 12
    assert all(example.fields["true"] != example.fields["predicted"] for example in wrong.examples)
    assert all(base64.b64decode(example.image or "").startswith(b"\x89PNG") for example in wrong.examples)
    assert all("label" not in example.fields for example in wrong.examples)
    assert wrong.examples[0].text == "a long sentence"


def test_no_rows_are_shown_where_that_is_asked(tmp_path: Path) -> None:
    truth, shares = noisy(300, 3, 1)
    asked = check(show_examples=False)
    result = run(tmp_path, asked, classifier(shares, truth))
    assert not any(isinstance(block, Examples) for block in result.blocks)
    assert asked.needs() == (NeedPredictions("test", "candidate"),)
    assert check("accuracy >= baseline").needs() == (
        NeedPredictions("test", "candidate"),
        NeedPredictions("test", "baseline"),
        NeedRows("test", label=True),
    )


def test_many_classes_show_the_most_frequent_mistakes(tmp_path: Path) -> None:
    truth, shares = noisy(2000, 40, 2)
    result = run(tmp_path, check(), classifier(shares, truth))
    assert "roc_auc" not in result.estimates
    mistakes = next(block for block in result.blocks if block.title == "Most frequent mistakes")
    assert isinstance(mistakes, Table)
    assert len(mistakes.rows) == 30
    asked = check("roc_auc >= 0.5")
    assert value(run(tmp_path, asked, classifier(shares, truth)), "roc_auc") == pytest.approx(
        sk.roc_auc_score(truth, shares, multi_class="ovr"), abs=1e-12
    )


@pytest.mark.parametrize(
    ("sentence", "rows", "words"),
    [
        ("accuracy >= 95 %", 58, "59 are needed"),
        ("accuracy >= 95 %", 59, None),
        ("accuracy >= 95 %", None, None),
        ("recall(fraud) >= 99 %", 298, "299 are needed"),
        ("recall(fraud) >= 99 %", 299, None),
        ("accuracy >= baseline - 1 pp", 3, None),
        ("f1(fraud) >= 90 %", 14, "15 are needed"),
        ("f1(fraud) >= 90 %", 15, None),
        ("log_loss <= 0.1", 40, "can't show log_loss <= 0.1 at 95 % confidence, were every one of them right"),
        ("log_loss <= 0.1", 1078, "1,079 are needed; add rows"),
        ("log_loss <= 0.1", 1079, None),
        ("log_loss <= baseline", 3, None),
        ("mae <= 0.1", 40, "can't show mae <= 0.1 at 95 % confidence, bounds of a mean of rows take"),
        ("mae <= 0.1", 199, "200 are needed; add rows"),
        ("mae <= 0.1", 200, None),
        ("mae <= baseline", 199, "200 are needed"),
        ("macro_f1 >= 80 %", 49, "bounds of resamples take so many: 50 are needed"),
        ("macro_f1 >= 80 %", 50, None),
        ("f1(fraud) >= baseline", 49, "50 are needed"),
        ("accuracy >= 99 %", 60, "299 are needed; add rows, or ask for 95.1 %"),
        ("top_k_accuracy(half) >= 5 %", 1000, "k is a whole number"),
    ],
)
def test_what_can_never_pass_is_told_beforehand(sentence: str, rows: int | None, words: str | None) -> None:
    """0.95 ** 59 = 0.0485 is the first power below 5 %; 0.99 ** 299 = 0.0495.

    S5: a share of 0.1 / 36.04 of rows with the largest log loss makes 0.1, and (1 - 0.1 / 36.04) ** 1079 = 0.0499.
    """
    asked = check(sentence)
    reason = asked.check_requirement(asked.require[0], {"test": rows})
    assert (reason is None) == (words is None)
    assert words is None or words in (reason or "")


def test_a_stricter_policy_needs_more_rows() -> None:
    """0.95 ** 90 is the first power below 1 %."""
    asked = check("accuracy >= 95 %")
    assert "90 are needed" in (asked.check_requirement(asked.require[0], {"test": 89}, 0.99) or "")
    assert asked.check_requirement(asked.require[0], {"test": 90}, 0.99) is None
    assert asked.check_requirement(asked.require[0], {"test": 89}, 0.95) is None


def test_listed_metrics_take_the_place_of_the_default(tmp_path: Path) -> None:
    truth, shares = noisy(300, 3, 1)
    result = run(tmp_path, check("accuracy >= 10 %", metrics=["brier"]), classifier(shares, truth))
    assert set(result.estimates) == {"accuracy", "brier"}
    with pytest.raises(ValueError, match="metrics"):
        check(metrics=["accurracy"])


def test_what_drawing_answers_adds_is_told_of_the_required_mean(tmp_path: Path) -> None:
    several = [writer([said, "yes"], ["yes", "yes"]) for said in ("yes", "no", "yes", "no")]
    drawn = replace(several[0], again=tuple(several[1:]))
    result = run(tmp_path, check("exact_match >= 50 %"), drawn)
    # Of the first row 1, 0, 1, 0: a variance of 1/3, of the second none; means 1/2 and 1 are 1/8 apart squared.
    assert result.conditions["answers to each row"] == 4
    assert result.conditions["metric of the variances"] == "exact_match"
    assert result.conditions["variance within rows"] == pytest.approx(1 / 6)
    assert result.conditions["variance between rows"] == pytest.approx(1 / 8 - 1 / 6 / 4)
    assert any("each row was answered 4 times" in note for note in result.notes)
    once = run(tmp_path, check("exact_match >= 50 %"), several[0])
    assert "answers to each row" not in once.conditions
    assert not any("each row was answered" in note for note in once.notes)

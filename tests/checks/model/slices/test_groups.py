"""Percentiles over groups, and how far slices lie from a named one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fairlearn.metrics import MetricFrame
from sklearn.metrics import accuracy_score, mean_absolute_error, precision_score, recall_score

from evalspec.checks.model.slices.spec import Slices
from evalspec.errors import InputError, SpecError
from evalspec.evidence.blocks import Histogram, Intervals, Table
from evalspec.evidence.estimate import Estimate, Measured, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, SpecNames
from evalspec.language.requirement import parse_requirement
from evalspec.stats.shares.over_groups import OverGroups
from evalspec.stats.shares.proportion import Proportion
from tests.checks.deciding import outcome, the
from tests.checks.planting import confident
from tests.checks.test_contract import well_formed
from tests.fakes import FakeInputs, classifier, regressor


def check(require: list[str], **fields: Any) -> Slices:
    return Slices.model_validate(
        {"check": "slices", "dataset": "test", "require": require, "report_only": not require, **fields}
    )


def run(folder: Path, asked: Slices, table: dict[str, Any], candidate: Predictions, **slices: Any) -> CheckResult:
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table(table)}, labels={"test": "label"},
        answers={("test", "candidate"): candidate},
        slices={(name, "test"): mask for name, mask in slices.items()},
    )  # fmt: skip
    result = asked.run(inputs)
    well_formed(result)
    return result


def parts(result: CheckResult, metric: str) -> dict[str, Estimate]:
    found = result.estimates[metric]
    assert isinstance(found, Parts)
    return {name: one for name, one in found.parts.items() if isinstance(one, Estimate)}


def users(
    bad: float, count: int = 120, rows: int = 60, seed: int = 0
) -> tuple[dict[str, Any], Predictions, np.ndarray]:
    """Users of 60 rows who are served at 95 %, and a share of them at 60 %."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(count), rows)
    served = np.where(np.arange(count) < bad * count, 0.6, 0.95)
    truth = rng.integers(0, 2, len(user))
    right = rng.random(len(user)) < served[user]
    names = np.array([f"u{one}" for one in rng.permutation(count)])[user]
    return {"user": names, "label": truth}, classifier(confident(truth, right, 2), truth), right


def test_a_fifth_of_users_is_hidden_by_the_average_and_not_by_the_percentile(tmp_path: Path) -> None:
    asked = check(["accuracy_p10 >= 75 %"], groups="user")
    table, candidate, _ = users(0.0)
    assert outcome(run(tmp_path, asked, table, candidate), asked.require[0]) == "PASS"
    table, candidate, right = users(0.3)
    assert right.mean() > 0.8
    assert outcome(run(tmp_path, asked, table, candidate), asked.require[0]) == "FAIL"


def test_every_user_counts_with_bounds_of_its_own(tmp_path: Path) -> None:
    table, candidate, right = users(0.1)
    result = run(tmp_path, check(["accuracy_p10 >= 75 %"], groups="user"), table, candidate)
    found = result.estimates["accuracy_p10"]
    assert isinstance(found, OverGroups)
    assert found.n == 120
    shares = right.reshape(120, 60).mean(axis=1)
    assert found.value == pytest.approx(np.percentile(shares, 10))
    bounds = sorted(Proportion.of_counts(round(60 * one), 60).bound(0.8, "lower") or 0.0 for one in shares)
    np.testing.assert_allclose(np.sort(found.holding), bounds)
    worst = next(one for one in result.blocks if isinstance(one, Table))
    assert worst.title == "Worst groups of user by accuracy" and len(worst.rows) == 20
    assert worst.rows[0][2] == shares.min()
    histogram = next(one for one in result.blocks if isinstance(one, Histogram))
    assert sum(histogram.counts["groups"]) == 120


def test_where_lower_is_better_it_is_the_other_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(60), 300)
    truth = rng.normal(20, 5, len(user))
    noisy = np.where(user < 15, 3.0, 1.0)
    asked = check(["mae_p90 <= 1.5"], groups="user")
    even = run(tmp_path, asked, {"user": user, "label": truth}, regressor(truth + rng.normal(size=len(user)), truth))
    assert outcome(even, asked.require[0]) == "PASS"
    uneven = regressor(truth + noisy * rng.normal(size=len(user)), truth)
    result = run(tmp_path, asked, {"user": user, "label": truth}, uneven)
    assert outcome(result, asked.require[0]) == "FAIL"
    value = result.estimates["mae_p90"]
    assert isinstance(value, OverGroups) and value.value == pytest.approx(3 * np.sqrt(2 / np.pi), rel=0.1)


def test_users_of_few_rows_are_not_shown_and_users_without_a_positive_row_have_no_recall(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    user = np.concatenate([np.repeat(np.arange(50), 400), 50 + np.arange(30)])
    truth = np.where(user < 50, rng.integers(0, 2, len(user)), user % 2)
    table = {"user": user, "label": truth}
    perfect = classifier(confident(truth, np.ones(len(user), dtype=bool), 2), truth)
    asked = check(["accuracy_p10 >= 90 %", "recall_p10 >= 90 %"], groups="user")
    result = run(tmp_path, asked, table, perfect)
    # 30 of 80 users of one row, all right: a 80 % bound of 20 % for each of them.
    assert [outcome(result, one) for one in asked.require] == ["INCONCLUSIVE", "INCONCLUSIVE"]
    assert "15 of 80 groups of 'user' have no value of recall" in result.notes
    values = truth.astype(float)
    errors = run(
        tmp_path, check(["mae_p90 <= 1"], groups="user"), table, regressor(values + rng.normal(size=len(user)), values)
    )
    assert "30 groups of 'user' have too few rows for a bound of mae: they count as not shown" in errors.notes


def test_rows_without_a_group_are_counted(tmp_path: Path) -> None:
    table, candidate, _ = users(0.0)
    names = table["user"].astype(object)
    names[:60] = None
    result = run(tmp_path, check([], groups="user"), {**table, "user": names}, candidate)
    assert result.notes[0] == "60 rows have no value for 'user' and are in none of its groups"
    assert result.counts.dropped == 60
    found = result.estimates["accuracy_p10"]
    assert isinstance(found, OverGroups) and found.n == 119


def test_groups_that_share_clusters_are_not_independent(tmp_path: Path) -> None:
    table, candidate, _ = users(0.0)
    truth = table["label"]
    assert candidate.probabilities is not None
    asked = check(["accuracy_p10 >= 75 %"], groups="user")
    probabilities = candidate.probabilities
    row = np.arange(len(truth))
    for clusters, expected in ((row // 60, "PASS"), (row // 10, "PASS"), (row // 120, "INCONCLUSIVE")):
        tied = classifier(probabilities, truth, clusters=clusters)
        result = run(tmp_path, asked, table, tied)
        assert outcome(result, asked.require[0]) == expected
    assert "take groups that hold whole clusters" in result.notes[0]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.linspace(0, 1, 400), "names no groups"),
        ([[1]] * 400, "names no groups"),
        (pa.nulls(400), "no group of 'user' has a value"),
        (["<script>"] * 400, None),
    ],
)
def test_columns_that_are_no_groups(values: Any, words: str | None, tmp_path: Path) -> None:
    truth = np.arange(400) % 2
    candidate = classifier(confident(truth, truth >= 0, 2), truth)
    asked = check(["accuracy_p10 >= 50 %"], groups="user")
    table = {"user": values, "label": truth}
    if words == "names no groups":
        with pytest.raises(InputError, match=words):
            run(tmp_path, asked, table, candidate)
        return
    result = run(tmp_path, asked, table, candidate)
    if words is not None:
        assert words in result.missing["accuracy_p10"]
    else:
        assert outcome(result, asked.require[0]) == "INCONCLUSIVE"
    with pytest.raises(InputError, match="did you mean 'user'"):
        run(tmp_path, check([], groups="users"), table, candidate)


SITES = np.array(["north", "south", "west"])


def sites(south: float, rows: int = 6000, seed: int = 3) -> tuple[dict[str, Any], Predictions, np.ndarray]:
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 3, rows)
    truth = rng.integers(0, 2, rows)
    right = rng.random(rows) < np.array([0.92, south, 0.92])[site]
    return {"site": SITES[site], "label": truth}, classifier(confident(truth, right, 2), truth), right


def test_how_far_each_slice_lies_from_the_reference(tmp_path: Path) -> None:
    asked = check(
        ["accuracy_disparity <= 5 pp", "accuracy_disparity(site=west) <= 5 pp", "slices_too_small == 0"],
        by=["site"], reference="site=north",
    )  # fmt: skip
    for south, expected in ((0.92, ["PASS", "PASS"]), (0.8, ["FAIL", "PASS"]), (1.0, ["FAIL", "PASS"])):
        table, candidate, right = sites(south)
        result = run(tmp_path, asked, table, candidate)
        assert [outcome(result, one) for one in asked.require[:2]] == expected
        found = parts(result, "accuracy_disparity")
        assert set(found) == {"site=south", "site=west"}
        share = {name: right[table["site"] == name].mean() for name in SITES}
        assert found["site=south"].value == pytest.approx(abs(share["south"] - share["north"]))
    chart = next(one for one in result.blocks if isinstance(one, Intervals) and one.title.endswith("site=north"))
    assert [line.label for line in chart.rows] == ["site=west", "site=south"]
    assert chart.rows[-1].value == pytest.approx(100 * (share["south"] - share["north"]))
    assert {one.label for one in chart.references} == {"site=north", "-5", "+5"}


def test_compared_are_slices_of_the_same_entry_or_named_ones(tmp_path: Path) -> None:
    table, candidate, _ = sites(0.9)
    rows = len(table["label"])
    dark, wet = np.arange(rows) % 3 == 0, np.arange(rows) % 5 == 0
    asked = check(["accuracy_disparity <= 9 pp", "slices_too_small == 0"], by=["dark", "site", "wet"], reference="wet")
    assert list(parts(run(tmp_path, asked, table, candidate, dark=dark, wet=wet), "accuracy_disparity")) == ["dark"]
    by_site = check([one.sentence for one in asked.require], by=["dark", "site"], reference="site=west")
    found = parts(run(tmp_path, by_site, table, candidate, dark=dark), "accuracy_disparity")
    assert list(found) == ["site=north", "site=south"]
    by = [{"cross": ["site", "dark"]}, "site"]
    crossed = check([one.sentence for one in asked.require], by=by, reference="site=west & dark")
    found = parts(run(tmp_path, crossed, table, candidate, dark=dark), "accuracy_disparity")
    assert list(found) == ["site=north & dark", "site=south & dark"]


def test_a_reference_that_is_too_small_alone_or_not_there(tmp_path: Path) -> None:
    table, candidate, _ = sites(0.9)
    sentences = ["accuracy_disparity <= 9 pp", "slices_too_small <= 9"]
    few = check(sentences, by=["site"], reference="site=north", min_n=2100)
    missing = run(tmp_path, few, table, candidate).missing["accuracy_disparity"]
    assert missing.startswith("the reference 'site=north' has ") and missing.endswith("fewer than 2100")
    alone = check(sentences, by=["one"], reference="one")
    everything = np.ones(len(table["label"]), dtype=bool)
    result = run(tmp_path, alone, table, candidate, one=everything)
    assert result.missing["accuracy_disparity"] == "no other slice counts beside the reference 'one'"
    with pytest.raises(InputError, match="not a slice of `by:`") as caught:
        run(tmp_path, check(sentences, by=["site"], reference="site=nort"), table, candidate)
    assert caught.value.problem.remedy == "did you mean 'site=north'?"
    none = ~everything
    empty = check(["accuracy_disparity <= 9 pp"], by=["one", "none"], reference="one")
    result = run(tmp_path, empty, table, candidate, one=everything, none=none)
    assert outcome(result, empty.require[0]) == "INCONCLUSIVE"
    assert "has no rows" in result.missing["accuracy_disparity(none)"]


def test_group_metrics_are_those_of_fairlearn(tmp_path: Path) -> None:
    table, candidate, _ = sites(0.85)
    truth, site = table["label"], table["site"]
    assert candidate.predicted is not None
    scores = {"accuracy": accuracy_score, "recall": recall_score, "precision": precision_score}
    frame = MetricFrame(metrics=scores, y_true=truth, y_pred=candidate.predicted, sensitive_features=site)
    asked = check([], by=["site"], reference="site=north", metrics=list(scores))
    result = run(tmp_path, asked, table, candidate)
    for metric in scores:
        found = parts(result, metric)
        assert {name: one.value for name, one in found.items()} == pytest.approx(
            {f"site={name}": frame.by_group[metric][name] for name in SITES}
        )
        worst, gap = result.estimates[f"worst_{metric}"], result.estimates[f"{metric}_gap"]
        assert not isinstance(worst, Parts | Measured) and not isinstance(gap, Parts | Measured)
        assert worst.value == pytest.approx(frame.group_min()[metric])
        assert gap.value == pytest.approx(frame.difference(method="between_groups")[metric])
        away = {name: abs(frame.by_group[metric][name] - frame.by_group[metric]["north"]) for name in SITES[1:]}
        assert {name: one.value for name, one in parts(result, f"{metric}_disparity").items()} == pytest.approx(
            {f"site={name}": value for name, value in away.items()}
        )


def test_group_errors_are_those_of_fairlearn(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    site, truth = rng.integers(0, 3, 3000), rng.normal(size=3000)
    values = truth + rng.normal(size=3000) * (1 + site)
    frame = MetricFrame(metrics=mean_absolute_error, y_true=truth, y_pred=values, sensitive_features=site)
    asked = check([], by=["site"], reference="site=0")
    result = run(tmp_path, asked, {"site": site, "label": truth}, regressor(values, truth))
    found = parts(result, "mae_disparity")
    assert found["site=2"].value == pytest.approx(frame.by_group[2] - frame.by_group[0])
    worst = result.estimates["worst_mae"]
    assert not isinstance(worst, Parts | Measured) and worst.value == pytest.approx(frame.group_max())


def test_what_is_asked_needs_its_field() -> None:
    rows = {"test": 1000}
    cases = [
        ("accuracy_p10 >= 80 %", {"by": ["dark"]}, "accuracy_p10 needs `groups:`"),
        ("accuracy_disparity <= 5 pp", {"by": ["dark"]}, "accuracy_disparity needs `reference:`"),
        ("weak_slices <= 0", {"by": ["dark"]}, "weak_slices needs `discover:`"),
        ("worst_accuracy >= 80 %", {"groups": "user"}, "worst_accuracy needs `by:`"),
        ("accuracy_gap <= baseline + 1 pp", {"by": ["dark"]}, "accuracy_gap is not compared between models"),
        ("weak_slices <= baseline", {"discover": {"columns": ["a"]}}, "weak_slices is not compared between models"),
    ]
    for sentence, fields, words in cases:
        asked = check([sentence], **fields)
        why = asked.check_requirement(asked.require[0], rows)
        assert why is not None and why.startswith(words)
    fine = check(["accuracy_p10 >= 80 %", "worst_accuracy >= 80 %"], by=["dark"], groups="user")
    assert [fine.check_requirement(one, rows) for one in fine.require] == [None, None]


def test_a_count_of_weak_slices_is_no_exact_fact() -> None:
    with pytest.raises(SpecError, match="'==' is for exact counts") as caught:
        parse_requirement("weak_slices == 0", Slices.metrics)
    assert caught.value.problems[0].remedy == "write weak_slices <= 0"
    assert the(check(["weak_slices <= 0"], discover={"columns": ["a"]}), "weak_slices <= 0").threshold == 0


def test_names_known_from_the_spec() -> None:
    names = SpecNames(models=("candidate",), datasets=("test",), slices=("dark", "light"))
    asked = check(["accuracy_disparity <= 5 pp"], by=["dark", "light"], reference="light")
    metric = asked.metric("accuracy_disparity")
    assert metric is not None and asked.part_names(metric, names) == ("dark",)
    assert asked.check_names(names) is None
    wrong = check(["accuracy_disparity <= 5 pp"], by=["dark", "light"], reference="lights")
    sentence = wrong.check_names(names)
    assert sentence is not None and "did you mean 'light'" in sentence
    many = check([], by=["dark", "site"], groups="user", discover={"columns": ["lux", "site", "class"]})
    assert many.columns_read(names) == {"test": ("site", "user", "lux")}
    assert check(["weak_slices <= 0"], by=["site"], discover={"columns": ["lux"]}).check_names(names) is None


def test_there_must_be_slices_of_some_kind() -> None:
    with pytest.raises(ValueError, match="there are no slices"):
        check([])
    with pytest.raises(ValueError, match="`reference:` is one of the slices"):
        check([], groups="user", reference="dark")

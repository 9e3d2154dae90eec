"""`slices`: a good average hides nothing, small cells are named, columns that are not groups are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.model.slices.spec import Slices
from evalspec.errors import InputError
from evalspec.evidence.blocks import Intervals, Table, Text
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, NeedPredictions, NeedRows, SpecNames
from tests.checks.deciding import outcome, the
from tests.checks.planting import confident
from tests.fakes import FakeInputs, classifier, regressor

BOUND = "slices_too_small <= 100"


def check(by: list[Any], *require: str, **fields: Any) -> Slices:
    fields.setdefault("report_only", not require)
    return Slices.model_validate({"check": "slices", "dataset": "test", "by": by, "require": list(require), **fields})


def run(
    folder: Path,
    asked: Slices,
    table: dict[str, Any],
    candidate: Predictions,
    *others: Predictions,
    **slices: Any,
) -> CheckResult:
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table(table)},
        labels={"test": "label"},
        answers={("test", one.model): one for one in (candidate, *others)},
        slices={(name, "test"): mask for name, mask in slices.items()},
    )
    return asked.run(inputs)


def values(result: CheckResult, metric: str) -> dict[str, float | None]:
    found = result.estimates[metric]
    assert isinstance(found, Parts)
    return {name: part.value for name, part in found.parts.items()}


def fact(result: CheckResult, metric: str = "slices_too_small") -> float:
    found = result.estimates[metric]
    assert isinstance(found, Fact)
    return found.value


def answers(right: np.ndarray, truth: np.ndarray, model: str = "candidate", classes: int = 2) -> Predictions:
    return classifier(confident(truth, right, classes), truth, model=model)


def test_worked_number_95_percent_overall_and_60_percent_of_a_subgroup(tmp_path: Path) -> None:
    """A share of 5 % at 60 % leaves the rest at 96.84 %; at 95 % overall the share can be at most 12.5 %."""
    rows = 10_000
    group = np.arange(rows) < 500
    right = np.concatenate([np.arange(500) < 300, np.arange(9500) < 9200])
    truth = np.arange(rows) % 2
    asked = check(["group", "rest"], "worst_accuracy >= 85 %", "accuracy(rest) >= 95 %", "accuracy_gap <= 10 pp")
    result = run(tmp_path, asked, {"label": truth}, answers(right, truth), group=group, rest=~group)
    assert right.mean() == 0.95
    assert values(result, "accuracy") == {"group": 0.6, "rest": pytest.approx(0.9684, abs=5e-5)}
    assert outcome(result, the(asked, "worst_accuracy >= 85 %")) == "FAIL"
    assert outcome(result, the(asked, "accuracy(rest) >= 95 %")) == "PASS"
    assert outcome(result, the(asked, "accuracy_gap <= 10 pp")) == "FAIL"
    table = next(block for block in result.blocks if isinstance(block, Table))
    assert table.rows[0][:4] == ("group", 500, 0.05, 0.6)
    assert table.rows[0][-1] == 0.95


def test_worked_number_the_largest_share_that_95_percent_overall_can_hide(tmp_path: Path) -> None:
    """12.5 % of the rows at 60 %, all others right: 95 % overall; with a larger share it would be less."""
    rows = 10_000
    group = np.arange(rows) < 1250
    right = np.where(group, np.arange(rows) < 750, True)
    truth = np.arange(rows) % 2
    result = run(tmp_path, check(["group", "rest"]), {"label": truth}, answers(right, truth), group=group, rest=~group)
    assert values(result, "accuracy") == {"group": 0.6, "rest": 1.0}
    table = next(block for block in result.blocks if isinstance(block, Table))
    assert table.rows[0][2] == 0.125
    assert table.rows[0][-1] == 0.95


def test_an_even_model_passes_where_the_planted_one_fails(tmp_path: Path) -> None:
    rows = 4000
    group = np.arange(rows) % 8 == 0
    truth = (np.arange(rows) // 8) % 2
    asked = check(["group", "rest"], "worst_accuracy >= 90 %", "accuracy_gap <= 6 pp")
    even = np.random.default_rng(4).random(rows) < 0.96
    result = run(tmp_path, asked, {"label": truth}, answers(even, truth), group=group, rest=~group)
    assert [outcome(result, requirement) for requirement in asked.require] == ["PASS", "PASS"]
    uneven = np.where(group, np.random.default_rng(4).random(rows) < 0.7, even)
    result = run(tmp_path, asked, {"label": truth}, answers(uneven, truth), group=group, rest=~group)
    assert [outcome(result, requirement) for requirement in asked.require] == ["FAIL", "FAIL"]


def test_columns_and_crosses_are_enumerated_and_small_cells_are_named(tmp_path: Path) -> None:
    rows = 900
    site = np.array(["lab"] * 500 + ["field"] * 380 + ["boat"] * 20)
    dark = np.arange(rows) % 2 == 0
    truth = np.arange(rows) % 3
    asked = check(["site", {"cross": ["class", "dark"]}], "accuracy >= 10 %", BOUND, min_n=100)
    result = run(tmp_path, asked, {"site": site, "label": truth}, answers(dark | True, truth, classes=3), dark=dark)
    assert list(values(result, "accuracy")) == [
        "site=field", "site=lab", "label=0 & dark", "label=1 & dark", "label=2 & dark",
    ]  # fmt: skip
    assert fact(result) == 1
    assert tuple(result.notes) == ("1 of 6 cells have fewer than 100 rows and do not count",)
    small = next(block for block in result.blocks if isinstance(block, Text))
    assert small.text == "site=boat (20)"
    assert result.counts.used == 890


def test_a_combination_without_rows_is_a_hole_that_is_counted(tmp_path: Path) -> None:
    site = np.repeat(["a", "b"], 200)
    kind = np.where(np.arange(400) < 300, "x", "y")
    truth = np.arange(400) % 2
    asked = check([{"cross": ["site", "kind"]}], "worst_accuracy >= 10 %", "slices_too_small == 0", min_n=50)
    result = run(tmp_path, asked, {"site": site, "kind": kind, "label": truth}, answers(truth >= 0, truth))
    assert list(values(result, "accuracy")) == ["site=a & kind=x", "site=b & kind=x", "site=b & kind=y"]
    assert outcome(result, the(asked, "slices_too_small == 0")) == "FAIL"
    assert next(block for block in result.blocks if isinstance(block, Text)).text == "site=a & kind=y (0)"


def test_a_named_slice_always_counts_even_without_a_row(tmp_path: Path) -> None:
    rows = 400
    truth = np.arange(rows) % 2
    few, none = np.arange(rows) < 7, np.zeros(rows, dtype=bool)
    asked = check(["few", "none"], "worst_accuracy >= 50 %", "accuracy(few) >= 10 %", "accuracy(none) >= 10 %")
    result = run(tmp_path, asked, {"label": truth}, answers(truth >= 0, truth), few=few, none=none)
    assert values(result, "accuracy") == {"few": 1.0, "none": None}
    assert result.missing["accuracy(none)"] == "slice 'none': slice 'none' has no rows in dataset 'test'"
    assert outcome(result, the(asked, "accuracy(few) >= 10 %")) == "PASS"
    assert outcome(result, the(asked, "worst_accuracy >= 50 %")) == "INCONCLUSIVE"
    assert fact(result) == 0


def test_rows_whose_column_is_missing_belong_nowhere_and_are_counted(tmp_path: Path) -> None:
    site = ["lab"] * 200 + [None] * 50 + ["field"] * 150
    truth = np.arange(400) % 2
    dark = np.arange(400) < 120
    asked = check(["site", "dark"], "worst_accuracy >= 10 %", BOUND)
    result = run(tmp_path, asked, {"site": site, "label": truth}, answers(truth >= 0, truth), dark=(dark, 30))
    found = result.estimates["accuracy"]
    assert isinstance(found, Parts)
    assert {name: part.n for name, part in found.parts.items()} == {"site=field": 150, "site=lab": 200, "dark": 120}
    assert tuple(result.notes) == (
        "50 rows have no value for 'site' and are in none of its slices",
        "30 rows have no value for 'dark' and are in none of its slices",
    )


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (np.linspace(0, 1, 400), "holds numbers"),
        (np.arange(400), "has 400 distinct values, more than 50"),
        ([[1, 2]] * 400, "has no values to cut by"),
    ],
)
def test_a_column_that_is_no_group_is_refused_with_the_remedy(column: Any, words: str, tmp_path: Path) -> None:
    truth = np.arange(400) % 2
    asked = check(["lux"], "worst_accuracy >= 10 %", BOUND)
    with pytest.raises(InputError, match=words) as caught:
        run(tmp_path, asked, {"lux": column, "label": truth}, answers(truth >= 0, truth))
    assert caught.value.problem.remedy


def test_an_unknown_name_gives_the_choices(tmp_path: Path) -> None:
    truth = np.arange(400) % 2
    asked = check(["sitee"], "worst_accuracy >= 10 %", BOUND)
    with pytest.raises(InputError, match="neither a slice of this spec nor a column") as caught:
        run(tmp_path, asked, {"site": truth, "label": truth}, answers(truth >= 0, truth), dark=truth == 0)
    assert caught.value.problem.choices == ("dark", "site", "label")
    assert caught.value.problem.remedy == "did you mean 'site'?"


def test_too_many_combinations_are_refused(tmp_path: Path) -> None:
    truth = np.arange(2000) % 2
    table = {name: (np.arange(2000) * step) % 30 for name, step in (("a", 1), ("b", 7))}
    asked = check([{"cross": ["a", "b"]}], "worst_accuracy >= 10 %", BOUND)
    with pytest.raises(InputError, match="gives 900 slices, more than 500"):
        run(tmp_path, asked, {**table, "label": truth}, answers(truth >= 0, truth))


def test_enumerating_needs_a_bound_on_what_is_too_small(tmp_path: Path) -> None:
    names = SpecNames(models=("candidate",), datasets=("test",), slices=("dark",))
    assert check(["dark"], "worst_accuracy >= 80 %").check_names(names) is None
    assert check(["dark", "site"]).check_names(names) is None
    sentence = check(["dark", "site"], "worst_accuracy >= 80 %").check_names(names)
    assert sentence == (
        "check 'slices' takes slices from site and skips those with fewer than 100 rows; bound them: add "
        "`slices_too_small == 0` to its requirements"
    )
    assert check(["site"], "worst_accuracy >= 80 %", BOUND).check_names(names) is None
    # What blocks must be bounded by what blocks.
    assert check(["site"], "worst_accuracy >= 80 %", warn=[BOUND]).check_names(names) is not None
    assert check(["site"], warn=["worst_accuracy >= 80 %", BOUND]).check_names(names) is None
    truth = np.arange(400) % 2
    with pytest.raises(InputError, match="bound them"):
        run(
            tmp_path,
            check(["site"], "worst_accuracy >= 80 %"),
            {"site": truth, "label": truth},
            answers(truth >= 0, truth),
        )


def test_parts_and_columns_are_known_from_the_spec_where_slices_are_named() -> None:
    names = SpecNames(models=("candidate",), datasets=("test",), slices=("dark", "occluded"))
    named = check(["dark", {"cross": ["dark", "occluded"]}], "worst_accuracy >= 80 %")
    metric = named.metric("accuracy")
    worst = named.metric("worst_accuracy")
    assert metric is not None and worst is not None
    assert named.part_names(metric, names) == ("dark", "dark & occluded")
    assert named.part_names(worst, names) is None
    assert named.columns_read(names) == {"test": ()}
    mixed = check(["dark", "site", {"cross": ["class", "site", "occluded"]}], "worst_accuracy >= 80 %")
    assert mixed.part_names(metric, names) is None
    assert mixed.columns_read(names) == {"test": ("site",)}
    assert mixed.needs() == (NeedPredictions("test", "candidate"), NeedRows("test", label=True))


def test_a_name_that_stands_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="'site' is listed twice"):
        check(["site", "dark", "site"])
    with pytest.raises(ValueError, match="'dark & site' is listed twice"):
        check([{"cross": ["site", "dark"]}, {"cross": ["dark", "site"]}])
    with pytest.raises(ValueError, match="'site & site' crosses something with itself"):
        check([{"cross": ["site", "site"]}])
    with pytest.raises(ValueError, match="cross"):
        check([{"cross": ["site"]}])


@pytest.mark.parametrize("empty", [pa.nulls(400), pa.array([None] * 400, pa.string())], ids=["null", "text"])
def test_a_column_that_is_missing_everywhere_is_a_slice_that_is_too_small(empty: pa.Array, tmp_path: Path) -> None:
    truth = np.arange(400) % 2
    asked = check(["dark", "site", {"cross": ["site", "class"]}], "worst_accuracy >= 50 %", "slices_too_small == 0")
    result = run(tmp_path, asked, {"site": empty, "label": truth}, answers(truth >= 0, truth), dark=truth == 0)
    assert outcome(result, asked.require[0]) == "PASS"
    assert outcome(result, asked.require[1]) == "FAIL"
    small = next(block for block in result.blocks if isinstance(block, Text)).text
    assert small == "site (no row has a value for 'site') (0), site & class (no row has a value for 'site') (0)"


def test_two_slices_of_one_name_are_refused_unless_they_are_the_same(tmp_path: Path) -> None:
    truth = np.arange(400) % 2
    table = {"a": ["1 & b=0"] * 200 + ["1"] * 200, "b": np.arange(400) % 2, "label": truth}
    asked = check(["a", {"cross": ["a", "b"]}], "worst_accuracy >= 10 %", BOUND)
    with pytest.raises(InputError, match="two slices are called 'a=1 & b=0', one of 'a' and one of 'a & b'"):
        run(tmp_path, asked, table, answers(truth >= 0, truth))
    same = check(["label", "class"], "worst_accuracy >= 10 %", BOUND)
    assert list(values(run(tmp_path, same, table, answers(truth >= 0, truth)), "accuracy")) == ["label=0", "label=1"]


def test_values_of_any_text_are_slices(tmp_path: Path) -> None:
    truth = np.arange(400) % 2
    words = ["<script>alert(1)</script>", "a (b)", "", "x\ny"] * 100
    asked = check(["word"], "worst_accuracy >= 50 %", "accuracy(word=a (b)) >= 50 %", BOUND)
    for column in (pa.array(words), pa.array(words).cast(pa.string_view()), pa.array(words).dictionary_encode()):
        result = run(tmp_path, asked, {"word": column, "label": truth}, answers(truth >= 0, truth))
        assert [outcome(result, one) for one in asked.require[:2]] == ["PASS", "PASS"]
        assert set(values(result, "accuracy")) == {f"word={word}" for word in words}


def test_a_gap_has_its_limit(tmp_path: Path) -> None:
    rows = 20_000
    table = {"a": np.arange(rows) % 11, "b": np.arange(rows) // 11 % 10, "label": np.arange(rows) % 2}
    asked = check([{"cross": ["a", "b"]}], "accuracy_gap <= 20 pp", "worst_accuracy >= 50 %", BOUND)
    result = run(tmp_path, asked, table, answers(np.arange(rows) % 9 > 0, table["label"]))
    assert result.missing["accuracy_gap"] == "a gap between 110 slices has 5,995 pairs; require worst_accuracy"
    assert [outcome(result, one) for one in asked.require[:2]] == ["MISSING", "PASS"]


@pytest.mark.parametrize("right", [True, False], ids=["all right", "all wrong"])
def test_one_class_only(right: bool, tmp_path: Path) -> None:
    truth = np.zeros(600, dtype=int)
    site = np.arange(600) % 2
    sentences = ["worst_accuracy >= 90 %", "accuracy_gap <= 10 pp", "worst_roc_auc >= 60 %", "worst_recall >= 50 %"]
    asked = check(["site"], *sentences, BOUND)
    result = run(tmp_path, asked, {"site": site, "label": truth}, answers(np.full(600, right), truth))
    found = [outcome(result, one) for one in asked.require[:4]]
    assert found == ["PASS" if right else "FAIL", "PASS", "MISSING", "MISSING"]


def test_where_no_slice_counts_nothing_passes(tmp_path: Path) -> None:
    truth = np.arange(60) % 2
    asked = check(
        ["site"], "worst_accuracy >= 10 %", "accuracy_gap <= 50 pp", "accuracy >= 10 %", "slices_too_small == 0"
    )
    result = run(tmp_path, asked, {"site": truth, "label": truth}, answers(truth >= 0, truth))
    assert result.missing["worst_accuracy"] == "no slice has 100 rows; the largest of 2 has 30"
    assert [outcome(result, one) for one in asked.require] == ["MISSING", "MISSING", "MISSING", "FAIL"]
    only = check(["site"], "accuracy_gap <= 50 pp", BOUND, min_n=30)
    one_site = run(tmp_path, only, {"site": np.zeros(60, int), "label": truth}, answers(truth >= 0, truth))
    assert one_site.missing["accuracy_gap"] == "a gap needs two slices, and only 'site=0' counts"


def test_every_pair_stands_behind_a_gap_and_every_slice_behind_the_worst(tmp_path: Path) -> None:
    rows = 3000
    site = np.array(["a", "b", "c"])[np.arange(rows) % 3]
    truth = (np.arange(rows) // 3) % 2
    right = np.random.default_rng(2).random(rows) < np.select([site == "a", site == "b"], [0.95, 0.9], 0.85)
    asked = check(["site"], "worst_accuracy >= 80 %", "accuracy_gap <= 15 pp", BOUND)
    result = run(tmp_path, asked, {"site": site, "label": truth}, answers(right, truth))
    worst, gap = result.estimates["worst_accuracy"], result.estimates["accuracy_gap"]
    assert isinstance(worst, Estimate) and isinstance(gap, Estimate) and worst.parts and gap.parts
    assert set(worst.parts) == {"site=a", "site=b", "site=c"}
    assert len(gap.parts) == 3
    shares = values(result, "accuracy")
    assert not isinstance(worst, Parts | Measured) and not isinstance(gap, Parts | Measured)
    assert worst.value == min(filter(None, shares.values())) == shares["site=c"]  # type: ignore[union-attr]
    assert gap.value == pytest.approx((shares["site=a"] or 0) - (shares["site=c"] or 0))  # type: ignore[union-attr]


def test_the_worst_error_is_the_largest(tmp_path: Path) -> None:
    rows = 2000
    rng = np.random.default_rng(3)
    night = np.arange(rows) % 4 == 0
    truth = rng.normal(20.0, 5.0, rows)
    values_ = truth + rng.normal(0.0, np.where(night, 6.0, 1.0))
    asked = check(["night", "day"], "worst_mae <= 3", "mae(day) <= 1", "mae_gap <= 2")
    result = run(tmp_path, asked, {"label": truth}, regressor(values_, truth), night=night, day=~night)
    assert [outcome(result, one) for one in asked.require] == ["FAIL", "PASS", "FAIL"]
    forest = next(block for block in result.blocks if isinstance(block, Intervals))
    assert [row.label for row in forest.rows] == ["night", "day"]
    assert [reference.label for reference in forest.references] == ["overall", "worst_mae <= 3", "mae(day) <= 1"]


def test_recall_of_the_positive_class_by_slice(tmp_path: Path) -> None:
    """Overall recall is 90 %; on the small site it is 50 %."""
    rows = 6000
    north = np.arange(rows) % 10 == 0
    truth = (np.arange(rows) // 10) % 2
    right = np.where((truth == 1) & north, (np.arange(rows) // 20) % 2 == 0, True)
    asked = check(["north", "south"], "worst_recall >= 80 %", "recall(south) >= 95 %")
    result = run(tmp_path, asked, {"label": truth}, answers(right, truth), north=north, south=~north)
    assert values(result, "recall") == {"north": 0.5, "south": 1.0}
    assert [outcome(result, one) for one in asked.require] == ["FAIL", "PASS"]
    three = truth + (np.arange(rows) % 7 == 0)
    nothing = run(tmp_path, asked, {"label": three}, answers(right, three, classes=3), north=north, south=~north)
    assert "name it: `positive:`" in nothing.missing["worst_recall"]


def test_another_model_is_compared_slice_by_slice(tmp_path: Path) -> None:
    """Overall the candidate gains; in the dark it loses."""
    rows = 6000
    dark = np.arange(rows) % 10 == 0
    truth = (np.arange(rows) // 10) % 2
    draw = np.random.default_rng(6).random(rows)
    before = draw < 0.9
    after = np.where(dark, draw < 0.8, draw < 0.93)
    sentences = [f"{metric} >= baseline - 2 pp" for metric in ("accuracy", "accuracy(light)", "worst_accuracy")]
    asked = check(["dark", "light"], *sentences)
    base = answers(before, truth, "baseline")
    result = run(tmp_path, asked, {"label": truth}, answers(after, truth), base, dark=dark, light=~dark)
    assert after.mean() > before.mean()
    assert [outcome(result, one) for one in asked.require] == ["FAIL", "PASS", "FAIL"]
    same = run(tmp_path, asked, {"label": truth}, answers(before, truth), base, dark=dark, light=~dark)
    assert [outcome(same, one) for one in asked.require] == ["PASS", "PASS", "PASS"]


def test_a_gap_is_not_compared_and_a_slice_without_rows_is_no_pass(tmp_path: Path) -> None:
    truth = np.arange(800) % 2
    asked = check(["some", "none"], "accuracy_gap <= baseline + 1 pp", "accuracy >= baseline - 5 pp")
    candidate, base = answers(truth >= 0, truth), answers(truth >= 0, truth, "baseline")
    masks = {"some": truth == 0, "none": truth > 5}
    result = run(tmp_path, asked, {"label": truth}, candidate, base, **masks)
    assert "is not compared between models" in result.missing["accuracy_gap vs baseline"]
    assert outcome(result, asked.require[1]) == "INCONCLUSIVE"


def test_slices_of_clustered_rows_are_wider(tmp_path: Path) -> None:
    rows = 2000
    truth = (np.arange(rows) // 10) % 2
    right = np.repeat(np.random.default_rng(1).random(200) < 0.9, 10)
    asked = check(["all"], "worst_accuracy >= 88 %")
    everything = np.ones(rows, dtype=bool)
    free = answers(right, truth)
    tied = classifier(confident(truth, right, 2), truth, clusters=np.repeat(np.arange(200), 10))
    assert outcome(run(tmp_path, asked, {"label": truth}, free, all=everything), asked.require[0]) == "PASS"
    assert outcome(run(tmp_path, asked, {"label": truth}, tied, all=everything), asked.require[0]) == "INCONCLUSIVE"

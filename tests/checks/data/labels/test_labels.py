"""`labels`: audited rates, where wrong labels lie, what a classifier doubts, and what they leave of an accuracy."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.checks.data.labels import confident_learning
from evalspec.checks.data.labels import spec as labels
from evalspec.checks.data.labels.sample import p_unlike
from evalspec.checks.data.labels.spec import Labels
from evalspec.errors import InputError
from evalspec.evidence.blocks import Examples, Intervals, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.remedies import CorrectLabels
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, SpecNames
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs, classifier

ROWS = 1200
NAMES = SpecNames(models=("candidate",), datasets=("test", "other"), slices=("snow",))


def check(**fields: object) -> Labels:
    plain: dict[str, object] = {"check": "labels", "dataset": "test", "audited": "looked"}
    return Labels.model_validate({key: value for key, value in (plain | fields).items() if value is not None})


class World:
    """Wolves and dogs that differ in size; one row in five is in snow; all rows were looked at unless said."""

    def __init__(
        self, anywhere: float = 0.03, wolves_in_snow: float = 0.0, looked: float = 1.0, rows: int = ROWS
    ) -> None:
        rng = np.random.default_rng(11)
        self.rng, self.rows = rng, rows
        self.wolf, self.snow = np.arange(rows) % 2 == 0, np.arange(rows) % 5 == 0
        swapped = rng.random(rows) < anywhere
        swapped |= self.wolf & self.snow & (rng.random(rows) < wolves_in_snow)
        self.wrong, self.given = swapped, self.wolf != swapped
        self.looked = rng.random(rows) < looked
        self.size = rng.normal(np.where(self.wolf, 2.5, -2.5), 1.0)
        self.answers: dict[tuple[str, str], Predictions] = {}
        self.clusters: np.ndarray | None = None

    def words(self, wolf: np.ndarray) -> np.ndarray:
        return np.where(wolf, "wolf", "dog")

    @property
    def table(self) -> pa.Table:
        return pa.table(
            {
                "id": [f"photo {row}" for row in range(self.rows)], "size": self.size, "snow": self.snow,
                "label": self.words(self.given), "looked": pa.array(self.words(self.wolf), mask=~self.looked),
            }
        )  # fmt: skip

    def says(self, wolf: np.ndarray, sure: float, dataset: str = "test", truth: np.ndarray | None = None) -> None:
        """A model says wolf or dog, this sure of it."""
        share = np.where(wolf, sure, 1 - sure)
        probabilities = np.stack([1 - share, share], axis=1)
        true = (self.given if truth is None else truth).astype(np.int64)
        self.answers[dataset, "candidate"] = classifier(probabilities, true, classes=("dog", "wolf"), dataset=dataset)

    def run(self, folder: Path, asked: Labels, table: pa.Table | None = None) -> CheckResult:
        inputs = FakeInputs(
            folder, tables={"test": self.table if table is None else table}, labels={"test": "label"},
            slices={("snow", "test"): self.snow}, answers=self.answers,
            cluster_of={} if self.clusters is None else {"test": self.clusters},
        )  # fmt: skip
        return asked.run(inputs)


def reviewed(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def whole(result: CheckResult, metric: str) -> Estimate:
    found = result.estimates[metric]
    bare = found.estimate if isinstance(found, Measured) else found
    assert isinstance(bare, Parts) and bare.whole is not None and not isinstance(bare.whole, Fact)
    return bare.whole


def test_the_rate_is_that_of_the_audited_rows(tmp_path: Path) -> None:
    world = World(looked=0.5)
    result = world.run(
        tmp_path, check(by=["snow"], require=["label_error_rate <= 6 %", "label_error_rate(snow) <= 9 %"])
    )
    found = whole(result, "label_error_rate")
    assert (found.n, found.value) == (int(world.looked.sum()), world.wrong[world.looked].mean())
    assert (result.counts.used, result.counts.attempted) == (found.n, ROWS)
    assert [outcome(result, one) for one in check(require=["label_error_rate <= 6 %"]).requirements] == ["PASS"]
    parts = result.estimates["label_error_rate"]
    assert isinstance(parts, Measured) and isinstance(parts.estimate, Parts)
    assert parts.estimate.parts["snow"].n == int((world.looked & world.snow).sum())


SNOWY = check(
    by=[{"cross": ["class", "snow"]}], min_n=10,
    require=["label_error_rate <= 10 %", "label_error_concentration <= 6x", "slices_too_small == 0"],
)  # fmt: skip


@pytest.mark.parametrize(("in_snow", "decided"), [(0.0, "PASS"), (0.4, "FAIL")])
def test_wolves_in_snow_are_labelled_dogs(in_snow: float, decided: str, tmp_path: Path) -> None:
    """F9: the rate of all rows is within its limit both times; crossed with the label the condition shows them."""
    result = World(wolves_in_snow=in_snow, rows=3000).run(tmp_path, SNOWY)
    assert [outcome(result, one) for one in SNOWY.requirements] == ["PASS", decided, "PASS"]
    concentration = result.estimates["label_error_concentration"]
    assert isinstance(concentration, Parts)
    if decided == "FAIL":
        assert max(concentration.parts, key=lambda name: getattr(concentration.parts[name], "value", 0.0)) == (
            "label=dog & snow"
        )


def test_rows_of_one_cluster_are_looked_at_together(tmp_path: Path) -> None:
    world = World()
    world.clusters = np.arange(ROWS) // 6
    for name in ("wolf", "snow", "wrong", "given"):
        setattr(world, name, np.repeat(getattr(world, name)[::6], 6))
    clustered = whole(world.run(tmp_path, check(by=["snow"])), "label_error_rate")
    world.clusters = None
    plain = whole(world.run(tmp_path, check(by=["snow"])), "label_error_rate")
    assert (clustered.bound(0.95, "upper") or 0.0) > (plain.bound(0.95, "upper") or 0.0)


def test_an_audit_of_one_class_is_no_random_sample(tmp_path: Path) -> None:
    world = World()
    world.looked = world.looked & (world.given | (np.arange(ROWS) % 7 == 0))
    asked = check(require=["label_error_rate <= 10 %"])
    result = world.run(tmp_path, asked)
    found = result.estimates["label_error_rate"]
    assert isinstance(found, Measured) and found.withhold is not None
    assert "not a random sample" in found.withhold
    assert outcome(result, asked.requirements[0]) == "INCONCLUSIVE"


def test_concentration_needs_a_random_sample_too(tmp_path: Path) -> None:
    world = World()
    world.looked = world.looked & (world.given | (np.arange(ROWS) % 7 == 0))
    asked = check(by=["snow"], require=["label_error_concentration <= 3x"])
    found = world.run(tmp_path, asked).estimates["label_error_concentration"]
    assert isinstance(found, Measured) and "not a random sample" in (found.withhold or "")


def test_an_audit_of_one_slice_is_no_random_sample(tmp_path: Path) -> None:
    world = World(anywhere=0.0)
    world.looked = world.snow
    asked = check(by=["snow"], require=["label_error_rate <= 2 %"])
    result = world.run(tmp_path, asked)
    found = result.estimates["label_error_rate"]
    assert isinstance(found, Measured) and "the slice snow is among them" in (found.withhold or "")
    assert outcome(result, asked.requirements[0]) == "INCONCLUSIVE"


@pytest.mark.parametrize("whole_clusters", [True, False])
def test_clusters_are_no_reason_to_mistrust_an_audit_nor_to_trust_one(whole_clusters: bool) -> None:
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(120), 10)
    p = []
    for _ in range(200):
        # Half of the rows of a cluster share its class.
        codes = np.where(rng.random(1200) < 0.5, rng.integers(0, 3, 120)[clusters], rng.integers(0, 3, 1200))
        looked = rng.random(120)[clusters] < 0.3 if whole_clusters else rng.random(1200) < 0.3
        p.append(p_unlike(codes, looked, clusters))
    assert np.mean([one is not None and one < 0.05 for one in p]) < 0.1
    assert np.mean([one is not None and one < 0.5 for one in p]) > 0.3 * whole_clusters
    codes = rng.integers(0, 3, 1200)
    odd = p_unlike(codes, codes == 0, clusters)
    assert odd is not None and odd < 1e-6


def test_slices_that_nobody_looked_at_are_counted(tmp_path: Path) -> None:
    world = World()
    world.looked = world.looked & ~world.snow
    asked = check(by=["snow", {"cross": ["class", "snow"]}, "place"], min_n=50, require=["slices_too_small == 0"])
    table = world.table.append_column("place", pa.array(np.where(np.arange(ROWS) < 20, "here", "there")))
    result = world.run(tmp_path, asked, table)
    found = result.estimates["slices_too_small"]
    # Named slices count even when empty; of the cross with the label both cells are empty, of places one is small.
    assert isinstance(found, Fact) and found.value == 3
    assert any(block.title == "Slices too small to count" for block in result.blocks)
    rate = result.estimates["label_error_rate"]
    assert isinstance(rate, Measured) and isinstance(rate.estimate, Parts)
    assert getattr(rate.estimate.parts["snow"], "value", 0.0) is None


@pytest.mark.parametrize("share", [0.02, 0.05, 0.10])
def test_confident_learning_is_near_the_truth_on_digits(share: float, tmp_path: Path) -> None:
    """Random noise of 2 to 10 %: within 1.5 times and 2 points of the truth."""
    from sklearn.datasets import load_digits

    pixels, digit = load_digits(return_X_y=True)
    rng = np.random.default_rng(5)
    wrong = rng.random(len(digit)) < share
    given = np.where(wrong, (digit + rng.integers(1, 10, len(digit))) % 10, digit)
    table = pa.table({"pixels": pa.FixedSizeListArray.from_arrays(pixels.ravel(), 64), "label": given})
    asked = check(audited=None, features=["pixels"], warn=["estimated_label_errors <= 5 %"])
    result = asked.run(FakeInputs(tmp_path, tables={"test": table}, labels={"test": "label"}))
    found = result.estimates["estimated_label_errors"]
    assert isinstance(found, Fact)
    assert 1 / 1.5 <= found.value / wrong.mean() <= 1.5
    assert abs(found.value - wrong.mean()) <= 0.02
    listed = reviewed(tmp_path / "labels-to-review.csv")
    (remedy,) = result.remedies
    assert isinstance(remedy, CorrectLabels) and remedy.file == "labels-to-review.csv"
    assert list(remedy.rows) == [int(line["row"]) for line in listed[: len(remedy.rows)]]
    assert len(listed) == len(digit)
    first = [int(line["row"]) for line in listed[: int(wrong.sum())]]
    assert wrong[first].mean() > 0.6
    flagged = sum(line["taken_for_wrong"] == "true" for line in listed)
    assert flagged == round(found.value * found.n)


def test_the_list_names_rows_and_the_report_shows_them_or_not(tmp_path: Path) -> None:
    world = World(anywhere=0.05, looked=0.3)
    result = world.run(tmp_path, check(features=["size"], key="id"))
    listed = reviewed(tmp_path / result.evidence[0][0])
    assert listed[0]["key"] == f"photo {listed[0]['row']}"
    assert {line["audited_as"] for line in listed} == {"", "wolf", "dog"}
    assert any(isinstance(block, Examples) for block in result.blocks)
    assert any("confident learning flags" in note for note in result.notes)
    quiet = world.run(tmp_path, check(features=["size"], show_examples=False))
    assert not any(isinstance(block, Examples) for block in quiet.blocks)


def test_a_key_that_begins_a_formula_is_written_as_text(tmp_path: Path) -> None:
    world = World(rows=200)
    keys = [f"=HYPERLINK({row})" if row % 2 else f"-{row}" for row in range(200)]
    world.run(tmp_path, check(features=["size"], key="id"), world.table.set_column(0, "id", pa.array(keys)))
    listed = {int(line["row"]): line["key"] for line in reviewed(tmp_path / "labels-to-review.csv")}
    assert (listed[7], listed[8]) == ("'=HYPERLINK(7)", "-8")


def test_clusters_stay_in_one_fold(tmp_path: Path) -> None:
    """Six copies of a picture with one label: unseen, it is as suspicious as one; seen, it would vouch for itself."""
    world = World(anywhere=0.1, rows=1200)
    for name in ("wolf", "wrong", "given", "size"):
        setattr(world, name, np.repeat(getattr(world, name)[::6], 6))
    world.clusters = np.arange(ROWS) // 6
    result = world.run(tmp_path, check(features=["size"], classifier="boosting"))
    found = result.estimates["estimated_label_errors"]
    assert isinstance(found, Fact) and found.value == pytest.approx(world.wrong.mean(), abs=0.03)


def unseen(world: World, share_right: float = 0.95) -> np.ndarray:
    right = world.rng.random(world.rows) < share_right
    return np.where(right, world.wolf, ~world.wolf)


def test_a_model_that_was_not_trained_on_the_rows_may_judge_them(tmp_path: Path) -> None:
    world = World(anywhere=0.05, looked=0.5)
    world.says(unseen(world, 0.98), 0.9)
    result = world.run(tmp_path, check(predictions="candidate", out_of_sample=True))
    found = result.estimates["estimated_label_errors"]
    assert isinstance(found, Fact)
    assert "stated as unseen" in found.method
    # A model that says all things with the same confidence leaves no doubt about whom to believe: itself.
    assert found.value == pytest.approx(0.07, abs=0.03)


@pytest.mark.parametrize("sign", ["audit", "held out", "cross-validated", "sure"])
def test_probabilities_of_rows_that_were_trained_on_are_found_out(sign: str, tmp_path: Path) -> None:
    world = World(anywhere=0.06)
    # It has learnt the labels as they are given, the wrong ones too.
    learnt = world.given if sign != "held out" else np.where(np.arange(ROWS) % 50 == 0, ~world.given, world.given)
    world.says(learnt, 0.999 if sign == "sure" else 0.9)
    fields: dict[str, object] = {"audited": "looked" if sign == "audit" else None}
    if sign == "held out":
        world.says(unseen(world, 0.9), 0.9, "other", world.wolf)
        fields["held_out"] = "other"
    if sign == "cross-validated":
        fields["features"] = ["size"]
    result = world.run(tmp_path, check(predictions="candidate", out_of_sample=True, **fields))
    assert "estimated_label_errors" not in result.estimates
    said = {"audit": "the audit found wrong", "held out": "on the held-out rows", "sure": "sure of the label",
            "cross-validated": "of the cross-validated classifier"}[sign]  # fmt: skip
    reason = result.missing["estimated_label_errors"]
    assert "looks as if it had been trained on these rows" in reason and said in reason
    assert result.evidence == []


def test_what_wrong_labels_leave_of_an_accuracy(tmp_path: Path) -> None:
    world = World(anywhere=0.04, looked=0.5)
    says = unseen(world, 0.95)
    world.says(says, 0.9)
    result = world.run(tmp_path, check(predictions="candidate"))
    table = next(block for block in result.blocks if block.title.startswith("What wrong labels leave"))
    assert isinstance(table, Table)
    found = {str(row[0]): row[1:4] for row in table.rows}
    given, worst = found["against the labels as given"], found["whichever labels are wrong"]
    corrected = found["corrected by the audited rows"]
    truth = float((says == world.wolf).mean())
    assert given[0] == pytest.approx((says == world.given).mean())
    for low, high in ((worst[1], worst[2]), (corrected[1], corrected[2])):
        assert isinstance(low, float) and isinstance(high, float) and low < truth < high
    # Wrong labels hide that the model is better than it looks.
    assert isinstance(given[2], float) and given[2] < truth
    assert any("against the truth it may be anything from" in note for note in result.notes)
    assert "it needs `features:`" in result.missing["estimated_label_errors"]


def test_without_an_audit_concentration_is_shown_from_what_is_doubted(tmp_path: Path) -> None:
    asked = check(audited=None, features=["size"], by=["snow"], warn=["label_error_concentration <= 5x"])
    result = World(anywhere=0.01, wolves_in_snow=0.6).run(tmp_path, asked)
    assert outcome(result, asked.requirements[0]) == "FAIL"
    assert "no row was audited" in result.missing["label_error_rate"]
    forest = next(block for block in result.blocks if isinstance(block, Intervals))
    assert "not by people" in forest.caption


def test_a_missing_package_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "find_spec", lambda name: None if name == "cleanlab" else object())
    asked = check(features=["size"], warn=["estimated_label_errors <= 3 %"])
    result = World().run(tmp_path, asked)
    reason = result.missing["estimated_label_errors"]
    assert reason == "cleanlab is not installed: pip install 'evalspec-gate[labels]'"
    assert reason in str(asked.check_requirement(asked.requirements[0], {}))
    assert whole(result, "label_error_rate").value is not None


def test_rows_that_can_not_be_read_are_refused_in_a_sentence(tmp_path: Path) -> None:
    world = World()
    table = world.table
    wide = pa.FixedSizeListArray.from_arrays(np.zeros(25_000 * ROWS, dtype=np.uint8), 25_000)
    for asked, columns, said in (
        (check(audited="label"), table, "`audited: label` is the label itself"),
        (check(features=["size", "label"]), table, "it vouches for itself"),
        (check(audited="lookd"), table, r"no column 'lookd'.*did you mean 'looked'"),
        (check(), table.slice(0, 0), "test has no rows"),
        (check(features=["big"]), table.append_column("big", wide), "too many for a plain classifier"),
        (check(features=["at"]), table.append_column("at", pa.array([np.inf] * ROWS)), "infinite numbers"),
        (check(), table.set_column(3, "label", pa.array(world.size)), "which are not classes"),
        (check(), table.set_column(3, "label", pa.array([[1]] * ROWS)), "not one category a row"),
        (check(by=["size"]), table, "holds numbers"),
    ):
        with pytest.raises(InputError, match=said):
            world.run(tmp_path, asked, columns)


def test_rare_classes_and_gaps_in_features_are_no_crash(tmp_path: Path) -> None:
    world = World()
    label = world.table["label"].to_pylist()
    label[:2] = ["fox", "fox"]
    size = pa.array(world.size, mask=np.arange(ROWS) % 9 == 0)
    table = world.table.set_column(3, "label", pa.array(label)).set_column(1, "size", size)
    table = table.append_column("coat", pa.array(["thick", None, "thin"] * (ROWS // 3)))
    result = world.run(tmp_path, check(features=["size", "coat"]), table)
    assert isinstance(result.estimates["estimated_label_errors"], Fact)
    assert any("2 rows were not judged: classes with fewer than 5 rows are left out" in note for note in result.notes)
    # An auditor may find a class that no label names.
    looked = world.table["looked"].to_pylist()
    looked[5] = "badger"
    result = world.run(tmp_path, check(), world.table.set_column(4, "looked", pa.array(looked)))
    assert any("no label names: badger" in note for note in result.notes)


def test_texts_are_judged_by_their_words(tmp_path: Path) -> None:
    world = World(anywhere=0.08, rows=400)
    words = {True: ["howls", "pack", "grey", "forest"], False: ["barks", "leash", "bone", "garden"]}
    texts = [
        " ".join([*world.rng.choice(words[bool(wolf)], 3), *world.rng.choice(list("xyz"), 2)]) for wolf in world.wolf
    ]
    assert len(set(texts)) > 50
    result = world.run(tmp_path, check(features=["text"]), world.table.append_column("text", pa.array(texts)))
    found = result.estimates["estimated_label_errors"]
    assert isinstance(found, Fact) and found.value == pytest.approx(world.wrong.mean(), abs=0.02)


def test_of_very_many_rows_some_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confident_learning, "MOST_ROWS", 400)
    result = World().run(tmp_path, check(features=["size"]))
    found = result.estimates["estimated_label_errors"]
    assert isinstance(found, Fact) and found.n == 400
    assert any("800 rows were not judged" in note and "some are drawn" in note for note in result.notes)


def test_too_little_to_judge_by_is_said(tmp_path: Path) -> None:
    world = World(rows=30)
    result = world.run(tmp_path, check(features=["size"]))
    assert "too few to cross-validate on" in result.missing["estimated_label_errors"]
    one = world.table.set_column(3, "label", pa.array(["wolf"] * 30))
    assert "1 classes" in world.run(tmp_path, check(features=["size"]), one).missing["estimated_label_errors"]
    nobody = world.table.set_column(4, "looked", pa.nulls(30, pa.string()))
    assert "no row was audited" in world.run(tmp_path, check(), nobody).missing["label_error_rate"]


def test_too_few_clusters_for_the_folds_leave_the_audit(tmp_path: Path) -> None:
    world = World()
    world.clusters = np.arange(ROWS) // 400
    result = world.run(tmp_path, check(features=["size"]))
    assert "3 clusters can't be cut into 5 folds" in result.missing["estimated_label_errors"]
    assert whole(result, "label_error_rate").value is not None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"audited": None}, "the labels that are wrong are unknown"),
        ({"audited": None, "predictions": "candidate"}, "the labels that are wrong are unknown"),
        ({"out_of_sample": True}, "`out_of_sample:` is about `predictions:`"),
        ({"held_out": "other"}, "`held_out:` is about `predictions:`"),
        ({"predictions": "candidate", "held_out": "test"}, "is the dataset itself"),
        ({"features": ["looked"]}, "both `audited:` and one of `features:`"),
        ({"by": ["snow", "snow"]}, "'snow' is listed twice"),
        ({"folds": 1}, "greater than or equal to 2"),
    ],
)
def test_fields_that_make_no_sense_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        check(**fields)


def test_what_blocks_needs_an_audit_and_what_is_estimated_only_warns() -> None:
    doubted = check(
        audited=None, features=["size"], by=["snow"],
        require=["label_error_rate <= 3 %", "label_error_concentration <= 3x", "estimated_label_errors <= 3 %"],
    )  # fmt: skip
    for requirement in doubted.requirements:
        said = str(doubted.check_requirement(requirement, {}))
        assert "`audited: COLUMN`" in said, requirement.sentence
    warned = check(
        audited=None, features=["size"], by=["snow"],
        warn=["label_error_rate <= 3 %", "label_error_concentration <= 3x", "estimated_label_errors <= 3 %"],
    )  # fmt: skip
    assert [warned.check_requirement(one, {}) is None for one in warned.requirements] == [False, True, True]
    audited = check(
        require=["label_error_rate <= 1 %", "label_error_concentration <= 3x"], warn=["estimated_label_errors <= 3 %"]
    )
    rate, concentration, estimated = audited.requirements
    assert "299 are needed" in str(audited.check_requirement(rate, {"test": 100}))
    assert audited.check_requirement(rate, {"test": 299}) is None
    assert "needs `by:`" in str(audited.check_requirement(concentration, {}))
    assert "needs `features:`" in str(audited.check_requirement(estimated, {}))


def test_small_slices_must_be_bounded() -> None:
    asked = check(by=["class"], require=["label_error_concentration <= 3x"])
    assert "add `slices_too_small == 0`" in str(asked.check_names(NAMES))
    assert check(by=["snow"], require=["label_error_concentration <= 3x"]).check_names(NAMES) is None
    named = check(by=["snow"], require=["label_error_rate(snow) <= 3 %"])
    metric = named.metric("label_error_rate")
    assert metric is not None and named.part_names(metric, NAMES) == ("snow",)
    assert the(named, "label_error_rate(snow) <= 3 %").part == "snow"


@pytest.mark.parametrize(("anywhere", "looked", "told"), [(0.0, 1.0, True), (0.03, 1.0, False), (0.0, 0.5, False)])
def test_an_audit_that_may_be_a_copy_of_the_label_is_named(
    anywhere: float, looked: float, told: bool, tmp_path: Path
) -> None:
    result = World(anywhere=anywhere, looked=looked).run(tmp_path, check(require=["label_error_rate <= 5 %"]))
    said = f"the audit agrees with the label in each of {ROWS:,} rows: see that 'looked' is not a copy of it"
    assert list(result.weakens) == ([said] if told else [])

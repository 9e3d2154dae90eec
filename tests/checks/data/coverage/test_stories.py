"""Stories of scores that said nothing about deployment: each told twice, red for its reason, green in a clean twin.

The red instance passes every other sentence, the score that people look at among them. Told here as far as the data
can tell them: what the model does on the rows that were missing is told beside the checks of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.coverage.spec import Coverage
from evalspec.checks.data.leakage.spec import Leakage
from evalspec.checks.data.saturation.spec import Saturation
from evalspec.checks.model.quality.spec import Quality
from evalspec.evidence.estimate import Measured, Parts
from evalspec.language.parts import Check, CheckResult
from evalspec.language.requirement import Requirement
from tests.checks.data.visits import benchmark
from tests.checks.deciding import outcome
from tests.checks.planting import confident
from tests.fakes import FakeInputs, classifier

Told = tuple[FakeInputs, list[Check]]
ROWS = 4000


@dataclass(frozen=True)
class Story:
    """One of them.

    Args:
        name: Its name and what happens.
        tell: From a folder, and whether the defect is there, to inputs and checks.
        red: Sentence that is violated: its value with the defect, and without.
        within: Of the values, absolute, where they are drawn.
    """

    name: str
    tell: Callable[[Path, bool], Told]
    red: Mapping[str, tuple[float, float]]
    within: float = 1e-5


def scored(folder: Path, columns: Mapping[str, Any], truth: np.ndarray, **fields: Any) -> FakeInputs:
    """Rows on which the candidate is right in 97 of 100, with these columns and labels."""
    names = np.array(fields.pop("names", ("0", "1")))
    tables = {"test": pa.table({**columns, "label": pa.array(names[truth], pa.string())}), **fields.pop("others", {})}
    right = np.arange(len(truth)) % 100 >= 3
    answers = {("test", "candidate"): classifier(confident(truth, right, len(names)), truth, classes=names.tolist())}
    return FakeInputs(folder, tables=tables, labels=dict.fromkeys(tables, "label"), answers=answers, **fields)


def coverage(*require: str, **fields: Any) -> Coverage:
    return Coverage.model_validate({"check": "coverage", "dataset": "test", "require": list(require)} | fields)


GOOD = Quality.model_validate({"check": "quality", "dataset": "test", "require": ["accuracy >= 95 %"]})


def factory(folder: Path, bad: bool) -> Told:
    """Parts are sorted under the lamps of a hall; the test set was taken in a studio."""
    lux = np.where(np.arange(ROWS) % 10 < (0 if bad else 6), 120.0, 1500.0)
    hall = {"name": "hall", "where": "lux < 300", "share": "60 %", "min_n": 500}
    inputs = scored(folder, {"lux": lux}, np.arange(ROWS) % 2)
    return inputs, [
        coverage(
            "missing_conditions == 0", "representation_gap(hall) <= 10 pp", "class_imbalance <= 2x", conditions=[hall],
        ),
        GOOD,
    ]  # fmt: skip


def fraud(folder: Path, bad: bool) -> Told:
    """One payment in a hundred is fraud, and the test set is drawn as payments come."""
    each = 100 if bad else 5
    truth = (np.arange(ROWS) % each == 0).astype(np.int64)
    inputs = scored(folder, {"row": np.arange(ROWS)}, truth, names=("legitimate", "fraud"))
    return inputs, [coverage("class_imbalance <= 20x", "smallest_slice(label=legitimate) >= 1000 rows"), GOOD]


def hospitals(folder: Path, bad: bool) -> Told:
    """A model for two hospitals, judged on new patients of the one where it was made."""
    site = np.where((np.arange(ROWS) // 2) % 2 == 0, "A", "A" if bad else "B")
    patient = np.arange(ROWS) // 3
    train = pa.table({"hospital": ["A"] * 900, "patient": 10_000 + np.arange(900), "label": ["0", "1"] * 450})
    inputs = scored(folder, {"hospital": site, "patient": patient}, np.arange(ROWS) % 2, others={"train": train})
    leakage = {
        "check": "leakage",
        "train": ["train"],
        "test": "test",
        "group": "patient",
        "require": ["group_overlap == 0"],
    }
    return inputs, [
        coverage(
            "missing_conditions == 0", "representation_gap(hospital=B) <= 10 pp",
            population={"hospital": {"A": "50 %", "B": "50 %"}},
        ),
        Leakage.model_validate(leakage),
        GOOD,
    ]  # fmt: skip


def in_the_wild(folder: Path, bad: bool) -> Told:
    """Ten kinds of things, photographed well; what the photographs are like was never written down."""
    rng = np.random.default_rng(5)
    recorded = {"blur": rng.random(ROWS), "lux": rng.uniform(0, 500, ROWS), "hidden": rng.random(ROWS)}
    conditions = [
        {"name": name, "where": where, "min_n": 100}
        for name, where in (("blurred", "blur > 0.8"), ("dark", "lux < 50"), ("occluded", "hidden > 0.5"))
    ]
    truth = np.arange(ROWS) // 4 % 10
    inputs = scored(folder, {} if bad else recorded, truth, names=tuple(f"thing{one}" for one in range(10)))
    return inputs, [
        coverage("missing_conditions == 0", "slices_too_small == 0", "class_imbalance <= 2x", conditions=conditions),
        GOOD,
    ]


def solved(folder: Path, bad: bool) -> Told:
    """Digits that every model reads: 99.8 % of 10,000, and the next one is said to be better."""
    inputs, check = benchmark(
        folder, 0.002 if bad else 0.05, 10_000, require=["headroom >= 1 pp", "data_age <= 365 days"]
    )
    return inputs, [check]


def small_gain(folder: Path, bad: bool) -> Told:
    """A gain of a tenth of a point, on rows that tell no such gain; and on ten times as many."""
    inputs, check = benchmark(
        folder, 0.002, 10_000 if bad else 100_000, require=["interval_width <= 0.1 pp", "data_age <= 365 days"]
    )
    return inputs, [check]


def research(folder: Path, bad: bool) -> Told:
    """A benchmark of 2019 as the gate of a release, and a sample of this autumn."""
    rng = np.random.default_rng(6)
    country = rng.choice(["de", "fr", "us"], ROWS, p=[0.0, 0.0, 1.0] if bad else [0.5, 0.3, 0.2])
    traffic = pa.table({"country": rng.choice(["de", "fr", "us"], 3000, p=[0.5, 0.3, 0.2]), "label": ["0"] * 3000})
    inputs = scored(
        folder, {"country": pa.array(country, pa.string())}, np.arange(ROWS) % 2, others={"traffic": traffic},
        origins={"test": {"collected": "2019-06-01" if bad else "2026-10-01"}},
    )  # fmt: skip
    age = {"check": "saturation", "dataset": "test", "require": ["data_age <= 180 days"]}
    return inputs, [
        Saturation.model_validate(age),
        coverage("representation_gap <= 10 pp", "missing_conditions == 0", by=["country"], population="traffic"),
        GOOD,
    ]


def camera(folder: Path, bad: bool) -> Told:
    """One picture in eight is dark in use; the test set has seven of them, which no requirement on them can rest on."""
    lux = np.where(np.arange(ROWS) % 8 == 0, 40.0, 400.0)
    lux[np.arange(ROWS) >= 56] = 400.0 if bad else lux[np.arange(ROWS) >= 56]
    dark = {"name": "dark", "where": "lux < 100", "share": "12.5 %", "at_least": "88 %", "expected": "92 %"}
    return scored(folder, {"lux": lux}, np.arange(ROWS) % 2), [
        coverage("slices_too_small == 0", "missing_conditions == 0", "representation_gap <= 5 pp", conditions=[dark]),
        GOOD,
    ]


def photographs(folder: Path, bad: bool) -> Told:
    """Photographs of a year in which nobody had such a telephone."""
    inputs, check = benchmark(
        folder,
        0.05,
        collected="2021-06-01" if bad else "2026-06-01",
        require=["headroom >= 1 pp", "data_age <= 365 days"],
    )
    return inputs, [check]


STORIES = (
    Story("F2: seven dark pictures", camera,
          {"slices_too_small == 0": (1, 0), "representation_gap <= 5 pp": (0.12325, 0.0)}),
    Story("F26: the cameras have become others", photographs, {"data_age <= 365 days": (1998, 172)}),
    Story("F7: a factory floor that is in no test picture", factory,
          {"missing_conditions == 0": (1, 0), "representation_gap(hall) <= 10 pp": (0.6, 0.0)}),
    Story("F23: 99 payments in a hundred are of one class", fraud, {"class_imbalance <= 20x": (99, 4)}),
    Story("F25: new patients of the same hospital", hospitals,
          {"missing_conditions == 0": (1, 0), "representation_gap(hospital=B) <= 10 pp": (0.5, 0.0)}),
    Story("F41: a benchmark that is solved", solved, {"headroom >= 1 pp": (0.002, 0.05)}),
    Story("F41: a gain that no such interval shows", small_gain, {"interval_width <= 0.1 pp": (0.00158, 0.000473)}),
    Story("F27: a benchmark of research as the gate of a release", research,
          {"data_age <= 180 days": (2729, 50), "representation_gap <= 10 pp": (0.8, 0.02)}, within=0.02),
    Story("F49: what pictures are like was never written down", in_the_wild,
          {"missing_conditions == 0": (3, 0), "slices_too_small == 0": (3, 0)}),
)  # fmt: skip


def value(result: CheckResult, requirement: Requirement) -> float:
    """What a requirement is about; without a part the largest."""
    found: Any = result.estimates[requirement.metric]
    if isinstance(found, Measured):
        found = found.estimate
    if isinstance(found, Parts) and requirement.part is None:
        return max(float(getattr(one, "value", None) or 0.0) for one in found.parts.values())
    if isinstance(found, Parts):
        found = found.parts[str(requirement.part)]
    return float(found.value)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("bad", [True, False], ids=["red", "green"])
def test_a_story(story: Story, bad: bool, tmp_path: Path) -> None:
    words: dict[str, str] = {}
    values: dict[str, float] = {}
    inputs, checks = story.tell(tmp_path, bad)
    for check in checks:
        result = check.run(inputs)
        for one in check.requirements:
            words[one.sentence] = outcome(result, one)
            if one.sentence in story.red:
                values[one.sentence] = value(result, one)
    assert words == {sentence: "FAIL" if bad and sentence in story.red else "PASS" for sentence in words}
    assert values == pytest.approx(
        {sentence: both[0 if bad else 1] for sentence, both in story.red.items()}, abs=story.within
    )
    assert set(words) - set(story.red), "something must look good in both"


def test_the_answer_that_never_looks_stands_in_the_notes(tmp_path: Path) -> None:
    """F23: 99 % is what always saying the frequent class gives."""
    inputs, (check, _) = fraud(tmp_path, True)
    assert check.run(inputs).notes == ["Always answering 'legitimate' is right in 99 % of test."]


def test_a_metadata_finding_says_why(tmp_path: Path) -> None:
    """F49: each condition is named, with what is lacking."""
    inputs, (check, _) = in_the_wild(tmp_path, True)
    found = check.run(inputs).estimates["missing_conditions"]
    assert isinstance(found, Measured)
    assert found.notes == (
        "blurred: test has no column 'blur'", "dark: test has no column 'lux'", "occluded: test has no column 'hidden'",
    )  # fmt: skip

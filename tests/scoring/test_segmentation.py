"""`quality` of masks: its numbers against scikit-learn's; bounds; what has no value says so."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import accuracy_score, f1_score, jaccard_score

from evalspec.checks.model.quality.spec import Quality
from evalspec.checks.model.slices.spec import Slices
from evalspec.evidence.blocks import Examples, Table
from evalspec.evidence.estimate import ComparisonParts, Estimate, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult
from evalspec.scoring.resampled import OfSums
from evalspec.scoring.scored_rows import Scored
from evalspec.scoring.segmentation import counts as segmentation_counts
from evalspec.scoring.segmentation.counts import iou_of, pixels
from evalspec.stats.resampling import bootstrap
from tests.fakes import FakeInputs, painter
from tests.stats.simulated import RESAMPLED, bounded, p_values, wrong_claims

CLASSES = ("road", "car", "sky")


def scored(answers: Predictions) -> Scored:
    """Rows of boxes or masks, by themselves."""
    true = answers.true_boxes
    truth = answers.truth if true is None else np.bincount(true.row, minlength=answers.n)
    return Scored(
        "candidate", "test", np.asarray(truth), answers.classes, None, None, None, answers.clusters,
        masks=answers.masks, boxes=answers.boxes, true_boxes=true,
    )  # fmt: skip


def check(*require: str, **fields: Any) -> Quality:
    fields.setdefault("report_only", not require)
    return Quality.model_validate({"check": "quality", "dataset": "test", "require": list(require), **fields})


def inputs(folder: Path, *answers: Predictions) -> FakeInputs:
    n = answers[0].n
    return FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"name": [f"p{row}" for row in range(n)], "mask": [""] * n})},
        labels={"test": "mask"},
        slices={("night", "test"): np.arange(n) % 2 == 0},
        answers={("test", one.model): one for one in answers},
    )


def run(folder: Path, asked: Quality, *answers: Predictions) -> CheckResult:
    return asked.run(inputs(folder, *answers))


def pictures(
    n: int, seed: int, *, wrong: float = 0.2, unjudged: float = 0.1, kinds: int = 3, model: str = "candidate",
    clusters: np.ndarray | None = None,
) -> Predictions:  # fmt: skip
    """Pictures of 6 x 5 pixels, some of them harder than others."""
    truth = np.random.default_rng(9).integers(0, kinds, (n, 6, 5))
    rng = np.random.default_rng(seed)
    off = rng.random(truth.shape) < rng.uniform(0, 2 * wrong, (n, 1, 1))
    said = np.where(off, rng.integers(0, kinds, truth.shape), truth)
    left_out = np.random.default_rng(8).random(truth.shape) < unjudged
    return painter(said, np.where(left_out, -1, truth), classes=CLASSES, model=model, clusters=clusters)


def value(result: CheckResult, metric: str, part: str | None = None) -> float | None:
    found = result.estimates[metric]
    if isinstance(found, Parts):
        assert part is not None
        found = found.parts[part]  # type: ignore[assignment]
    assert isinstance(found, Estimate)
    return found.value


def flat(answers: Predictions) -> tuple[np.ndarray, np.ndarray]:
    assert answers.truth is not None and answers.masks is not None
    judged = answers.truth >= 0
    return answers.truth[judged], answers.masks[judged]


@pytest.mark.parametrize(("wrong", "unjudged"), [(0.2, 0.1), (0.0, 0.0), (0.5, 0.9)])
def test_agrees_with_scikit_learn(
    tmp_path: Path, wrong: float, unjudged: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segmentation_counts, "_PIXELS", 200)
    answers = pictures(60, 1, wrong=wrong, unjudged=unjudged)
    result, pair = run(tmp_path, check(), answers), flat(answers)
    assert value(result, "mean_iou") == pytest.approx(jaccard_score(*pair, average="macro"), abs=1e-12)
    assert value(result, "mean_dice") == pytest.approx(f1_score(*pair, average="macro"), abs=1e-12)
    assert value(result, "pixel_accuracy") == pytest.approx(accuracy_score(*pair), abs=1e-12)
    for name, expected in zip(CLASSES, jaccard_score(*pair, average=None), strict=True):
        assert value(result, "iou", name) == pytest.approx(expected, abs=1e-12)


def test_a_class_that_is_nowhere_counts_in_no_mean(tmp_path: Path) -> None:
    answers = pictures(60, 1, kinds=2)
    result = run(tmp_path, check("iou(sky) >= 10 %"), answers)
    assert value(result, "mean_iou") == pytest.approx(jaccard_score(*flat(answers), average="macro"), abs=1e-12)
    assert "never said" in result.missing["iou(sky)"]
    assert any("count in no mean: sky" in note for note in result.notes)
    assert any("are not judged" in note for note in result.notes)
    assert answers.masks is not None
    said = answers.masks.copy()
    said[0, 0, 0] = 2
    result = run(tmp_path, check(), dataclasses.replace(answers, masks=said, truth=np.abs(answers.truth)))  # type: ignore[arg-type]
    assert value(result, "iou", "sky") == 0.0


def test_nothing_judged_has_no_value(tmp_path: Path) -> None:
    answers = pictures(10, 1, unjudged=2.0)
    result = run(tmp_path, check("mean_iou >= 10 %"), answers)
    assert not result.estimates and "no pixel" in result.missing["mean_iou"]


def test_bounds_hang_on_pictures_and_clusters(tmp_path: Path) -> None:
    def width(answers: Predictions, metric: str = "mean_iou") -> float:
        found = run(tmp_path, check(), answers).estimates[metric]
        assert isinstance(found, Estimate)
        pair = found.bound(0.95, "lower"), found.bound(0.95, "upper")
        assert pair[0] is not None and pair[1] is not None and found.value is not None
        assert pair[0] < found.value < pair[1]
        return pair[1] - pair[0]

    answers = pictures(120, 1)
    twice = dataclasses.replace(
        answers, n=240, masks=np.repeat(answers.masks, 2, axis=0), truth=np.repeat(answers.truth, 2, axis=0),  # type: ignore[arg-type]
    )  # fmt: skip
    copies = dataclasses.replace(twice, clusters=np.arange(240) // 2)
    assert width(twice) < 0.8 * width(answers)
    assert width(copies) == pytest.approx(width(answers), rel=0.15)
    few = run(tmp_path, check(), pictures(40, 1)).estimates["mean_iou"]
    assert isinstance(few, Estimate) and few.bound(0.95, "lower") is None


def test_a_class_in_few_pictures_has_a_value_only(tmp_path: Path) -> None:
    answers = pictures(100, 1, kinds=2)
    assert answers.masks is not None and answers.truth is not None
    truth, said = answers.truth.copy(), answers.masks.copy()
    truth[:8, 0], said[:8, 0] = 2, 2
    result = run(tmp_path, check(), dataclasses.replace(answers, truth=truth, masks=said))
    whole, own = result.estimates["mean_iou"], result.estimates["iou"]
    assert isinstance(whole, Estimate) and whole.bound(0.95, "lower") is None
    assert "a class has 8" in whole.method
    assert isinstance(own, Parts)
    road = own.parts["road"]
    assert isinstance(road, Estimate) and road.bound(0.95, "lower") is not None


def test_a_comparison_is_paired(tmp_path: Path) -> None:
    new, old = pictures(150, 1), pictures(150, 1, wrong=0.22, model="old")
    result = run(tmp_path, check("mean_iou >= old", "iou(car) >= old - 1 pp"), new, old)
    found = result.comparisons["mean_iou", "old"]
    assert not isinstance(found, ComparisonParts)
    apart = found.difference(1.0, 0.0)
    expected = [jaccard_score(*flat(one), average="macro") for one in (new, old)]
    assert apart.value == pytest.approx(expected[0] - expected[1], abs=1e-12)
    low, alone = apart.bound(0.95, "lower"), result.estimates["mean_iou"]
    assert isinstance(alone, Estimate) and alone.value is not None
    own = alone.bound(0.95, "lower")
    assert low is not None and own is not None and apart.value - low < alone.value - own
    parts = result.comparisons["iou", "old"]
    assert isinstance(parts, ComparisonParts) and parts.parts["car"].baseline_value is not None


def test_blocks_and_the_blind_answer(tmp_path: Path) -> None:
    answers = pictures(60, 1)
    result = run(tmp_path, check(), answers)
    tables = {block.title: block for block in result.blocks if isinstance(block, Table)}
    assert {row[0] for row in tables["Classes"].rows} == set(CLASSES)
    truth, _ = flat(answers)
    most = np.bincount(truth).argmax()
    majority = next(row[-1] for row in tables["Scores"].rows if row[0] == "mean_iou")
    assert majority == pytest.approx(jaccard_score(truth, np.full_like(truth, most), average="macro"))
    assert any(isinstance(block, Examples) for block in result.blocks)
    hidden = run(tmp_path, check(show_examples=False), answers)
    assert not any(isinstance(block, Examples) for block in hidden.blocks)
    assert not result.weakens
    assert answers.truth is not None
    blind = dataclasses.replace(answers, masks=np.full_like(answers.truth, most))
    assert "answering always" in run(tmp_path, check(), blind).weakens[0]


def test_slices_have_one_of_their_own(tmp_path: Path) -> None:
    answers = pictures(60, 1)
    asked = Slices.model_validate(
        {"check": "slices", "dataset": "test", "by": ["night"], "min_n": 1, "require": ["mean_iou(night) >= 1 %"]}
    )
    result = asked.run(inputs(tmp_path, answers))
    left = scored(answers).rows(np.arange(60) % 2 == 0)
    counts = pixels(left)
    sums = np.concatenate([one.sum(axis=0) for one in (counts.right, counts.true, counts.said)]).astype(float)
    assert value(result, "mean_iou", "night") == pytest.approx(float(iou_of(sums)))


def planted(rng: np.random.Generator, n: int) -> np.ndarray:
    """Pixels of n pictures, right, true and said, of two classes: one is rare, and some pictures are hard."""
    size = rng.integers(20, 200, n)
    rare = rng.binomial(size, rng.beta(1, 9, n))
    hard = rng.beta(2, 18, n)
    missed, more = rng.binomial(rare, hard), rng.binomial(size - rare, hard)
    true = np.stack([size - rare, rare], axis=1)
    right = np.stack([size - rare - more, rare - missed], axis=1)
    said = right + np.stack([missed, more], axis=1)
    return np.concatenate([right, true, said], axis=1).astype(np.float64)


@pytest.mark.proof
@pytest.mark.slow
def test_bounds_err_no_more_often_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 pictures. With 50 they err as seldom, and half of the samples have a bound."""
    monkeypatch.setattr(bootstrap, "FEWEST_RESAMPLES", 499)
    truth = float(iou_of(planted(np.random.default_rng(1), 1_000_000).sum(axis=0)))
    rng, statistic = np.random.default_rng(100), OfSums(lambda rows: np.empty(0), iou_of)
    found = [p_values(bootstrap.bca(statistic, (planted(rng, 100),), rng=rng, alpha=0.05), truth) for _ in range(2_000)]
    errors = wrong_claims(found)
    assert (errors <= RESAMPLED).all(), errors
    assert bounded(found) > 0.9

"""Several answers to a row (orders of options, samples): each counts, the row is a cluster, and the interval holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.model.answers.spec import WrittenAnswers
from evalspec.checks.model.calibration.spec import Calibration
from evalspec.checks.model.compression.spec import Compression
from evalspec.checks.model.quality.spec import Quality
from evalspec.checks.model.slices.spec import Slices
from evalspec.evidence.estimate import Comparison, Estimate, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import Check, CheckResult
from evalspec.scoring.scored_rows import aligned, scored_answers
from evalspec.scoring.scores import Estimators
from evalspec.scoring.tasks import score
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs, classifier, writer
from tests.stats.simulated import rarely

OPTIONS, ROWS = 4, 400
TRUTH = np.random.default_rng(3).integers(0, OPTIONS, ROWS)


def biased(model: str = "candidate", *, orders: int = OPTIONS, knows: float = 0.0, seed: int = 2) -> Predictions:
    """Takes whatever stands first, but for a share of the rows, which it knows; a little surer of what is right."""
    rng = np.random.default_rng(seed)
    known = rng.random(ROWS) < knows
    several = []
    for order in range(orders):
        # With the options turned by ``order``, the place of the row's own list that stands first is that one.
        shares = np.full((ROWS, OPTIONS), 0.1)
        shares[np.arange(ROWS), np.where(known, TRUTH, order)] += 0.5
        shares[np.arange(ROWS), TRUTH] += 0.1
        several.append(classifier(shares, TRUTH, model=model, classes="ABCD"))
    return replace(
        several[0], masses=np.ones(ROWS), again=tuple(replace(one, masses=np.ones(ROWS)) for one in several[1:])
    )


def inputs(folder: Path, *answers: Predictions) -> FakeInputs:
    return FakeInputs(
        evidence=folder, answers={("test", one.model): one for one in answers},
        tables={"test": pa.table({"half": ["first", "second"] * (ROWS // 2), "right": TRUTH})},
        labels={"test": "right"},
    )  # fmt: skip


def run(kind: type[Check], folder: Path, require: list[str], *answers: Predictions, **fields: Any) -> CheckResult:
    asked = kind.model_validate(
        {"check": kind.model_fields["check"].default, "dataset": "test", "require": require, **fields}
    )
    return asked.run(inputs(folder, *answers))


def test_a_model_that_goes_by_the_place_is_as_wrong_as_each_of_its_orders(tmp_path: Path) -> None:
    """The mean of its probabilities over all orders would be right in every row: nobody ships that."""
    model = biased()
    mean = np.mean([one.probabilities for one in (model, *model.again)], axis=0)
    assert (mean.argmax(axis=1) == TRUTH).all()
    result = run(Quality, tmp_path, ["accuracy >= 60 %"], model)
    accuracy = result.estimates["accuracy"]
    assert isinstance(accuracy, Estimate)
    assert accuracy.value == pytest.approx(0.25)
    assert result.counts.used == ROWS
    asked = Quality.model_validate({"check": "quality", "dataset": "test", "require": ["accuracy >= 60 %"]})
    assert outcome(result, asked.requirements[0]) == "FAIL"


def test_confidence_and_slices_are_of_each_order(tmp_path: Path) -> None:
    calibrated = run(Calibration, tmp_path, ["ece <= 0.1"], biased()).estimates["ece"]
    assert isinstance(calibrated, Estimate)
    assert calibrated.value is not None and calibrated.value > 0.3
    worst = run(Slices, tmp_path, ["worst_accuracy >= 60 %", "slices_too_small == 0"], biased(), by=["half"]).estimates[
        "worst_accuracy"
    ]
    assert isinstance(worst, Estimate)
    assert worst.value == pytest.approx(0.25, abs=0.02)


def test_flips_against_a_baseline_are_of_each_order(tmp_path: Path) -> None:
    """A copy that only the place moves agrees with its baseline in the mean of the orders, and in few of them."""
    knowing = biased("baseline", knows=1.0)
    require = ["flip_rate <= 4 %", "ece_increase <= 0.02", "worst_slice_drop <= 5 pp", "slices_too_small == 0"]
    found = run(Compression, tmp_path, require, biased(), knowing, method="quantization", baseline="baseline",
                speed=False, by=["half"])  # fmt: skip
    flips, drop = found.estimates["flip_rate"], found.estimates["worst_slice_drop"]
    assert isinstance(flips, Estimate) and isinstance(drop, Estimate)
    assert flips.value == pytest.approx(0.75)
    assert drop.value == pytest.approx(0.75, abs=0.02)


def test_a_baseline_that_is_asked_once_is_compared_with_every_order(tmp_path: Path) -> None:
    once = biased("baseline", orders=1, knows=1.0)
    found = run(Quality, tmp_path, ["accuracy >= baseline - 3 pp"], biased(knows=0.5), once)
    comparison = found.comparisons["accuracy", "baseline"]
    assert isinstance(comparison, Comparison)
    assert comparison.baseline_value == pytest.approx(1.0)
    assert comparison.difference(1.0, -0.03).value == pytest.approx(-0.375, abs=0.05)


def test_models_that_are_asked_in_other_numbers_of_orders_are_not_compared(tmp_path: Path) -> None:
    found = run(Quality, tmp_path, ["accuracy >= baseline - 3 pp"], biased(), biased("baseline", orders=2))
    assert "give both the same `orders` and `samples`" in found.missing["accuracy vs baseline"]


def test_the_worst_order_is_decided_and_all_are_shown(tmp_path: Path) -> None:
    rows = biased(knows=0.5)
    found = run(WrittenAnswers, tmp_path, ["worst_order >= 40 %", "order_flips <= 60 %"], rows)
    worst = found.estimates["worst_order"]
    assert isinstance(worst, Estimate)
    every = [float((one.predicted == TRUTH).mean()) for one in (rows, *rows.again)]
    assert worst.value == pytest.approx(min(every))
    assert len(worst.parts) == OPTIONS
    assert "Right answers by order" in [block.title for block in found.blocks]


def drawn(share: float, samples: int, rows: int = ROWS, seed: int = 5, model: str = "candidate") -> Predictions:
    """Texts of which a share is right, each row as easy as it is."""
    rng = np.random.default_rng(seed)
    easy = rng.beta(2, 2 * (1 - share) / share, rows)
    several = [writer(["yes" if one else "no" for one in rng.random(rows) < easy], ["yes"] * rows, model=model)
               for _ in range(samples)]  # fmt: skip
    return replace(several[0], again=tuple(several[1:]))


@pytest.mark.parametrize("metric", ["exact_match", "token_f1"])
def test_metrics_of_texts_are_means_over_all_samples(metric: str, tmp_path: Path) -> None:
    rows = drawn(0.7, 4)
    found = run(Quality, tmp_path, [f"{metric} >= 60 %"], rows).estimates[metric]
    assert isinstance(found, Estimate)
    each = [
        np.mean([text == "yes" for text in one.texts.tolist()]) for one in (rows, *rows.again) if one.texts is not None
    ]
    assert found.value == pytest.approx(float(np.mean(each)))
    assert found.value != pytest.approx(float(each[0]), abs=1e-4)


def test_a_hundred_questions_drawn_eight_times_are_not_eight_hundred(tmp_path: Path) -> None:
    asked = Quality.model_validate({"check": "quality", "dataset": "test", "require": ["exact_match >= 66 %"]})
    easy = np.random.default_rng(4).permutation(np.arange(100) < 72)

    def said(rows: np.ndarray, times: int) -> CheckResult:
        one = writer(["yes" if right else "no" for right in rows], ["yes"] * len(rows))
        table = pa.table({"right": ["yes"] * len(rows)})
        given = FakeInputs(evidence=tmp_path, answers={("test", "candidate"): replace(one, again=(one,) * (times - 1))},
                           tables={"test": table}, labels={"test": "right"})  # fmt: skip
        return asked.run(given)

    assert outcome(said(easy, 8), asked.requirements[0]) == "INCONCLUSIVE"
    assert outcome(said(np.tile(easy, 8), 1), asked.requirements[0]) == "PASS"


def test_pass_at_needs_no_column_of_questions(tmp_path: Path) -> None:
    rows = drawn(0.7, 4)
    found = run(Quality, tmp_path, ["pass_at(4) >= 60 %"], rows).estimates["pass_at"]
    assert isinstance(found, Parts)
    right = np.array(
        [[text == "yes" for text in one.texts.tolist()] for one in (rows, *rows.again) if one.texts is not None]
    )
    assert found.parts["4"].value == pytest.approx(float(right.any(axis=0).mean()))  # type: ignore[union-attr]
    assert found.parts["4"].n == ROWS  # type: ignore[union-attr]


def test_faults_of_texts_are_counted_over_all_samples(tmp_path: Path) -> None:
    """The first sample is whole in every row, half of the others are cut off."""
    whole = writer(["yes"] * ROWS, ["yes"] * ROWS, finish_reasons=["stop"] * ROWS)
    cut = writer(["ye"] * ROWS, ["yes"] * ROWS, finish_reasons=["length"] * ROWS)
    found = run(
        WrittenAnswers, tmp_path, ["truncated <= 2 %", "unlike <= 2 %"], replace(whole, again=(cut, whole, cut))
    )
    cut_off, unlike = found.estimates["truncated"], found.estimates["unlike"]
    assert isinstance(cut_off, Estimate) and isinstance(unlike, Estimate)
    assert (cut_off.value, unlike.value, unlike.n) == (0.5, 1.0, ROWS)


def correlated(rng: np.random.Generator, rows: int, orders: int, share: float, tied: float) -> np.ndarray:
    """Right answers, shape (orders, rows): a share of rows is answered alike in all orders, the others each anew."""
    same = rng.random(rows) < tied
    each = rng.random((orders, rows)) < share
    return np.where(same, each[0], each)


def hits(right: np.ndarray, model: str = "candidate") -> Predictions:
    several = [classifier(np.eye(2)[one.astype(int)], np.ones(right.shape[1], int), model=model) for one in right]
    return replace(several[0], again=tuple(several[1:]))


DESIGNS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    f"{rows} rows, {orders} orders, {tied:g} tied, {share:g} right": (
        lambda rng, rows=rows, orders=orders, tied=tied, share=share: correlated(rng, rows, orders, share, tied)
    )
    for rows, orders, tied, share in [(200, 4, 0.0, 0.8), (200, 4, 0.5, 0.8), (200, 4, 1.0, 0.8), (60, 4, 0.7, 0.9),
                                      (400, 2, 0.3, 0.95), (150, 8, 0.6, 0.5)]
}  # fmt: skip


@pytest.mark.proof
@pytest.mark.parametrize("design", DESIGNS)
def test_a_bound_of_correlated_orders_passes_by_luck_in_at_most_six_and_a_half_percent(design: str) -> None:
    share = float(design.split(", ")[-1].split()[0])
    rng = np.random.default_rng(11)

    def passed() -> Iterator[bool]:
        while True:
            rows = scored_answers(hits(DESIGNS[design](rng)), "test")
            p = score("accuracy", None, rows).estimate(rows, Estimators(1, 0.05)).p_value(share, "lower")
            yield p is not None and p <= 0.05

    assert rarely(passed(), 0.065, 2000) <= 0.065


@pytest.mark.proof
@pytest.mark.parametrize(("tied", "margin"), [(0.0, 0.03), (0.5, 0.03), (1.0, 0.03)])
def test_a_loss_at_the_margin_passes_by_luck_in_at_most_six_and_a_half_percent(tied: float, margin: float) -> None:
    """The candidate is right 3 points less often than the baseline, order by order on the same rows."""
    rng = np.random.default_rng(12)

    def passed() -> Iterator[bool]:
        while True:
            base = correlated(rng, 300, 4, 0.8, tied)
            lost = rng.random((4, 300)) if tied < 1.0 else np.tile(rng.random(300), (4, 1))
            ours = base & (lost >= margin / 0.8)
            rows, other = scored_answers(hits(ours), "test"), scored_answers(hits(base, "baseline"), "test")
            compared = score("accuracy", None, rows).compare(rows, aligned(other, rows), Estimators(1, 0.05))
            p = compared.difference(1.0, -margin).p_value(-margin, "lower")
            yield p is not None and p <= 0.05

    assert rarely(passed(), 0.065, 1000) <= 0.065

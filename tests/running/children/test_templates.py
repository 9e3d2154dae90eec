"""Several templates of a prompt: a claim holds where it holds for each, and what can't be told of one blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.model.answers.spec import WrittenAnswers
from evalspec.checks.model.calibration.spec import Calibration
from evalspec.checks.model.quality.spec import Quality
from evalspec.errors import InvalidError, NotRunError
from evalspec.evidence.frozen import Cells
from evalspec.evidence.record import CheckRecord
from evalspec.evidence.test import Test
from evalspec.language.inputs import Predictions
from evalspec.language.parts import Check, CheckResult
from evalspec.language.predictions import of_template
from evalspec.running.children.templates import over_templates
from evalspec.running.requirements import SignificanceLevels, measured_values, write_tests
from tests.fakes import FakeInputs, classifier, writer

ROWS = 300
LEVELS = SignificanceLevels(0.95, 0.01)


@dataclass(kw_only=True)
class Asking(FakeInputs):
    """Inputs that give the answers by a template."""

    template: int = 0

    def ask_by(self, template: int) -> None:
        self.template = template

    def predictions(self, dataset: str, model: str | None = None) -> Predictions:
        return of_template(super().predictions(dataset, model), self.template)

    def model_facts(self, model: str | None = None) -> Cells:
        return super().model_facts(model) | {"templates": 1 + len(super().predictions("test", model).by_template)}


def texts(*shares: float, model: str = "candidate") -> Predictions:
    """Answers of which so many are right, template after template; the same rows first."""
    several = [writer(["yes" if row < one * ROWS else "no" for row in range(ROWS)], ["yes"] * ROWS, model=model)
               for one in shares]  # fmt: skip
    return replace(several[0], by_template=tuple(several[1:]))


def run(folder: Path, check: Check, *answers: Predictions) -> CheckResult:
    found = {("test", one.model): one for one in answers}
    table = pa.table({"right": ["yes"] * ROWS})
    asking = Asking(evidence=folder, answers=found, tables={"test": table}, labels={"test": "right"})
    return over_templates(check, asking, lambda: check.run(asking))  # type: ignore[arg-type]


def quality(*require: str) -> Quality:
    return Quality.model_validate({"check": "quality", "dataset": "test", "require": list(require)})


def decided(check: Check, result: CheckResult) -> Test:
    return write_tests(check, result, LEVELS)[0]


@pytest.mark.parametrize(
    ("shares", "passes", "fails"),
    [((0.9, 0.9), True, False), ((0.9, 0.6), False, True), ((0.6, 0.9), False, True), ((0.9, 0.82), False, False)],
)
def test_a_claim_holds_for_each_template(
    shares: tuple[float, float], passes: bool, fails: bool, tmp_path: Path
) -> None:
    check = quality("exact_match >= 80 %")
    test = decided(check, run(tmp_path, check, texts(*shares)))
    assert test.value == pytest.approx(min(shares))
    assert test.p_pass is not None and test.p_fail is not None
    assert (test.p_pass <= 0.05, test.p_fail <= 0.01) == (passes, fails)
    assert [part.part for part in test.parts] == ["template 1", "template 2"]
    assert test.must_hold == 2


def test_every_value_is_kept_by_template_and_shown(tmp_path: Path) -> None:
    check = quality("exact_match >= 80 %")
    result = run(tmp_path, check, texts(0.9, 0.6, 0.7))
    values, units = measured_values(check, result)
    assert [values[name] for name in ("exact_match", "exact_match(template 2)", "exact_match(template 3)")] == [
        pytest.approx(0.9), pytest.approx(0.6), pytest.approx(0.7)
    ]  # fmt: skip
    assert units["exact_match(template 3)"] == "fraction"
    table = result.blocks[0]
    assert table.title == "By template"
    assert ("exact_match", 0.9, 0.6, 0.7, "fraction") in table.rows  # type: ignore[union-attr]
    assert CheckRecord.model_fields["measured"]


def test_against_a_baseline_each_template_is_compared_with_its_own(tmp_path: Path) -> None:
    check = quality("exact_match >= baseline - 3 pp")
    for baseline, worst in (((0.9, 0.9), -10.0), ((0.9, 0.8), 0.0), ((0.85,), -5.0)):
        test = decided(check, run(tmp_path, check, texts(0.9, 0.8), texts(*baseline, model="baseline")))
        assert test.value == pytest.approx(worst)
    assert (test.candidate, test.baseline) == (pytest.approx(0.8), pytest.approx(0.85))


def test_another_number_of_templates_is_no_comparison(tmp_path: Path) -> None:
    check = quality("exact_match >= baseline - 3 pp")
    test = decided(check, run(tmp_path, check, texts(0.9, 0.9, 0.9), texts(0.9, 0.9, model="baseline")))
    assert test.missing is not None
    assert (
        "baseline has 2 templates, and number 3 is needed; give both models the same number of templates"
        in test.missing
    )


def test_a_class_is_held_for_each_template(tmp_path: Path) -> None:
    truth = np.tile([0, 1], ROWS // 2)
    found = [classifier(np.eye(2)[said], truth, classes=("no", "yes")) for said in (truth, np.zeros(ROWS, int))]
    check = quality("recall(yes) >= 80 %")
    test = decided(check, run(tmp_path, check, replace(found[0], by_template=(found[1],))))
    assert (test.value, test.p_fail is not None and test.p_fail <= 0.01) == (0.0, True)


def test_confidence_is_held_for_each_template(tmp_path: Path) -> None:
    truth = np.tile([0, 1], ROWS // 2)
    sure, unsure = (classifier(np.eye(2)[truth] * (2 * one - 1) + (1 - one), truth) for one in (1.0, 0.6))
    check = Calibration.model_validate({"check": "calibration", "dataset": "test", "require": ["ece <= 0.1"]})
    test = decided(check, run(tmp_path, check, replace(sure, by_template=(unsure,))))
    assert test.value == pytest.approx(0.4)
    assert test.p_fail is not None and test.p_fail <= 0.01


def test_the_gap_between_templates_is_told_once(tmp_path: Path) -> None:
    check = WrittenAnswers.model_validate({"check": "answers", "dataset": "test", "require": ["template_gap <= 5 pp"]})
    test = decided(check, run(tmp_path, check, texts(0.9, 0.6)))
    assert test.value == pytest.approx(30.0)
    assert [part.part for part in test.parts] == ["template 1 - template 2"]


def test_what_can_not_be_told_of_one_template_blocks(tmp_path: Path) -> None:
    first = writer(["yes"] * ROWS, ["yes"] * ROWS, finish_reasons=["stop"] * ROWS)
    check = WrittenAnswers.model_validate({"check": "answers", "dataset": "test", "require": ["truncated <= 5 %"]})
    test = decided(check, run(tmp_path, check, replace(first, by_template=(writer(["yes"] * ROWS, ["yes"] * ROWS),))))
    assert test.missing is not None
    assert "truncated(template 2)" in test.missing and "does not say why it stops" in test.missing


@pytest.mark.parametrize("error", [NotRunError, InvalidError])
def test_a_template_that_gives_no_answers_is_named(error: type[Exception], tmp_path: Path, monkeypatch: Any) -> None:
    def fails(self: Quality, inputs: Asking) -> CheckResult:
        if inputs.template == 1:
            raise error("nothing was scored")
        return CheckResult(estimates={})

    monkeypatch.setattr(Quality, "run", fails)
    with pytest.raises(error, match="template 2 of candidate: nothing was scored"):
        run(tmp_path, quality("exact_match >= 80 %"), texts(0.9, 0.9))


def test_one_template_is_as_ever(tmp_path: Path) -> None:
    result = run(tmp_path, quality("exact_match >= 80 %"), texts(0.9))
    assert result.by_template == {}
    assert "By template" not in [block.title for block in result.blocks]

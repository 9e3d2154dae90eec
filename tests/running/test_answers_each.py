"""Several answers to a row are no further rows: n of a requirement, and n that would decide, are of rows."""

from __future__ import annotations

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
from evalspec.evidence.test import Test
from evalspec.language.inputs import Predictions
from evalspec.language.parts import Check
from evalspec.running.requirements import SignificanceLevels, write_tests
from tests.fakes import FakeInputs, classifier, writer

ROWS, TIMES = 300, 4
LEVELS = SignificanceLevels(0.95, 0.01)


def texts(times: int, model: str = "candidate") -> Predictions:
    """Samples, each right in other rows."""
    several = [
        writer(["yes" if (row + at) % 10 else "no" for row in range(ROWS)], ["yes"] * ROWS, model=model)
        for at in range(times)
    ]
    return replace(several[0], again=tuple(several[1:]))


def options(times: int, model: str = "candidate") -> Predictions:
    """Orders of options, each with other answers."""
    rng = np.random.default_rng(3)
    truth = np.arange(ROWS) % 2
    several = []
    for _ in range(times):
        right = 0.5 + 0.45 * rng.random(ROWS)
        shares = np.where(truth[:, None] == np.arange(2), right[:, None], 1 - right[:, None])
        several.append(replace(classifier(shares, truth, model=model), masses=np.full(ROWS, 0.95)))
    return replace(several[0], again=tuple(several[1:]))


def decided(folder: Path, check: type[Check], fields: dict[str, Any], *answers: Predictions) -> dict[str, Test]:
    given = {("test", one.model): one for one in answers}
    table = pa.table({"right": ["yes"] * ROWS, "half": ["a", "b"] * (ROWS // 2)})
    inputs = FakeInputs(evidence=folder, answers=given, tables={"test": table}, labels={"test": "right"})
    made = check.model_validate({"dataset": "test", **fields})
    return {one.metric: one for one in write_tests(made, made.run(inputs), LEVELS)}  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [1, TIMES])
def test_of_texts(times: int, tmp_path: Path) -> None:
    fields = {
        "require": ["exact_match >= 80 %", "exact_match >= baseline - 3 pp", "pass_at(1) >= 80 %"][: 2 + (times > 1)]
    }
    both = texts(times), texts(times, "baseline")
    quality = decided(tmp_path, Quality, fields, *both)
    assert {one.n for one in quality.values()} == {ROWS}
    answers = decided(tmp_path, WrittenAnswers, {"require": ["empty <= 2 %", "length_ratio <= 1.2x baseline"]}, *both)
    assert {one.n for one in answers.values()} == {ROWS}
    noted = any("Each row was answered 4 times: 1,200 answers to 300 rows." in one.notes for one in answers.values())
    assert noted == (times > 1)


def test_of_what_counts_rows_anyway(tmp_path: Path) -> None:
    tests = decided(tmp_path, WrittenAnswers, {"require": ["unlike <= 60 %"]}, texts(TIMES))
    assert tests["unlike"].n == ROWS and not tests["unlike"].notes
    tests = decided(
        tmp_path, WrittenAnswers, {"require": ["order_flips <= 60 %", "option_mass >= 50 %"]}, options(TIMES)
    )
    assert {one.n for one in tests.values()} == {ROWS}


@pytest.mark.proof
@pytest.mark.parametrize("times", [1, TIMES])
def test_of_options(times: int, tmp_path: Path) -> None:
    both = options(times), options(times, "baseline")
    asked: list[tuple[type[Check], dict[str, Any]]] = [
        (Quality, {"require": ["accuracy >= 80 %", "accuracy >= baseline - 3 pp"]}),
        (Calibration, {"require": ["ece <= 0.5", "selective_coverage >= 1 %"], "threshold": 0.6}),
        (
            Compression,
            {
                "method": "quantization",
                "require": ["flip_rate <= 60 %", "ece_increase <= 0.5"],
                "speed": False,
                "operators": False,
            },
        ),
    ]
    for check, fields in asked:
        assert {one.n for one in decided(tmp_path, check, fields, *both).values()} == {ROWS}


@pytest.mark.parametrize("times", [1, TIMES])
def test_of_parts_each_has_its_own_rows(times: int, tmp_path: Path) -> None:
    tests = decided(
        tmp_path,
        Slices,
        {"by": ["half"], "require": ["worst_accuracy >= 80 %", "slices_too_small == 0"]},
        options(times),
    )
    assert tests["worst_accuracy"].n == ROWS // 2
    assert [one.n for one in tests["worst_accuracy"].parts] == [ROWS // 2] * 2


def test_what_would_decide_is_told_in_rows(tmp_path: Path) -> None:
    fields = {"require": ["exact_match >= 89 %"]}
    once, often = (decided(tmp_path, Quality, fields, texts(times))["exact_match"] for times in (1, TIMES))
    assert once.n_to_decide is not None and often.n_to_decide is not None
    assert often.n_to_decide <= once.n_to_decide

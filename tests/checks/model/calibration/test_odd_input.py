"""`calibration` on odd rows: whatever they are, its record holds numbers and reasons, never a NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from evalspec.checks.model.calibration.spec import Calibration
from evalspec.evidence.record import CheckRecord
from evalspec.language.inputs import Predictions
from evalspec.language.parts import Access
from evalspec.running.children.checking import check_record
from evalspec.running.children.jobs import CheckJob, SpecParts
from evalspec.running.children.process import Limits
from tests.fakes import FakeInputs, classifier, regressor

CLASSIFIED = [
    "ece <= 0.05", "rms_calibration <= 0.05", "mce <= 0.2", "classwise_ece <= 0.05", "classwise_ece(0) <= 0.05",
    "brier <= 0.3", "brier <= baseline", "ece_after_temperature <= 0.05", "selective_accuracy >= 80 %",
    "selective_coverage >= 10 %", "selective_coverage >= baseline - 5 pp", "routing_change <= 5 %",
    "routing_change(to_person) <= 5 %",
]  # fmt: skip
STATED = ["interval_coverage >= 80 %", "interval_coverage >= baseline - 5 pp", "pinball <= 3", "pinball <= baseline"]


def record(rows: Predictions, other: Predictions, folder: Path) -> CheckRecord:
    """What stands in the record of a run, with every requirement that there is."""
    stated = rows.classes is None
    fields = {"require": STATED} if stated else {"require": CLASSIFIED, "threshold": 0.85, "baseline": "baseline"}
    check = Calibration.model_validate({"check": "calibration", "dataset": "test", **fields})
    tables = {"test": pa.table({"label": rows.truth})}
    answers = {("test", "candidate"): rows, ("test", "baseline"): other}
    result = check.run(FakeInputs(folder, tables=tables, answers=answers))
    job = CheckJob(
        parts=SpecParts({}, {}, {}, Access(folder)), check=check, predictions={}, model_facts={}, confidence=0.95,
        alpha_fail=0.002, seed=1, draft=False, evidence=folder, limits=Limits(), threads=1, environment={},
    )  # fmt: skip
    return check_record(job, result, list(result.evidence))


def numbers(value: Any) -> Iterator[float]:
    """All numbers in what came out of JSON."""
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from numbers(one)
    elif isinstance(value, float):
        yield value


def holds_no_nan(found: CheckRecord) -> None:
    read = json.loads(json.dumps(found.model_dump(mode="json"), allow_nan=False))
    assert all(math.isfinite(number) for number in numbers(read))
    for test in found.tests:
        assert test.value is not None or test.missing or test.p_pass is None, test.sentence
        for p in (test.p_pass, test.p_fail):
            assert p is None or 0.0 <= p <= 1.0, test.sentence
        if test.lower is not None and test.upper is not None and test.against is None:
            assert test.lower <= test.upper + 1e-9, test.sentence


def rows(said: NDArray[np.float64], truth: NDArray[np.int64]) -> tuple[Predictions, Predictions]:
    return classifier(said, truth), classifier(said[:, ::-1].copy(), truth, model="baseline")


def random(n: int, classes: int = 3, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), n)


def truths(n: int, classes: int = 3) -> NDArray[np.int64]:
    return np.random.default_rng(1).integers(0, classes, n)


ODD = {
    "constant labels": (random(400), np.zeros(400, dtype=np.int64)),
    "one class": (np.ones((300, 1)), np.zeros(300, dtype=np.int64)),
    "all predictions equal": (np.tile([0.5, 0.3, 0.2], (400, 1)), truths(400)),
    "all classes as likely": (np.full((400, 4), 0.25), truths(400, 4)),
    "exactly 0 and 1": (np.eye(3)[(truths(400) + (np.arange(400) % 7 == 0)) % 3], truths(400)),
    "exactly 0 and 1 and always right": (np.eye(3)[truths(400)], truths(400)),
    "exactly 0 and 1 and always wrong": (np.eye(3)[(truths(400) + 1) % 3], truths(400)),
    "ties": (np.round(random(500), 1) + 1e-300, truths(500)),
    "a class that no row has": (random(300, 5), truths(300, 2)),
    "confidences at the threshold": (np.tile([0.85, 0.1, 0.05], (300, 1)), truths(300)),
    "two rows": (random(2), truths(2)),
    "one row": (random(1), truths(1)),
    "tiny probabilities": (np.tile([1.0 - 2e-300, 1e-300, 1e-300], (300, 1)), truths(300)),
    "more rows than are sorted": (random(60_000), truths(60_000)),
}


@pytest.mark.parametrize("what", ODD)
def test_a_record_holds_no_nan(what: str, tmp_path: Path) -> None:
    said, truth = ODD[what]
    holds_no_nan(record(*rows(said / said.sum(axis=1, keepdims=True), truth), tmp_path))


def test_a_record_of_clusters_holds_no_nan(tmp_path: Path) -> None:
    for groups in (1, 10, 100):
        clusters = np.arange(400) % groups
        said, truth = random(400), truths(400)
        pair = (classifier(said, truth, clusters=clusters), classifier(said[:, ::-1].copy(), truth, model="baseline"))
        holds_no_nan(record(*pair, tmp_path))


@pytest.mark.parametrize("what", ["all alike", "no width", "upside down", "huge", "two rows", "ordinary"])
def test_a_record_of_stated_intervals_holds_no_nan(what: str, tmp_path: Path) -> None:
    n = 2 if what == "two rows" else 400
    truth = np.random.default_rng(2).normal(0, 1, n) * (1e50 if what == "huge" else 1.0)
    values = np.zeros(n) if what == "all alike" else truth * 0.5
    reach = {"no width": 0.0, "upside down": -1.0, "huge": 1e49}.get(what, 1.0)
    pair = [
        regressor(values, truth, lower=values - reach, upper=values + reach, model=name)
        for name in ("candidate", "baseline")
    ]
    holds_no_nan(record(pair[0], pair[1], tmp_path))

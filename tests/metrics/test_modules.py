"""Metric modules of the `evaluate` library: loaded from their files without a network, equal to the checks' numbers."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec import metrics
from evalspec.checks.model.evaluate.spec import Evaluate
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.scoring.resampled import brier_losses
from evalspec.scoring.scored_rows import Scored
from evalspec.stats.calibration.expected_error import expected_calibration_error
from tests.fakes import FakeInputs, writer

Module = Callable[[str], Any]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    import evaluate

    return lambda name: evaluate.load(metrics.path(name), module_type="metric", cache_dir=str(tmp_path))


def shares(classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    scores = np.exp(rng.normal(size=(300, classes)))
    return scores / scores.sum(axis=1, keepdims=True), rng.integers(0, classes, 300)


@pytest.mark.proof
def test_calibration_is_that_of_the_check(load: Module) -> None:
    p, truth = shares(4)
    found = load("ece").compute(predictions=p.tolist(), references=truth.tolist())
    want = expected_calibration_error(p.max(axis=1), p.argmax(axis=1) == truth)
    assert found == {"ece": pytest.approx(want.value), "plug_in": pytest.approx(want.plug_in)}


@pytest.mark.parametrize("classes", [2, 3])
def test_brier_is_that_of_the_check(load: Module, classes: int) -> None:
    p, truth = shares(classes)
    rows = Scored("m", "test", truth, tuple("abc"[:classes]), p.argmax(axis=1), p, None, None)
    found = load("brier").compute(predictions=p.tolist(), references=truth.tolist())
    assert found == {"brier": pytest.approx(brier_losses(rows).mean())}


def test_texts_have_one_reference_or_several(load: Module) -> None:
    said = ["the cat", "a dog", ""]
    one, several = ["cat", "a dog", "x"], [["x", "the cat "], ["dog"], ["", "y"]]
    assert load("exact_match").compute(predictions=said, references=one) == {"exact_match": pytest.approx(1 / 3)}
    assert load("exact_match").compute(predictions=said, references=several) == {"exact_match": pytest.approx(2 / 3)}
    loose = load("exact_match").compute(predictions=said, references=one, normalize="squad")
    assert loose == {"exact_match": pytest.approx(2 / 3)}
    assert load("token_f1").compute(predictions=said, references=one) == {"token_f1": pytest.approx(2 / 3)}
    assert load("token_f1").compute(predictions=said, references=several) == {"token_f1": 1.0}


def test_they_are_modules_of_the_check_too(tmp_path: Path) -> None:
    truth = ["red house", "blue tree"] * 60
    answers = writer(["red house", "old tree"] * 60, truth)
    inputs = FakeInputs(evidence=tmp_path, answers={("test", "candidate"): answers})
    modules = {"token_f1": metrics.path("token_f1")}
    check = {"check": "evaluate", "dataset": "test", "modules": modules, "report_only": True}
    found = Evaluate.model_validate(check).run(inputs).estimates["score"]
    assert isinstance(found, Parts)
    one = found.parts["token_f1"]
    assert isinstance(one, Estimate) and one.value == pytest.approx(0.75)


def test_a_name_that_is_not_there() -> None:
    assert metrics.NAMES == ("brier", "ece", "exact_match", "token_f1")
    with pytest.raises(InputError, match=r"no metric module 'eec' \(choices: brier, ece, .*did you mean 'ece'"):
        metrics.path("eec")


def test_asking_for_a_path_loads_no_library() -> None:
    code = "import sys, evalspec.metrics as m; m.path('ece'); print('evaluate' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]

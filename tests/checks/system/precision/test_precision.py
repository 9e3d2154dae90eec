"""`precision`: an fp32 model that calls itself int8, an operator that fell back, answers that differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evalspec.checks.system.precision.spec import Precision
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.blocks import Bars, Table
from evalspec.evidence.estimate import Fact
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Predictions, Probe
from evalspec.language.parts import CheckResult, NeedPredictions, NeedTiming, SpecNames
from evalspec.language.requirement import Requirement
from tests.checks.deciding import outcome
from tests.checks.system.probed import Row, precision
from tests.fakes import FakeInputs, classifier, regressor

ON_DEVICE = Requirement("operator_coverage == 100 %", "operator_coverage", None, "==", 100.0, "%")
IN_PRECISION = Requirement("precision_coverage >= 95 %", "precision_coverage", None, ">=", 95.0, "%")
AGREES = Requirement("argmax_disagreement <= 1 %", "argmax_disagreement", None, "<=", 1.0, "%")

FLOAT: list[Row] = [
    ("conv", "Conv", "cpu", "float32", "float32", "float32", 9e6),
    ("product", "Gemm", "cpu", "float32", "float32", "float32", 1e6),
]
INT8: list[Row] = [
    ("quantize", "QuantizeLinear", "cpu", "float32", "", "uint8", 1e4),
    ("conv", "QLinearConv", "cpu", "int8", "int8", "uint8", 9e6),
    ("product", "QGemm", "cpu", "int8", "int8", "uint8", 1e6),
    ("shape", "Reshape", "cpu", "", "", "uint8", 0.0),
]


def run(
    folder: Path,
    rows: list[Row],
    model: Mapping[str, Cell],
    answers: Mapping[tuple[str, str], Predictions] | None = None,
    reference: str | None = None,
    **facts: Cell,
) -> CheckResult:
    check = Precision.model_validate({"check": "precision", "dataset": "test", "reference": reference})
    inputs = FakeInputs(
        folder, probes=precision(rows, **facts), facts={"candidate": model}, answers=dict(answers or {})
    )
    return check.run(inputs)


def value(result: CheckResult, metric: str) -> float:
    found = result.estimates[metric]
    assert isinstance(found, Fact)
    return found.value


def table(result: CheckResult, beginning: str) -> Table | None:
    return next((b for b in result.blocks if isinstance(b, Table) and b.title.startswith(beginning)), None)


def test_fp32_that_calls_itself_int8_is_found(tmp_path: Path) -> None:
    result = run(tmp_path, FLOAT, {"precision": "int8", "device": "cpu"})
    assert value(result, "precision_coverage") == 0.0
    assert outcome(result, IN_PRECISION) == "FAIL"
    listed = table(result, "Operators that do not compute in int8")
    assert listed is not None and [row[0] for row in listed.rows] == ["Conv", "Gemm"]


def test_its_clean_twin_passes(tmp_path: Path) -> None:
    result = run(tmp_path, INT8, {"precision": "int8", "device": "cpu"})
    assert value(result, "precision_coverage") == pytest.approx(1e7 / 1.001e7)
    assert outcome(result, IN_PRECISION) == "PASS" and outcome(result, ON_DEVICE) == "PASS"


def test_an_operator_that_fell_back_to_the_cpu_is_found(tmp_path: Path) -> None:
    rows = [(*row[:2], "cuda:0", *row[3:]) for row in FLOAT]
    rows.append(("odd", "NonMaxSuppression", "cpu", "float32", "", "int64", 10.0))
    result = run(tmp_path, rows, {"precision": "fp32", "device": "cuda"})
    assert value(result, "operator_coverage") == pytest.approx(2 / 3)
    assert outcome(result, ON_DEVICE) == "FAIL"
    assert any("1 of 3 operators did not run on cuda:0: NonMaxSuppression" in note for note in result.notes)
    listed = table(result, "Operators that did not run on cuda:0")
    assert listed is not None and listed.rows[0][:3] == ("NonMaxSuppression", "cpu", 1)


def test_all_on_the_gpu_has_no_fallback_list(tmp_path: Path) -> None:
    rows = [(*row[:2], "cuda:0", *row[3:]) for row in FLOAT]
    result = run(tmp_path, rows, {"device": "cuda:0"}, device_observed="cuda:0")
    assert outcome(result, ON_DEVICE) == "PASS" and result.notes == []
    assert table(result, "Operators that did not run") is None


def test_a_model_that_was_loaded_elsewhere_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, FLOAT, {"device": "cuda:0", "precision": "fp32"})
    assert value(result, "operator_coverage") == 0.0
    assert any("to run on cuda:0 and was loaded on cpu" in note for note in result.notes)


def test_tf32_under_fp32_is_found(tmp_path: Path) -> None:
    rows: list[Row] = [("mm", "aten.mm", "cuda:0", "tf32", "float32", "float32", 1e9)]
    result = run(tmp_path, rows, {"precision": "fp32", "device": "cuda:0"}, device_observed="cuda:0")
    assert value(result, "precision_coverage") == 0.0
    assert any("TF32 is on" in note for note in result.notes)
    asked = run(tmp_path, rows, {"precision": "tf32", "device": "cuda:0"}, device_observed="cuda:0")
    assert value(asked, "precision_coverage") == 1.0 and asked.notes == []


def test_autocast_and_copies_are_told(tmp_path: Path) -> None:
    rows: list[Row] = [*FLOAT, ("copy", "MemcpyToHost", "cpu", "", "", "float32", 0.0)]
    result = run(tmp_path, rows, {"device": "cpu"}, flag_autocast=True)
    assert any("Autocast is on" in note for note in result.notes)
    assert any("1 copies between devices" in note for note in result.notes)


def test_int4_is_of_the_weights(tmp_path: Path) -> None:
    rows: list[Row] = [("mm", "MatMulNBits", "cpu", "float16", "int4", "float16", 1e9)]
    assert value(run(tmp_path, rows, {"precision": "int4"}), "precision_coverage") == 1.0
    assert value(run(tmp_path, FLOAT, {"precision": "int4"}), "precision_coverage") == 0.0


@pytest.mark.parametrize(
    ("precision_asked", "rows", "reason"),
    [(None, FLOAT, "no `precision:`"), ("mixed", FLOAT, "no single precision"), ("fp32", INT8[3:], "no operations")],
)
def test_why_there_is_no_share_of_a_precision(
    tmp_path: Path, precision_asked: str | None, rows: list[Row], reason: str
) -> None:
    result = run(tmp_path, rows, {"precision": precision_asked})
    assert reason in result.missing["precision_coverage"]
    assert "precision_coverage" not in result.estimates


def test_number_types_by_what_has_them(tmp_path: Path) -> None:
    listed = table(run(tmp_path, INT8, {"precision": "int8"}), "Number types")
    assert listed is not None
    rows = {(row[0], row[1]): row for row in listed.rows}
    assert rows["compute", "int8"][2] == 2
    assert rows["weights", "int8"][3] == 100.0
    assert rows["activations", "uint8"][3] == 100.0


def test_where_operators_ran_is_shown_with_the_provider(tmp_path: Path) -> None:
    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        (found,) = precision(FLOAT)(probe, model, options)
        return [replace(found, texts={**found.texts, "providers": ("CUDAExecutionProvider", "CPUExecutionProvider")})]

    check = Precision.model_validate({"check": "precision", "dataset": "test"})
    result = check.run(FakeInputs(tmp_path, probes=make))
    (bars,) = [block for block in result.blocks if isinstance(block, Bars)]
    assert [(bar.label, bar.value) for bar in bars.bars] == [
        ("cpu, CPUExecutionProvider", 1.0),
        ("cpu, CUDAExecutionProvider", 1.0),
    ]


def answers(change: float = 0.0, flips: int = 0, n: int = 1000) -> dict[tuple[str, str], Predictions]:
    rng = np.random.default_rng(1)
    one = rng.dirichlet(np.ones(4), n)
    other = one.copy()
    other[0] += change * np.array([1.0, -1.0, 0.0, 0.0])
    other[n - flips :] = np.roll(other[n - flips :], 1, axis=1) if flips else other[n:]
    return {
        ("test", "candidate"): classifier(other, None),
        ("test", "baseline"): classifier(one, None, model="baseline"),
    }


def test_answers_beside_the_reference(tmp_path: Path) -> None:
    result = run(tmp_path, FLOAT, {}, answers(change=0.001), "baseline")
    assert value(result, "output_difference") == pytest.approx(0.001)
    assert 0.001 <= value(result, "relative_difference") <= 1.0
    assert outcome(result, AGREES) == "PASS"


def test_answers_that_differ_are_found(tmp_path: Path) -> None:
    result = run(tmp_path, FLOAT, {}, answers(flips=60), "baseline")
    assert outcome(result, AGREES) == "FAIL"
    assert value(result, "output_difference") > 0.1


def test_values_have_no_argmax(tmp_path: Path) -> None:
    pair = {
        ("test", "candidate"): regressor([1.0, 2.0, 4.0], None),
        ("test", "baseline"): regressor([1.0, 2.5, 4.0], None),
    }
    result = run(tmp_path, FLOAT, {}, pair, "baseline")
    assert value(result, "output_difference") == 0.5 and value(result, "relative_difference") == 0.2
    assert "not classes" in result.missing["argmax_disagreement"]


def test_models_that_can_not_be_set_side_by_side(tmp_path: Path) -> None:
    pair = {
        ("test", "candidate"): classifier(np.eye(3), None),
        ("test", "baseline"): regressor([1.0, 2.5, 4.0], None),
    }
    with pytest.raises(InputError, match="3 rows of 3 classes and 3 rows of values"):
        run(tmp_path, FLOAT, {}, pair, "baseline")


def test_without_a_reference_nothing_is_set_beside(tmp_path: Path) -> None:
    result = run(tmp_path, FLOAT, {})
    assert {"output_difference", "relative_difference", "argmax_disagreement"} <= set(result.missing)


def test_no_operators_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="no operators were seen"):
        run(tmp_path, [], {})


def test_needs_and_refusals() -> None:
    check = Precision.model_validate({"check": "precision", "dataset": "test", "reference": "baseline"})
    timing, *predicted = check.needs()
    assert isinstance(timing, NeedTiming)
    assert [need.model for need in predicted if isinstance(need, NeedPredictions)] == ["candidate", "baseline"]
    alone = Precision.model_validate({"check": "precision", "dataset": "test"})
    assert len(alone.needs()) == 1
    assert "needs `reference:`" in (alone.check_requirement(AGREES, {}) or "")
    assert alone.check_requirement(ON_DEVICE, {}) is None and check.check_requirement(AGREES, {}) is None
    itself = Precision.model_validate({"check": "precision", "dataset": "test", "reference": "candidate"})
    assert "its own reference" in (itself.check_names(SpecNames(("candidate",), ("test",), ())) or "")

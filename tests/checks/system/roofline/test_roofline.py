"""`roofline`: where a model stands under the roof, and what keeps it from more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from evalspec.checks.system.roofline.spec import Roofline
from evalspec.errors import InvalidError, NotRunError
from evalspec.evidence.blocks import Curve, Table, Text
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Probe
from evalspec.language.parts import CheckResult
from evalspec.language.requirement import Requirement
from tests.checks.deciding import outcome
from tests.checks.system.probed import Maker, roofline
from tests.fakes import FakeInputs

NEEDED = Requirement("roof_fraction >= 30 %", "roof_fraction", None, ">=", 30.0, "%")
FAST = Requirement("achieved_flops >= 40 GFLOP/s", "achieved_flops", None, ">=", 40.0, "GFLOP/s")


def run(folder: Path, maker: Maker, **fields: object) -> CheckResult:
    check = Roofline.model_validate({"check": "roofline", "dataset": "test", "report_only": True, **fields})
    return check.run(FakeInputs(folder, probes=maker))


def said(result: CheckResult) -> str:
    (text,) = [block for block in result.blocks if isinstance(block, Text)]
    assert text.title == f"Bound by {result.conditions['bound']}"
    return text.text


def measured(result: CheckResult, metric: str) -> Estimate:
    found = result.estimates[metric]
    assert isinstance(found, Measured) and isinstance(found.estimate, Estimate)
    return found.estimate


def test_a_model_at_half_of_the_arithmetic_ceiling(tmp_path: Path) -> None:
    """1 GFLOP and 8 MB: 125 FLOP/B, right of a ridge of 2; 20 ms at 100 GFLOP/s and half of it."""
    result = run(tmp_path, roofline())
    fact = result.estimates["arithmetic_intensity"]
    assert isinstance(fact, Fact) and fact.value == 125.0
    assert measured(result, "roof_fraction").value == pytest.approx(0.5, rel=0.05)
    assert measured(result, "achieved_flops").value == pytest.approx(50.0, rel=0.05)
    assert result.conditions["bound"] == "compute"
    assert outcome(result, NEEDED) == "PASS" and outcome(result, FAST) == "PASS"


def test_a_model_that_waits_for_memory(tmp_path: Path) -> None:
    """10 MFLOP and 40 MB: 0.25 FLOP/B; 0.8 ms at 50 GB/s."""
    result = run(tmp_path, roofline(operations=1e7, weight_bytes=0.0, activation_bytes=4e7, fraction=0.8))
    assert result.conditions["bound"] == "memory"
    assert measured(result, "roof_fraction").value == pytest.approx(0.8, rel=0.05)
    assert measured(result, "achieved_flops").value == pytest.approx(0.25 * 50 * 0.8, rel=0.05)
    assert said(result).startswith("Fewer bytes")


def test_a_model_that_mostly_starts_operators(tmp_path: Path) -> None:
    result = run(
        tmp_path, roofline(operations=1e4, weight_bytes=0.0, activation_bytes=1e4, fraction=0.01, on_calls=0.9)
    )
    assert result.conditions["bound"] == "overhead"
    assert said(result).startswith("90 % of a call") and "CUDA graphs" in said(result)


def test_weights_that_are_read_once_a_call_are_no_overhead(tmp_path: Path) -> None:
    """At batch 1 nearly all of a call is reading weights: that is memory."""
    result = run(
        tmp_path,
        roofline(operations=1e7, weight_bytes=4e7, activation_bytes=1e4, fraction=0.9, on_calls=0.05),
    )
    assert result.conditions["bound"] == "memory"


def test_a_low_fraction_is_no_failure_by_itself(tmp_path: Path) -> None:
    result = run(tmp_path, roofline(fraction=0.02))
    assert result.invalid is None
    found = result.estimates["roof_fraction"]
    assert isinstance(found, Measured) and found.withhold is None and found.invalid is None
    assert outcome(result, NEEDED) == "FAIL"


def test_with_a_fixed_batch_overhead_is_a_guess_and_called_one(tmp_path: Path) -> None:
    low = run(tmp_path, roofline(fraction=0.02, on_calls=None))
    assert low.conditions["bound"] == "overhead"
    assert "guessed" in said(low)
    assert run(tmp_path, roofline(fraction=0.5, on_calls=None)).conditions["bound"] == "compute"


def test_more_than_the_roof_is_kept_from_pass(tmp_path: Path) -> None:
    result = run(tmp_path, roofline(fraction=1.4))
    found = result.estimates["roof_fraction"]
    assert isinstance(found, Measured) and re.match(r"1[34]\d % of the roof", str(found.withhold))
    assert outcome(result, NEEDED) == "INCONCLUSIVE"


def test_a_precision_without_a_ceiling_has_no_fraction(tmp_path: Path) -> None:
    result = run(tmp_path, roofline(gemm=None))
    assert "no product in fp32" in result.missing["roof_fraction"]
    assert outcome(result, NEEDED) == "MISSING" and outcome(result, FAST) == "PASS"
    assert result.conditions["bound"] is None
    assert not [block for block in result.blocks if isinstance(block, Curve | Text)]


def test_a_model_without_operations_stands_under_the_slope(tmp_path: Path) -> None:
    result = run(tmp_path, roofline(operations=0.0, fraction=0.6))
    assert measured(result, "roof_fraction").value == pytest.approx(0.6, rel=0.05)
    assert result.conditions["bound"] == "memory"
    assert not [block for block in result.blocks if isinstance(block, Curve)]


def test_nothing_counted_is_no_intensity(tmp_path: Path) -> None:
    result = run(tmp_path, roofline(operations=0.0, weight_bytes=0.0, activation_bytes=0.0, fraction=0.5))
    assert set(result.missing) == {"arithmetic_intensity", "roof_fraction"}


def test_ceilings_that_vary_are_told(tmp_path: Path) -> None:
    steady, shaken = roofline(), roofline(gemm=2e11)

    def make(probe: str, model: str, options: object) -> object:
        return steady(probe, model, options)[:3] + shaken(probe, model, options)[3:]  # type: ignore[arg-type]

    result = run(tmp_path, make)  # type: ignore[arg-type]  # options of a test
    assert any("ceiling of the arithmetic itself varies" in note for note in result.notes)
    assert not any("itself varies" in note for note in run(tmp_path, roofline()).notes)


def test_the_chart_is_log_log_with_both_roofs_and_both_points(tmp_path: Path) -> None:
    result = run(tmp_path, roofline())
    (chart,) = [block for block in result.blocks if isinstance(block, Curve)]
    assert chart.log_x and chart.log_y
    near, memory, warm, cold = chart.series
    assert near.x[1] == pytest.approx(2.0) and near.y[1] == near.y[2] == pytest.approx(100.0)
    assert memory.x[1] == pytest.approx(8.0)
    assert warm.x == cold.x == (125.0,) and cold.y[0] < warm.y[0] == pytest.approx(50.0, rel=0.05)


def test_the_bytes_that_count_are_named(tmp_path: Path) -> None:
    result = run(tmp_path, roofline())
    tables = {block.title: block for block in result.blocks if isinstance(block, Table)}
    rows = {row[0]: row[1] for row in tables["Under the roof"].rows}
    assert rows["bytes: weights"] == rows["bytes: activations"] == "4,000,000 B"
    assert rows["the same without activations"] == "250 FLOP/B" and rows["bound by"] == "compute"
    assert len(tables["Ceilings"].rows) == 15
    assert tables["Operators"].rows[0][:3] == ("MatMul", 2, 1e9)


def test_the_plan_that_was_not_reached_is_invalid(tmp_path: Path) -> None:
    assert outcome(run(tmp_path, roofline(calls=19)), NEEDED) == "INVALID"
    assert outcome(run(tmp_path, roofline(processes=4)), NEEDED) == "INVALID"


def test_without_processes_or_calls_there_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="no process was measured"):
        run(tmp_path, roofline(processes=0))
    with pytest.raises(NotRunError, match="timed no call"):
        run(tmp_path, roofline(calls=0))


@pytest.mark.parametrize("name", ["operations", "weight_bytes", "activation_bytes", "calls"])
def test_what_nobody_told_is_no_zero(tmp_path: Path, name: str) -> None:
    make = roofline()

    def silent(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        return [replace(one, facts={**one.facts, name: None}) for one in make(probe, model, options)]

    with pytest.raises(InvalidError, match=f"did not tell {name}, which roofline needs"):
        run(tmp_path, silent)


def test_it_is_not_held_against_another_model() -> None:
    check = Roofline.model_validate({"check": "roofline", "dataset": "test", "report_only": True})
    against = Requirement("roof_fraction >= baseline", "roof_fraction", None, ">=", 0.0, "pp", model="baseline")
    assert "no paired comparison" in (check.check_requirement(against, {}) or "")
    assert check.check_requirement(NEEDED, {}) is None


def test_a_draft_is_short(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, probes=roofline(processes=2), draft=True)
    Roofline.model_validate({"check": "roofline", "dataset": "test", "report_only": True}).run(inputs)
    assert inputs.probed[0][1]["calls"] == 4

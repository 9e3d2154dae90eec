"""Order, family and what a plan says that a spec can detect."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evalspec.errors import SpecError
from evalspec.plan import plan
from evalspec.plan.explain import chance_of_ready, detects, explain
from evalspec.run.folders import read_record
from evalspec.spec import Options, load

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "suites" / "digits" / "evalspec.yaml"
SAMPLE = ROOT / "reports" / "sample"


@pytest.fixture(scope="module")
def digits() -> object:
    return load(DIGITS, options=Options())


def test_data_before_model_before_system(digits: object) -> None:
    dimensions = [one.check.dimension for one in plan(digits).checks]  # type: ignore[arg-type]
    assert dimensions == sorted(dimensions, key=["data", "model", "system"].index)


def test_predictions_are_shared(digits: object) -> None:
    planned = plan(digits)  # type: ignore[arg-type]
    assert len(planned.predictions) == len(set(planned.predictions))
    assert ("test", "candidate") in planned.predictions
    assert ("test", "baseline") in planned.predictions


def test_the_family_is_fixed_by_the_spec_also_under_only(digits: object) -> None:
    whole = plan(digits)  # type: ignore[arg-type]
    part = plan(digits, only=["quality"])  # type: ignore[arg-type]
    assert part.family == whole.family
    assert [one.check.name for one in part.checks] == ["quality"]
    assert "contamination/exact_duplicates" not in whole.family
    assert "field_shift/c2st_auc" in whole.family_warn


def test_only_takes_a_requirement_and_refuses_strangers(digits: object) -> None:
    part = plan(digits, only=["quality/accuracy vs baseline"])  # type: ignore[arg-type]
    assert [one.check.name for one in part.checks] == ["quality"]
    with pytest.raises(SpecError, match="did you mean 'quality'"):
        plan(digits, only=["qualty"])  # type: ignore[arg-type]


def test_the_digits_suite_has_a_good_chance_of_ready(digits: object) -> None:
    planned = plan(digits)  # type: ignore[arg-type]
    chance = chance_of_ready(detects(planned, read_record(SAMPLE)))
    assert chance is not None
    assert chance >= 0.9


def test_without_a_record_the_chance_is_not_known(digits: object) -> None:
    lines = explain(plan(digits), None)  # type: ignore[arg-type]
    assert "chance of READY: not known before a first run" in lines
    accuracy = lines.index("quality/accuracy: accuracy >= 95 %, n 850")
    assert lines[accuracy + 1].startswith("  passes nearly always from 0.0")
    assert lines[accuracy + 3] == "  assumes independent rows"


def test_headroom_is_what_simulation_says(digits: object) -> None:
    """At the printed headroom PASS comes out in 1 - 0.1/m of runs, at the printed violation FAIL in 80 %."""
    import numpy as np
    from scipy.stats import binom

    planned = plan(digits)  # type: ignore[arg-type]
    row = next(one for one in detects(planned, None) if one.name == "quality/accuracy")
    assert row.headroom is not None
    assert row.violation is not None
    assert row.n is not None
    m = len(planned.family)
    hits = np.arange(row.n + 1)
    passes = binom.sf(hits - 1, row.n, 0.95) <= 0.05
    fails = binom.cdf(hits, row.n, 0.95) <= 0.05 / m
    assert binom.pmf(hits, row.n, 0.95 + row.headroom)[passes].sum() == pytest.approx(1 - 0.1 / m, abs=2e-3)
    assert binom.pmf(hits, row.n, 0.95 - row.violation)[fails].sum() == pytest.approx(0.8, abs=0.02)


def test_the_command_prints_json() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evalspec", "plan", str(DIGITS), "--record", str(SAMPLE), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["chance_of_ready"] >= 0.9
    assert {row["name"] for row in said["requirements"]} >= {"latency/latency_p99", "quality/accuracy vs baseline"}

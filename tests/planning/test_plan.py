"""Order, family and what a plan says that a spec can detect."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalspec.errors import SpecError
from evalspec.evidence.record import Record
from evalspec.loading import LoadOptions, Spec, load
from evalspec.planning import plan
from evalspec.planning.explain import chance_of_ready, detects, explain
from evalspec.running.folders import read_record

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "suites" / "digits" / "evalspec.yaml"
SAMPLE = ROOT / "reports" / "sample"


@pytest.fixture(scope="module")
def digits() -> object:
    return load(DIGITS, options=LoadOptions())


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


CLAIMS = """
evalspec: 1
name: claims
models:
  candidate: {{kind: onnx, path: a.onnx, quantization: {{method: dynamic}}}}
  baseline: {{kind: onnx, path: b.onnx}}
datasets:
  test: {{kind: parquet, path: t.parquet, label: y}}
  field: {{kind: parquet, path: f.parquet, label: y}}
model:
  - check: quality
    dataset: test
    require: [{quality}]
  - check: compression
    dataset: {dataset}
    method: quantization
    require: [{drop}, ece_increase <= 0.02]
"""


@pytest.mark.parametrize(
    ("quality", "drop", "dataset", "once"),
    [
        ("accuracy >= baseline - 2 pp", "accuracy_drop <= 2 pp", "test", True),
        ("top_k_accuracy(5) >= baseline - 1 pp", "top_5_drop <= 1 pp", "test", True),
        ("accuracy >= baseline - 2 pp", "accuracy_drop <= 2 pp", "field", False),
        ("accuracy >= baseline - 2 pp", "accuracy_drop <= 1 pp", "test", False),
        ("accuracy > baseline - 2 pp", "accuracy_drop <= 2 pp", "test", False),
        ("accuracy >= 90 %", "accuracy_drop <= 2 pp", "test", False),
    ],
)
def test_one_claim_of_two_checks_counts_once(tmp_path: Path, quality: str, drop: str, dataset: str, once: bool) -> None:
    (tmp_path / "spec.yaml").write_text(CLAIMS.format(quality=quality, drop=drop, dataset=dataset))
    planned = plan(load(tmp_path / "spec.yaml", options=LoadOptions(files=False)))
    assert len(planned.family) == (2 if once else 3)
    assert bool(planned.same) == once
    assert all(first.startswith("quality/") and name.startswith("compression/") for name, first in planned.same.items())


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
    assert "chance of READY: unknown before the first run" in lines
    heads = next(line for line in lines if line.startswith("requirement"))
    assert heads.split() == ["requirement", "n", "passes", "from", "fails", "from", "chance"]
    accuracy = next(line for line in lines if line.startswith("quality: accuracy >= 95 %"))
    n, passes, _, fails, unit = accuracy.removeprefix("quality: accuracy >= 95 %").split()
    assert (n, unit) == ("850", "%") and 97 < float(passes) < 98.5 and 91 < float(fails) < 93
    assert any(line.startswith("assumed: independent rows (quality/accuracy") for line in lines)
    fact = next(line for line in lines if line.startswith("contamination: exact_duplicates == 0"))
    assert "counted: no sampling error" in fact + lines[lines.index(fact) + 1]


def test_what_passes_and_what_fails_are_told_in_the_unit_of_the_requirement(digits: Spec) -> None:
    rows = {one.name: one for one in detects(plan(digits), None)}
    share, difference = rows["quality/accuracy"], rows["quality/accuracy vs baseline"]
    assert share.headroom is not None and share.violation is not None
    assert share.passes_from == pytest.approx(0.95 + share.headroom)
    assert share.fails_from == pytest.approx(0.95 - share.violation)
    assert difference.headroom is not None and difference.passes_from == pytest.approx(-2 + difference.headroom)
    upper = replace(share, upper=True)
    assert upper.passes_from == pytest.approx(0.95 - share.headroom)
    assert upper.fails_from == pytest.approx(0.95 + share.violation)


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


def voided(**changes: Any) -> Record:
    """The sample, with one requirement changed."""
    record = read_record(SAMPLE)
    checks = tuple(
        check.model_copy(
            update={
                "tests": tuple(
                    test.model_copy(update=changes) if test.name == "latency/latency_p99" else test
                    for test in check.tests
                )
            }
        )
        for check in record.checks
    )
    return record.model_copy(update={"checks": checks})


def test_what_was_invalid_then_tells_nothing_now(digits: Spec) -> None:
    planned = plan(digits)
    before = voided(invalid="the machine was busy")
    row = next(one for one in detects(planned, before) if one.name == "latency/latency_p99")
    assert (row.headroom, row.violation, row.chance) == (None, None, None)
    assert chance_of_ready(detects(planned, before)) is None
    lines = explain(planned, before)
    at = next(index for index, line in enumerate(lines) if line.startswith("latency: latency_p99 <= 20 ms"))
    assert lines[at + 1] == "  invalid in that run, so its headroom is unknown: the machine was busy"
    assert not lines[at + 2].startswith("  ")
    assert "chance of READY: unknown, since that run gives none for latency/latency_p99" in lines
    missing = explain(planned, voided(missing="no slice has 60 rows", value=None))
    assert "  without a value in that run, so its headroom is unknown: no slice has 60 rows" in missing


def test_times_of_checks_that_did_not_run_are_no_times(digits: Spec) -> None:
    record = read_record(SAMPLE)
    fast = tuple(
        check.model_copy(update={"status": "error", "reason": "the model raised", "duration_s": 0.01})
        for check in record.checks
    )
    planned = plan(digits)
    lines = explain(planned, record.model_copy(update={"checks": fast}))
    assert lines[0] == explain(planned, None)[0]
    assert "  crashed in that run, so its headroom is unknown: the model raised" in lines


def test_no_headroom_reaches_beyond_what_a_share_can_be() -> None:
    """No error in 5,000 queries, whose bound is that of 500: at a limit of 0.3 % even no errors pass too seldom."""
    from scipy.stats import beta

    from evalspec.stats.power import detectable
    from evalspec.stats.recorded import recorded_proportion

    bound = float(beta.ppf(0.95, 1, 500))
    design = recorded_proportion(0.0, bound, 0.95, 5000)
    assert design.design_effect == pytest.approx(10.0, rel=1e-3)
    for threshold, reaches in ((0.003, False), (0.02, True)):
        found = detectable(design, threshold, "lower", alpha_pass=0.05, alpha_fail=0.01, family=3)
        assert (found.headroom is not None) == reaches
        if found.headroom is not None:
            assert threshold - found.headroom >= 0.0


@pytest.mark.parametrize(
    ("sentence", "limits"),
    [
        ("error_rate(5 qps) <= 1 %", (0.0, 1.0)),
        ("latency_p99(5 qps) <= 5 ms", (0.0, math.inf)),
        ("goodput(5 qps) >= 4 qps", (0.0, math.inf)),
    ],
)
def test_what_a_truth_may_be(sentence: str, limits: tuple[float, float]) -> None:
    from evalspec.checks.system.load.spec import Load
    from evalspec.planning.explain import _limits

    one = Load.read_sentence(sentence, blocking=True)
    metric = next(metric for metric in Load.metrics if metric.name == one.metric)
    assert _limits(one, metric) == limits


def test_a_difference_and_a_ratio_have_limits_of_their_own() -> None:
    from evalspec.checks.model.quality.spec import Quality
    from evalspec.checks.system.latency.spec import Latency
    from evalspec.planning.explain import _limits

    drop = Quality.read_sentence("accuracy >= baseline - 2 pp", blocking=True)
    accuracy = next(metric for metric in Quality.metrics if metric.name == "accuracy")
    assert _limits(drop, accuracy) == (-1.0, 1.0)
    ratio = Latency.read_sentence("latency_p50 <= 1.2x baseline", blocking=True)
    assert _limits(ratio, Latency.metrics[0]) == (0.0, math.inf)


def test_an_increase_of_an_error_may_be_below_0() -> None:
    from evalspec.checks.model.compression.spec import Compression
    from evalspec.planning.explain import _limits

    metric = next(metric for metric in Compression.metrics if metric.name == "ece_increase")
    assert _limits(Compression.read_sentence("ece_increase <= 0.02", blocking=True), metric) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [("ece <= 0.05", "noise adds"), ("rms_calibration <= 0.05", "noise adds"), ("mce <= 0.1", "of a bin's gap")],
)
def test_a_calibration_error_is_planned_by_its_noise(sentence: str, words: str) -> None:
    from evalspec.checks.model.calibration.spec import Calibration
    from evalspec.evidence.test import Test
    from evalspec.planning.explain import _scaled

    one = Calibration.read_sentence(sentence, blocking=True)
    test = Test(
        name=f"calibration/{one.metric}", check="calibration", sentence=sentence, metric=one.metric, op="<=",
        threshold=one.threshold, unit="fraction", value=0.02, lower=0.0, upper=0.04, n=2000,
    )  # fmt: skip
    metric = next(known for known in Calibration.metrics if known.name == one.metric)
    design = _scaled(metric, test, 0.02, 0.04, 0.95)
    assert design is not None and words in design.assumed


@pytest.mark.parametrize(
    ("method", "fields", "said"),
    [
        ("binomial on the share of queries over, design effect 3.2", {}, "3.2 in that run, 50 in this plan: fewer"),
        ("binomial on the share of queries over, design effect 1,204.5", {}, "1204.5 in that run, 50 in this plan"),
        ("binomial on the share of queries over, design effect 3.2", {"queries": 900}, None),
        ("Student's t over 5 processes", {}, None),
    ],
)  # fmt: skip
def test_the_design_effect_of_the_last_run_stands_beside_the_planned_one(
    method: str, fields: dict[str, Any], said: str | None
) -> None:
    from evalspec.checks.system.load.spec import Load
    from evalspec.evidence.test import Test
    from evalspec.planning.explain import Detects, _effects, _table

    sentence = "latency_p90(10 qps) <= 50 ms"
    check = Load.model_validate(
        {"check": "load", "dataset": "test", "rates": ["10 qps"], "require": [sentence], **fields}
    )
    test = Test(name="load/latency_p90(10 qps)", check="load", metric="latency_p90", sentence=sentence, op="<=",
                threshold=50.0, unit="ms", method=method)  # fmt: skip
    row = Detects(
        "load/latency_p90(10 qps)", sentence, 900, "ms", 4.0, 5.0, "", 0.9, True, effects=_effects(check, test)
    )
    told = [line for line in _table([row]) if "design effect" in line]
    assert len(told) == (said is not None)
    assert said is None or said in told[0]
    assert _effects(check, None) is None

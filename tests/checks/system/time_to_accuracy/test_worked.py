"""Worked numbers of `time_to_accuracy`, from logs in the format of those that they are of."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.checks.system.time_to_accuracy.spec import TimeToAccuracy
from evalspec.errors import InputError
from evalspec.evidence.blocks import Table
from evalspec.language.parts import Access, CheckResult
from evalspec.stats.training.scaling import log_ratio
from tests.checks.deciding import outcome
from tests.checks.system.time_to_accuracy.test_measure import at, llama, measured
from tests.fakes import FakeInputs
from tests.trainings.logs import write_jsonl
from tests.trainings.mlperf import (
    DLRM,
    THEIA_8,
    THEIA_LORA_512,
    TYCHE_8,
    TYCHE_72,
    TYCHE_512,
    Submission,
    reference_samples,
    write_rcps,
)
from tests.trainings.runs import recipe, recipe_table
from tests.trainings.test_kinds import training

LOSS = "eval_accuracy <= 3.3"


def decided(
    folder: Path, own: Submission, *sentences: str, reference: Any = None, aborted: tuple[int, ...] = (), **fields: Any
) -> tuple[CheckResult, list[str]]:
    """The check over logs of a submission, and what it comes to; ``reference`` is a submission or batch sizes."""
    check = TimeToAccuracy.model_validate(
        {"check": "time_to_accuracy", "training": "recipe", "target": LOSS, "clock": "run_start",
         "require": sentences or ["time_to_accuracy_p50 <= 82 min"], **fields}
    )  # fmt: skip
    own.write(folder / "own", aborted)
    tables = {"recipe": training("mllog", path="own/*.txt", workers=own.workers).read(Access(folder))}
    if isinstance(reference, Submission):
        reference.write(folder / "reference")
        tables["reference"] = training("mllog", path="reference/*.txt", workers=8).read(Access(folder))
    elif reference is not None:
        write_rcps(folder / "rcps.json", reference)
        tables["reference"] = training("rcp", path="rcps.json", epoch=1).read(Access(folder))
    check.inspect_rows(tables, {})
    result = check.run(FakeInputs(evidence=folder, tables=tables))
    return result, [outcome(result, one) for one in check.requirements]


def estimate(result: CheckResult, metric: str = "time_to_accuracy_p50") -> Any:
    return result.estimates[metric]


def rows_of(result: CheckResult, title: str) -> list[dict[str, Any]]:
    """Rows of a table by the names of its columns."""
    (table,) = (one for one in result.blocks if one.title.startswith(title))
    assert isinstance(table, Table)
    return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]


def test_llama_on_8_gpus(tmp_path: Path) -> None:
    sentences = [f"time_to_accuracy_p50 <= {limit} min" for limit in (82, 80, 78)]
    result, found = decided(tmp_path, TYCHE_8, *sentences, report=["mlperf"])
    assert found == ["PASS", "INCONCLUSIVE", "INCONCLUSIVE"]
    (score,) = rows_of(result, "MLPerf score")
    assert (score["score"], score["state"]) == (pytest.approx(79.325, abs=1e-3), "valid")
    p50 = estimate(result)
    assert p50.value == pytest.approx(80.16, abs=5e-3)
    assert (p50.bound(0.95, "upper"), p50.p_value(82, "upper")) == (
        pytest.approx(81.471, abs=1e-3), pytest.approx(0.0107, abs=5e-5),
    )  # fmt: skip
    assert p50.p_value(80, "upper") == pytest.approx(0.623, abs=5e-4)
    # Of one run in ten even the evaluation before the target came after 78 min: 9 may have got there earlier.
    assert p50.p_value(78, "lower") > 0.172


@pytest.mark.parametrize(("own", "score"), [(TYCHE_72, 14.758), (TYCHE_512, 5.374)], ids=["72 GPUs", "512 GPUs"])
def test_scores_of_more_gpus(tmp_path: Path, own: Submission, score: float) -> None:
    result, _ = decided(tmp_path, own, report=["mlperf"])
    (row,) = rows_of(result, "MLPerf score")
    # Logs end half a second after the last evaluation, which the submission's score counts.
    assert row["score"] == pytest.approx(score, abs=1e-3)


def test_lora_on_512_gpus_takes_most_of_its_time_before_the_clock(tmp_path: Path) -> None:
    clock, _ = decided(tmp_path, THEIA_LORA_512)
    process, _ = decided(tmp_path, THEIA_LORA_512, clock="process")
    assert float(np.mean(THEIA_LORA_512.minutes)) == pytest.approx(0.402, abs=2e-3)
    assert float(np.mean(THEIA_LORA_512.before_min)) == pytest.approx(3.30, abs=5e-3)
    assert estimate(process).value - estimate(clock).value > 3.1
    assert any("min before the clock starts (median)" in one for one in clock.weakens)


def test_dlrm_with_an_aborted_run(tmp_path: Path) -> None:
    sentences = ["convergence_rate >= 90 %", "time_to_accuracy_p50 <= 1.6 min"]
    result, found = decided(tmp_path, DLRM, *sentences, aborted=(1,), report=["mlperf"])
    assert found == ["INCONCLUSIVE", "INCONCLUSIVE"]
    rate = estimate(result, "convergence_rate")
    assert (rate.value, rate.bound(0.95, "lower")) == (0.9, pytest.approx(0.606, abs=5e-4))
    assert estimate(result).p_value(1.6, "upper") == pytest.approx(0.172, abs=5e-4)
    (score,) = rows_of(result, "MLPerf score")
    assert (score["score"], score["not converged"], score["state"]) == (pytest.approx(1.5542, abs=1e-4), 1, "valid")
    twice, _ = decided(tmp_path, DLRM, *sentences, aborted=(1, 2), report=["mlperf"])
    (invalid,) = rows_of(twice, "MLPerf score")
    assert (invalid["score"], invalid["state"]) == (None, "invalid: 2 runs did not converge")


def test_two_systems(tmp_path: Path) -> None:
    sentences = [f"time_to_accuracy_p50 <= {factor}x reference" for factor in (1, 0.95, 0.9)]
    result, found = decided(tmp_path, THEIA_8, *sentences, reference=TYCHE_8)
    assert found == ["PASS", "PASS", "PASS"]
    ratio: Any = result.comparisons["time_to_accuracy_p50", "reference"].ratio()
    assert ratio.value == pytest.approx(0.847, abs=0.01)
    assert [ratio.p_value(factor, "upper") for factor in (1.0, 0.95)] == [1 / 184_756] * 2
    assert ratio.p_value(0.9, "upper") == pytest.approx(0.0033, abs=5e-4)


def test_not_too_fast_is_not_as_good(tmp_path: Path) -> None:
    """tyche on 8 GPUs needs 12 % more samples than the reference, and passes the test of MLPerf."""
    sentence = "samples_to_accuracy_p50 <= 1.05x reference"
    result, found = decided(tmp_path, TYCHE_8, sentence, reference=(16, 32), report=["mlperf"])
    assert found == ["FAIL"]
    welch = log_ratio(TYCHE_8.samples, reference_samples(16))
    assert (welch.value, welch.bound(0.95, "lower"), welch.bound(0.95, "upper")) == (
        pytest.approx(1.118, abs=5e-4), pytest.approx(1.094, abs=2e-3), pytest.approx(1.142, abs=2e-3),
    )  # fmt: skip
    rules, code = rows_of(result, "MLPerf test of convergence against reference")
    assert rules["state"] == code["state"] == "passed"
    assert not any("fewer samples" in one for one in result.weakens)
    assert any("whether that is eval_accuracy <= 3.3" in one for one in result.weakens)


def test_faster_by_chance_is_normalised(tmp_path: Path) -> None:
    sentence = "samples_to_accuracy_p50 <= 1.05x reference"
    result, _ = decided(tmp_path, TYCHE_512, sentence, reference=(32, 64, 96), report=["mlperf"])
    (score,) = rows_of(result, "MLPerf score")
    for row in rows_of(result, "MLPerf test"):
        assert (row["mean"], row["mean of the reference"]) == (224_256.0, pytest.approx(226_645.3, abs=0.05))
        assert row["normalised score"] / score["score"] == pytest.approx(1.01065, abs=5e-6)


def test_points_are_interpolated_and_never_extrapolated(tmp_path: Path) -> None:
    sentence = "samples_to_accuracy_p50 <= 1.05x reference"
    between, found = decided(tmp_path, TYCHE_72, sentence, reference=(32, 64), report=["mlperf"])
    assert found == ["PASS"]
    assert any("no points at batch size 36: they are interpolated between 32 and 64" in one for one in between.weakens)
    outside, found = decided(tmp_path, TYCHE_72, sentence, reference=(64, 96), report=["mlperf"])
    assert found == ["MISSING"]
    assert outside.missing["samples_to_accuracy_p50 vs reference"] == (
        "reference has points for batch sizes of 64 to 96, and 36 lies outside of them"
    )
    # A smaller batch that needs fewer samples than the smallest: somebody has to run the reference.
    assert {row["state"] for row in rows_of(outside, "MLPerf test")} == {"no points at this batch size"}


def test_half_the_samples_are_a_doubt(tmp_path: Path) -> None:
    """Validation rows lie in training: the verdict passes, and says to look."""
    sentence = "samples_to_accuracy_p50 <= 1.05x reference"
    fast = Submission(8, 16, TYCHE_8.before_min, TYCHE_8.missed_min, tuple(one / 2 for one in TYCHE_8.missed),
                      TYCHE_8.minutes, tuple(one / 2 for one in TYCHE_8.samples))  # fmt: skip
    result, found = decided(tmp_path, fast, sentence, reference=(16, 32), report=["mlperf"])
    assert found == ["PASS"]
    assert any("needs fewer samples than reference, and by more than chance" in one for one in result.weakens)
    assert {row["state"] for row in rows_of(result, "MLPerf test")} == {"too fast"}


def test_only_samples_are_held_against_points(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="asks for more than reference knows, which are points in samples"):
        decided(tmp_path, TYCHE_8, "time_to_accuracy_p50 <= 1.05x reference", reference=(16,))
    check = TimeToAccuracy.model_validate(
        {"check": "time_to_accuracy", "training": "reference", "target": LOSS,
         "require": ["samples_to_accuracy_p50 <= 9 samples"]}
    )  # fmt: skip
    table = training("rcp", path="rcps.json", epoch=1).read(Access(tmp_path))
    with pytest.raises(InputError, match="reference holds reference points, which know no measure"):
        check.inspect_rows({"reference": table}, {})


def test_runs_without_a_batch_size_have_no_points(tmp_path: Path) -> None:
    write_rcps(tmp_path / "rcps.json")
    points = training("rcp", path="rcps.json", epoch=1).read(Access(tmp_path))
    check = TimeToAccuracy.model_validate(
        {"check": "time_to_accuracy", "training": "recipe", "target": "val_accuracy >= 94 %",
         "require": ["samples_to_accuracy_p50 <= 1.05x reference"], "report": ["mlperf"]}
    )  # fmt: skip
    for batches, said in (((None,), "does not say its batch size: add `batch:`"), ((16, 32), "batch sizes 16 and 32")):
        runs = [run for place, run in enumerate(recipe(8, batch=batches[0])) if place < 4 or len(batches) == 1]
        runs += recipe(8, batch=batches[1])[4:] if len(batches) > 1 else []
        tables = {"recipe": recipe_table(runs), "reference": points}
        result = check.run(FakeInputs(evidence=tmp_path, tables=tables))
        assert said in result.missing["samples_to_accuracy_p50 vs reference"]
        assert {row["state"] for row in rows_of(result, "MLPerf test")} == {"not known"}


def test_another_batch_size_of_a_baseline_is_told(tmp_path: Path) -> None:
    sentence = "samples_to_accuracy_p50 <= 1.05x baseline"
    own, other = recipe(8, batch=64), recipe(8, seed=9, batch=16)
    result, _ = measured(tmp_path, own, sentence, others=other)
    assert any("runs of recipe have a batch size of 64, those of baseline of 16" in one for one in result.weakens)
    same, _ = measured(tmp_path, own, sentence, others=recipe(8, seed=9, batch=64))
    assert not any("batch size" in one for one in same.weakens)


def test_the_first_touch_of_dawnbench_is_not_held(tmp_path: Path) -> None:
    """dawn_resnet164_nb_16vCPUs-gc_tensorflow: 94.02 % at epoch 161.155, and 17 of the next 20 evaluations below."""
    hours, epoch = 94.163, 161.155
    later = [0.9402 if place in (4, 9, 13) else 0.9385 for place in range(20)]
    evaluations = [(60 * hours * share, 0.93 * share, 50_000 * epoch * share) for share in (0.25, 0.5, 0.75, 0.999)]
    evaluations += [(60 * hours, 0.9402, 50_000 * epoch)]
    evaluations += [(60 * (hours + place / 4), one, 50_000 * (epoch + place)) for place, one in enumerate(later, 1)]
    write_jsonl(tmp_path / "log.jsonl", evaluations)
    log = training("jsonl", path="log.jsonl", time="t", samples="samples", cost="0.533 USD/h")
    found = {}
    for held in (1, 3):
        check = TimeToAccuracy.model_validate(
            {"check": "time_to_accuracy", "training": "recipe", "target": "val_accuracy >= 94 %", "held": held,
             "require": ["convergence_rate >= 50 %"]}
        )  # fmt: skip
        found[held] = check.run(FakeInputs(evidence=tmp_path, tables={"recipe": log.read(Access(tmp_path))}))
    assert estimate(found[1]).value / 60 == pytest.approx(94.163, abs=1e-3)
    assert estimate(found[1], "cost_to_accuracy_p50").value == pytest.approx(50.19, abs=5e-3)
    assert estimate(found[1], "samples_to_accuracy_p50").value == pytest.approx(50_000 * 161.155)
    assert any("log.jsonl in 17 of 20 evaluations" in one for one in found[1].weakens)
    assert estimate(found[3], "convergence_rate").value == 0.0
    assert estimate(found[3]).bound(0.95, "upper") is None


def test_more_throughput_and_more_iterations_are_slower(tmp_path: Path) -> None:
    """180 -> 420 samples/s, 2.5 times the iterations: 0.933 times the speed."""
    slow, fast = llama((1_000 / 180,) * 1), llama((2_500 / 420,) * 1)
    times = [measured(tmp_path, one)[0].estimates["time_to_accuracy_p50"].value for one in (slow, fast)]  # type: ignore[union-attr]
    assert times[0] / times[1] == pytest.approx(0.933, abs=5e-4)  # type: ignore[operator]
    assert math.isclose(420 / 180, 2.333, abs_tol=5e-4)


def test_a_run_whose_last_values_are_missing(tmp_path: Path) -> None:
    """A log that says no samples after the target can't be held against points."""
    runs = [at(str(n), (10.0 + n, 0.9), (20.0 + n, 0.95), seed=n, batch=16) for n in range(8)]
    result, _ = measured(tmp_path, runs, report=["mlperf"])
    assert [block.title for block in result.blocks][-1] == "MLPerf score"

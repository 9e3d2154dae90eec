"""`time_to_accuracy`: worked numbers, what counts as reached, comparisons, and what is told beside."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from evalspec.checks.system.time_to_accuracy.show import mlperf_score
from evalspec.checks.system.time_to_accuracy.spec import TimeToAccuracy
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.blocks import Curve
from evalspec.evidence.estimate import Measured
from evalspec.evidence.reasons import OnlyWorse
from evalspec.language.parts import CheckResult, SpecNames
from evalspec.stats.shares.proportion import Proportion
from evalspec.trainings.jsonl import JsonlTraining
from evalspec.trainings.reading.run import COLUMNS, Evaluation, TrainingRun, supervised_table
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs
from tests.trainings.logs import TYCHE
from tests.trainings.runs import RECIPE, recipe, recipe_run, recipe_table


def measured(
    folder: Path,
    runs: list[TrainingRun],
    *sentences: str,
    others: list[TrainingRun] | None = None,
    training: Any = None,
    **fields: Any,
) -> tuple[CheckResult, TimeToAccuracy]:
    """The check over these runs, and over those of `baseline`."""
    check = TimeToAccuracy.model_validate(
        {"check": "time_to_accuracy", "training": "recipe", "target": "val_accuracy >= 94 %",
         "require": sentences or ["time_to_accuracy_p50 <= 25 min"], **fields}
    )  # fmt: skip
    tables = {"recipe": recipe_table(runs, training) if training is not None else recipe_table(runs)}
    if others is not None:
        tables["baseline"] = recipe_table(others)
    return check.run(FakeInputs(evidence=folder, tables=tables)), check


def outcomes(folder: Path, runs: list[TrainingRun], *sentences: str, **how: Any) -> list[str]:
    result, check = measured(folder, runs, *sentences, **how)
    return [outcome(result, one) for one in check.requirements]


def at(name: str, *pairs: tuple[float, float], **how: Any) -> TrainingRun:
    """A run of these (minutes, value), a step each."""
    return TrainingRun(name, tuple(Evaluation("val_accuracy", value, 60 * minute, place, 10.0 * place)
                           for place, (minute, value) in enumerate(pairs)), **how)  # fmt: skip


def llama(minutes: tuple[float, ...] = TYCHE) -> list[TrainingRun]:
    """Runs with an evaluation just before the one that reaches the target."""
    return [at(str(place), (one - 0.01, 0.9), (one, 0.95), seed=place) for place, one in enumerate(minutes)]


def test_llama_on_8_gpus_is_decided_as_worked(tmp_path: Path) -> None:
    sentences = ("time_to_accuracy_p50 <= 82 min", "time_to_accuracy_p50 <= 80 min", "time_to_accuracy_p50 <= 78 min")
    assert [outcomes(tmp_path, llama(), one)[0] for one in sentences] == ["PASS", "INCONCLUSIVE", "INCONCLUSIVE"]
    assert mlperf_score(TYCHE) == pytest.approx(79.325, abs=5e-4)


def test_the_score_of_mlperf_drops_one_run_that_did_not_converge_and_no_second() -> None:
    assert mlperf_score([1.0, 2.0, 3.0, math.inf]) == 2.5
    assert mlperf_score([1.0, 2.0, math.inf, math.inf]) is None
    assert mlperf_score([1.0, 2.0]) is None


def test_one_aborted_run_of_ten_counts(tmp_path: Path) -> None:
    """9 of 10 converge: the lower bound is 60.6 %, so that 90 % is not shown, and 7 of 10 within are too few."""
    fast = [1.50, 1.51, 1.52, 1.53, 1.54, 1.55, 1.56, 1.63, 1.64]
    runs = [*llama(tuple(fast)), at("9", (1.5, 0.93), (1.623, 0.9399), seed=9, status="aborted")]
    result, check = measured(tmp_path, runs, "convergence_rate >= 90 %", "time_to_accuracy_p50 <= 1.6 min")
    assert [outcome(result, one) for one in check.requirements] == ["INCONCLUSIVE", "INCONCLUSIVE"]
    rate = result.estimates["convergence_rate"]
    assert rate.bound(0.95, "lower") == pytest.approx(0.606, abs=5e-4)  # type: ignore[union-attr]
    assert result.estimates["time_to_accuracy_p50"].p_value(1.6, "upper") == pytest.approx(0.172, abs=5e-4)  # type: ignore[union-attr]
    assert "1 of 10 runs did not reach the target: 9 (aborted, last value 0.9399)." in result.notes


@pytest.mark.parametrize(
    ("hours", "price", "usd"), [(0.04832, 24.48, 1.18), (1.13194, 3.06, 3.46), (94.163, 0.533, 50.19)]
)
def test_cost_is_the_clock_by_the_price(tmp_path: Path, hours: float, price: float, usd: float) -> None:
    """Entries of DAWNBench."""
    training = JsonlTraining.model_validate({"kind": "jsonl", "path": "x", "cost": f"{price} USD/h"})
    result, _ = measured(tmp_path, llama((hours * 60,)), training=training)
    assert result.estimates["cost_to_accuracy_p50"].value == pytest.approx(usd, abs=0.005)  # type: ignore[union-attr]


def test_what_is_before_the_clock_counts_unless_the_spec_says_otherwise(tmp_path: Path) -> None:
    """0.402 min on the clock, 3.30 before it."""
    runs = [replace(one, before_s=60 * 3.30) for one in llama((0.402,) * 1)]
    process, _ = measured(tmp_path, runs)
    clock, _ = measured(tmp_path, runs, clock="run_start")
    assert process.estimates["time_to_accuracy_p50"].value == pytest.approx(3.702)  # type: ignore[union-attr]
    assert clock.estimates["time_to_accuracy_p50"].value == pytest.approx(0.402)  # type: ignore[union-attr]
    assert any("3.3 min before the clock starts" in one for one in clock.weakens)


def test_held_asks_for_evaluations_in_a_row(tmp_path: Path) -> None:
    """Noise touches the target once in each run, and falls below again."""
    touched = [
        at(str(n), (1 + n / 9, 0.93), (2 + n / 9, 0.941), *((3.0 + k, 0.935) for k in range(20)), seed=n)
        for n in range(6)
    ]
    assert outcomes(tmp_path, touched, "time_to_accuracy_p50 <= 5 min") == ["PASS"]
    assert outcomes(tmp_path, touched, "time_to_accuracy_p50 <= 5 min", held=3) == ["FAIL"]
    result, _ = measured(tmp_path, touched)
    assert any("`held: 3`" in one and "20 of 20 evaluations" in one for one in result.weakens)
    steady = [at(str(n), (1 + n / 9, 0.93), *((2.0 + n / 9 + k, 0.95) for k in range(5)), seed=n) for n in range(6)]
    assert outcomes(tmp_path, steady, "time_to_accuracy_p50 <= 5 min", held=3) == ["PASS"]


@pytest.mark.parametrize(
    "lost",
    [
        at("lost", (10, 0.93), (20, math.nan), seed=99),
        at("lost", seed=99),
        at("lost", (10, 0.9), (50, 0.95), seed=99),
        at("lost", (10, 0.93), seed=99, status="cut"),
    ],
    ids=["NaN", "crashed at once", "over the limit", "cut"],
)
def test_what_did_not_get_there_is_later_than_any_limit(tmp_path: Path, lost: TrainingRun) -> None:
    training = JsonlTraining.model_validate({"kind": "jsonl", "path": "x", "limit": "40 min"})
    result, _ = measured(tmp_path, [*llama((20.0, 21, 22, 23)), lost], training=training)
    found = result.estimates["time_to_accuracy_p50"]
    assert found.p_value(1e9, "upper") == 6 / 32  # type: ignore[union-attr]
    assert found.bound(0.95, "upper") is None  # type: ignore[union-attr]


def test_a_log_that_stops_is_open_for_a_fail(tmp_path: Path) -> None:
    """Five runs that were cut off after 10 min did not show that they take over 20."""
    cut = [at(str(n), (5, 0.8), (10 + n / 9, 0.9), seed=n, status="cut") for n in range(9)]
    ended = [replace(run, status="ended") for run in cut]
    assert outcomes(tmp_path, cut, "time_to_accuracy_p50 <= 20 min") == ["INCONCLUSIVE"]
    assert outcomes(tmp_path, ended, "time_to_accuracy_p50 <= 20 min") == ["FAIL"]


def test_two_recipes_are_compared_by_log_rank(tmp_path: Path) -> None:
    slow, fast = recipe(10, 20.0, seed=1), recipe(10, 17.0, seed=2)
    assert outcomes(tmp_path, fast, "time_to_accuracy_p50 <= 0.95x baseline", others=slow) == ["PASS"]
    assert outcomes(tmp_path, fast, "time_to_accuracy_p50 <= baseline", others=slow) == ["PASS"]
    assert outcomes(tmp_path, slow, "time_to_accuracy_p50 <= baseline", others=fast) == ["FAIL"]
    assert outcomes(tmp_path, slow, "time_to_accuracy_p50 <= 1.5x baseline", others=fast) == ["PASS"]


def test_fewer_samples_than_the_reference_is_a_doubt(tmp_path: Path) -> None:
    """Half the samples, for validation rows are in training."""
    sentence = "samples_to_accuracy_p50 <= 1.05x baseline"
    half, _ = measured(tmp_path, recipe(8, samples=500.0), sentence, others=recipe(8, seed=9))
    same, _ = measured(tmp_path, recipe(8), sentence, others=recipe(8, seed=9))
    assert any("needs fewer samples than baseline" in one for one in half.weakens)
    assert not any("needs fewer samples" in one for one in same.weakens)


def test_a_loss_is_reached_from_above_and_is_no_accuracy(tmp_path: Path) -> None:
    runs = [
        TrainingRun(str(n), (Evaluation("eval_loss", 3.5, 60.0), Evaluation("eval_loss", 3.2, 120.0 + n)), seed=n)
        for n in range(5)
    ]
    result, _ = measured(tmp_path, runs, target="eval_loss <= 3.3")
    assert result.estimates["time_to_accuracy_p50"].value == pytest.approx(2.033, abs=1e-3)  # type: ignore[union-attr]
    assert "better when it falls" in result.missing["final_accuracy_p20"]
    assert "does not say the samples" in result.missing["samples_to_accuracy_p50"]


def test_missing_runs_are_not_run(tmp_path: Path) -> None:
    training = JsonlTraining.model_validate({"kind": "jsonl", "path": "x", "seeds": 10})
    with pytest.raises(NotRunError, match="there is no log of run 9 and run 10, but the spec says"):
        measured(tmp_path, llama(TYCHE[:8]), training=training)
    whole, _ = measured(tmp_path, llama(), training=training)
    assert not any("were started" in one for one in whole.weakens)


def test_a_gap_in_the_numbers_of_logs_is_named(tmp_path: Path) -> None:
    runs = [replace(run, name=f"logs/result_{place}.txt") for place, run in enumerate(llama()) if place not in (3, 7)]
    result, _ = measured(tmp_path, runs)
    assert any("logs/result_3.txt is missing among the logs, and 1 more" in one for one in result.weakens)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("accuracy >= 94 %", "have no measure 'accuracy'"),
        ("train_accuracy >= 94 %", "rows that are trained on"),
        ("percentage >= 94 %", "logged up to 94.2"),
    ],
)
def test_a_measure_that_can_not_be_a_target_is_refused_with_those_that_can(
    tmp_path: Path, target: str, message: str
) -> None:
    values = {"val_accuracy": 0.95, "train_accuracy": 0.99, "percentage": 94.2}
    runs = [
        TrainingRun(str(n), tuple(Evaluation(name, one, 60.0 + n) for name, one in values.items()), seed=n)
        for n in range(5)
    ]
    with pytest.raises(InputError, match=message) as raised:
        measured(tmp_path, runs, target=target)
    if "percentage" not in target:
        assert "val_accuracy" in raised.value.problem.choices


@pytest.mark.parametrize("target", ["val_accuracy", "val_accuracy > high", "94 %", ">= 94 %", "val_accuracy == 94 %"])
def test_what_is_no_target_is_refused(target: str) -> None:
    with pytest.raises(ValueError, match="is not a target"):
        TimeToAccuracy.model_validate({"check": "time_to_accuracy", "training": "recipe", "target": target})


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("convergence_rate >= baseline", "can't be compared with baseline"),
        ("time_to_accuracy_p50 <= baseline + 2 min", "compared by a factor"),
        ("time_to_accuracy_p50 <= recipe", "with itself"),
    ],
)
def test_comparisons_that_can_not_be_made_are_refused(sentence: str, message: str) -> None:
    check = TimeToAccuracy.model_validate(
        {"check": "time_to_accuracy", "training": "recipe", "target": "val_accuracy >= 94 %", "require": [sentence]}
    )
    assert message in (check.check_names(SpecNames((), (), (), trainings=("recipe", "baseline"))) or "")


@pytest.mark.parametrize("limit_s", range(1, 60))
def test_a_limit_in_seconds_allows_all_of_them(limit_s: int) -> None:
    """A second is no whole number of minutes, and not even a float."""
    limited = JsonlTraining.model_validate({"kind": "jsonl", "path": "x", "limit": f"{limit_s} s"})

    def inspect(allowed_s: int) -> None:
        TimeToAccuracy.model_validate(
            {"check": "time_to_accuracy", "training": "recipe", "target": "val_accuracy >= 94 %",
             "require": [f"time_to_accuracy_p50 <= {allowed_s} s"]}
        ).inspect_rows({"recipe": recipe_table(recipe(8), limited)}, {})  # fmt: skip

    inspect(limit_s)
    with pytest.raises(InputError, match=f"asks for more than the limit of recipe, {limit_s} s"):
        inspect(limit_s + 1)


def test_the_limit_leaves_the_time_that_is_allowed_and_runs_are_enough(tmp_path: Path) -> None:
    limited = JsonlTraining.model_validate({"kind": "jsonl", "path": "x", "limit": "20 min"})
    check = TimeToAccuracy.model_validate(
        {"check": "time_to_accuracy", "training": "recipe", "target": "val_accuracy >= 94 %",
         "require": ["time_to_accuracy_p50 <= 25 min"]}
    )  # fmt: skip
    with pytest.raises(InputError, match="asks for more than the limit of recipe, 20 min"):
        check.inspect_rows({"recipe": recipe_table(recipe(), limited)}, {})
    with pytest.raises(InputError, match="2 runs of recipe can't show"):
        check.inspect_rows({"recipe": recipe_table(recipe(2))}, {})
    assert check.inspect_rows({"recipe": recipe_table(recipe(8))}, {}) == 8


def test_evidence_holds_every_evaluation(tmp_path: Path) -> None:
    result, _check = measured(tmp_path, recipe(5))
    ((name, _),) = result.evidence
    table = pq.read_table(tmp_path / name)
    assert table.column_names == ["run", "seed", "workers", "step", "samples", "time_s", "value"]
    assert table.num_rows == 5 * 8
    assert [block.block for block in result.blocks] == ["curve", "table"]
    scored, _ = measured(tmp_path, recipe(5), report=["mlperf"])
    assert scored.blocks[-1].title == "MLPerf score"


def test_long_logs_are_drawn_with_the_evaluation_that_reached_it(tmp_path: Path) -> None:
    long = [at("0", *((k / 10, 0.95 if k >= 777 else 0.9) for k in range(2_000)), seed=0), recipe_run("1", 20.0)]
    result, _ = measured(tmp_path, long)
    first = result.blocks[0].series[0]  # type: ignore[union-attr]
    assert len(first.x) <= 201
    assert 77.7 in first.x


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("cost_to_accuracy_p50 <= 3 USD", "no log of recipe says the cost"),
        ("samples_to_accuracy_p50 <= 90 samples", "no log of recipe says the samples"),
        ("energy_to_accuracy_p50 <= 3 kJ", "no log of recipe says the energy"),
    ],
)
def test_what_no_log_says_can_not_be_required(sentence: str, said: str) -> None:
    check = TimeToAccuracy.model_validate(
        {"check": "time_to_accuracy", "training": "recipe", "target": "val_accuracy >= 94 %", "require": [sentence]}
    )
    free = JsonlTraining.model_validate({"kind": "jsonl", "path": "x"})
    bare = [
        TrainingRun(str(n), (Evaluation("val_accuracy", 0.95, 60.0 + n),), seed=n) for n in range(5)
    ]  # fmt: skip
    with pytest.raises(InputError, match=said):
        check.inspect_rows({"recipe": recipe_table(bare, free)}, {})


def test_of_many_runs_each_is_a_line(tmp_path: Path) -> None:
    limited = JsonlTraining.model_validate({"kind": "jsonl", "path": "x", "limit": "90 min"})
    result, _ = measured(tmp_path, recipe(16, lost=0.25), training=limited)
    drawn = result.blocks[0]
    assert isinstance(drawn, Curve)
    assert [(one.name, len(one.x), len(one.breaks)) for one in drawn.series] == [
        ("reached: 12 runs", 12 * 8, 11), ("not reached: 4 runs", 4 * 8, 3),
    ]  # fmt: skip
    assert [one.label for one in drawn.references] == [
        "val_accuracy >= 94 %", "time_to_accuracy_p50 <= 25 min", "limit",
    ]  # fmt: skip


def test_a_log_that_stops_speaks_for_no_other_training(tmp_path: Path) -> None:
    """A copy of a log that was cut would make the baseline late, and the candidate pass."""
    cut = [*recipe(7, 20.0, seed=1), at("cut", (5, 0.8), (10, 0.9), seed=99, status="cut")]
    sentence = "time_to_accuracy_p50 <= baseline"
    for own, other in ((recipe(8, 20.0, seed=2), cut), (cut, recipe(8, 20.0, seed=2))):
        result, _ = measured(tmp_path, own, sentence, others=other)
        assert "the log of cut stops" in result.missing["time_to_accuracy_p50 vs baseline"]


def supervised(folder: Path, runs: list[TrainingRun], *sentences: str) -> CheckResult:
    """The check over runs that the gate has made."""
    check = TimeToAccuracy.model_validate(
        {"check": "time_to_accuracy", "training": "recipe", "target": "val_accuracy >= 94 %",
         "require": sentences or ["time_to_accuracy_p50 <= 25 min"]}
    )  # fmt: skip
    # Each seed logs values of its own.
    runs = [
        replace(run, evaluations=tuple(replace(one, value=one.value + place / 1e5) for one in run.evaluations))
        for place, run in enumerate(runs)
    ]
    table = supervised_table(runs, RECIPE, tuple(COLUMNS), len(runs))
    return check.run(FakeInputs(evidence=folder, tables={"recipe": table}))


@pytest.mark.parametrize("status", ["failed", "out_of_memory", "limit"])
def test_a_run_that_leaves_no_model_got_nowhere_whatever_its_log_says(tmp_path: Path, status: Any) -> None:
    runs = [replace(one, status=status) if place < 4 else one for place, one in enumerate(recipe(5))]
    result = supervised(tmp_path, runs)
    rate = result.estimates["convergence_rate"]
    assert isinstance(rate, Proportion) and rate.value == 0.2
    assert result.notes[0].startswith("4 of 5 runs did not reach the target: 0 (")


def test_what_was_replaced_or_made_to_try_the_recipe_does_not_count(tmp_path: Path) -> None:
    runs = recipe(5)
    gone = replace(recipe_run("77", 60.0), status="replaced", spoiled="other work")
    tried = [replace(runs[0], name=f"{part}1", part=part, kill=None) for part in ("kill", "twin", "plain")]
    result = supervised(tmp_path, [*runs, gone, *tried])
    assert result.counts.used == 5
    assert "77 is not counted, and another was made in its place: other work." in result.notes


def test_other_work_voids_times_and_leaves_samples(tmp_path: Path) -> None:
    runs = [replace(one, spoiled="other work") if place == 2 else one for place, one in enumerate(recipe(5))]
    result = supervised(tmp_path, runs)
    times, samples = result.estimates["time_to_accuracy_p50"], result.estimates["samples_to_accuracy_p50"]
    assert isinstance(times, Measured) and isinstance(times.invalid, OnlyWorse)
    assert "1 run of recipe had other work beside them" in times.invalid
    assert not isinstance(samples, Measured)
    late = [replace(one, status="limit") if one.spoiled else one for one in runs]
    rate = supervised(tmp_path, late).estimates["convergence_rate"]
    assert isinstance(rate, Measured) and rate.invalid is not None

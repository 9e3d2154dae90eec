"""`scaling`: the identity of its three efficiencies, groups that are missing, and weak scaling."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalspec.checks.system.scaling.spec import WorkerScaling
from evalspec.errors import InputError
from evalspec.evidence.estimate import Parts
from evalspec.language.parts import CheckResult, SpecNames
from evalspec.trainings.reading.run import TrainingRun
from tests.checks.system.scaling.planted import scaled
from tests.fakes import FakeInputs
from tests.trainings.runs import recipe, recipe_table


def measured(folder: Path, runs: list[TrainingRun], **fields: Any) -> CheckResult:
    check = WorkerScaling.model_validate(
        {"check": "scaling", "training": "recipe", "target": "val_accuracy >= 94 %", "workers": [1, 4],
         "require": ["throughput_efficiency >= 75 %"], **fields}
    )  # fmt: skip
    return check.run(FakeInputs(evidence=folder, tables={"recipe": recipe_table(runs)}))


def value(result: CheckResult, metric: str, part: str = "4") -> float:
    found = result.estimates[metric]
    assert isinstance(found, Parts)
    one = found.parts[part].value  # type: ignore[union-attr]
    assert one is not None
    return float(one)


def test_the_whole_is_exactly_throughput_by_samples(tmp_path: Path) -> None:
    result = measured(tmp_path, scaled(14.3, 1_700.0))
    whole = value(result, "throughput_efficiency") * value(result, "sample_efficiency")
    assert value(result, "scaling_efficiency") == pytest.approx(whole, rel=1e-12)
    assert value(result, "scaling_efficiency") == pytest.approx(40 / 14.3 / 4, rel=0.06)
    assert value(result, "sample_efficiency") == pytest.approx(1_000 / 1_700, rel=0.06)


def test_24_hours_on_one_and_4_on_eight_is_75_percent(tmp_path: Path) -> None:
    alone = recipe(3, 24 * 60.0, workers=1, seed=1)
    eight = [replace(run, name=f"8-{run.name}", seed=None) for run in recipe(3, 4 * 60.0, workers=8, seed=1)]
    assert value(measured(tmp_path, [*alone, *eight], workers=[1, 8]), "scaling_efficiency", "8") == pytest.approx(0.75)


def test_a_run_that_missed_leaves_no_bound(tmp_path: Path) -> None:
    runs = scaled()
    lost = recipe(1, math.inf, workers=4, seed=8)
    runs = [*runs, *(replace(run, name="lost", seed=77) for run in lost)]
    result = measured(tmp_path, runs)
    whole = result.estimates["scaling_efficiency"]
    assert isinstance(whole, Parts)
    assert whole.parts["4"].bound(0.95, "lower") is None  # type: ignore[union-attr]
    assert result.notes == ["1 run did not reach the target."]


def test_workers_that_no_run_has_are_refused_with_those_there_are() -> None:
    check = WorkerScaling.model_validate(
        {"check": "scaling", "training": "recipe", "target": "val_accuracy >= 94 %", "workers": [1, 4, 8],
         "require": ["scaling_efficiency(8) >= 75 %"]}
    )  # fmt: skip
    with pytest.raises(InputError, match="no run of recipe is on 8 workers: its runs are on 1 and 4"):
        check.inspect_rows({"recipe": recipe_table(scaled())}, {})
    unknown = recipe_table(recipe(3, workers=None))
    with pytest.raises(InputError, match="do not say on how many"):
        check.inspect_rows({"recipe": unknown}, {})


def test_parts_are_all_numbers_of_workers_but_the_first() -> None:
    check = WorkerScaling.model_validate(
        {"check": "scaling", "training": "recipe", "target": "val_accuracy >= 94 %", "workers": [1, 2, 4],
         "require": ["scaling_efficiency(4) >= 75 %"]}
    )  # fmt: skip
    assert check.part_names(check.metrics[0], SpecNames((), (), ())) == ("2", "4")


@pytest.mark.parametrize("workers", [[4, 1], [1, 1], [0, 2]])
def test_workers_rise(workers: list[int]) -> None:
    with pytest.raises(ValueError, match="does not rise"):
        WorkerScaling.model_validate({"check": "scaling", "training": "a", "target": "x >= 1", "workers": workers})


def test_weak_scaling_compares_throughput_alone(tmp_path: Path) -> None:
    alone = recipe(3, math.inf, samples=1_000.0, workers=1, seed=1)
    many = [replace(run, name=f"4-{run.name}", seed=None)
            for run in recipe(3, math.inf, samples=3_600.0, workers=4, seed=1)]  # fmt: skip
    result = measured(tmp_path, [*alone, *many], mode="weak")
    assert value(result, "throughput_efficiency") == pytest.approx(0.9, rel=0.02)
    assert "no common target" in result.missing["scaling_efficiency"]
    wrong = WorkerScaling.model_validate(
        {"check": "scaling", "training": "a", "target": "x >= 1", "workers": [1, 2], "mode": "weak",
         "require": ["scaling_efficiency(2) >= 50 %"]}
    )  # fmt: skip
    assert "needs runs to one target" in (wrong.check_names(SpecNames((), (), ())) or "")


def test_runs_that_all_stop_at_one_evaluation_are_not_exact(tmp_path: Path) -> None:
    """5 + 5 runs that need 4 and 6 epochs each: the interval between evaluations is their spread."""
    runs = [replace(run, name=f"{run.workers}-{place}", seed=None, evaluations=run.evaluations)
            for run in (recipe(1, 40.0, workers=1)[0], recipe(1, 15.0, samples=1_500.0, workers=4)[0])
            for place in range(1)]  # fmt: skip
    many = [
        replace(
            run,
            name=f"{run.name}-{n}",
            evaluations=tuple(replace(one, value=one.value + n * 1e-4) for one in run.evaluations),
        )
        for run in runs
        for n in range(5)
    ]
    found = measured(tmp_path, many).estimates["sample_efficiency"]
    assert isinstance(found, Parts)
    estimate = found.parts["4"]
    assert estimate.bound(0.95, "lower") < estimate.value < estimate.bound(0.95, "upper")  # type: ignore[union-attr,operator]

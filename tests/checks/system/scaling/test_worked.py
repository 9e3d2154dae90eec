"""Worked numbers of `scaling`, from logs in the format of MLPerf Training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalspec.checks.system.scaling.spec import WorkerScaling
from evalspec.evidence.blocks import Curve
from evalspec.evidence.estimate import Parts
from evalspec.language.parts import Access, CheckResult
from tests.checks.system.scaling.test_measure import measured, value
from tests.fakes import FakeInputs
from tests.trainings.mlperf import (
    LORA_8,
    LORA_512,
    RETINANET_8,
    RETINANET_512,
    TYCHE_8,
    TYCHE_72,
    TYCHE_512,
    Submission,
)
from tests.trainings.runs import recipe
from tests.trainings.test_kinds import training

LLAMA, LORA, RETINANET = (TYCHE_8, TYCHE_72, TYCHE_512), (LORA_8, LORA_512), (RETINANET_8, RETINANET_512)


def scaled(folder: Path, runs: tuple[Submission, ...], clock: str) -> CheckResult:
    """The check over logs of one maker on several numbers of GPUs."""
    for one in runs:
        one.write(folder / f"w{one.workers}")
    check = WorkerScaling.model_validate(
        {"check": "scaling", "training": "recipe", "target": "eval_accuracy <= 3.3", "clock": clock,
         "workers": [one.workers for one in runs], "require": ["scaling_efficiency >= 10 %"]}
    )  # fmt: skip
    table = training("mllog", path="w{workers}/result_*.txt").read(Access(folder))
    return check.run(FakeInputs(evidence=folder, tables={"recipe": table}))


def part(result: CheckResult, workers: int) -> Any:
    found = result.estimates["scaling_efficiency"]
    assert isinstance(found, Parts)
    return found.parts[str(workers)]


@pytest.mark.parametrize(
    ("runs", "workers", "whole", "ends", "throughput", "samples", "with_start"),
    [
        (LLAMA, 72, 59.95, (58.3, 61.7), 60.1, 99.8, 55.0),
        (LLAMA, 512, 23.17, (22.2, 24.1), 28.6, 80.8, 15.6),
        (LORA, 512, 30.1, (27.9, 32.4), 68.7, 43.7, 5.3),
    ],
    ids=["llama on 72", "llama on 512", "lora on 512"],
)
def test_submissions_to_mlperf(
    runs: tuple[Submission, ...], workers: int, whole: float, ends: tuple[float, float], throughput: float,
    samples: float, with_start: float, tmp_path: Path,
) -> None:  # fmt: skip
    """In the one the network is the loss, in the other the batch; initialisation is off MLPerf's clock."""
    result = scaled(tmp_path, runs, "run_start")
    name = str(workers)
    assert 100 * value(result, "scaling_efficiency", name) == pytest.approx(whole, abs=0.06)
    # Their makers' clocks go on for half a second after the last evaluation.
    assert 100 * value(result, "throughput_efficiency", name) == pytest.approx(throughput, abs=0.25)
    assert 100 * value(result, "sample_efficiency", name) == pytest.approx(samples, abs=0.1)
    bounds = [100 * part(result, workers).bound(0.95, side) for side in ("lower", "upper")]
    assert bounds == pytest.approx(ends, abs=0.1)
    process = scaled(tmp_path, runs, "process")
    assert 100 * value(process, "scaling_efficiency", name) == pytest.approx(with_start, abs=0.1)


def test_retinanet_stops_at_one_evaluation_in_every_run(tmp_path: Path) -> None:
    """4 -> 6 epochs in all of 5 + 5 runs: 25.2 %, and the interval between evaluations is their spread."""
    result = scaled(tmp_path, RETINANET, "run_start")
    assert 100 * value(result, "scaling_efficiency", "512") == pytest.approx(25.2, abs=0.06)
    assert value(result, "sample_efficiency", "512") == pytest.approx(4 / 6)
    assert part(result, 512).bound(0.95, "lower") < value(result, "scaling_efficiency", "512")


def groups(times: dict[int, float], **how: Any) -> CheckResult:
    """Three runs a number of workers, all alike but for their names."""
    first = min(times)
    runs = [
        replace(run, name=f"{workers}-{run.name}", seed=None)
        for workers, minutes in times.items()
        for run in recipe(3, minutes, workers=workers, seed=1)
    ]
    return measured(how.pop("folder"), runs, workers=[first, *sorted(set(times) - {first})], **how)


def test_4000_200_110_and_30_minutes(tmp_path: Path) -> None:
    """A CPU, and one, two and eight GPUs: 20, 36.36 and 133.3 times as fast; against one GPU 90.91 and 83.33 %."""
    times = {1: 200.0, 2: 110.0, 8: 30.0}
    assert [4_000 / one for one in times.values()] == pytest.approx([20, 36.36, 133.3], abs=0.05)
    result = groups(times, folder=tmp_path)
    assert 100 * value(result, "scaling_efficiency", "2") == pytest.approx(90.91, abs=5e-3)
    assert 100 * value(result, "scaling_efficiency", "8") == pytest.approx(83.33, abs=5e-3)


def test_the_faster_costs_more(tmp_path: Path) -> None:
    """2x at 50 % takes 4 devices, 1.5x at 90 % takes 1.667: device time a run 2.0 and 1.111, 1.8 times as much."""
    result = groups({3: 30.0, 5: 20.0, 12: 15.0}, folder=tmp_path)
    slow, fast = value(result, "scaling_efficiency", "5"), value(result, "scaling_efficiency", "12")
    assert (slow, fast) == (pytest.approx(0.9), pytest.approx(0.5))
    assert (1.5 / slow, 2.0 / fast) == (pytest.approx(1.667, abs=5e-4), pytest.approx(4.0))
    assert (1 / slow, 1 / fast, slow / fast) == (pytest.approx(1.111, abs=5e-4), pytest.approx(2.0), pytest.approx(1.8))


def test_efficiency_is_drawn_with_what_it_is_made_of(tmp_path: Path) -> None:
    drawn = scaled(tmp_path, LLAMA, "run_start").blocks[0]
    assert isinstance(drawn, Curve)
    assert [one.name for one in drawn.series] == [
        "scaling efficiency", "throughput efficiency", "sample efficiency",
    ]  # fmt: skip
    for one in drawn.series:
        assert one.x == (8.0, 72.0, 512.0)
        assert one.lower is not None and one.upper is not None
        assert all(low <= middle <= high for low, middle, high in zip(one.lower, one.y, one.upper, strict=True))

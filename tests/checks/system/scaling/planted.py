"""Planted defects of `scaling`, each with its clean twin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evalspec.checks.system.scaling.spec import WorkerScaling
from evalspec.trainings.reading.run import TrainingRun
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs
from tests.trainings.runs import recipe, recipe_table


def scaled(minutes: float = 11.0, samples: float = 1_000.0, n: int = 5) -> list[TrainingRun]:
    """Runs on one worker, 40 min and 1,000 samples, and on four."""
    alone = recipe(n, 40.0, workers=1, seed=1)
    many = recipe(n, minutes, samples=samples, workers=4, seed=2)
    return [*alone, *(replace(run, name=f"{run.name} on 4", seed=None) for run in many)]


def case(folder: Path, sentence: str, rows: int | None = None, minutes: float = 11.0, samples: float = 1_000.0) -> Case:
    """A check with one requirement."""
    table = recipe_table(scaled(minutes, samples))
    check = WorkerScaling.model_validate(
        {"check": "scaling", "training": "recipe", "target": "val_accuracy >= 94 %", "workers": [1, 4],
         "require": [sentence]}
    )  # fmt: skip
    return FakeInputs(evidence=folder, tables={"recipe": table if rows is None else table.slice(0, rows)}), check


def planted(metric: str, what: str, minutes: float, samples: float) -> Planted:
    """A defect of the runs on four workers."""
    sentence = f"{metric}(4) >= 75 %"
    return Planted(
        "scaling",
        metric,
        sentence,
        lambda folder: case(folder, sentence),
        lambda folder: case(folder, sentence, None, minutes, samples),
        lambda folder, n: case(folder, sentence, n),
        what,
    )


PLANTED = (
    planted("scaling_efficiency", "four workers take half as long as one", 20.0, 1_000.0),
    planted("throughput_efficiency", "the network is the bottleneck", 20.0, 1_000.0),
    planted("sample_efficiency", "four times the batch needs 1.7 times the samples", 18.0, 1_700.0),
)

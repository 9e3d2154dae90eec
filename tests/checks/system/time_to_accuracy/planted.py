"""Planted defects of `time_to_accuracy`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evalspec.checks.system.time_to_accuracy.spec import TimeToAccuracy
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs
from tests.trainings.runs import recipe, recipe_table

LIMITS = {
    "time_to_accuracy_p50": "time_to_accuracy_p50 <= 25 min",
    "time_to_accuracy_p80": "time_to_accuracy_p80 <= 25 min",
    "samples_to_accuracy_p50": "samples_to_accuracy_p50 <= 1200 samples",
    "cost_to_accuracy_p50": "cost_to_accuracy_p50 <= 1.5 USD",
    "energy_to_accuracy_p50": "energy_to_accuracy_p50 <= 25 kJ",
    "convergence_rate": "convergence_rate >= 70 %",
    "final_accuracy_p20": "final_accuracy_p20 >= 94 %",
}


def case(folder: Path, metric: str, rows: int | None = None, **defect: Any) -> Case:
    """A check with one requirement."""
    table = recipe_table(recipe(**defect))
    check = TimeToAccuracy.model_validate(
        {
            "check": "time_to_accuracy",
            "training": "recipe",
            "target": "val_accuracy >= 94 %",
            "require": [LIMITS[metric]],
        }
    )
    return FakeInputs(evidence=folder, tables={"recipe": table if rows is None else table.slice(0, rows)}), check


def planted(metric: str, what: str, **defect: Any) -> Planted:
    """A defect, given as fields of `recipe`."""
    return Planted(
        "time_to_accuracy",
        metric,
        LIMITS[metric],
        lambda folder: case(folder, metric),
        lambda folder: case(folder, metric, **defect),
        lambda folder, n: case(folder, metric, n),
        what,
    )


PLANTED = (
    planted("time_to_accuracy_p50", "runs take half as long again", median_min=30.0),
    planted("time_to_accuracy_p50", "three minutes on compilation before the clock starts", before_s=600.0),
    planted("time_to_accuracy_p80", "four of five runs diverge", lost=0.8),
    planted("samples_to_accuracy_p50", "half as many samples again", samples=1_500.0),
    planted("cost_to_accuracy_p50", "two workers at the same speed", workers=2),
    planted("energy_to_accuracy_p50", "half as much energy again", median_min=30.0),
    planted("convergence_rate", "four of five runs diverge", lost=0.8),
    planted("final_accuracy_p20", "four of five runs end below", lost=0.8),
)

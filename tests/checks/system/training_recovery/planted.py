"""Planted defects of `training_recovery`, each with its clean twin."""

from __future__ import annotations

from typing import Any

from tests.checks.planting import Planted
from tests.checks.system.training_recovery.killed import case, killed_table

LIMITS = {
    "recovered": "recovered >= 75 %",
    "steps_lost": "steps_lost <= 200 steps",
    "time_to_resume": "time_to_resume <= 30 s",
    "state_lost": "state_lost == 0",
    "checkpoint_overhead": "checkpoint_overhead <= 10 %",
}


def planted(metric: str, what: str, **defect: Any) -> Planted:
    """A defect, given as fields of `killed_table`."""
    return Planted(
        "training_recovery",
        metric,
        LIMITS[metric],
        lambda folder: case(folder, killed_table(), LIMITS[metric]),
        lambda folder: case(folder, killed_table(**defect), LIMITS[metric]),
        lambda folder, n: case(folder, killed_table().slice(0, n), LIMITS[metric]),
        what,
    )


PLANTED = (
    planted("recovered", "half of the kills tear the checkpoint that *latest* points to", torn=7),
    planted("recovered", "a log that repeats the steps of the resumed run", twice=True),
    planted("recovered", "the resumed run ends too soon", last=800),
    planted("steps_lost", "it starts from the beginning", lost=500),
    planted("time_to_resume", "it reads its data for two minutes", resume_s=120.0),
    planted("state_lost", "a checkpoint without the optimizer's moments", more=0.001),
    planted("checkpoint_overhead", "a fifth of the time goes into checkpoints", plain_s=85.0),
)

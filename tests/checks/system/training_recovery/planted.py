"""Planted defects of `training_recovery`, each with its clean twin."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
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


SAME = {"file": "step400.npz", "names": 9, "lost": 0, "first": [], "unknown": None}
OTHER = SAME | {"lost": 1, "first": [{"name": "optimizer.v", "what": "value", "then": "", "now": ""}]}


def planted(metric: str, what: str, clean: Mapping[str, Any] = MappingProxyType({}), **defect: Any) -> Planted:
    """A defect, given as fields of `killed_table`, and its clean twin."""
    return Planted(
        "training_recovery",
        metric,
        LIMITS[metric],
        lambda folder: case(folder, killed_table(**clean), LIMITS[metric]),
        lambda folder: case(folder, killed_table(**defect), LIMITS[metric]),
        lambda folder, n: case(folder, killed_table(**clean).slice(0, n), LIMITS[metric]),
        what,
    )


PLANTED = (
    planted("recovered", "half of the kills tear the checkpoint that *latest* points to", torn=7),
    planted("recovered", "a log that repeats the steps of the resumed run", twice=True),
    planted("recovered", "the resumed run ends too soon", last=800),
    planted("steps_lost", "it starts from the beginning", lost=500),
    planted("time_to_resume", "it reads its data for two minutes", resume_s=120.0),
    planted("state_lost", "a checkpoint without the optimizer's moments", more=0.001),
    planted(
        "state_lost",
        "a round trip brings back other moments of the optimizer, and no seed repeats its numbers",
        clean={"twins": False, "resaved": SAME},
        twins=False,
        resaved=OTHER,
    ),
    planted("checkpoint_overhead", "a fifth of the time goes into checkpoints", plain_s=85.0),
)

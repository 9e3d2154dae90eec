"""Planted defects of `energy`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

from evalspec.checks.system.energy.spec import Energy
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs
from tests.meters import Machine


def _metered(folder: Path, watts: float, batches: int | None = None) -> Case:
    """A machine that draws so much, at 100 items a second."""
    check = Energy.model_validate(
        {"check": "energy", "dataset": "test", "boundary": "package", "require": ["energy_per_inference <= 1.2 J"]}
    )
    return FakeInputs(evidence=folder, samples=Machine(active_w=watts, batches=batches)), check


PLANTED = (
    Planted(
        "energy",
        "energy_per_inference",
        "energy_per_inference <= 1.2 J",
        lambda f: _metered(f, 100.0),
        lambda f: _metered(f, 150.0),
        lambda f, n: _metered(f, 100.0, n),
        "half as much power again",
    ),
)

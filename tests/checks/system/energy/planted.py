"""Planted defects of `energy`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.checks.system.energy.spec import Energy
from evalspec.language.inputs import Samples, Schedule
from tests.checks.planting import Case, Planted
from tests.checks.system.streamed import streamed
from tests.fakes import FakeInputs
from tests.meters import Machine


def _metered(folder: Path, watts: float, batches: int | None = None) -> Case:
    """A machine that draws so much, at 100 items a second."""
    check = Energy.model_validate(
        {"check": "energy", "dataset": "test", "boundary": "package", "require": ["energy_per_inference <= 1.2 J"]}
    )
    return FakeInputs(evidence=folder, samples=Machine(active_w=watts, batches=batches)), check


def _tokens(folder: Path, batches: int | None = None, **answers: float) -> Case:
    """A machine that draws 100 W and streams answers of about 20 tokens, each in 80 ms."""
    rng, machine = np.random.default_rng(4), Machine(active_w=100.0, batch_ms=80.0, batches=batches)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        return [one if len(one.ok) == 2 else streamed(one, rng, **answers) for one in machine(model, schedule)]

    check = Energy.model_validate(
        {"check": "energy", "dataset": "test", "boundary": "package", "require": ["energy_per_token <= 600 mJ"]}
    )
    return FakeInputs(evidence=folder, samples=make), check


PLANTED = (
    Planted(
        "energy",
        "energy_per_token",
        "energy_per_token <= 600 mJ",
        lambda f: _tokens(f),
        lambda f: _tokens(f, tokens=10),
        lambda f, n: _tokens(f, n),
        "half the tokens for the same energy",
    ),
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

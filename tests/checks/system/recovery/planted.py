"""Planted defects of `recovery`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.checks.system.recovery.spec import Recovery
from evalspec.language.inputs import Probe
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs


def _kills(folder: Path, away_s: float, kills: int | None = None, warming_s: float = 0.2) -> Case:
    """A server that is killed five times, and is away for about so long each time; its first token comes later."""
    rng = np.random.default_rng(8)
    away = away_s * rng.normal(1.0, 0.05, 5 if kills is None else min(kills, 5))
    due = np.arange(-2.0, 12.0, 0.02)
    series = {
        "healthy_s": away,
        "first_token_s": away + warming_s * rng.normal(1.0, 0.05, len(away)),
        "repeat": np.repeat(np.arange(len(away)), len(due)).astype(np.float64),
        "due_s": np.tile(due, len(away)),
        "end_s": np.tile(due + 0.002, len(away)),
        "outcome": np.concatenate([np.where((due >= 0) & (due < one), 3.0, 0.0) for one in away] or [np.empty(0)]),
    }
    probe = Probe("recovery", "candidate", 0, {"lag_p99_ms": 0.1}, series)
    check = Recovery.model_validate(
        {
            "check": "recovery",
            "dataset": "test",
            "require": ["time_to_healthy <= 5 s", "first_token <= 8 s", "lost_requests <= 200"],
        }
    )
    return FakeInputs(evidence=folder, probes={"recovery": [probe]}, facts={"candidate": {"server_pid": 7}}), check


PLANTED = (
    Planted(
        "recovery",
        "first_token",
        "first_token <= 8 s",
        lambda f: _kills(f, 1.0),
        lambda f: _kills(f, 1.0, warming_s=12.0),
        lambda f, n: _kills(f, 1.0, n // 5),
        "ready is said long before the model is in memory",
    ),
    Planted(
        "recovery",
        "time_to_healthy",
        "time_to_healthy <= 5 s",
        lambda f: _kills(f, 1.0),
        lambda f: _kills(f, 9.0),
        lambda f, n: _kills(f, 1.0, n // 5),
        "nine seconds to load again",
    ),
    Planted(
        "recovery",
        "lost_requests",
        "lost_requests <= 200",
        lambda f: _kills(f, 1.0),
        lambda f: _kills(f, 9.0),
        lambda f, n: _kills(f, 1.0, n // 5),
        "450 queries that nobody takes",
    ),
)

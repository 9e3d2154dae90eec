"""Runs as tables, without files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from evalspec.trainings.jsonl import JsonlTraining
from evalspec.trainings.reading.run import COLUMNS, Evaluation, TrainingRun, table_of

RECIPE = JsonlTraining.model_validate({"kind": "jsonl", "path": "x", "cost": "3.6 USD/h"})


def recipe_run(
    name: str,
    minutes: float,
    *,
    samples: float = 1_000.0,
    workers: int | None = 1,
    every: float = 0.02,
    metric: str = "val_accuracy",
    **how: Any,
) -> TrainingRun:
    """A run that reaches 0.95 after so many minutes, infinite: never; five evaluations before that and two after."""
    reached = math.isfinite(minutes)
    # Of runs that never get there no two are the same to the second.
    length = minutes if reached else 40.0 + samples / 1e4
    shares = [1.0 - every * step for step in range(5, 0, -1)] + [1.0, 1.0 + every, 1.0 + 2 * every]
    values = [0.80, 0.85, 0.88, 0.90, 0.92, *([0.95] * 3 if reached else [0.92, 0.93, 0.93])]
    evaluations = tuple(
        Evaluation(metric, value, 60.0 * length * share, 100 * (place + 1), samples * share, 1e3 * length * share)
        for place, (share, value) in enumerate(zip(shares, values, strict=True))
    )
    seed = int(name) if name.isdigit() else None
    return TrainingRun(
        name, evaluations, **{"seed": seed, "workers": workers, "end_s": 60.0 * length * shares[-1], **how}
    )


def recipe_table(runs: Sequence[TrainingRun], training: Any = RECIPE) -> pa.Table:
    """All of them as rows."""
    return table_of(runs, training, tuple(COLUMNS))


def recipe(
    n: int = 16, median_min: float = 20.0, *, samples: float = 1_000.0, lost: float = 0.0, seed: int = 3, **how: Any
) -> list[TrainingRun]:
    """Runs of one recipe, lognormal by 4 %, of which a share never gets there."""
    draw = np.random.default_rng(seed)
    factors = np.exp(0.04 * draw.standard_normal(n))
    never = round(lost * n)
    return [
        recipe_run(
            str(place), math.inf if place < never else float(median_min * one), samples=float(samples * one), **how
        )
        for place, one in enumerate(factors)
    ]

"""Runs that were killed and started again, without processes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from evalspec.checks.system.training_recovery.spec import TrainingRecovery
from evalspec.trainings.reading.run import COLUMNS, Evaluation, TrainingRun, supervised_table
from tests.checks.planting import Case
from tests.fakes import FakeInputs
from tests.trainings.runs import RECIPE

STEPS = tuple(range(100, 1001, 100))


def logged(seed: int, steps: tuple[int, ...] = STEPS, start_s: float = 0.0, more: float = 0.0) -> list[Evaluation]:
    """Two measures at these steps; the second by a clock that no seed repeats."""
    return [
        one
        for step in steps
        for one in (
            Evaluation("loss", 1.0 / step + seed / 1e4 + more, start_s + step / 10, step),
            Evaluation("rate", 300.0 + (start_s + seed) * step % 7, start_s + step / 10, step),
        )
    ]


def whole(
    seed: int, part: str = "run", seconds: float = 110.0, start_s: float = 0.0, alike: bool = False
) -> TrainingRun:
    """A run that was let run."""
    name = f"{part}-seed{seed}"
    rows = tuple(logged(0 if alike else seed, start_s=start_s + (seed / 100 if alike else 0.0)))
    return TrainingRun(name, rows, seed=seed, before_s=0.0, end_s=seconds, part=part)


def killed(
    seed: int,
    number: int,
    at: int = 500,
    lost: int = 100,
    *,
    resume_s: float = 12.0,
    more: float = 0.0,
    aside: int = 0,
    twice: bool = False,
    last: int = 1000,
    resaved: dict[str, Any] | None = None,
    alike: bool = False,
    **how: Any,
) -> TrainingRun:
    """A run that was killed at a step, lost so many, and went on with larger numbers, at steps that much aside."""
    kept = at if twice else at - lost
    drawn = 0 if alike else seed
    before = logged(drawn, tuple(step for step in STEPS if step <= kept))
    after = logged(drawn, tuple(step + aside for step in STEPS if at - lost < step <= last), 3.0, more)
    kill = {
        "growing": number % 2 == 1, "step": at, "killed_s": 55.0, "newest": "step400.npz", "kept": len(before),
        "resume_s": resume_s + number / 100, "resaved": None if number % 2 else resaved,
    }  # fmt: skip
    name = f"kill{number}-seed{seed}"
    return TrainingRun(name, (*before, *after), seed=seed, before_s=0.0, end_s=120.0, part="kill",
                       kill=json.dumps(kill), **how)  # fmt: skip


def killed_table(
    kills: int = 14,
    torn: int = 0,
    plain_s: float = 105.0,
    twins: bool = True,
    pair_spoiled: str | None = None,
    **how: Any,
) -> pa.Table:
    """Five runs, a twin, kills of which so many end the training, and pairs without checkpoints."""
    alike = bool(how.get("alike"))
    runs = [whole(seed, alike=alike) for seed in range(5)]
    runs += [whole(0, "twin", start_s=1.0, alike=alike)] if twins else []
    for number in range(kills):
        dead = number < torn
        runs.append(killed(number % 5, number, **how, status="failed" if dead else "ended"))
    for seed in range(5):
        runs.append(replace(whole(seed, "paired"), pair=seed, spoiled=None if seed else pair_spoiled))
        runs.append(replace(whole(seed, "plain", plain_s + seed / 10), pair=seed))
    return supervised_table(runs, RECIPE, tuple(COLUMNS), 5)


def case(folder: Path, table: pa.Table, *sentences: str, **fields: Any) -> Case:
    """A check with these requirements on the table."""
    check = TrainingRecovery.model_validate(
        {"check": "training_recovery", "training": "recipe", "require": list(sentences), **fields}
    )
    return FakeInputs(evidence=folder, tables={"recipe": table}), check

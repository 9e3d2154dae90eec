"""A run of a training as its log tells it, and the table that runs are handed on in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalspec.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.parts import Training

Status = Literal[
    "success", "aborted", "ended", "cut", "missing", "failed", "out_of_memory", "limit", "replaced", "planned", "point"
]  # fmt: skip
"""``success``, ``aborted``: the log says so; ``ended``: it does not; ``cut``: it stops in the middle of the run;
``missing``: the run was announced, and has no log; ``point``: all that is known is with how many samples it got to the
target of its own benchmark. Of runs that the gate makes: ``failed``: the process crashed; ``out_of_memory``, ``limit``:
it was killed for one; ``replaced``: it was spoiled and another one was made in its place; ``planned``: it is not made
yet."""
COLUMNS = {
    "run": "string", "seed": "int64", "workers": "int64", "step": "int64", "samples": "double", "time_s": "double",
    "before_s": "double", "end_s": "double", "energy_j": "double", "status": "string", "metric": "string",
    "value": "double", "limit_s": "double", "usd_h": "double", "started": "int64", "batch": "int64",
    "spoiled": "string", "lag_s": "double", "model": "string", "part": "string", "kill": "string",
    "pair": "int64", "saved": "string",
}  # fmt: skip
MOST_SEEDS = 10_000


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One value of one measure.

    Args:
        metric: Name of the measure, as the log has it.
        value: Its value; may be NaN.
        time_s: Since the run began; None: the log has no times.
        step: Of the optimizer.
        samples: Seen so far.
        energy_j: Taken so far.
    """

    metric: str
    value: float
    time_s: float | None = None
    step: int | None = None
    samples: float | None = None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One run.

    Args:
        name: Of its log, for people.
        evaluations: In the order of the log.
        seed: As the log or its path says.
        workers: Likewise.
        before_s: From the start of the process to that of the run's clock; None: the log does not say.
        end_s: End of the run on its clock.
        status: How it ended.
        batch: Samples of a step.
        spoiled: What the surroundings did to it, too much to be counted; None: nothing that is known.
        lag_s: By so much the log's clock fell behind that of the process.
        model: Name under which the model that it saved can be asked; None: it saved none.
        saved: Digest of that model.
        part: ``run``, or what it was made for beside those that count.
        kill: Facts of its kill, as JSON; None: it was not killed.
        pair: Number of the pair that it is one of; None: of none.
    """

    name: str
    evaluations: tuple[Evaluation, ...]
    seed: int | None = None
    workers: int | None = None
    before_s: float | None = None
    end_s: float | None = None
    status: Status = "ended"
    batch: int | None = None
    spoiled: str | None = None
    lag_s: float | None = None
    model: str | None = None
    saved: str | None = None
    part: str = "run"
    kill: str | None = None
    pair: int | None = None


def supervised_table(runs: Sequence[TrainingRun], training: Training, columns: Sequence[str], started: int) -> pa.Table:
    """As `table_of`, of runs that the gate has made or will make, all of which are there.

    Args:
        runs: In any order.
        training: Says limit, price and workers.
        columns: These, in this order.
        started: Runs that count, on each number of workers.

    Raises:
        InputError: As `table_of`, or two runs log the same values.
    """
    import pyarrow as pa

    counted = [run for run in runs if run.part == "run"]
    for run in counted:
        _check_order(run)
    _check_seeds(counted)
    _check_same_values(counted)
    rows = [{**row, "started": started} for run in sorted(runs, key=_place) for row in _rows(run, training)]
    return pa.table({name: pa.array([row.get(name) for row in rows], _type(COLUMNS[name])) for name in columns})


def table_of(runs: Sequence[TrainingRun], training: Training, columns: Sequence[str]) -> pa.Table:
    """All evaluations of all runs, a row each; a run without any has one row that says how it ended.

    Args:
        runs: In any order.
        training: Says limit, price, workers, and which seeds were started.
        columns: These, in this order.

    Raises:
        InputError: A log contradicts itself, or two of them tell of one run.
    """
    import pyarrow as pa

    if not runs:
        raise InputError("there is no run in these logs")
    for run in runs:
        _check_order(run)
    runs = [*runs, *_missing(runs, training)]
    _check_seeds(runs)
    _check_copies(runs)
    rows = [row for run in sorted(runs, key=_place) for row in _rows(run, training)]
    return pa.table({name: pa.array([row.get(name) for row in rows], _type(COLUMNS[name])) for name in columns})


def _place(run: TrainingRun) -> tuple[object, ...]:
    """Order of runs: by workers, then by name with its numbers as numbers."""
    pieces = re.split(r"(\d+)", run.name)
    return (run.workers or 0, tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in pieces))


def _type(name: str) -> pa.DataType:
    import pyarrow as pa

    return {"string": pa.string(), "int64": pa.int64(), "double": pa.float64()}[name]


def _rows(run: TrainingRun, training: Training) -> Iterable[dict[str, object]]:
    started = len(training.seeds) if isinstance(training.seeds, tuple) else training.seeds
    same: dict[str, object] = {
        "run": run.name, "seed": run.seed, "workers": run.workers or training.workers, "before_s": run.before_s,
        "end_s": run.end_s, "status": run.status, "limit_s": training.limit_s, "usd_h": training.cost_usd_h,
        "started": started, "batch": run.batch, "spoiled": run.spoiled, "lag_s": run.lag_s,
        "model": run.model, "part": run.part, "kill": run.kill, "pair": run.pair,
        "saved": run.saved,
    }  # fmt: skip
    for one in run.evaluations:
        yield {
            **same, "metric": one.metric, "value": one.value, "time_s": one.time_s, "step": one.step,
            "samples": one.samples, "energy_j": one.energy_j,
        }  # fmt: skip
    if not run.evaluations:
        yield same


def _check_order(run: TrainingRun) -> None:
    """Refuse a log in which steps, samples or the clock fall back, or a measure is taken twice."""
    last: dict[tuple[str, str], float] = {}
    for one in run.evaluations:
        for field, what in (("step", "step"), ("samples", "count of samples"), ("time_s", "clock")):
            now = getattr(one, field)
            # Measures are counted by themselves, since a log may begin at 0 for one and at a batch for another.
            of = (field, "" if field == "time_s" else one.metric)
            if now is None:
                continue
            if now < last.get(of, -math.inf):
                unit = " s" if field == "time_s" else ""
                message = f"in {run.name} the {what} goes back from {last[of]:.10g}{unit} to {now:.10g}{unit}"
                remedy = "a log holds one run: give two runs a log each, and of a resumed run no step twice"
                raise InputError(message, remedy=remedy)
            last[of] = now
    taken: set[tuple[str, float]] = set()
    for one in run.evaluations:
        at = one.step if one.step is not None else one.samples
        if at is None:
            continue
        if (one.metric, at) in taken:
            where = "step" if one.step is not None else "samples"
            message = f"in {run.name} {one.metric} is logged twice at {where} {at:.10g}"
            raise InputError(message, remedy="keep one: a run that was resumed may not choose the better of the two")
        taken.add((one.metric, at))


def _missing(runs: Sequence[TrainingRun], training: Training) -> list[TrainingRun]:
    """Runs that were started, as the spec says, and are not among the logs."""
    if training.seeds is None:
        return []
    if isinstance(training.seeds, tuple):
        there = {run.seed for run in runs}
        if None in there:
            unknown = next(run.name for run in runs if run.seed is None)
            remedy = "write `seeds:` as a number, or name the column or the place in the path that has the seed"
            raise InputError(f"the log of {unknown} says no seed, and `seeds:` lists them", remedy=remedy)
        other = sorted(there - set(training.seeds) - {None}, key=str)
        if other:
            raise InputError(f"seed {other[0]} is among the logs, and not among `seeds:`", remedy="list all of them")
        return [
            TrainingRun(f"seed {seed}", (), seed=seed, workers=workers, status="missing")
            for workers in _groups(runs)
            for seed in training.seeds
            if not any(run.seed == seed and run.workers == workers for run in runs)
        ]
    found = []
    for workers in _groups(runs):
        count = sum(run.workers == workers for run in runs)
        group = "" if workers is None else f" on {workers} workers"
        if count > training.seeds:
            message = f"there are {count} runs{group}, and `seeds: {training.seeds}` says that so many were started"
            raise InputError(message, remedy="write the number of all runs that were started")
        found += [
            TrainingRun(f"run {number + 1}{group}", (), workers=workers, status="missing")
            for number in range(count, min(training.seeds, MOST_SEEDS))
        ]
    return found


def _groups(runs: Sequence[TrainingRun]) -> list[int | None]:
    return sorted({run.workers for run in runs}, key=lambda one: one or 0)


def _check_seeds(runs: Sequence[TrainingRun]) -> None:
    """Refuse a seed that two runs share."""
    taken: dict[tuple[int | None, int], str] = {}
    for run in runs:
        if run.seed is None:
            continue
        other = taken.setdefault((run.workers, run.seed), run.name)
        if other != run.name:
            message = f"{other} and {run.name} have the same seed, {run.seed}: they are one run told twice"
            raise InputError(message, remedy="train each run with a seed of its own")
    names = [run.name for run in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two runs are called {twice}", remedy="give each a name, or a log, of its own")


def _check_copies(runs: Sequence[TrainingRun]) -> None:
    """Refuse two runs of which every value and every time is the same."""
    taken: dict[tuple[object, ...], str] = {}
    for run in runs:
        timed = [one for one in run.evaluations if one.time_s is not None]
        if not timed:
            continue
        key = (run.workers, tuple((one.metric, one.value, one.time_s) for one in timed))
        other = taken.setdefault(key, run.name)
        if other != run.name:
            message = f"{other} and {run.name} have the same values at the same times: one is a copy of the other"
            raise InputError(message, remedy="keep one of the two")


FEWEST_VALUES = 5
"""So many different values at least tell two runs apart."""


def _check_same_values(runs: Sequence[TrainingRun]) -> None:
    """Refuse two runs with seeds of their own that log the same values all along: the seed does not get through."""
    taken: dict[tuple[object, ...], str] = {}
    for run in runs:
        values = tuple((one.metric, one.step, one.value) for one in run.evaluations)
        if len({value for _, _, value in values}) < FEWEST_VALUES:
            continue
        other = taken.setdefault((run.workers, values), run.name)
        if other != run.name:
            message = f"{other} and {run.name} log the same values from beginning to end: they are one run made twice"
            raise InputError(message, remedy="have the training draw everything from the seed that it is given")

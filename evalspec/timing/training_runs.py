"""Runs of a training held against a target: when each reached it, with what, and what its log leaves open."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evalspec.errors import NotRunError
from evalspec.evidence.reasons import BySurroundings, Cause
from evalspec.evidence.words import and_list, plural
from evalspec.timing.targets import Quantity, Target, check_training

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

Clock = Literal["process", "run_start"]
SHOWN = 5
"""So many runs are named in a sentence."""
LOST = ("failed", "out_of_memory", "limit")
"""Ends of a run that leave no model, whatever its log says: it got nowhere."""
SLOW_S, SLOW_SHARE = 1.0, 0.05
"""A log's clock that falls behind by more than both, the latter of the run, stops meanwhile."""
_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")


@dataclass(frozen=True)
class TargetRun:
    """One run, held against a target.

    Args:
        name: Of its log.
        seed, workers: As far as they are known.
        status: How it ended.
        before_s: From the start of the process to that of the clock of the log; None: not known.
        offset_s: Of this what counts.
        end_s: End of the run, since the start that counts.
        limit_s: Longest time; infinite: none.
        usd_h: Price of a worker.
        times_s: shape (n,), evaluations of the target's measure since the start that counts; NaN: not known.
        samples, energy_j: shape (n,), seen and taken so far; NaN: not known.
        steps: shape (n,), NaN: not known.
        values: shape (n,).
        reached: Place of the evaluation that reached it; None: it did not.
        below: Evaluations after the first at the target that are not.
        started: Runs that were started, as the spec says; None: it does not.
        batch: Samples of a step; None: not known.
        spoiled: What the surroundings did to it; None: nothing that is known.
        lag_s: By so much the log's clock fell behind that of the process; None: nobody watched it.
        model: Name under which the model that it saved can be asked; None: it saved none.
        unsure: The model that it saved is below the target on rows that it never saw, but not by more than chance.
    """

    name: str
    seed: int | None
    workers: int | None
    status: str
    before_s: float | None
    offset_s: float
    end_s: float
    limit_s: float
    usd_h: float
    times_s: NDArray[np.float64]
    samples: NDArray[np.float64]
    energy_j: NDArray[np.float64]
    steps: NDArray[np.float64]
    values: NDArray[np.float64]
    reached: int | None
    below: int
    started: int | None
    batch: int | None = None
    spoiled: str | None = None
    lag_s: float | None = None
    model: str | None = None
    unsure: bool = False

    @property
    def open(self) -> bool:
        """True if its log stops before it got there and before the run's end."""
        return self.reached is None and self.status == "cut"

    def taken(self, quantity: Quantity) -> tuple[float, float]:
        """Amounts that were not enough and that were: infinite if it never got there, NaN if the log does not say."""
        series = self._series(quantity)
        if self.reached is None:
            last = series[np.isfinite(series)]
            return (float(last[-1]) if len(last) else self._start(quantity)) if self.open else math.inf, math.inf
        before = series[self.reached - 1] if self.reached else self._start(quantity)
        return float(before), math.inf if self.unsure else float(series[self.reached])

    def seen(self, quantity: Quantity) -> float:
        """As far as it went; NaN where the log does not say."""
        if quantity in ("time", "cost"):
            return self.end_s * self._rate(quantity)
        known = self._series(quantity)[np.isfinite(self._series(quantity))]
        return float(known[-1]) if len(known) else math.nan

    def _series(self, quantity: Quantity) -> NDArray[np.float64]:
        if quantity == "samples":
            return self.samples
        return self.energy_j if quantity == "energy" else self.times_s * self._rate(quantity)

    def _start(self, quantity: Quantity) -> float:
        return self.offset_s * self._rate(quantity) if quantity in ("time", "cost") else 0.0

    def _rate(self, quantity: Quantity) -> float:
        return self.usd_h * (self.workers or 1) / 3600.0 if quantity == "cost" else 1.0

    @property
    def final(self) -> float:
        """The last value; minus infinity where there is none, or the run left no model."""
        if self.status in LOST:
            return -math.inf
        return float(self.values[-1]) if len(self.values) and np.isfinite(self.values[-1]) else -math.inf


def target_runs(table: pa.Table, target: Target, held: int, training: str, clock: Clock = "process") -> list[TargetRun]:
    """All runs of a training, each held against the target.

    Args:
        table: Its rows.
        target: What a run must reach.
        held: So many evaluations in a row must be at it; the first of them counts.
        training: Its name.
        clock: Where times start.

    Raises:
        InputError: There is no such measure in its logs.
        NotRunError: Runs were announced that have no log.
    """
    rows: list[dict[str, Any]] = table.to_pylist()
    missing = list(dict.fromkeys(row["run"] for row in rows if row["status"] == "missing"))
    if missing:
        named = and_list(missing[:SHOWN]) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
        raise NotRunError(f"{training}: there is no log of {named}, but the spec says that so many runs were started")
    if any(row["status"] == "planned" for row in rows):
        raise NotRunError(f"the runs of {training} are not made yet")
    check_training(target, training, table)
    rows = [row for row in rows if row["status"] != "replaced" and row["part"] == "run"]
    by_run: dict[str, list[dict[str, Any]]] = {row["run"]: [] for row in rows}
    first = {row["run"]: row for row in reversed(rows)}
    for row in rows:
        if row["metric"] == target.metric:
            by_run[row["run"]].append(row)
    return [_run(first[name], many, target, held, clock) for name, many in by_run.items()]


def _run(
    facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], target: Target, held: int, clock: Clock
) -> TargetRun:
    def column(name: str) -> NDArray[np.float64]:
        return np.array([math.nan if row[name] is None else float(row[name]) for row in rows], dtype=np.float64)

    offset = (facts["before_s"] or 0.0) if clock == "process" else 0.0
    limit = math.inf if facts["limit_s"] is None else float(facts["limit_s"])
    times = column("time_s") + offset
    kept = ~(times > limit)
    series = {name: column(name)[kept] for name in ("samples", "energy_j", "step", "value")}
    hits = np.array([target.meets(one) for one in series["value"]], dtype=np.bool_)
    after = int((~hits[int(np.argmax(hits)) :]).sum()) if hits.any() else 0
    end = math.nan if facts["end_s"] is None else float(facts["end_s"]) + offset
    if not math.isfinite(end) and np.isfinite(times).any():
        end = float(np.nanmax(times))
    return TargetRun(
        name=facts["run"], seed=facts["seed"], workers=facts["workers"], status=facts["status"],
        before_s=facts["before_s"], offset_s=offset, end_s=min(end, limit) if math.isfinite(end) else end,
        limit_s=limit, usd_h=math.nan if facts["usd_h"] is None else float(facts["usd_h"]),
        times_s=times[kept], samples=series["samples"], energy_j=series["energy_j"], steps=series["step"],
        values=series["value"], reached=None if facts["status"] in LOST else _first_held(hits, held), below=after,
        started=facts["started"], batch=facts["batch"], spoiled=facts["spoiled"], lag_s=facts["lag_s"],
        model=facts["model"],
    )  # fmt: skip


def _first_held(hits: NDArray[np.bool_], held: int) -> int | None:
    """Place of the first of so many hits in a row."""
    row = 0
    for place, hit in enumerate(hits.tolist()):
        row = row + 1 if hit else 0
        if row == held:
            return place - held + 1
    return None


def replaced_runs(table: pa.Table) -> list[str]:
    """Sentences on runs that were spoiled, in whose place others were made.

    Args:
        table: Rows of a training.
    """
    pairs = zip(table.column("run").to_pylist(), table.column("status").to_pylist(),
                table.column("spoiled").to_pylist(), strict=True)  # fmt: skip
    gone = {run: why for run, status, why in pairs if status == "replaced"}
    return [f"{run} is not counted, and another was made in its place: {why}." for run, why in gone.items()]


def spoiled_by(runs: Sequence[TargetRun], training: str) -> BySurroundings | None:
    """Reason to mistrust runs that count, by their surroundings; None: none is known.

    Args:
        runs: Of a training.
        training: Its name.
    """
    spoiled = [run for run in runs if run.spoiled is not None]
    if not spoiled:
        return None
    first = spoiled[0]
    text = f"{plural(len(spoiled), 'run')} of {training} had other work beside them, also when made again"
    return BySurroundings(f"{text}: in {first.name} {first.spoiled}", Cause.OTHER_WORK)


def without(runs: Sequence[TargetRun], quantity: Quantity, training: str) -> str | None:
    """Reason why a quantity can't be told of these runs; None: it can."""
    if quantity == "cost" and any(math.isnan(run.usd_h) for run in runs):
        return f"{training} states no price: add `cost:`, such as 3.06 USD/h for a worker"
    lost = [run.name for run in runs if run.reached is not None and any(math.isnan(x) for x in run.taken(quantity))]
    if not lost and any(run.reached is not None for run in runs):
        return None
    words = {"time": "the time", "cost": "the time", "samples": "the samples", "energy": "the energy"}[quantity]
    if lost:
        return f"the log of {lost[0]} does not say {words} of its evaluations"
    known = any(np.isfinite(run.seen(quantity)) for run in runs)
    return None if known else f"no log of {training} says {words} of its evaluations"


def open_questions(runs: Sequence[TargetRun], training: str, held: int, clock: Clock) -> list[str]:
    """Sentences on what the logs of a training can't show.

    Args:
        runs: Its runs.
        training: Its name.
        held: Evaluations in a row at the target.
        clock: Where times start.
    """
    lines = []
    gap = gap_in(tuple(run.name for run in runs))
    if gap is not None:
        lines.append(f"{gap}: a run that was left out would have counted as not reached")
    elif runs[0].started is None:
        lines.append(
            f"no log shows how many runs of {training} were started: set `seeds:`, so that a run that was left out is "
            "noticed"
        )
    if clock == "process" and any(run.before_s is None for run in runs):
        count = sum(run.before_s is None for run in runs)
        lines.append(
            f"{count} of {plural(len(runs), 'log')} of {training} do not say when the process began: imports, "
            "compilation and loading before the first line are not in these times"
        )
    if clock == "run_start":
        before = [run.before_s for run in runs if run.before_s is not None]
        if before:
            lines.append(
                f"{float(np.median(before)) / 60.0:.3g} min before the clock starts (median) are not in these times"
            )
    slow = [run for run in runs if (run.lag_s or 0.0) > max(SLOW_S, SLOW_SHARE * run.end_s)]
    if slow:
        worst = max(slow, key=lambda run: run.lag_s or 0.0)
        lines.append(
            f"the clock in {plural(len(slow), 'log')} of {training} falls behind that of the process, in {worst.name} "
            f"by {worst.lag_s:.3g} s: what it leaves out is not in these times"
        )
    fell = [run for run in runs if held == 1 and run.reached is not None and run.below]
    if fell:
        worst = max(fell, key=lambda run: run.below)
        lines.append(
            f"{len(fell)} of {plural(len(runs), 'run')} of {training} are below the target again after they reached it "
            f"({worst.name} in {worst.below} of {len(worst.values) - (worst.reached or 0) - 1} evaluations): "
            "`held: 3` requires three in a row"
        )
    cut = [run.name for run in runs if run.open]
    if cut:
        lines.append(
            f"the log of {cut[0]} stops before the run's end: it counts as not reached for a PASS, and as open for a "
            "FAIL"
        )
    return lines


def gap_in(names: Sequence[str]) -> str | None:
    """Sentence on numbers that are missing among names such as result_0, result_1, result_3; None: none is."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    numbered = [match for match in matches if match is not None]
    stems = {(match[1], match[3]) for match in numbered}
    if len(numbered) != len(names) or len(stems) != 1 or len(names) < 2:
        return None
    there = {int(match[2]) for match in numbered}
    gaps = sorted(set(range(min(0 if 0 in there else 1, min(there)), max(there) + 1)) - there)
    # Seeds that were drawn are no numbering.
    if not gaps or len(gaps) > len(there):
        return None
    stem, end = next(iter(stems))
    return f"{stem}{gaps[0]}{end} is missing among the logs" + (f", and {len(gaps) - 1} more" if len(gaps) > 1 else "")


def write_evaluations(runs: Sequence[TargetRun], folder: Path, check: str) -> str:
    """Write the evaluations of all runs; returns the name of the file.

    Args:
        runs: All runs.
        folder: For evidence.
        check: Name of the check.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts = [len(run.values) for run in runs]

    def of_run(values: Sequence[object]) -> list[object]:
        return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]

    def every(series: Sequence[NDArray[np.float64]]) -> pa.Array:
        joined = np.concatenate([*series, np.empty(0)])
        return pa.array([float(one) if math.isfinite(one) else None for one in joined], pa.float64())

    table = pa.table(
        {
            "run": pa.array(of_run([run.name for run in runs]), pa.string()),
            "seed": pa.array(of_run([run.seed for run in runs]), pa.int64()),
            "workers": pa.array(of_run([run.workers for run in runs]), pa.int64()),
            "step": every([run.steps for run in runs]),
            "samples": every([run.samples for run in runs]),
            "time_s": every([run.times_s for run in runs]),
            "value": every([run.values for run in runs]),
        }
    )
    name = f"{check}-evaluations.parquet"
    pq.write_table(table, folder / name)
    return name

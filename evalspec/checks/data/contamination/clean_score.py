"""Score of a model on clean rows beside all rows: the consequence of rows that it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.data.contamination.spec import FRACTIONS
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.blocks import Column, Interval, Intervals, Reference, Table
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import in_percent
from evalspec.scoring.catalogue.metrics import SLICED
from evalspec.scoring.on_demand import shown_bounds
from evalspec.scoring.scored_rows import Scored
from evalspec.scoring.scores import F1, Area, Estimators, Macro, MacroArea, MeanLoss, Resampled, Score, Share
from evalspec.scoring.tasks import score
from evalspec.stats.exact import Exact
from evalspec.stats.means.clean_change import clean_change, resampled_change
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.language.inputs import Inputs

CHANGE, CLEAN = "clean_score_change", "clean_score"
UNITS = {metric.name: metric.unit for metric in SLICED}


@dataclass(frozen=True, slots=True)
class CleanScore:
    """The part of a result that is about scores.

    Args:
        estimates: `clean_score` and `clean_score_change`.
        missing: Why one of them isn't there.
        blocks: What to show.
        conditions: Model, metric and the score of all rows, from which the report tells whose score it is.
        notes: Sentences for the reader.
        asked: Answers to each row, which the estimates count.
    """

    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    blocks: Sequence[AnyBlock] = ()
    conditions: Mapping[str, Cell] = field(default_factory=dict)
    notes: Sequence[str] = ()
    asked: int = 1


@dataclass(frozen=True, slots=True)
class _Side:
    """One group of rows with its score; ``why`` where it has none."""

    name: str
    rows: int
    estimate: Estimate | None
    why: str = ""


def clean_score(
    inputs: Inputs,
    rows: Scored,
    metric: str,
    dirty: NDArray[np.bool_],
    levels: Mapping[str, NDArray[np.bool_]],
) -> CleanScore:
    """Score a model on all, clean and dirty rows of the test set.

    Args:
        inputs: What the check is handed.
        rows: The test set, with the answers that are scored.
        metric: A metric of `quality` without a part.
        dirty: shape (m,), test rows that count as seen in training.
        levels: Name of a way to find such rows: those that it found, shape (m,).

    Raises:
        InputError: The answers are of other rows.
    """
    test, model = rows.dataset, rows.model
    if rows.questions != len(dirty):
        raise InputError(f"{model!r} answered {rows.questions:,} rows of {test}, which has {len(dirty):,}")
    tools = Estimators.of(inputs)
    try:
        how = score(metric, None, rows)
        full = how.estimate(rows, tools)
    except NotRunError as reason:
        return CleanScore(missing={CHANGE: str(reason), CLEAN: str(reason)})
    sides = (
        _Side("all rows", rows.questions, full),
        _side("clean rows", how, rows, ~dirty, tools),
        _side("rows seen in training", how, rows, dirty, tools),
    )
    estimates, missing = _found(how, metric, rows, dirty, sides, tools)
    unit = UNITS[metric]
    blocks: list[AnyBlock] = [_forest(metric, unit, sides, inputs.confidence)]
    ways = {name: found for name, found in levels.items() if found.any()}
    if ways:
        blocks.append(_by_level(metric, unit, how, rows, ways, full, tools))
    conditions: dict[str, Cell] = {"test set": test, "predictions of": model, "metric": metric}
    conditions |= {} if full.value is None else {f"{metric} of all rows": full.value}
    return CleanScore(estimates, missing, blocks, conditions, _notes(metric, sides), rows.asked)


def _side(name: str, how: Score, rows: Scored, inside: NDArray[np.bool_], tools: Estimators) -> _Side:
    count = int(inside.sum())
    if not count:
        return _Side(name, 0, None, "there are none")
    try:
        return _Side(name, count, how.estimate(rows.rows(inside), tools))
    except NotRunError as reason:
        return _Side(name, count, None, str(reason))


def _found(
    how: Score, metric: str, rows: Scored, dirty: NDArray[np.bool_], sides: Sequence[_Side], tools: Estimators
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """The two metrics, or why they are not there."""
    full, clean = sides[0], sides[1]
    if metric not in FRACTIONS:
        reason = f"{metric} is not a fraction that is better when higher, so its change is in no points"
        return {}, {CHANGE: reason, CLEAN: reason}
    if clean.estimate is None or clean.estimate.value is None or full.estimate is None or full.estimate.value is None:
        nothing = "every row of the test set was seen in training: there is no clean row to score"
        reason = nothing if not clean.rows else f"on the clean rows: {clean.why or 'there is no score'}"
        return {}, {CHANGE: reason, CLEAN: reason}
    if not dirty.any():
        none = Exact(0.0, rows.n, "no row of the test set was seen in training, so all rows are the clean ones")
        return {CLEAN: clean.estimate, CHANGE: none}, {}
    return {CLEAN: clean.estimate, CHANGE: change(how, metric, rows, dirty, sides, tools)}, {}


def change(
    how: Score, metric: str, rows: Scored, dirty: NDArray[np.bool_], sides: Sequence[_Side], tools: Estimators
) -> Estimate:
    """The score of all rows less that of the clean ones.

    Args:
        how: How the metric is scored.
        metric: Its name.
        rows: All rows.
        dirty: shape (n,), some of them.
        sides: All, clean and dirty rows with their scores; of the clean ones there is one.
        tools: What estimates need beside rows.
    """
    full, clean, seen = (side.estimate for side in sides)
    assert full is not None and full.value is not None and clean is not None and clean.value is not None
    clean_rows, dirty = rows.rows(~dirty), rows.spread(dirty)
    if isinstance(how, Share | MeanLoss):
        counted = how.counted(rows) if isinstance(how, Share) else np.ones(rows.n, dtype=np.bool_)
        among = int((counted & dirty).sum())
        if not among or seen is None:
            return Exact(0.0, clean.n, f"no row that {metric} counts was seen in training")
        return clean_change(seen, clean, among / int(counted.sum()))
    statistic, classes = _statistic(how)
    if statistic is None:
        reason = f"no bound: {metric} of all rows minus that of the clean ones has no interval here"
        return ValueOnly(full.value - clean.value, rows.n, reason)
    return resampled_change(
        statistic, statistic.arrays(rows), dirty, rng=tools.rng(metric, "clean"), alpha=tools.alpha,
        clusters=rows.clusters, smallest_class=_smallest(clean_rows, classes),
    )  # fmt: skip


def _statistic(how: Score) -> tuple[Any, tuple[int, ...] | None]:
    """Part of a metric that can be resampled, and the classes that count (None: all; empty: none by itself)."""
    if isinstance(how, Area):
        return OfArea((how.positive,)), (how.positive,)
    if isinstance(how, MacroArea):
        return OfArea(how.classes), how.classes
    if isinstance(how, F1):
        return how.statistic, (how.index,)
    if isinstance(how, Resampled):
        return how.statistic, how.classes
    return (how.statistic, None) if isinstance(how, Macro) else (None, None)


def _smallest(rows: Scored, classes: tuple[int, ...] | None) -> int | None:
    """Rows of the smallest class that counts, and of the rows beside it where that is one of two sides."""
    if rows.classes is None or rows.task not in ("classes", "labels") or classes == ():
        return None
    chosen = range(len(rows.classes)) if classes is None else classes
    counts = [int(np.count_nonzero(rows.is_of(index))) for index in chosen]
    return min(min(count, rows.n - count) for count in counts)


@dataclass(frozen=True, slots=True)
class OfArea:
    """Mean area under the ROC curves of some classes against the others, of weighted rows.

    Args:
        classes: Their indices.
    """

    classes: tuple[int, ...]

    def arrays(self, rows: Scored) -> tuple[NDArray[Any], ...]:
        """Probabilities, shape (n, classes), and which rows are of each class, shape (n, classes)."""
        chosen = list(self.classes)
        return rows.shares()[:, chosen], np.stack([rows.is_of(index) for index in chosen], axis=1)

    def __call__(self, arrays: Sequence[NDArray[Any]], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the resamples, shape (B,); NaN where a side has no row."""
        total = np.zeros(len(weights))
        for column in range(len(self.classes)):
            scores, positive = arrays[0][:, column], arrays[1][:, column]
            _, place = np.unique(scores, return_inverse=True)
            order = np.argsort(place, kind="stable")
            starts = np.flatnonzero(np.diff(place[order], prepend=-1))
            above = np.add.reduceat((weights * positive)[:, order], starts, axis=1)
            below = np.add.reduceat((weights * ~positive)[:, order], starts, axis=1)
            # Rows of the others with a lower score, and half of those with the same.
            beaten = np.cumsum(below, axis=1) - 0.5 * below
            pairs = above.sum(axis=1) * below.sum(axis=1)
            won = np.einsum("ij,ij->i", above, beaten)
            total += np.divide(won, pairs, out=np.full(len(weights), np.nan), where=pairs > 0)
        return total / len(self.classes)


def _forest(metric: str, unit: str, sides: Sequence[_Side], confidence: float) -> Intervals:
    lines = []
    for side in sides:
        bounds = (None, None) if side.estimate is None else shown_bounds(side.estimate, confidence, required=False)
        value = None if side.estimate is None else side.estimate.value
        note = side.why if value is None else ""
        lines.append(
            Interval(label=side.name, value=value, lower=bounds[0], upper=bounds[1], n=side.rows, note=note)
        )  # fmt: skip
    full = sides[0].estimate
    return Intervals(
        title=f"{metric} on rows seen in training and on the others",
        caption=f"One-sided bounds at {in_percent(confidence)} each. What a user will see is the score of clean rows.",
        unit=unit,
        rows=tuple(lines),
        references=(Reference(label="all rows", value=None if full is None else full.value, axis="x"),),
    )


def _by_level(
    metric: str,
    unit: str,
    how: Score,
    rows: Scored,
    levels: Mapping[str, NDArray[np.bool_]],
    full: Estimate,
    tools: Estimators,
) -> Table:
    """The same for each way to find rows, so that the reader sees what each definition of clean would change."""
    lines: list[tuple[Cell, ...]] = []
    points = unit == "fraction"
    for name, found in levels.items():
        clean = _side(name, how, rows, ~found, tools).estimate
        value = None if clean is None else clean.value
        gained = None if value is None or full.value is None else full.value - value
        lines.append((name, int(found.sum()), value, gained if gained is None or not points else 100.0 * gained))
    columns = (
        Column(name="found by"), Column(name="rows", unit="rows"), Column(name=f"{metric} without them", unit=unit),
        Column(name="all minus these", unit="pp" if points else unit),
    )  # fmt: skip
    return Table(
        title=f"{metric} without the rows that each way finds",
        caption="Values of this file, without intervals.",
        columns=columns,
        rows=tuple(lines),
    )


def _notes(metric: str, sides: Sequence[_Side]) -> tuple[str, ...]:
    full, clean, dirty = sides
    if not dirty.rows or clean.estimate is None or clean.estimate.value is None:
        return ()
    assert full.estimate is not None and full.estimate.value is not None
    gained = full.estimate.value - clean.estimate.value
    values = f"{clean.estimate.value:.4g} on the {clean.rows:,} clean rows and {full.estimate.value:.4g} on all"
    points = f": {100 * gained:+z.3g} pp come from rows seen in training" if UNITS[metric] == "fraction" else ""
    return (f"{metric} is {values} {full.rows:,}{points}.",)

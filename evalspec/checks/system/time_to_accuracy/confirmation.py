"""Scores of the models that runs have saved, on rows that the runs never saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from evalspec.checks.system.time_to_accuracy.spec import measure_named
from evalspec.errors import EvalspecError, InputError, NotRunError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.units import format_number
from evalspec.evidence.words import and_list, plural
from evalspec.language.parts import CheckResult
from evalspec.scoring.catalogue.metrics import METRICS
from evalspec.scoring.scored_rows import scored_answers
from evalspec.scoring.scores import Estimators
from evalspec.scoring.tasks import score
from evalspec.sources.reading.rows import row_digests
from evalspec.tables.comparable import check_comparable, comparable
from evalspec.tables.row_names import row_names

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.checks.system.time_to_accuracy.spec import Confirmation, TimeToAccuracy
    from evalspec.language.inputs import Inputs
    from evalspec.timing.training_runs import TargetRun

FEWEST_FRESH = 2
"""So many fresh runs at least that one may be better than all of them."""
SAME_VOID = 0.01
"""Share of rows that the runs saw, beyond which the rows confirm nothing."""
OVERSTATED = 2.0
"""So many times what its bound leaves to chance is a score less than what was logged on other rows."""


@dataclass
class ConfirmedRuns:
    """Runs as far as the models that they saved confirm them.

    Args:
        runs: All of them; one that is not confirmed has not reached the target.
        blocks: A table of scores.
        notes: For the reader.
        weakens: What makes the verdict weaker.
        invalid: Why the rows confirm nothing; None: they do.
    """

    runs: list[TargetRun]
    blocks: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    weakens: list[str] = field(default_factory=list)
    invalid: str | None = None


def confirmed(check: TimeToAccuracy, inputs: Inputs, runs: list[TargetRun]) -> ConfirmedRuns:
    """Score each saved model on rows that no run ever saw.

    A run whose model is below the target there has not reached it. If that may be chance, it counts as not reached for
    a PASS, and as reached for a FAIL.

    Args:
        check: Its target, and the rows.
        inputs: Where rows and answers come from.
        runs: Held against the target.

    Raises:
        NotRunError: The runs saved no models.
    """
    asked = check.confirm
    if asked is None or inputs.draft:
        # A draft stops runs before they save a model.
        return ConfirmedRuns(runs)
    if not any(run.model is not None for run in runs):
        raise NotRunError(
            f"the runs of {check.training} saved no model to confirm: name one with `makes:` in a training of "
            "`kind: command`"
        )
    rows = inputs.table(asked.dataset)
    if not rows.num_rows:
        raise InputError(f"dataset {asked.dataset!r} has no rows", remedy="check its path and its `where:`")
    found = ConfirmedRuns([])
    found.invalid = _one_model(check, inputs, runs) or _seen(asked, inputs, rows, found)
    scores: dict[str, Estimate] = {}
    by = _Scoring(asked, inputs, rows, Estimators.of(inputs))
    for run in runs:
        # One that did not get there has nothing to confirm, and may have saved what answers nothing.
        if run.model is not None and run.reached is not None:
            scores[run.name] = by.score(run.name, run.model)
        found.runs.append(_held(check, run, scores.get(run.name), inputs.confidence))
    _tell(check, by, runs, found, scores)
    _overstated(check, by, runs, found, scores, inputs.confidence)
    _shipped(check, by, runs, found, scores)
    return found


@dataclass(frozen=True)
class _Scoring:
    """How saved models are scored.

    Args:
        asked: The rows and the metric.
        inputs: Where answers come from.
        rows: The rows.
        tools: What estimates need.
    """

    asked: Confirmation
    inputs: Inputs
    rows: pa.Table
    tools: Estimators

    def score(self, name: str, model: str) -> Estimate:
        """Score of a model.

        Args:
            name: Of its answers, unique.
            model: Name under which it can be asked.

        Raises:
            InputError: It gives what can't be scored.
            Undefined: The metric is not one of what the model gives.
        """
        try:
            told = self.inputs.predict(self.rows, self.asked.dataset, name, model)
        except InputError as error:
            raise InputError(f"the model that {name} saved can't be scored: {error}") from error
        answers = scored_answers(told, self.asked.dataset)
        return score(self.asked.scored_by, None, answers).estimate(answers, self.tools)

    def shown(self, value: float) -> str:
        """A score as it stands in a sentence."""
        return f"{format_number(100 * value)} %" if self._is_share else format_number(value)

    def gap(self, value: float) -> str:
        """A difference of two scores, likewise."""
        return f"{100 * value:.2f} points" if self._is_share else f"{value:.4g}"

    @property
    def _is_share(self) -> bool:
        return any(one.name == self.asked.scored_by and one.unit == "fraction" for one in METRICS)


def _held(check: TimeToAccuracy, run: TargetRun, score: Estimate | None, confidence: float) -> TargetRun:
    """A run as its model leaves it; one that left none has not reached the target."""
    if run.reached is None or (score is not None and score.value is not None and check.goal.meets(score.value)):
        return run
    best = None if score is None else score.bound(confidence, "upper" if check.goal.rising else "lower")
    # Without a bound it may be chance.
    if score is None or (best is not None and not check.goal.meets(best)):
        return replace(run, reached=None)
    return replace(run, unsure=True)


def _tell(
    check: TimeToAccuracy,
    by: _Scoring,
    runs: Sequence[TargetRun],
    found: ConfirmedRuns,
    scores: dict[str, Estimate],
) -> None:
    """Table of scores, and a sentence on runs whose model is not what the log says."""
    assert check.confirm is not None
    miss = f"are {'below' if check.goal.rising else 'above'} the target"
    pairs = list(zip(runs, found.runs, strict=True))
    found.blocks.append(
        Table(
            title="Saved models",
            caption=f"{check.goal.metric} as logged last, and {by.asked.scored_by} of the saved model on "
            f"{check.confirm.dataset}.",
            columns=(Column(name="run"), Column(name="logged"), Column(name="saved model"), Column(name="rows"),
                     Column(name="confirmed")),
            rows=tuple(
                (before.name, before.final if np.isfinite(before.final) else None,
                 scores[before.name].value if before.name in scores else None,
                 scores[before.name].n if before.name in scores else None, _word(before, after))
                for before, after in pairs
            ),
        )
    )  # fmt: skip
    denied = [before for before, after in pairs if before.reached is not None and after.reached is None]
    unsure = [after for _, after in pairs if after.unsure]
    if denied:
        gaps = [before.final - float(scores[before.name].value or 0.0) for before in denied if before.name in scores]
        mean = float(np.mean(gaps)) if gaps else 0.0
        way = "less" if mean > 0.0 else "more"
        less = f": {by.gap(abs(mean))} {way} than logged (mean)" if gaps else ""
        found.notes.append(
            f"The saved models of {len(denied)} of {plural(len(runs), 'run')} {miss} on {check.confirm.dataset}{less}, "
            "so those runs have not reached it."
        )
    if unsure:
        found.notes.append(
            f"The saved models of {plural(len(unsure), 'run')} {miss} on {check.confirm.dataset} by no more than "
            "chance: they count as not reached for a PASS, and as reached for a FAIL."
        )


def _overstated(
    check: TimeToAccuracy,
    by: _Scoring,
    runs: Sequence[TargetRun],
    found: ConfirmedRuns,
    scores: Mapping[str, Estimate],
    confidence: float,
) -> None:
    """A doubt where the runs log a better value than their models have, though these are at the target, too."""
    if measure_named(check.goal.metric) != by.asked.scored_by:
        return
    side: Literal["lower", "upper"] = "upper" if check.goal.rising else "lower"
    pairs = []
    for run in runs:
        score = scores.get(run.name)
        bound = None if score is None else score.bound(confidence, side)
        if score is not None and score.value is not None and bound is not None and np.isfinite(run.final):
            pairs.append((run.final, score.value, abs(bound - score.value)))
    if not pairs:
        return
    logged, scored, chance = (float(one) for one in np.median(np.array(pairs), axis=0))
    gap = logged - scored if check.goal.rising else scored - logged
    if gap > OVERSTATED * chance:
        found.weakens.append(
            f"the runs of {check.training} log {check.goal.metric} {by.shown(logged)} at their end (median), and the "
            f"models that they saved have {by.shown(scored)} on {by.asked.dataset}: times to the target are by the log"
        )


def _word(before: TargetRun, after: TargetRun) -> str:
    if before.reached is None:
        return "not reached"
    return "no" if after.reached is None else "not sure" if after.unsure else "yes"


def _shipped(
    check: TimeToAccuracy,
    by: _Scoring,
    runs: Sequence[TargetRun],
    found: ConfirmedRuns,
    scores: dict[str, Estimate],
) -> None:
    """A doubt where the model that ships is better than all fresh runs."""
    assert check.confirm is not None
    first = next(run for run in runs if run.model is not None)
    name = str(first.model).removesuffix(f"-{first.name}")
    fresh = [float(one.value) for one in scores.values() if one.value is not None]
    if len(fresh) < FEWEST_FRESH:
        return
    try:
        shipped = by.score("as it ships", name)
    except EvalspecError:
        # What can't answer is told by the checks that are about it.
        return
    best = max(fresh) if check.goal.rising else min(fresh)
    better = shipped.value is not None and (shipped.value > best if check.goal.rising else shipped.value < best)
    if not better or shipped.value is None:
        return
    found.weakens.append(
        f"{name} is better than all {len(fresh)} fresh runs of {check.training} on {check.confirm.dataset} "
        f"({by.shown(shipped.value)}, and the best of them {by.shown(best)}), which "
        f"happens to one of {len(fresh) + 1} models by chance: was it chosen among several?"
    )


def _seen(asked: Confirmation, inputs: Inputs, rows: pa.Table, found: ConfirmedRuns) -> str | None:
    """Reason for INVALID where the runs saw these rows."""
    if not asked.apart_from:
        found.weakens.append(
            f"the rows that the runs saw are not known: name them in `confirm: {{apart_from: [...]}}`, so that rows of "
            f"{asked.dataset} among them are noticed"
        )
        return None
    for name in asked.apart_from:
        other = inputs.table(name)
        # What the model reads and the label: others may number rows anew.
        read = _read(inputs, asked.dataset, rows)
        of_both = [column for column in read if column in other.column_names]
        if not of_both:
            raise InputError(
                f"of {asked.dataset} the model reads no column that {name} has, too, so that rows can't be compared"
            )
        columns = [*of_both, *_label(inputs, asked.dataset, rows, other)]
        check_comparable(other, rows, columns, name)
        known = set(map(bytes, row_digests(comparable(other, columns, rows.select(columns)))))
        same = sum(bytes(one) in known for one in row_digests(comparable(rows, columns, other.select(columns))))
        if same > SAME_VOID * rows.num_rows and len(of_both) < len(read):
            absent = next(column for column in read if column not in of_both)
            raise InputError(
                f"{same:,} of {rows.num_rows:,} rows of {asked.dataset} are like rows of {name} in "
                f"{and_list(of_both)}, and {name} has no {absent!r}, which the model reads, so that rows can't be "
                "compared",
                remedy=f"give {name} the columns that the model reads",
            )
        if same > SAME_VOID * rows.num_rows:
            return f"{same:,} of {rows.num_rows:,} rows of {asked.dataset} are rows of {name}, which the runs saw"
        if same:
            found.weakens.append(f"{same:,} of {rows.num_rows:,} rows of {asked.dataset} are rows of {name}")
    return None


def _read(inputs: Inputs, dataset: str, rows: pa.Table) -> list[str]:
    """Columns that the model reads, without those that number rows where the spec does not say what it reads."""
    columns = inputs.feature_columns(dataset)
    numbers = row_names([rows], columns, inputs.stated_columns(dataset), [rows.num_rows])
    return [column for column in columns if column not in numbers]


def _label(inputs: Inputs, dataset: str, rows: pa.Table, other: pa.Table) -> list[str]:
    """The label, where both have it and of one type."""
    label = inputs.label(dataset)
    if label is None or label not in other.column_names:
        return []
    return [label] if rows.schema.field(label).type == other.schema.field(label).type else []


def _one_model(check: TimeToAccuracy, inputs: Inputs, runs: Sequence[TargetRun]) -> str | None:
    """Reason for INVALID where runs with different seeds that got there have saved the same model."""
    saved = {row["run"]: row["saved"] for row in inputs.table(check.training, ("run", "saved")).to_pylist()}
    first: dict[str, TargetRun] = {}
    for run in runs:
        digest = saved[run.name]
        # Those that diverged may all be NaN.
        same = run if digest is None or run.reached is None else first.setdefault(digest, run)
        if same.seed != run.seed:
            return (
                f"{same.name} and {run.name} saved the same model, to the byte, though their seeds differ: either it "
                "is not what each of them has trained, or the seed makes no difference, and they are one run"
            )
    return None


def as_result(found: ConfirmedRuns, result: CheckResult) -> CheckResult:
    """The result of the check with what the saved models tell.

    Args:
        found: Of the saved models.
        result: From the runs as they leave them.
    """
    return replace(
        result,
        blocks=[*result.blocks, *found.blocks],
        notes=[*result.notes, *found.notes],
        weakens=[*result.weakens, *found.weakens],
        invalid=found.invalid,
    )

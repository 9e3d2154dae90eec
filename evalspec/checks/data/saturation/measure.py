"""Measurement of `saturation`."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from evalspec.checks.data.saturation.spec import AFTER, OF_AGE, OF_SCORES, collected
from evalspec.errors import InputError
from evalspec.evidence.blocks import AnyBlock, Interval, Intervals, Reference
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.record import Counts
from evalspec.evidence.words import in_percent, plural, verb
from evalspec.language.parts import CheckResult
from evalspec.scoring.scored_rows import Undefined, scored
from evalspec.scoring.scores import Estimators
from evalspec.scoring.tasks import score
from evalspec.stats.shares.headroom import Headroom

if TYPE_CHECKING:
    from evalspec.checks.data.saturation.spec import Saturation
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs


def measure(check: Saturation, inputs: Inputs) -> CheckResult:
    """Score the model against the ceiling, and count the days since the data were collected.

    Raises:
        InputError: The answers can't be scored, or the data are from a day that is yet to come.
    """
    estimates: dict[str, Estimate | Fact | Parts | Measured] = {}
    missing: dict[str, str] = {}
    blocks: list[AnyBlock] = []
    notes: list[str] = []
    rows, each = inputs.table(check.dataset).num_rows, 1
    if not rows:
        raise InputError(f"dataset {check.dataset} has no rows to look at")
    if check.predictions is None:
        missing |= dict.fromkeys(OF_SCORES, "the check has no `predictions:`, the model whose score is checked")
    elif check.scored is None:
        missing |= dict.fromkeys(OF_SCORES, "no requirement is about the score")
    else:
        each = _score(check, inputs, check.scored, estimates, missing, blocks, notes)
    _age(check, inputs, rows, estimates, missing)
    _after(check, inputs, rows, estimates, missing)
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=blocks,
        counts=Counts(attempted=rows, used=rows),
        conditions=_conditions(check, inputs),
        notes=notes,
        answers_each=dict.fromkeys(OF_SCORES, each),
    )


def _score(
    check: Saturation, inputs: Inputs, model: str, estimates: dict[str, Estimate | Fact | Parts | Measured],
    missing: dict[str, str], blocks: list[AnyBlock], notes: list[str],
) -> int:  # fmt: skip
    """Adds what the score says; gives answers to each row."""
    rows = scored(inputs, check.dataset, model, positive=check.positive)
    try:
        found = score(check.metric_, None, rows).estimate(rows, Estimators.of(inputs))
    except Undefined as undefined:
        missing |= dict.fromkeys(OF_SCORES, str(undefined))
        return rows.asked
    left = Headroom(found, check.ceiling)
    if left.value is None:
        missing |= dict.fromkeys(OF_SCORES, found.method)
        return rows.asked
    estimates["headroom"] = left
    lower, upper = found.bound(inputs.confidence, "lower"), found.bound(inputs.confidence, "upper")
    if lower is None or upper is None:
        missing["interval_width"] = found.method
    else:
        method = f"{check.metric_} of {model} at {in_percent(inputs.confidence)} on either side, {found.method}"
        estimates["interval_width"] = Fact(upper - lower, found.n, method, in_this_run=True)
    if left.value < 0:
        notes.append(f"The {check.metric_} of {model} lies over the ceiling: there is nothing left to show.")
    blocks.append(
        Intervals(
            title=f"{check.metric_} of {model} under its ceiling",
            caption=f"One-sided bounds at {in_percent(inputs.confidence)} each.",
            unit="fraction",
            rows=(Interval(label=model, value=found.value, lower=lower, upper=upper, n=found.n),),
            references=(Reference(label=_ceiling(check), value=check.ceiling, axis="x"),),
        )
    )
    return rows.asked


def _ceiling(check: Saturation) -> str:
    return "ceiling" if check.ceiling_source is None else f"ceiling ({check.ceiling_source})"


def _age(
    check: Saturation, inputs: Inputs, rows: int, estimates: dict[str, Estimate | Fact | Parts | Measured],
    missing: dict[str, str],
) -> None:  # fmt: skip
    day = collected(inputs.origin(check.dataset), check.dataset)
    if isinstance(day, str):
        missing[OF_AGE] = day
        return
    days = (inputs.today - day).days
    if days < 0:
        raise InputError(
            f"{check.dataset} was collected on {day.isoformat()}, after this run's day, {inputs.today.isoformat()}",
            remedy="correct `collected:` in its origin",
        )
    estimates[OF_AGE] = Fact(
        float(days), rows, f"counted from {day.isoformat()}, as stated, to {inputs.today.isoformat()}"
    )


def _after(
    check: Saturation, inputs: Inputs, rows: int, estimates: dict[str, Estimate | Fact | Parts | Measured],
    missing: dict[str, str],
) -> None:  # fmt: skip
    if check.predictions is None:
        missing[AFTER] = "the check has no `predictions:`, the model whose last day of learning counts"
        return
    stated = inputs.model_facts(check.predictions).get("trained_until")
    if stated is None:
        missing[AFTER] = f"{check.predictions} does not say how far it learned; add `trained_until: 2026-01-31` to it"
        return
    last = datetime.date.fromisoformat(str(stated))
    later, unknown = _later(check, inputs, rows, last)
    method = f"counted: later than {last.isoformat()}, as stated of {check.predictions}"
    if unknown:
        method += f"; {plural(unknown, 'row')} without a day {verb(unknown, 'counts', 'count')} as before"
    estimates[AFTER] = Fact(later / rows, rows, method)


def _later(check: Saturation, inputs: Inputs, rows: int, last: datetime.date) -> tuple[int, int]:
    """Rows of a later day, and rows without one.

    Raises:
        InputError: A column holds no days, or nobody says when the data were collected.
    """
    if check.day is None:
        day = collected(inputs.origin(check.dataset), check.dataset)
        if isinstance(day, str):
            raise InputError(day)
        return rows * (day > last), 0
    column = inputs.table(check.dataset, [check.day]).column(check.day)
    try:
        days = column.cast(pa.date32()) if not pa.types.is_integer(column.type) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        days = None
    if days is None:
        raise InputError(
            f"the column {check.day!r} of {check.dataset} holds no days", remedy="write them such as 2026-05-01"
        )
    later = pc.greater(days, pa.scalar(last, pa.date32()))
    return int(pc.sum(later).as_py() or 0), days.null_count


def _conditions(check: Saturation, inputs: Inputs) -> dict[str, Cell]:
    found: dict[str, Cell] = {}
    if check.predictions is not None:
        found |= {"metric": check.metric_, "model": check.predictions, "ceiling": check.ceiling}
    if check.ceiling_source is not None:
        found["source of the ceiling"] = check.ceiling_source
    origin = ", ".join(f"{key} {value}" for key, value in inputs.origin(check.dataset).items())
    return found | {f"origin of {check.dataset}": origin or "not stated"}

"""Verdicts of a judge and of people on the rows of a dataset, joined by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evalspec.cells import value_of
from evalspec.errors import InputError, InvalidError, NotRunError
from evalspec.evidence.words import first_of, plural, verb
from evalspec.stats.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.checks.model.judged.spec import JudgedAnswers
    from evalspec.language.inputs import Inputs, Predictions


Texts = NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts of the judge on every row, and of people on some; 1: pass or win, 0.5: tie, 0: fail or loss.

    Args:
        judge: shape (n,), in the dataset's row order; 0 where there is no verdict.
        unscored: shape (n,), True where the judge gave none.
        turned: Rows on which the judge's verdict turns with the seat; None where there are no seats.
        first_seat: Share of the verdicts, over both seats, that went to the first one, ties one half; None likewise.
        labelled: shape (m,), rows that people looked at.
        human: shape (m,), what they say; 0 where they did not decide.
        undecided: How many of these they did not decide on.
    """

    judge: FloatArray
    unscored: BoolArray
    turned: int | None
    first_seat: float | None
    labelled: IntArray
    human: FloatArray
    undecided: int


def read_verdicts(check: JudgedAnswers, inputs: Inputs, answers: Predictions) -> Verdicts:
    """Join the three datasets of a check.

    Raises:
        InputError: A key that is missing, stands twice or is of no row, or a verdict that is none.
        InvalidError: Other answers were judged than the candidate's.
        NotRunError: There are no rows.
    """
    keys = _keys(inputs.table(check.dataset, [check.key]), check.key, check.dataset)
    if not len(keys):
        raise NotRunError(f"{check.dataset} has no rows")
    table = inputs.table(check.judgements)
    kept, rows = _places(_keys(table, check.key, check.judgements), keys, check.judgements, check.dataset, inputs.draft)
    if len(rows) < len(keys) and not inputs.draft:
        missing = np.setdiff1d(np.arange(len(keys)), rows)
        raise InputError(
            f"{check.judgements} has no judgement of {plural(len(missing), 'row')} of {check.dataset}: key "
            f"{_first(keys, missing)}",
            remedy="have them judged; a row without a verdict stays in the file with an empty one",
        )
    if check.answer is not None:
        _same_answers(check, np.array(table.column(check.answer).to_pylist(), dtype=object)[kept], rows, answers)
    seats = [np.full(len(keys), np.nan) for _ in check.verdicts]
    for name, scores in zip(check.verdicts, seats, strict=True):
        scores[rows] = _scores(table, name, check.judgements, ties=check.seats is not None)[kept]
    judge = seats[0] if len(seats) == 1 else np.where(seats[0] == seats[1], seats[0], 0.5)
    unscored = np.asarray(np.isnan(np.stack(seats)).any(axis=0))
    turned = first_seat = None
    if len(seats) == 2 and not unscored.all():
        turned = int(np.count_nonzero((seats[0] != seats[1]) & ~unscored))
        first_seat = float(np.mean(0.5 * (seats[0] + 1.0 - seats[1])[~unscored]))
    labelled, human = _people(check, inputs, keys)
    return Verdicts(
        np.where(unscored, 0.0, judge), unscored, turned, first_seat, labelled, np.nan_to_num(human),
        int(np.isnan(human).sum()),
    )  # fmt: skip


def _people(check: JudgedAnswers, inputs: Inputs, keys: Texts) -> tuple[IntArray, FloatArray]:
    if check.human is None:
        return np.empty(0, dtype=np.int64), np.empty(0)
    label = inputs.label(check.human)
    if label is None:
        raise InputError(f"{check.human} has no `label:`", remedy="name the column with what people said")
    table = inputs.table(check.human, [check.key, label])
    if not table.num_rows:
        return np.empty(0, dtype=np.int64), np.empty(0)
    kept, rows = _places(_keys(table, check.key, check.human), keys, check.human, check.dataset, inputs.draft)
    return rows, _scores(table, label, check.human, ties=check.seats is not None)[kept]


def _keys(table: pa.Table, key: str, dataset: str) -> Texts:
    """Keys as text, so that 7 in one file is "7" in another, shape (n,)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(key)
    if column.null_count:
        rows = plural(column.null_count, "row")
        raise InputError(f"{rows} of {dataset} {verb(column.null_count, 'has', 'have')} no {key!r}, which names a row")
    try:
        texts = column.cast(pa.string())
    except pa.ArrowException as error:
        raise InputError(f"{key!r} of {dataset} holds {column.type}, which names no row") from error
    counts = pc.value_counts(texts)
    often = [value_of(one["values"]) for one in counts.filter(pc.greater(counts.field("counts"), 1))]
    if often:
        raise InputError(
            f"{plural(len(often), 'key')} {verb(len(often), 'stands', 'stand')} more than once in {dataset}: "
            f"{first_of(sorted(often))}",
            remedy="a key names one row: drop the copies",
        )
    return np.array(texts.to_pylist(), dtype=object)


def _places(own: Texts, keys: Texts, dataset: str, of: str, draft: bool) -> tuple[IntArray, IntArray]:
    """Rows whose key is there, and the row of each in the dataset that is judged; a draft has a part of either.

    Raises:
        InputError: A key is of no row, and this is no draft.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    places = pc.index_in(pa.array(own, pa.string()), value_set=pa.array(keys, pa.string()))
    strange = np.flatnonzero(np.asarray(places.is_null()))
    if len(strange) and not draft:
        raise InputError(
            f"{plural(len(strange), 'row')} of {dataset} {verb(len(strange), 'is', 'are')} of no row of {of}: key "
            f"{_first(own, strange)}",
            remedy="was it made from another version of the dataset, or without its `where:`?",
        )
    kept = np.flatnonzero(np.asarray(places.is_valid()))
    return kept, np.asarray(places.drop_null()).astype(np.int64)


def _first(keys: Texts, rows: IntArray) -> str:
    return first_of([str(keys[row]) for row in rows[:3]], len(rows))


def _scores(table: pa.Table, name: str, dataset: str, *, ties: bool) -> FloatArray:
    """Verdicts as numbers, NaN where there is none, shape (n,)."""
    import pyarrow as pa
    import pyarrow.types as types

    column = table.column(name)
    allowed = (0.0, 0.5, 1.0) if ties else (0.0, 1.0)
    if types.is_null(column.type):
        return np.full(len(column), np.nan)
    if not (types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type)):
        raise InputError(f"{name!r} of {dataset} holds {column.type}, and verdicts are {_named(allowed)}")
    values = column.cast(pa.float64()) if not types.is_boolean(column.type) else column.cast(pa.int8())
    scores = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    strange = np.flatnonzero(~np.isnan(scores) & ~np.isin(scores, allowed))
    if len(strange):
        raise InputError(
            f"{name!r} of {dataset} is {scores[strange[0]]:g} in row {strange[0]} (counted from 0), and verdicts are "
            f"{_named(allowed)}"
        )
    return scores


def _named(allowed: Sequence[float]) -> str:
    return "true, false, " + ", ".join(f"{one:g}" for one in allowed) + " or empty"


def _same_answers(check: JudgedAnswers, judged: Texts, rows: IntArray, answers: Predictions) -> None:
    """Refuse judgements of other answers.

    Args:
        check: The check.
        judged: shape (k,), the answers that were judged, or their digests.
        rows: shape (k,), the row of each.
        answers: The candidate's.

    Raises:
        NotRunError: The model writes no text.
        InvalidError: Some are of others.
    """
    if answers.texts is None:
        raise NotRunError(f"`answer: {check.answer}` is compared with the texts of {check.model}, which writes none")
    pairs = zip(rows, judged, answers.texts[rows], strict=True)
    strange = [int(row) for row, seen, text in pairs if seen != text and _digest(seen) != _sha256(text)]
    if strange:
        raise InvalidError(
            f"{len(strange):,} of {len(judged):,} judgements are of other answers than those of {check.model} (first: "
            f"row {min(strange)}, counted from 0); have these answers judged"
        )


def _digest(seen: object) -> str:
    return str(seen).strip().lower().removeprefix("sha256:")


def _sha256(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()

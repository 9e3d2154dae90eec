"""How well each column by itself tells the label."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.evidence.reasons import NoEvidence
from evalspec.scoring.slicing import value_text
from evalspec.sources.reading.open import missing_values
from evalspec.stats.conjunction import AllParts
from evalspec.stats.drift.single_feature_auc import FEWEST_OF_CLASS, cells_of, cuts_of, separation, shares_of
from evalspec.tables.comparable import check_comparable, family
from evalspec.tables.shared_rows import counted

if TYPE_CHECKING:
    from evalspec.evidence.estimate import Estimate
    from evalspec.language.inputs import Inputs

MOST_CLASSES = 20
"""A label of more distinct numbers is a value; of more classes only the most frequent ones are judged."""
FEW_OF_ALL = 0.01
"""Share of rows that no class which is judged has, from which on nothing is shown to hold."""
OTHERS = "name the columns that count in `columns:`"
JUDGED = ("text", "truth value", "number", "time")
"""Families of types that can be cut into cells."""
QUARTILES = (0.25, 0.5, 0.75)


@dataclass
class LabelSignal:
    """Signal of the columns about the label.

    Args:
        parts: Column: how well it tells it.
        strongest: Column: the class, or the limit of a value, that it tells best.
        fitted: Rows that the cells' shares come from, in words.
        why: Why there are no parts.
        lacks: Column: why it has no part.
        withhold: Why no column is shown to tell little; None: every class was judged.
        notes: Sentences for the reader.
    """

    parts: dict[str, Estimate] = field(default_factory=dict)
    strongest: dict[str, str] = field(default_factory=dict)
    fitted: str = ""
    why: str = ""
    lacks: dict[str, str] = field(default_factory=dict)
    withhold: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Split:
    """Rows that cells get their shares from, and rows that are judged.

    Args:
        rows: All of them, those that are judged last.
        fitting: shape (n,).
        judged: shape (n,).
        clusters: shape (judged rows,), or None.
        words: What is fitted, in words.
    """

    rows: pa.Table
    fitting: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    clusters: NDArray[np.int64] | None
    words: str


def judged_columns(heads: Collection[pa.Table], features: Sequence[str]) -> tuple[str, ...]:
    """Columns that are judged by themselves, by their types.

    Args:
        heads: Rows of each set; in some a column may have no value and so no type.
        features: Columns.
    """
    kinds = {name: {family(head.schema.field(name).type) for head in heads} for name in features}
    return tuple(name for name in features if kinds[name] & set(JUDGED))


def target_leakage(
    inputs: Inputs,
    labelled: Mapping[str, tuple[pa.Table, str]],
    test: str,
    features: Sequence[str],
    heads: Mapping[str, pa.Table],
) -> LabelSignal:
    """Cut each column into cells, give them shares of each class, and rank other rows by these.

    Args:
        inputs: Clusters, randomness.
        labelled: Set: its judged columns, and the name of its label; the test set last. Cells get their shares from the
            others.
        test: The set whose rows are judged.
        features: Columns.
        heads: Set: its first rows, all columns.

    Raises:
        InputError: Label or a column hold other types in training.
    """
    told = LabelSignal()
    if not features:
        told.why = "there is no column that could tell the label"
        return told
    for name in labelled:
        check_comparable(heads[name], heads[test], features, name)
    judged = judged_columns([heads[name] for name in labelled], features)
    split = _split(inputs, labelled, test, judged)
    told.fitted = split.words
    targets, told.why = _targets(split, told)
    for name in features if targets else ():
        cells, count = _cells(split, name) if name in judged else (np.zeros(0, dtype=np.int64), 0)
        if count == 0:
            told.lacks[name] = f"a column of {heads[test].schema.field(name).type} is not judged by itself; {OTHERS}"
            continue
        found: dict[str, Estimate] = {}
        for target, positive in targets.items():
            shares = shares_of(cells[split.fitting], positive[split.fitting], count)
            found[target] = separation(shares, cells[split.judged], positive[split.judged], split.clusters)
        told.parts[name] = next(iter(found.values())) if len(found) == 1 else AllParts(found, "lower")
        told.strongest[name] = max(found, key=lambda target: found[target].value or 0.0)
    if targets and not told.parts:
        told.why = f"none of the columns ({', '.join(features)}) can tell a label by itself"
    return told


def _split(inputs: Inputs, labelled: Mapping[str, tuple[pa.Table, str]], test: str, judged_by: Sequence[str]) -> _Split:
    picked = []
    for name, (table, label) in labelled.items():
        columns = {column: table.column(column) for column in judged_by}
        picked.append(pa.table(columns | {_LABEL: table.column(label)}))
        check_comparable(picked[-1], picked[0], (*judged_by, _LABEL), name)
    fitted = [name for name in labelled if name != test]
    try:
        rows = pa.concat_tables(picked, promote_options="permissive")
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"columns of {', '.join(fitted)} and {test} don't fit together: {reason}") from error
    size, clusters = picked[-1].num_rows, inputs.clusters(test)
    judged = np.arange(rows.num_rows) >= rows.num_rows - size
    if fitted:
        return _Split(rows, ~judged, judged, clusters, f"the labelled rows of {', '.join(fitted)}")
    units = np.arange(size) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    half = (inputs.rng.permutation(int(units.max()) + 1) % 2 == 0)[units]
    kept = None if clusters is None else clusters[half]
    return _Split(rows, ~half, half, kept, f"one half of the rows of {test}, the other half is judged")


_LABEL = "\0label"


def _targets(split: _Split, told: LabelSignal) -> tuple[dict[str, NDArray[np.bool_]], str]:
    """Class, or limit of a value: rows of it, shape (n,). Or why there are none."""
    column = split.rows.column(_LABEL)
    kind = family(column.type)
    if kind not in ("text", "number", "truth value"):
        return {}, f"the label is {column.type}, which is neither a class nor a value"
    unknown = int(missing_values(column).sum())
    if unknown:
        return {}, f"the label is missing in {counted(unknown)}"
    if kind == "number" and pc.count_distinct(column).as_py() > MOST_CLASSES:
        return _limits(column.cast(pa.float64(), safe=False).to_numpy(), split)
    encoded = column.combine_chunks().dictionary_encode()
    values = np.asarray(encoded.indices.to_numpy(zero_copy_only=False))
    names = [value_text(value) for value in encoded.dictionary.to_pylist()]
    enough = np.bincount(values[split.judged], minlength=len(names))
    if len(names) > 1 and np.count_nonzero(enough) == 1:
        return {}, f"the rows that are judged hold one class only ({names[int(enough.argmax())]})"
    order = [code for code in np.argsort(-enough, kind="stable")[:MOST_CLASSES] if enough[code] >= FEWEST_OF_CLASS]
    if len(names) < 2:
        return {}, f"there is one class only ({names[0]})"
    if len(order) < len(names) and len(order) > 1:
        others = ~np.isin(values, order)
        return {names[code]: values == code for code in order} | _together(
            others, len(names) - len(order), split, told
        ), ""
    if len(names) == 2 or len(order) < 2:
        # Of two classes one says all; with too few rows the estimate itself says so.
        order = [int(np.argsort(-enough, kind="stable")[1])]
    return {names[code]: values == code for code in order}, ""


def _together(others: NDArray[np.bool_], count: int, split: _Split, told: LabelSignal) -> dict[str, NDArray[np.bool_]]:
    """Classes that are too rare, or too many, to be judged by themselves, as one; none where these are too few."""
    rows, judged = int(others[split.judged].sum()), int(split.judged.sum())
    name = "the rarest class" if count == 1 else f"one of the {count} rarest classes"
    if rows >= FEWEST_OF_CLASS:
        told.notes.append(f"The {count} rarest classes, of {counted(rows)} that are judged, are compared as one.")
        return {name: others}
    if rows:
        told.notes.append(f"Columns are not compared with {name}, of {counted(rows)}: it takes {FEWEST_OF_CLASS}.")
    if rows > FEW_OF_ALL * judged:
        told.withhold = NoEvidence(
            f"{rows:,} of {judged:,} rows that are judged are of {name}, too few to say what tells these: "
            f"it takes {FEWEST_OF_CLASS}"
        )
    return {}


def _limits(values: NDArray[np.float64], split: _Split) -> tuple[dict[str, NDArray[np.bool_]], str]:
    """Values over the quartiles of the rows that cells are fitted on."""
    limits = np.unique(np.quantile(values[split.fitting], QUARTILES))
    found = {f"over {limit:.4g}": values > limit for limit in limits}
    kept = {name: over for name, over in found.items() if 0 < int(over[split.judged].sum()) < split.judged.sum()}
    return kept, "" if kept else "no quartile of training divides the labels of the test rows"


def _cells(split: _Split, name: str) -> tuple[NDArray[np.int64], int]:
    """The cell of each row, shape (n,), and how many cells there are; 0: this type has none."""
    column = split.rows.column(name)
    kind = family(column.type)
    if kind in ("text", "truth value"):
        codes = column.combine_chunks().dictionary_encode().indices
        filled = np.asarray(pc.fill_null(codes, -1).to_numpy(zero_copy_only=False)).astype(np.int64)
        count = int(filled.max()) + 2
        return np.where(filled < 0, count - 1, filled), count
    if kind == "time" and not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return np.zeros(0, dtype=np.int64), 0
    if kind not in ("number", "time"):
        return np.zeros(0, dtype=np.int64), 0
    if kind == "time":
        column = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    values = np.where(missing_values(column), np.nan, values)
    cuts = cuts_of(values[split.fitting])
    return cells_of(values, cuts), len(cuts) + 2

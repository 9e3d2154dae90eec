"""Equal rows with different labels, and the columns in which rows can be equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evalspec.checks.data._duplicates import check_comparable, empty_rows
from evalspec.checks.data._leakage_columns import codes
from evalspec.checks.data._leakage_shared import Shared
from evalspec.errors import InputError
from evalspec.sources._rows import row_digests

if TYPE_CHECKING:
    from evalspec.checks.data.leakage import Leakage
    from evalspec.language.inputs import Inputs


def features_of(
    check: Leakage, inputs: Inputs, tables: Mapping[str, pa.Table]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns that describe a row, and those that a training set lacks."""
    if check.columns:
        return tuple(dict.fromkeys(check.columns)), ()
    labels = {inputs.label(name) for name in tables}
    wanted = [name for name in inputs.feature_columns(check.test) if name not in labels]
    shared = tuple(name for name in wanted if all(name in tables[train].column_names for train in check.train))
    return shared, tuple(name for name in wanted if name not in shared)


def descriptive(check: Leakage, features: Sequence[str]) -> tuple[str, ...]:
    """Columns in which equal rows are equal: not who, when and where."""
    return tuple(name for name in features if name not in check.placing)


def conflicts(
    check: Leakage, inputs: Inputs, tables: Mapping[str, pa.Table], features: tuple[str, ...]
) -> Shared | str:
    """Test rows equal to a row with another label."""
    labelled = {name: label for name in (check.test, *check.train) if (label := inputs.label(name)) is not None}
    if not features:
        return "there is no column in which rows could be equal"
    truth = {name: pa.table({"label": tables[name].column(label)}) for name, label in labelled.items()}
    for name in labelled:
        check_comparable(tables[name], tables[check.test], features, name)
        check_comparable(truth[name], truth[check.test], ("label",), name)
    try:
        row_codes = codes(np.concatenate([row_digests(tables[name], features) for name in labelled]))
        label_codes = codes(np.concatenate([row_digests(truth[name]) for name in labelled]))
    except InputError as error:
        return str(error)
    told = np.concatenate([~empty_rows(tables[name].select(list(features))) for name in labelled])
    order = np.lexsort((label_codes, row_codes))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    starts = np.flatnonzero(np.diff(row_codes[order], prepend=-1))
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    first, last = order[starts], order[np.append(starts[1:], len(order)) - 1]
    mixed = (label_codes[first] != label_codes[last])[group[rank]] & told
    rows = tables[check.test].num_rows
    hits = np.flatnonzero(mixed[:rows])
    other = first[group[rank[hits]]]
    other = np.where(label_codes[other] == label_codes[hits], last[group[rank[hits]]], other)
    sizes = [tables[name].num_rows for name in labelled]
    of_set = np.repeat(np.arange(len(sizes)), sizes)
    row = np.concatenate([np.arange(size) for size in sizes])
    unlabelled = [name for name in check.train if name not in labelled]
    notes = (f"Labels are not compared with those of {', '.join(unlabelled)}: there are none.",) if unlabelled else ()
    return Shared(
        "conflicting_labels", hits, row[other], of_set[other], tuple(labelled), int(told[:rows].sum()),
        f"rows of {check.test} equal to another row in {len(features)} columns, with another label", notes=notes,
    )  # fmt: skip

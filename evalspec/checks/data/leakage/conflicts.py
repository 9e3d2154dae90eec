"""Equal rows with different labels, and the columns in which rows can be equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.checks.data.leakage.train_side import FirstLabels, Keys, label_digests
from evalspec.sources.reading.rows import row_digests
from evalspec.tables.comparable import check_comparable, empty_rows
from evalspec.tables.shared_rows import Shared

if TYPE_CHECKING:
    from evalspec.checks.data.leakage.spec import Leakage
    from evalspec.language.inputs import Inputs
    from evalspec.stats.sets.hashing import Words


def features_of(
    check: Leakage, inputs: Inputs, heads: Mapping[str, pa.Table]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns that describe a row, and those that a training set lacks."""
    if check.columns:
        return tuple(dict.fromkeys(check.columns)), ()
    labels = {inputs.label(name) for name in heads}
    wanted = [name for name in inputs.feature_columns(check.test) if name not in labels]
    shared = tuple(name for name in wanted if all(name in heads[train].column_names for train in check.train))
    return shared, tuple(name for name in wanted if name not in shared)


def descriptive(check: Leakage, features: Sequence[str]) -> tuple[str, ...]:
    """Columns in which equal rows are equal: not who, when and where."""
    return tuple(name for name in features if name not in check.placing)


def check_labelled(labels: Mapping[str, str], heads: Mapping[str, pa.Table], features: Sequence[str]) -> None:
    """Refuse sets whose rows or labels could never be equal to those of the test set.

    Args:
        labels: Set: its label; the test set first.
        heads: Set: its first rows.
        features: Columns in which rows are equal.

    Raises:
        InputError: There is one.
    """
    truth = {name: pa.table({"label": heads[name].column(label)}) for name, label in labels.items()}
    test = next(iter(labels))
    for name in labels:
        check_comparable(heads[name], heads[test], features, name)
        check_comparable(truth[name], truth[test], ("label",), name)


class Conflicts:
    """Test rows, and of each distinct one the first row that is equal to it and the first with another label.

    Args:
        test: Rows of the test set, some at a time.
        label: Their label.
        features: Columns in which rows are equal.

    Raises:
        InputError: A column is of a type that can't be compared.
    """

    def __init__(self, test: Iterable[pa.Table], label: str, features: tuple[str, ...]) -> None:
        self.features = features
        rows, labels, told = [], [], []
        for some in test:
            rows.append(row_digests(some, features))
            labels.append(label_digests(some, label))
            told.append(~empty_rows(some.select(list(features))))
        self._own: Words = np.concatenate(labels)
        self.told: NDArray[np.bool_] = np.concatenate(told)
        self.keys = Keys(np.concatenate(rows))
        self._labels = FirstLabels(len(self.keys))
        self._labels.see(self.keys.of_row, self._own, np.arange(len(self.told)), 0)

    def take(self, trained: FirstLabels) -> None:
        """Take over rows of labelled training sets, whose numbers begin with 1."""
        self._labels.merge(trained)

    def found(self, check: Leakage, sets: tuple[str, ...], unlabelled: Sequence[str]) -> Shared:
        """Test rows that are equal to a row with another label.

        Args:
            check: Its fields.
            sets: Names of the sets by their numbers.
            unlabelled: Training sets without labels.
        """
        key, first, other = self.keys.of_row, self._labels.first, self._labels.other
        hits = np.flatnonzero((other.rows[key] >= 0) & self.told)
        key = key[hits]
        # The first equal row, or where that has the row's own label the first one with another.
        same = (self._labels.first_label[key] == self._own[hits]).all(axis=1)
        other_rows = np.where(same, other.rows[key], first.rows[key])
        other_sets = np.where(same, other.sets[key], first.sets[key])
        notes = (f"Labels are not compared with those of {', '.join(unlabelled)}: there are none.",)
        return Shared(
            "conflicting_labels", hits, other_rows, other_sets, sets, int(self.told.sum()),
            f"rows of {check.test} equal to another row in {len(self.features)} columns, with another label",
            notes=notes if unlabelled else (),
        )  # fmt: skip

"""Labels of a dataset as they are given, and as auditors found them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import InputError
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.tables.categories import Categories, read_categories

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.data.labels.spec import Labels
    from evalspec.language.inputs import Inputs

MOST_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The labels of a dataset, and what an audit says of them.

    Args:
        names: Of the classes, those that only auditors use included.
        given: shape (n,), class of the label.
        truth: shape (n,), class that an auditor says, -1 where nobody looked.
        clusters: shape (n,), or None.
    """

    names: tuple[str, ...]
    given: NDArray[np.int64]
    truth: NDArray[np.int64]
    clusters: NDArray[np.int64] | None

    @property
    def audited(self) -> NDArray[np.bool_]:
        """Rows that somebody looked at, shape (n,)."""
        return np.asarray(self.truth >= 0)

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Rows whose label was found wrong, shape (n,)."""
        return np.asarray(self.audited & (self.truth != self.given))

    def share(self, wrong: NDArray[np.bool_], inside: NDArray[np.bool_]) -> Proportion:
        """Share of wrong rows among some."""
        return proportion(wrong[inside], None if self.clusters is None else self.clusters[inside])


def read_rows(check: Labels, inputs: Inputs) -> LabelledRows:
    """Labels as given and as audited, matched by value.

    Raises:
        InputError: There are no rows or no label, labels are numbers rather than classes, or the audit is the label.
    """
    label = inputs.label(check.dataset)
    if label is None:
        raise InputError(f"{check.dataset} names no label", remedy=f"add `label:` to datasets.{check.dataset}")
    if check.audited == label:
        raise InputError(f"`audited: {label}` is the label itself", remedy="name the column of what auditors found")
    if label in check.features:
        raise InputError(f"{label!r} is the label, and among `features:` it vouches for itself", remedy="remove it")
    columns = [label] if check.audited is None else [label, check.audited]
    table = inputs.table(check.dataset, columns)
    if not table.num_rows:
        raise InputError(f"{check.dataset} has no rows")
    read = read_categories(table, columns, check.dataset)
    given = read.codes[:, 0]
    if (given < 0).any():
        raise InputError(f"the label column {label!r} is missing in {int((given < 0).sum()):,} rows")
    _check_classes(read, label, check.dataset)
    truth = read.codes[:, 1] if check.audited is not None else np.full(len(given), -1, dtype=np.int64)
    return LabelledRows(read.names, given, truth, inputs.clusters(check.dataset))


def _check_classes(read: Categories, label: str, dataset: str) -> None:
    count = len(read.names)
    broken = read.numbers is not None and bool((read.numbers != np.round(read.numbers)).any())
    if count > MOST_CLASSES or (broken and count > 20):
        what = "numbers" if broken else "values"
        raise InputError(
            f"the label column {label!r} of {dataset} holds {count:,} different {what}, which are not classes",
            remedy="labels of a regression can't be right or wrong; leave this check out",
        )

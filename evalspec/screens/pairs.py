"""Datasets that a spec holds against each other, or trains on and judges by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.language.parts import Check
    from evalspec.screens.evidence import Evidence

Pair = tuple[str, str]
"""(reference, current)"""


def train_and_test(checks: Iterable[Check]) -> tuple[Pair, ...]:
    """(train, test) of the checks that name both."""
    found = []
    for check in checks:
        train, test = getattr(check, "train", None), getattr(check, "test", None)
        if isinstance(train, tuple) and isinstance(test, str):
            found += [(str(one), test) for one in train]
    return tuple(dict.fromkeys(found))


def compared(checks: Iterable[Check]) -> tuple[Pair, ...]:
    """Pairs whose rows should be alike: of `shift` and `coverage`, and training beside test.

    Where a model is tried on rows from elsewhere (`generalization`), they are unlike on purpose.
    """
    checks = tuple(checks)
    unlike = {pair for check in checks if check.check == "generalization" for pair in check.sides()}
    found = [pair for check in checks if check.check in ("shift", "coverage") for pair in check.sides()]
    found += train_and_test(checks)
    return tuple(dict.fromkeys(pair for pair in found if pair not in unlike and pair[::-1] not in unlike))


def alike(evidence: Evidence) -> tuple[Pair, ...]:
    """Pairs of `compared`, and each dataset that no check names beside the first that is judged.

    What a spec names and never compares may well be what the model meets; rows without the columns of the judged ones
    are something else.
    """
    found = list(compared(evidence.checks))
    for dataset in evidence.unnamed:
        names = set(evidence.rows(dataset).column_names)
        found += [(one, dataset) for one in judged(evidence) if names >= set(evidence.features(one))][:1]
    return tuple(dict.fromkeys(found))


def judged(evidence: Evidence) -> tuple[str, ...]:
    """Datasets on which the run has answers of a model."""
    return tuple(dict.fromkeys(dataset for dataset, _ in evidence.answers))


def independent(evidence: Evidence, dataset: str) -> pa.Table:
    """Rows of a dataset, one of each cluster, since those of one cluster say little more than one of them."""
    table = evidence.rows(dataset)
    return table if evidence.clusters(dataset) is None else table.take(independent_rows(evidence, dataset))


def independent_rows(evidence: Evidence, dataset: str) -> NDArray[np.int64]:
    """Places among the rows that a screen is handed, shape (k,): one of each cluster, drawn at random.

    The first of each may be of one kind: of four ways to travel always the plane.
    """
    import numpy as np

    index, clusters = evidence.index(dataset), evidence.clusters(dataset)
    if clusters is None:
        return np.arange(len(index))
    order = np.random.default_rng(len(index)).permutation(len(index))
    _, first = np.unique(clusters[index][order], return_index=True)
    return np.sort(order[first])

"""Sums over documents, as `likelihood` measures and shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NATS = float(np.log(2.0))
"""Of a bit."""


@dataclass(frozen=True, eq=False)
class DocumentSums:
    """Sums of one model over the documents that have tokens.

    Args:
        nll: shape (n,), nats.
        right: shape (n,), tokens that were the likeliest; None: of other tokens than the check's own model.
    """

    nll: NDArray[np.float64]
    right: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents that have tokens, by the tokens of the check's own model.

    Args:
        rows: shape (n,), number of each in the dataset.
        tokens: shape (n,), scored.
        bytes: shape (n,), that they stand for.
        clusters: shape (n,), or None.
        own: Sums of the check's own model.
        others: The same of models that it is held against.
        divergence: shape (n,), nats; None: not asked for, or not to be had.
        flips: shape (n,), likewise.
        missing: Metric, or ``metric vs model``: why there is none.
    """

    rows: NDArray[np.int64]
    tokens: NDArray[np.float64]
    bytes: NDArray[np.float64]
    clusters: NDArray[np.int64] | None
    own: DocumentSums
    others: dict[str, DocumentSums]
    divergence: NDArray[np.float64] | None
    flips: NDArray[np.float64] | None
    missing: dict[str, str]

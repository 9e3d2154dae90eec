"""The test side as detectors are given it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from evalspec.checks.data._duplicates import comparable, empty_rows
from evalspec.checks.data._levels import Asked, Detector
from evalspec.sources._rows import row_digests


def asked(test: pa.Table, columns: Sequence[str], key: str | None = None) -> Asked:
    """All of these rows, these columns compared."""
    ours = comparable(test, columns)
    return Asked("test", test, tuple(columns), key, ours, ~empty_rows(ours), row_digests(ours))


def looked(detector: Detector, train: pa.Table, batch: int = 100) -> None:
    """Show a detector one training set, some rows at a time."""
    detector.begin("train")
    for start in range(0, train.num_rows, batch):
        detector.see(train.slice(start, batch), start)

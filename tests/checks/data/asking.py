"""The test side as detectors are given it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from evalspec.checks.data.contamination.detector import Detector, TestSide
from evalspec.sources.reading.rows import row_digests
from evalspec.tables.comparable import comparable, empty_rows


def asked(test: pa.Table, columns: Sequence[str], key: str | None = None) -> TestSide:
    """All of these rows, these columns compared."""
    ours = comparable(test, columns)
    return TestSide("test", test, tuple(columns), key, ours, ~empty_rows(ours), row_digests(ours))


def looked(detector: Detector, train: pa.Table, batch: int = 100) -> None:
    """Show a detector one training set, some rows at a time."""
    detector.begin("train")
    for start in range(0, train.num_rows, batch):
        detector.see(train.slice(start, batch), start)

"""Planted defects of `integrity`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.data.integrity.spec import Integrity
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs


def _records(folder: Path, metres: int, empty: int, twice: int, rows: int = 800) -> Case:
    """Heights in centimetres; some may be metres, some missing, some rows copied."""
    rng = np.random.default_rng(5)
    height = np.round(rng.normal(172, 8, rows), 1)
    height[:metres] /= 100
    table = pa.table({"id": np.arange(rows), "height": pa.array(height, mask=np.arange(rows) >= rows - empty)})
    table = pa.concat_tables([table, table.slice(0, twice)])
    check = Integrity.model_validate(
        {
            "check": "integrity", "dataset": "test", "table_schema": {"height": {"min": 40, "max": 250}},
            "require": ["schema_violations == 0", "missing_rate(height) <= 1 %", "duplicate_rows == 0"],
        }
    )  # fmt: skip
    return FakeInputs(evidence=folder, tables={"test": table}), check


PLANTED = (
    Planted(
        "integrity",
        "schema_violations",
        "schema_violations == 0",
        lambda f: _records(f, 0, 0, 0),
        lambda f: _records(f, 3, 0, 0),
        lambda f, n: _records(f, 0, 0, 0, n),
        "three heights are in metres",
    ),
    Planted(
        "integrity",
        "missing_rate",
        "missing_rate(height) <= 1 %",
        lambda f: _records(f, 0, 0, 0),
        lambda f: _records(f, 0, 40, 0),
        lambda f, n: _records(f, 0, 0, 0, n),
        "one height in twenty is missing",
    ),
    Planted(
        "integrity",
        "duplicate_rows",
        "duplicate_rows == 0",
        lambda f: _records(f, 0, 0, 0),
        lambda f: _records(f, 0, 0, 2),
        lambda f, n: _records(f, 0, 0, 0, n),
        "two rows stand twice",
    ),
)

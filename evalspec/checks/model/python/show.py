"""Table of `python` in the report, and the values that it keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evalspec.evidence.blocks import Column, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST = 10


def largest(name: str, rows: NDArray[np.int64], values: NDArray[np.float64], *, yes_or_no: bool) -> Table:
    """The rows with the largest values, or the first that are True.

    Args:
        name: Of the function.
        rows: shape (m,), index of each.
        values: shape (m,).
        yes_or_no: The function says True or False.
    """
    order = np.argsort(-values, kind="stable")
    if yes_or_no:
        order = order[values[order] > 0]
    shown = tuple((int(rows[one]), bool(values[one]) if yes_or_no else float(values[one])) for one in order[:MOST])
    if yes_or_no:
        title, caption = f"First rows of which {name} is true", f"{int(values.sum()):,} of {len(values):,} rows."
    else:
        title, caption = f"Largest {name}", f"The {min(MOST, len(values))} largest of {len(values):,} rows."
    return Table(title=title, caption=caption, columns=(Column(name="row"), Column(name=name)), rows=shown)


def write_values(folder: Path, check: str, rows: NDArray[np.int64], values: NDArray[np.float64]) -> str:
    """Keep what the function said of each row; return the file's name."""
    import pyarrow.parquet as pq

    name = f"values-{check}.parquet"
    pq.write_table(pa.table({"row": rows, "value": values}), folder / name)
    return name

"""What is known of a dataset before it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Header:
    """What can be known of a dataset without reading its rows.

    Args:
        rows: Number of rows, or None where the format doesn't say before it is read.
        columns: Column: arrow type as text, in the file's order.
    """

    rows: int | None
    columns: Mapping[str, str]

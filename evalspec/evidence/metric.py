"""What a metric is called, its unit, its direction, its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher", "neither"]
Op = Literal["<=", ">=", "<", ">", "=="]


@dataclass(frozen=True, slots=True)
class Metric:
    """A declared metric, known to validation without running anything.

    Args:
        name: As it stands in a requirement (``latency_p99``).
        unit: Unit of its values in records and reports, a key of ``evalspec.evidence.units.UNITS``;
            ``label`` stands for the unit of the dataset's label.
        better: The direction that is better; an operator that points the other way is a spec error.
        summary: One line: what it is.
        parts: What it can be asked of (``class``, ``slice``, ``column``, ``batch``, ``k``), or None.
        interval: How its interval is made; empty for an exact fact.
        exact: Counted over the whole file or a fact of this run: no interval, may stand with ``==``.
        whole: It also has a value without a part, although it has parts (``throughput``: the best batch).
        least: The smallest value that it can have, in its unit; None: what the unit tells (a fraction is 0 at least).
        most: The largest, likewise.
        edge_shown: A sample can show that it is 0, although it is no exact fact: of each of its parts it shows enough.
    """

    name: str
    unit: str
    better: Better
    summary: str
    parts: str | None = None
    interval: str = ""
    exact: bool = False
    whole: bool = False
    least: float | None = None
    most: float | None = None
    edge_shown: bool = False

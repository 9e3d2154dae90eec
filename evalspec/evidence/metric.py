"""Metrics: name, unit, direction, parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evalspec.evidence.methods import IntervalFamily, family_of

Better = Literal["lower", "higher", "neither"]
Op = Literal["<=", ">=", "<", ">", "=="]
Shows = Literal[
    "only a difference of models", "right answers", "row accuracy", "answers in slices", "confidence",
    "late answers", "a distribution of latency", "population shift", "moved column", "share of moved columns",
    "rare group", "absent group", "share of a stage", "share of the roof", "host memory", "sustained share",
    "covered operators", "best batch", "cost of loading", "cost of a first answer", "cost of idling",
    "cost of queueing", "clean score", "clean score change",
]  # fmt: skip
"""What a metric shows to those who read it in a record and do not know its check.

``only a difference of models``: it says nothing of one model alone. ``row accuracy``: the share of rows answered right,
which two runs of the same rows can compare row by row. ``population shift``: of the datasets that the check's
conditions call ``reference`` and ``current``. The others are what they say.
"""


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a metric, which validation knows without running anything.

    Args:
        name: As written in a requirement (``latency_p99``).
        unit: Unit of its values in records and reports, a key of ``evalspec.evidence.units.UNITS``;
            ``label`` stands for the unit of the dataset's label.
        better: The direction that is better; an operator that points the other way is a spec error.
        summary: One line: what it is.
        parts: Kind of its parts (``class``, ``slice``, ``column``, ``batch``, ``k``), or None.
        interval: How its interval is computed; empty for an exact fact.
        exact: A count over the whole file, or a fact of this run: no interval, and ``==`` is allowed.
        whole: It has a value without a part, although it has parts (``throughput``: the best batch).
        least: Its smallest possible value, in its unit; None: that of the unit (0 for a fraction).
        most: Its largest possible value, in its unit; None: that of the unit.
        edge_shown: A sample can show that it is 0, although it is not an exact fact.
        shows: What it shows to a reader who does not know the check, besides what all metrics of the check show.
        headline: Rank of a metric that stands for the quality of answers; the report quotes the lowest rank measured.
        instead: For a mean that hides the tail, and so can't block: metrics that can.
        scales: How its standard error depends on the true value, if known: as for an area under the ROC curve, a
            harmonic mean of two shares (F1), or a calibration error.
        extreme: It is the worst of several parts, or the gap between two, so no single n determines its error.
        neutral: For a metric that itself compares with a baseline: its value if neither model is better.
        label: Plain name for people who don't know it, as used in a sentence; empty: its own name is plain.
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
    shows: tuple[Shows, ...] = ()
    headline: int | None = None
    neutral: float | None = None
    instead: tuple[str, ...] = ()
    scales: Literal["area", "harmonic mean", "error", "largest error", "increase of an error"] | None = None
    extreme: bool = False
    label: str = ""

    @property
    def plain(self) -> str:
        """Plain name, as used in a sentence."""
        return self.label or self.name.replace("_", " ")

    @property
    def family(self) -> IntervalFamily:
        """Method of its interval."""
        return family_of(self.interval)

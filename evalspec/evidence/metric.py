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
    """A declared metric, known to validation without running anything.

    Args:
        name: As written in a requirement (``latency_p99``).
        unit: Unit of its values in records and reports, a key of ``evalspec.evidence.units.UNITS``;
            ``label`` stands for the unit of the dataset's label.
        better: The direction that is better; an operator that points the other way is a spec error.
        summary: One line: what it is.
        parts: What its parts are (``class``, ``slice``, ``column``, ``batch``, ``k``), or None.
        interval: How its interval is made; empty for an exact fact.
        exact: Counted over the whole file or a fact of this run: no interval, may stand with ``==``.
        whole: It also has a value without a part, although it has parts (``throughput``: the best batch).
        least: The smallest value that it can have, in its unit; None: what the unit tells (a fraction is 0 at least).
        most: The largest, likewise.
        edge_shown: A sample can show that it is 0, although it is not an exact fact: of each of its parts it shows
            enough.
        shows: What it shows to a reader who does not know the check, beside what all metrics of the check show.
        headline: Of a metric that stands for how good answers are: its rank; of those measured the lowest is quoted.
        instead: Of a mean that hides the tail, and so can't block: metrics that may block in its place.
        scales: How its standard error changes with the truth, where that is known: as of an area under the ROC curve,
            of a harmonic mean of two shares (F1), or of a calibration error.
        extreme: Of several parts it is the worst one, or the gap between two, so that no single n tells its error.
        neutral: Of a metric that compares with a baseline by itself: its value where neither model is better.
        label: Plain name for people who don't know it, as used in a sentence; empty: the name says it.
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
        """How its interval is made."""
        return family_of(self.interval)

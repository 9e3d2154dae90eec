"""Targets of trainings, as checks of trainings write them: ``val_accuracy >= 94 %``. No numpy: specs validate them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, WithJsonSchema

from evalspec.errors import InputError, Problem, did_you_mean
from evalspec.language.units import NUMBER, custom_error

if TYPE_CHECKING:
    import pyarrow as pa

Quantity = Literal["time", "samples", "cost", "energy"]
"""Something that a run takes up to its target."""
EVALUATION_COLUMNS = (
    "run", "seed", "workers", "step", "samples", "time_s", "before_s", "end_s", "energy_j", "status", "metric", "value",
    "limit_s", "usd_h", "started", "batch", "spoiled", "lag_s", "model", "part",
)  # fmt: skip
"""Columns of a training that runs are held against a target by."""
NO_MEASURE = ""
"""Measure of a reference point, which has none."""
PATTERN = rf"(?P<metric>\S+) (?P<op>>=|<=|>|<) (?P<number>{NUMBER})(?P<percent> %)?"
_TARGET = re.compile(PATTERN, re.ASCII)
_TRAINED = re.compile(r"(?:^|[^a-z])train(?:ing)?(?:[^a-z]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Target:
    """A quality that a run must reach.

    Args:
        metric: Name of the measure in the logs.
        op: ``>=``, ``>``, ``<=`` or ``<``.
        value: On the scale of the logs.
        percent: It is written in percent, and stands for a fraction.
    """

    metric: str
    op: str
    value: float
    percent: bool

    @property
    def rising(self) -> bool:
        """True if more is better."""
        return self.op in (">=", ">")

    def meets(self, value: float) -> bool:
        """True if a value is at the target; NaN is not."""
        if self.op == ">=":
            return value >= self.value
        if self.op == "<=":
            return value <= self.value
        return value > self.value if self.op == ">" else value < self.value


def read_target(text: str) -> Target:
    """A target as it is written.

    Raises:
        ValueError: It is none; says how one is written.
    """
    match = _TARGET.fullmatch(" ".join(text.split()))
    if match is None:
        remedy = "write MEASURE OP NUMBER, such as val_accuracy >= 94 % or eval_loss <= 3.3"
        raise custom_error(Problem(f"{text!r} is not a target", remedy=remedy))
    percent = match["percent"] is not None
    number = float(match["number"])
    return Target(match["metric"], match["op"], float(f"{number / 100.0:.15g}") if percent else number, percent)


def _checked(text: str) -> str:
    read_target(text)
    return text


TargetSentence = Annotated[
    str, AfterValidator(_checked), WithJsonSchema({"type": "string", "examples": ["val_accuracy >= 94 %"]})
]
"""A target, written as a sentence."""


def is_planned(table: pa.Table) -> bool:
    """True where the runs of a training are still to be made.

    Args:
        table: Its rows, of which ``status`` is read.
    """
    return "planned" in table.column("status").to_pylist()


def check_training(target: Target, training: str, table: pa.Table) -> None:
    """Refuse a target that no log of a training can show.

    Args:
        target: The target.
        training: Name of the training.
        table: Its rows, of which ``metric`` and ``value`` are read.

    Raises:
        InputError: The measure is not there, is one of training rows, or is logged in percent.
    """
    measures, values = table.column("metric").to_pylist(), table.column("value").to_pylist()
    own = [
        value
        for metric, value in zip(measures, values, strict=True)
        if metric == target.metric and value is not None and math.isfinite(value)
    ]
    largest = max(own, default=None)
    names = sorted(set(measures) - {None})
    if names == [NO_MEASURE]:
        message = f"{training} holds reference points, which know no measure"
        raise InputError(message, remedy=f"name a training with logs, and compare it with {training}")
    if _TRAINED.search(target.metric):
        message = f"{target.metric} is measured on the rows that are trained on, so that reaching it shows nothing"
        held_out = [name for name in names if not _TRAINED.search(name)]
        raise InputError(message, choices=held_out, remedy="name a measure on held-out rows")
    if target.metric not in names:
        remedy = did_you_mean(target.metric, names)
        raise InputError(f"the logs of {training} have no measure {target.metric!r}", choices=names, remedy=remedy)
    if target.percent and largest is not None and largest > 1.0:
        message = f"{target.metric} is logged up to {largest:.6g}, and a target in % is a fraction of 1"
        raise InputError(
            message, remedy="write `percent: true` in the training if the log is in percent, or drop the %"
        )

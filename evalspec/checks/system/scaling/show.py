"""Blocks of `scaling`: efficiency over workers with its two factors, and what it is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Curve, Reference, Series, Table
from evalspec.evidence.estimate import Side

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.scaling.measure import WorkerGroup
    from evalspec.checks.system.scaling.spec import WorkerScaling
    from evalspec.stats.training.scaling import LogRatio

MINUTE = 60.0
SHOWN = 0.95


def blocks(
    check: WorkerScaling, groups: Sequence[WorkerGroup], estimates: Mapping[str, Mapping[str, LogRatio]]
) -> list[AnyBlock]:
    """Efficiency over workers, and a table of times, samples and rates.

    Args:
        check: Its requirements become lines.
        groups: Runs by number of workers, the fewest first.
        estimates: Metric: number of workers: its estimate.
    """
    found: list[AnyBlock] = []
    first = groups[0].workers
    series = [
        Series(
            name=metric.replace("_", " "),
            x=(float(first), *(float(name) for name in parts)),
            y=(100.0, *(100.0 * (one.value or 0.0) for one in parts.values())),
            lower=_ends(parts, "lower"),
            upper=_ends(parts, "upper"),
        )
        for metric, parts in estimates.items()
        if parts
    ]
    if series:
        lines = tuple(
            Reference(label=one.sentence, value=one.threshold, axis="y", says_value=True)
            for one in check.requirements
            if one.model is None
        )
        found.append(
            Curve(
                title="Efficiency over workers",
                caption=f"Against {first}: the whole is the product of throughput and samples. Bands are one-sided "
                "95 % bounds.",
                x_label="workers", y_label="efficiency", y_unit="%", log_x=True, series=tuple(series), references=lines,
            )
        )  # fmt: skip
    columns = (
        Column(name="workers"), Column(name="runs"), Column(name="reached"), Column(name="time", unit="min"),
        Column(name="samples"), Column(name="rate", unit="samples/s"),
    )  # fmt: skip
    found.append(
        Table(
            title="Runs by workers", caption="Geometric means of the runs that got there.", columns=columns,
            rows=tuple(
                (
                    one.workers, len(one.runs), len(one.runs) - one.lost, _mean(one.times_s, MINUTE),
                    _mean(one.samples), _mean(one.rates),
                )
                for one in groups
            ),
        )
    )  # fmt: skip
    return found


def _ends(parts: Mapping[str, LogRatio], side: Side) -> tuple[float, ...] | None:
    """Bounds of all numbers of workers in percent, the first of which is exact; None: one has none."""
    bounds = [one.bound(SHOWN, side) for one in parts.values()]
    known = [100.0 * one for one in bounds if one is not None]
    return (100.0, *known) if len(known) == len(bounds) else None


def _mean(values: NDArray[np.float64], unit: float = 1.0) -> float | None:
    """Geometric mean; None where there is none."""
    if not len(values) or not (np.isfinite(values) & (values > 0.0)).all():
        return None
    return math.exp(float(np.log(values).mean())) / unit

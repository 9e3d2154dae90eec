"""Reference points as runs: what is known of them, at the batch size of the runs that are held against them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import NotRunError
from evalspec.evidence.words import and_list
from evalspec.stats.training.reference_points import PointGroup, group_at
from evalspec.timing.training_runs import TargetRun

if TYPE_CHECKING:
    import pyarrow as pa


def point_groups(table: pa.Table) -> tuple[PointGroup, ...]:
    """Points of a training by batch size; empty: it has logs.

    Args:
        table: Its rows.
    """
    groups: dict[int, list[float]] = {}
    names = ("status", "batch", "samples")
    for status, batch, samples in zip(*(table.column(name).to_pylist() for name in names), strict=True):
        if status == "point":
            groups.setdefault(batch, []).append(samples)
    return tuple(PointGroup(batch, np.sort(np.array(points))) for batch, points in sorted(groups.items()))


def batch_of(runs: Sequence[TargetRun], training: str) -> int:
    """Batch size that all runs of a training have.

    Raises:
        NotRunError: It is not known, or not the same.
    """
    batches = {run.batch for run in runs}
    if None in batches:
        unknown = next(run.name for run in runs if run.batch is None)
        raise NotRunError(f"the log of {unknown} does not say its batch size: add `batch:` to {training}")
    if len(batches) > 1:
        named = and_list([str(one) for one in sorted(one for one in batches if one is not None)])
        raise NotRunError(f"runs of {training} have the batch sizes {named}, and a reference has points for each")
    return next(one for one in batches if one is not None)


def points_at(groups: Sequence[PointGroup], batch: int, reference: str) -> PointGroup:
    """Points at a batch size, as measured or interpolated.

    Raises:
        NotRunError: It lies outside of the batch sizes that there are.
    """
    found = group_at(groups, batch)
    if found is None:
        ends = f"{min(one.batch for one in groups)} to {max(one.batch for one in groups)}"
        raise NotRunError(f"{reference} has points for batch sizes of {ends}, and {batch} lies outside of them")
    return found


def point_runs(group: PointGroup, reference: str) -> list[TargetRun]:
    """Points as runs that took so many samples, and of which nothing else is known.

    Args:
        group: Of one batch size.
        reference: Name of their training.
    """
    unknown = np.array([math.nan])
    return [
        TargetRun(
            name=f"{reference} {number}", seed=None, workers=None, status="point", before_s=None, offset_s=0.0,
            end_s=math.nan, limit_s=math.inf, usd_h=math.nan, times_s=unknown, samples=np.array([samples]),
            energy_j=unknown, steps=unknown, values=unknown, reached=0, below=0, started=None, batch=group.batch,
        )
        for number, samples in enumerate(group.samples.tolist(), 1)
    ]  # fmt: skip


def doubts_of(group: PointGroup, reference: str, target: str) -> list[str]:
    """Sentences on what points can't show.

    Args:
        group: Those that are compared.
        reference: Name of their training.
        target: Of the runs that are held against them.
    """
    lines = [f"points of {reference} are for the target of their benchmark: whether that is {target} is not known"]
    if group.between is not None:
        low, high = group.between
        lines.append(
            f"{reference} has no points at batch size {group.batch}: they are interpolated between {low} and {high}"
        )
    return lines

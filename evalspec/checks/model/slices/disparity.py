"""Distances of slices from a named one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from evalspec.errors import InputError, did_you_mean
from evalspec.evidence.blocks import AnyBlock, Interval, Intervals, Reference
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.evidence.words import in_percent, plural
from evalspec.scoring.catalogue.metrics import SLICED
from evalspec.stats.conjunction import AbsoluteDifference
from evalspec.stats.shares.two_shares import apart

if TYPE_CHECKING:
    from evalspec.checks.model.slices.spec import Slices
    from evalspec.scoring.slicing import Cells

METRICS = {metric.name: metric for metric in SLICED}


class BySlice(Protocol):
    """Metric over the slices."""

    @property
    def metric(self) -> str:
        """Name of the metric."""
        ...

    @property
    def parts(self) -> Mapping[str, Estimate]:
        """Slice: estimate."""
        ...

    @property
    def missing(self) -> Mapping[str, str]:
        """``metric(slice)``, or metric: why there is no value."""
        ...


@dataclass(frozen=True)
class Disparity:
    """Distances of the slices in one metric.

    Args:
        estimates: Name of the disparity: estimates, by slice.
        missing: Metric, or ``metric(part)``: why there is no value.
        blocks: Blocks to show.
    """

    estimates: Mapping[str, Parts] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    blocks: Sequence[AnyBlock] = ()


def disparity(check: Slices, reference: str, sliced: BySlice, found: Cells, confidence: float) -> Disparity:
    """Measure how far each slice lies from a named one.

    Slices of the same entry of ``by`` are compared; where the reference is a named slice, the other named ones too.

    Args:
        check: The check.
        reference: Name of the slice that others are compared with.
        sliced: Metric over the slices.
        found: The slices.
        confidence: Confidence of the bounds in the chart.

    Raises:
        InputError: There is no such slice.
    """
    name = f"{sliced.metric}_disparity"
    home = next((cell for cell in (*found.kept, *found.small) if cell.name == reference), None)
    if home is None:
        names = [cell.name for cell in (*found.kept, *found.small)]
        raise InputError(
            f"`reference: {reference}` is not a slice of `by:`",
            choices=tuple(names),
            remedy=did_you_mean(reference, names),
        )
    if home not in found.kept:
        return Disparity(
            missing={name: f"the reference {reference!r} has {plural(home.n, 'row')}, fewer than {check.min_n}"}
        )  # fmt: skip
    if reference not in sliced.parts:
        return Disparity(missing={name: sliced.missing.get(sliced.metric, f"{reference!r} has no {sliced.metric}")})
    others = [
        cell.name
        for cell in found.kept
        if cell is not home and (cell.entry == home.entry or (cell.named and home.named))
    ]
    if not others:
        return Disparity(missing={name: f"no other slice counts beside the reference {reference!r}"})
    signed = {other: apart(sliced.parts[other], sliced.parts[reference]) for other in others}
    missing = {
        f"{name}({part})": sliced.missing[f"{sliced.metric}({at})"]
        for part in others
        for at in (part, reference)
        if f"{sliced.metric}({at})" in sliced.missing
    }
    parts = {other: AbsoluteDifference(one) for other, one in signed.items()}
    return Disparity({name: Parts(parts)}, missing, [_chart(check, reference, sliced.metric, signed, confidence)])


def _chart(check: Slices, reference: str, metric: str, signed: Mapping[str, Estimate], confidence: float) -> Intervals:
    declared = METRICS[metric]
    scale, unit = (100.0, "pp") if declared.unit == "fraction" else (1.0, declared.unit)
    required = any(one.metric == f"{metric}_disparity" for one in check.requirements)

    def scaled(value: float | None) -> float | None:
        return None if value is None else scale * value

    lines = tuple(
        Interval(
            label=name, value=scaled(one.value), n=one.n,
            lower=scaled(one.bound(confidence, "lower")) if required else None,
            upper=scaled(one.bound(confidence, "upper")) if required else None,
        )
        for name, one in sorted(signed.items(), key=lambda item: (item[1].value is None, item[1].value or 0.0))
    )  # fmt: skip
    thresholds = [one.threshold for one in check.requirements if one.metric == f"{metric}_disparity"]
    references = [Reference(label=reference, value=0.0, axis="x")]
    references += [Reference(label=f"{at:+g}", value=at, axis="x") for one in thresholds for at in (-one, one)]
    return Intervals(
        title=f"{metric}: how far from {reference}",
        caption=f"Slice less {reference}. One-sided bounds at {in_percent(confidence)} each.",
        unit=unit, rows=lines, references=tuple(references),
    )  # fmt: skip

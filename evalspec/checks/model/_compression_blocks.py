"""What `compression` shows: the verdict table, the front, tails of the divergence, tensors, flipped rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.model._blocks import cells_of, example
from evalspec.evidence.blocks import (
    AnyBlock,
    Bar,
    Bars,
    Column,
    Example,
    Examples,
    Interval,
    Intervals,
    Points,
    Reference,
    Series,
    Table,
)
from evalspec.evidence.estimate import Estimate, Fact, HasParts, Measured, Parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model._compression import Held
    from evalspec.checks.model._scored import Scored
    from evalspec.checks.model.compression import Compression
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Probe

Objectives = tuple[float | None, float | None, float | None]
"""Times smaller, times faster, loss."""
TENSORS_SHOWN = 30
EXAMPLES_SHOWN = 12
NAMES = {
    "size_ratio": ("size, times smaller", "x"), "speedup": ("speed-up (median latency)", "x"),
    "accuracy_drop": ("accuracy lost", "pp"), "top_5_drop": ("top-5 accuracy lost", "pp"),
    "ece_increase": ("ECE, more", "fraction"), "flip_rate": ("rows that get another class", "%"),
    "break_rate": ("rows that only the baseline gets right", "%"),
    "worst_slice_drop": ("worst slice, accuracy lost", "pp"),
    "output_divergence": ("output divergence, mean", "score"), "mae_increase": ("mean absolute error, more", "label"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensors:
    """Signal-to-noise ratios between a float and a quantized graph.

    Args:
        names: Of the tensors.
        decibels: shape (k,), of each against the float graph.
    """

    names: tuple[str, ...]
    decibels: NDArray[np.float64]

    @classmethod
    def of(cls, probe: Probe) -> Tensors:
        """From what the probe found."""
        return cls(probe.texts["names"], probe.series["signal_to_noise_db"])


def blocks(check: Compression, baseline: Scored, held: Sequence[Held], confidence: float) -> list[AnyBlock]:
    """Tables and charts of everything but tensors and rows."""
    found: list[AnyBlock] = [_verdict_table(check, held[0], confidence)]
    if baseline.task == "classes":
        found += [_levels(baseline, held), _flips(check, held[0], baseline)]
    found += _tails(held, baseline)
    if len(held) > 1:
        found += _front(check, held)
    slices: object = held[0].estimates.get("worst_slice_drop")
    if isinstance(slices, HasParts):
        found.append(_forest(check, slices, confidence))
    return found


def _plain(found: Estimate | Fact | Measured | Parts | None) -> Estimate | Fact | None:
    inner = found.estimate if isinstance(found, Measured) else found
    return None if inner is None or isinstance(inner, Parts) else inner


def _value(held: Held, metric: str) -> float | None:
    found = _plain(held.estimates.get(metric))
    return None if found is None else found.value


def _verdict_table(check: Compression, one: Held, confidence: float) -> Table:
    """Every objective with what was lost or gained, its bounds, and what is required of it."""
    required = {requirement.metric: requirement.sentence for requirement in check.requirements}
    percent = f"{confidence:.0%}"
    rows: list[tuple[Cell, ...]] = []
    for metric, (name, unit) in NAMES.items():
        found = _plain(one.estimates.get(metric))
        if found is None:
            continue
        scale = 100.0 if unit in ("pp", "%") else 1.0
        cells = [None if value is None else value * scale for value in (found.value, *_bounds(found, confidence))]
        rows.append((name, unit, *cells, found.n, required.get(metric, "")))
    columns = (
        Column(name="objective"), Column(name="unit"), Column(name="value"), Column(name=f"lower {percent}"),
        Column(name=f"upper {percent}"), Column(name="n"), Column(name="required"),
    )  # fmt: skip
    told = "" if one.mcnemar is None else f" Exact McNemar for any change of accuracy: p = {one.mcnemar:.3g}."
    caption = f"{one.model} against {check.baseline}, on the same rows and this device.{told}"
    return Table(title="Gained and lost", caption=caption, columns=columns, rows=tuple(rows))


def _bounds(found: Estimate | Fact, confidence: float) -> tuple[float | None, float | None]:
    if isinstance(found, Fact):
        return None, None
    return found.bound(confidence, "lower"), found.bound(confidence, "upper")


def _levels(baseline: Scored, held: Sequence[Held]) -> Table:
    """Accuracy of every model, so that drops can be read against it."""
    every = [(baseline.model, baseline), *((one.model, one.rows) for one in held)]
    rows = tuple((name, float((rows.labels()[1] == rows.truth).mean()), rows.n) for name, rows in every)
    columns = (Column(name="model"), Column(name="accuracy", unit="fraction"), Column(name="rows", unit="rows"))
    return Table(title="Accuracy of each", caption="The baseline first.", columns=columns, rows=rows)


def _flips(check: Compression, one: Held, baseline: Scored) -> Table:
    """Flips by direction: fixes, breaks, and those wrong before and after."""
    said, before, truth = one.rows.labels()[1], baseline.labels()[1], baseline.truth
    changed = said != before
    kinds: tuple[tuple[str, NDArray[np.bool_]], ...] = (
        ("right, now wrong (breaks)", changed & (before == truth)),
        ("wrong, now right (fixes)", changed & (said == truth)),
        ("wrong, now wrong in another way", changed & (before != truth) & (said != truth)),
        ("all that changed", changed),
    )
    rows = tuple((name, int(hit.sum()), float(hit.mean())) for name, hit in kinds)
    columns = (Column(name="flips"), Column(name="rows", unit="rows"), Column(name="share", unit="fraction"))
    caption = f"Answers of {one.model} that are not those of {check.baseline}."
    return Table(title="Flips by direction", caption=caption, columns=columns, rows=rows)


def _tails(held: Sequence[Held], baseline: Scored) -> list[AnyBlock]:
    from evalspec.checks.model._compression import divergences

    rows: list[tuple[Cell, ...]] = []
    for one in held:
        each = divergences(one.rows, baseline)
        if each is not None:
            tails = [float(tail) for tail in np.quantile(each, [0.5, 0.95, 0.99])]
            rows.append((one.model, float(each.mean()), *tails, float(each.max())))
    if not rows:
        return []
    names = ("model", "mean", "median", "95 % of rows within", "99 % of rows within", "largest")
    what = "Kullback-Leibler divergence of the probabilities from the baseline's, nats"
    if baseline.task == "values":
        what = "Distance of the values from the baseline's, in standard deviations of those"
    columns = tuple(Column(name=name) for name in names)
    return [Table(title="Output divergence", caption=f"{what}.", columns=columns, rows=tuple(rows))]


def _front(check: Compression, held: Sequence[Held]) -> list[AnyBlock]:
    """All candidates with the baseline, and which of them no other beats in size, speed and accuracy."""
    classes = held[0].rows.task == "classes"
    lost = "accuracy_drop" if classes else "mae_increase"
    what, unit, scale = ("accuracy lost (points)", "", 100.0) if classes else ("error, more", "label", 1.0)
    objectives: dict[str, Objectives] = {check.baseline: (1.0, 1.0, 0.0)}
    objectives |= {one.model: (_value(one, "size_ratio"), one.speed, _value(one, lost)) for one in held}
    rows = tuple(
        (name, size, speed, None if drop is None else drop * scale, "yes" if on else "no")
        for (name, (size, speed, drop)), on in zip(objectives.items(), front(list(objectives.values())), strict=True)
    )
    columns = (
        Column(name="model"), Column(name="times smaller", unit="x"), Column(name="times faster", unit="x"),
        Column(name=what, unit=unit), Column(name="on the front"),
    )  # fmt: skip
    caption = "On the front: no other is as good in everything that both have, and better in something."
    table = Table(title="Candidates", caption=caption, columns=columns, rows=rows)
    series = tuple(
        Series(name=name, x=(size,), y=(drop * scale,))
        for name, (size, _, drop) in objectives.items()
        if size is not None and drop is not None
    )
    if len(series) < 2:
        return [table]
    chart = Points(
        title="Size against loss", caption="To the right and low is better.", x_label="times smaller", y_label=what,
        x_unit="x", y_unit=unit, series=series,
    )  # fmt: skip
    return [table, chart]


def front(objectives: Sequence[Objectives]) -> list[bool]:
    """Which candidates no other beats: as good in all that both have, better in one.

    Args:
        objectives: Of each candidate: times smaller, times faster (more is better), loss (less is better).
    """
    signs = (1.0, 1.0, -1.0)
    scores = [[None if v is None else s * v for s, v in zip(signs, one, strict=True)] for one in objectives]

    def beats(one: Sequence[float | None], other: Sequence[float | None]) -> bool:
        both = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
        return bool(both) and all(a >= b for a, b in both) and any(a > b for a, b in both)

    return [not any(beats(other, one) for other in scores if other is not one) for one in scores]


def _forest(check: Compression, slices: HasParts, confidence: float) -> Intervals:
    order = sorted(slices.parts.items(), key=lambda item: -(item[1].value if item[1].value is not None else -1.0))
    rows = tuple(
        Interval(
            label=name, value=part.value, lower=part.bound(confidence, "lower"), upper=part.bound(confidence, "upper"),
            n=part.n,
        )
        for name, part in order
    )  # fmt: skip
    references = tuple(
        Reference(label=requirement.sentence, value=requirement.threshold / 100.0, axis="x")
        for requirement in check.requirements
        if requirement.metric == "worst_slice_drop"
    )
    return Intervals(
        title="Accuracy lost by slice", caption=f"One-sided bounds at {confidence:.0%} each; worst first.",
        unit="fraction", rows=rows, references=references,
    )  # fmt: skip


def tensors(found: Tensors | None) -> list[AnyBlock]:
    """The tensors with the lowest signal-to-noise ratio.

    Args:
        found: What the probe saw, or None.
    """
    if found is None:
        return []
    order = np.argsort(found.decibels, kind="stable")[:TENSORS_SHOWN]
    bars = tuple(Bar(label=found.names[i], value=float(found.decibels[i])) for i in order)
    caption = f"The {len(bars)} lowest of {len(found.names)}; low means that quantization changed it much."
    return [Bars(title="Signal to noise of each tensor, dB", caption=caption, bars=bars)]


def flipped(inputs: Inputs, rows: Scored, baseline: Scored) -> list[AnyBlock]:
    """Rows that only one of the models gets right, breaks first; nothing for values."""
    if rows.task != "classes":
        return []
    classes, said = rows.labels()
    _, before = baseline.labels()
    breaks, fixes = (before == rows.truth) & (said != rows.truth), (said == rows.truth) & (before != rows.truth)
    total = int(breaks.sum() + fixes.sum())
    if total == 0:
        return []
    picked = [*_surest(rows, breaks, said), *_surest(baseline, fixes, before)][:EXAMPLES_SHOWN]

    def one(row: int, inside: Mapping[str, Any]) -> Example:
        fields: Mapping[str, Cell] = {
            "true": classes[int(rows.truth[row])], baseline.model: classes[int(before[row])],
            rows.model: classes[int(said[row])],
        }  # fmt: skip
        return example(row, fields, inside)

    shown = [one(row, inside) for row, inside in zip(picked, cells_of(inputs, rows.dataset, picked), strict=True)]
    return [
        Examples(
            title="Rows that only one of the models gets right",
            caption=f"Those that {rows.model} breaks first, surest first; then those that it fixes.",
            examples=tuple(shown), total=total,
        )
    ]  # fmt: skip


def _surest(rows: Scored, which: NDArray[np.bool_], said: NDArray[np.int64]) -> list[int]:
    found = np.flatnonzero(which)
    if rows.probabilities is not None:
        found = found[np.argsort(-rows.probabilities[found, said[found]], kind="stable")]
    return [int(row) for row in found]

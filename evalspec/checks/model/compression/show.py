"""Blocks of `compression`: the verdict table, the front, tails of the divergence, tensors, flipped rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.model.compression.answers import answered, changed, named, right, sureness, truth
from evalspec.checks.model.compression.divergence import Away, divergences, logit_distances
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
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.words import in_percent
from evalspec.scoring.on_demand import shown, shown_bounds
from evalspec.scoring.scored_rows import Undefined
from evalspec.scoring.show import cells_of, example

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.compression.measure import ComparedModel
    from evalspec.checks.model.compression.spec import Compression
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Probe
    from evalspec.scoring.scored_rows import Scored

Objectives = tuple[float | None, float | None, float | None]
"""Objectives of a candidate: times smaller, times faster, loss."""
TENSORS_SHOWN = 30
EXAMPLES_SHOWN = 12
NAMES = {
    "size_ratio": ("size, times smaller", "x"), "speedup": ("speed-up (median latency)", "x"),
    "accuracy_drop": ("accuracy lost", "pp"), "top_5_drop": ("top-5 accuracy lost", "pp"),
    "ece_increase": ("ECE, more", "fraction"), "flip_rate": ("rows that get another class", "%"),
    "break_rate": ("rows that only the baseline gets right", "%"),
    "worst_slice_drop": ("worst slice, accuracy lost", "pp"),
    "output_divergence": ("output divergence, mean", "score"),
    "logit_distance": ("distance before softmax, mean", "score"),
    "mae_increase": ("mean absolute error, more", "label"),
    "operator_coverage": ("operators that run on the device asked for", "%"),
    "operators_lost": ("operators of the baseline that it does not have", "count"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensors:
    """Signal-to-noise ratios between a float and a quantized graph.

    Args:
        names: Names of the tensors.
        decibels: shape (k,), ratio of each tensor against the float graph.
    """

    names: tuple[str, ...]
    decibels: NDArray[np.float64]

    @classmethod
    def of(cls, probe: Probe) -> Tensors:
        """Ratios as a probe measured them."""
        return cls(probe.texts["names"], probe.series["signal_to_noise_db"])


def blocks(check: Compression, baseline: Scored, held: Sequence[ComparedModel], confidence: float) -> list[AnyBlock]:
    """Tables and charts of everything but tensors and rows; none where nothing is shown."""
    if not shown():
        return []
    made: list[AnyBlock] = [_verdict_table(check, held[0], confidence)]
    if baseline.task != "values":
        made += [_levels(baseline, held), _flips(check, held[0], baseline)]
    made += _tails(held, baseline)
    if len(held) > 1:
        made += _front(check, held)
    slices = _plain(held[0].estimates.get("worst_slice_drop"))
    if isinstance(slices, Estimate) and slices.parts:
        made.append(_forest(check, slices, confidence))
    return made


def _plain(estimate: Estimate | Fact | Measured | Parts | None) -> Estimate | Fact | None:
    inner = None if estimate is None else Measured.of(estimate).estimate
    return None if isinstance(inner, Parts) else inner


def _value(held: ComparedModel, metric: str) -> float | None:
    estimate = _plain(held.estimates.get(metric))
    return None if estimate is None else estimate.value


def _verdict_table(check: Compression, one: ComparedModel, confidence: float) -> Table:
    """Table of the objectives: what was lost or gained, its bounds, and what is required."""
    required = {requirement.metric: requirement.sentence for requirement in check.requirements}
    percent = in_percent(confidence)
    rows: list[tuple[Cell, ...]] = []
    for metric, (name, unit) in NAMES.items():
        estimate = _plain(one.estimates.get(metric))
        if estimate is None:
            continue
        scale = 100.0 if unit in ("pp", "%") else 1.0
        cells = [None if value is None else value * scale for value in (estimate.value, *_bounds(estimate, confidence))]
        rows.append((name, unit, *cells, estimate.n, required.get(metric, "")))
    columns = (
        Column(name="objective"), Column(name="unit"), Column(name="value"), Column(name=f"lower {percent}"),
        Column(name=f"upper {percent}"), Column(name="n"), Column(name="required"),
    )  # fmt: skip
    told = "" if one.mcnemar is None else f" Exact McNemar for any change of accuracy: p = {one.mcnemar:.3g}."
    caption = f"{one.model} against {check.baseline}, on the same rows and this device.{told}"
    return Table(title="Gained and lost", caption=caption, columns=columns, rows=tuple(rows))


def _bounds(estimate: Estimate | Fact, confidence: float) -> tuple[float | None, float | None]:
    if isinstance(estimate, Fact):
        return None, None
    return shown_bounds(estimate, confidence)


def _levels(baseline: Scored, held: Sequence[ComparedModel]) -> Table:
    """Table of every model's accuracy, for comparison with the drops."""
    every = [(baseline.model, baseline), *((one.model, one.rows) for one in held)]
    rows = tuple((name, float(right(rows).mean()), rows.n) for name, rows in every)
    columns = (Column(name="model"), Column(name="accuracy", unit="fraction"), Column(name="rows", unit="rows"))
    return Table(title="Accuracy of each", caption="The baseline first.", columns=columns, rows=rows)


def _flips(check: Compression, one: ComparedModel, baseline: Scored) -> Table:
    """Table of the flips by direction: breaks, fixes, and rows wrong before and after."""
    now, before, other = right(one.rows), right(baseline), changed(one.rows, baseline)
    kinds: tuple[tuple[str, NDArray[np.bool_]], ...] = (
        ("right, now wrong (breaks)", before & ~now),
        ("wrong, now right (fixes)", now & ~before),
        ("wrong, now wrong in another way", other & ~now & ~before),
        ("all that changed", other),
    )
    rows = tuple((name, int(hit.sum()), float(hit.mean())) for name, hit in kinds)
    columns = (Column(name="flips"), Column(name="rows", unit="rows"), Column(name="share", unit="fraction"))
    caption = f"Answers of {one.model} that are not those of {check.baseline}."
    return Table(title="Flips by direction", caption=caption, columns=columns, rows=rows)


def _tails(held: Sequence[ComparedModel], baseline: Scored) -> list[AnyBlock]:
    """Tables of the distribution of single rows' distances from the baseline."""
    values = baseline.task == "values"
    divergence = "Kullback-Leibler divergence of the probabilities from the baseline's, nats."
    if baseline.task == "labels":
        divergence = divergence.removesuffix(".") + ", summed over the classes."
    asked = [
        (
            "Output divergence", divergences,
            "Distance of the values from the baseline's, in spreads of those." if values else divergence,
        ),
    ]  # fmt: skip
    if not values:
        caption = (
            "Distance of each row's scores from the baseline's, minus what is the same for all classes, in spreads of "
            "the baseline's over the rows."
        )
        asked.append(("Distance before softmax", logit_distances, caption))
    names = ("model", "mean", "median", "95 % of rows within", "99 % of rows within", "largest")
    tables: list[AnyBlock] = []
    for title, measured, caption in asked:
        rows = tuple(_spread(one, baseline, measured) for one in held)
        known = tuple(row for row in rows if row is not None)
        if known:
            columns = tuple(Column(name=name) for name in names)
            tables.append(Table(title=title, caption=caption, columns=columns, rows=known))
    return tables


def _spread(
    one: ComparedModel, baseline: Scored, measured: Callable[[Scored, Scored], Away]
) -> tuple[Cell, ...] | None:
    """Line of one model: mean, quantiles and largest of a distance; None where it is not known."""
    try:
        each = measured(one.rows, baseline).each
    except Undefined:
        return None
    tails = (float(tail) for tail in np.quantile(each, [0.5, 0.95, 0.99]))
    return (one.model, float(each.mean()), *tails, float(each.max()))


def _front(check: Compression, held: Sequence[ComparedModel]) -> list[AnyBlock]:
    """Table and chart of the baseline and all candidates, and which of them no other beats."""
    classes = held[0].rows.task != "values"
    lost = "accuracy_drop" if classes else "mae_increase"
    what, unit, scale = ("accuracy lost (points)", "", 100.0) if classes else ("error, more", "label", 1.0)
    objectives: dict[str, Objectives] = {check.baseline: (1.0, 1.0, 0.0)}
    objectives |= {one.model: (_value(one, "size_ratio"), one.speed, _value(one, lost)) for one in held}
    far = "logit_distance" if classes else "output_divergence"
    distances: dict[str, float | None] = {one.model: _value(one, far) for one in held}
    distances[check.baseline] = 0.0
    rows = tuple(
        (name, size, speed, None if drop is None else drop * scale, "yes" if on else "no", distances[name])
        for (name, (size, speed, drop)), on in zip(objectives.items(), front(list(objectives.values())), strict=True)
    )
    columns = (
        Column(name="model"), Column(name="times smaller", unit="x"), Column(name="times faster", unit="x"),
        Column(name=what, unit=unit), Column(name="on the front"), Column(name=NAMES[far][0]),
    )  # fmt: skip
    caption = (
        "On the front: no other is as good in size, speed and loss, where both have them, and better in one of them."
    )
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
    """Find the candidates that no other beats, by being as good in all that both have and better in one.

    Args:
        objectives: For each candidate: times smaller, times faster (more is better), loss (less is better).
    """
    signs = (1.0, 1.0, -1.0)
    scores = [[None if v is None else s * v for s, v in zip(signs, one, strict=True)] for one in objectives]

    def beats(one: Sequence[float | None], other: Sequence[float | None]) -> bool:
        both = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
        return bool(both) and all(a >= b for a, b in both) and any(a > b for a, b in both)

    return [not any(beats(other, one) for other in scores if other is not one) for one in scores]


def _forest(check: Compression, slices: Estimate, confidence: float) -> Intervals:
    order = sorted(slices.parts.items(), key=lambda item: -(item[1].value if item[1].value is not None else -1.0))
    rows = tuple(
        Interval(
            label=name, value=_points(part.value), lower=_points(part.bound(confidence, "lower")),
            upper=_points(part.bound(confidence, "upper")), n=part.n,
        )
        for name, part in order
    )  # fmt: skip
    references = tuple(
        Reference(label=requirement.sentence, value=requirement.threshold, axis="x", says_value=True)
        for requirement in check.requirements
        if requirement.metric == "worst_slice_drop"
    )
    return Intervals(
        title="Accuracy lost by slice", caption=f"One-sided bounds at {in_percent(confidence)} each; worst first.",
        unit="pp", rows=rows, references=references,
    )  # fmt: skip


def _points(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def tensors(found: Tensors | None) -> list[AnyBlock]:
    """Chart of the tensors with the lowest signal-to-noise ratio.

    Args:
        found: Ratios as the probe measured them, or None.
    """
    if found is None:
        return []
    order = np.argsort(found.decibels, kind="stable")[:TENSORS_SHOWN]
    bars = tuple(Bar(label=found.names[i], value=float(found.decibels[i])) for i in order)
    caption = f"The {len(bars)} lowest of {len(found.names)}; low means that quantization changed it much."
    return [Bars(title="Signal to noise of each tensor, dB", caption=caption, bars=bars)]


def flipped(inputs: Inputs, rows: Scored, baseline: Scored) -> list[AnyBlock]:
    """Examples of rows that only one of the models gets right, breaks first; none for values."""
    if rows.task == "values":
        return []
    breaks, fixes = right(baseline) & ~right(rows), right(rows) & ~right(baseline)
    total = int(breaks.sum() + fixes.sum())
    if total == 0:
        return []
    picked = [*_surest(rows, breaks), *_surest(baseline, fixes)][:EXAMPLES_SHOWN]
    told = {"true": truth(rows), baseline.model: answered(baseline), rows.model: answered(rows)}

    def one(row: int, inside: Mapping[str, Any]) -> Example:
        fields: Mapping[str, Cell] = {name: named(rows, codes[row]) for name, codes in told.items()}
        return example(int(rows.number(np.array(row))), fields, inside)

    cells = cells_of(inputs, rows.dataset, rows.number(np.array(picked)).tolist())
    shown = [one(row, inside) for row, inside in zip(picked, cells, strict=True)]
    return [
        Examples(
            title="Rows that only one of the models gets right",
            caption=f"First the rows that {rows.model} breaks, most confident first; then those that it fixes.",
            examples=tuple(shown), total=total,
        )
    ]  # fmt: skip


def _surest(rows: Scored, which: NDArray[np.bool_]) -> list[int]:
    indices, sure = np.flatnonzero(which), sureness(rows)
    if sure is not None:
        indices = indices[np.argsort(-sure[indices], kind="stable")]
    return [int(row) for row in indices]

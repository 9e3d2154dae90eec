"""What `calibration` shows: the reliability diagram, the confidences, the bins; widths of stated intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Curve, Histogram, Reference, Series, Table
from evalspec.stats.calibration import Bins, CalibrationError, ece_band
from evalspec.stats.proportion import Proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

CELLS = 20


def blocks(
    confidence: NDArray[np.float64],
    correct: NDArray[np.bool_],
    ece: CalibrationError,
    scaled: CalibrationError | None,
    level: float,
    threshold: float | None,
) -> list[AnyBlock]:
    """Blocks of a model with probabilities.

    Args:
        confidence: shape (n,).
        correct: shape (n,).
        ece: As it is.
        scaled: After temperature scaling, on the half that it was not fitted on.
        level: Confidence of the bands.
        threshold: Confidence from which on answers are used, or None.
    """
    if not len(confidence):
        return []
    return [_reliability(ece, scaled, level), _confidences(confidence, correct, threshold), _bins(ece.bins, level)]


def notes(ece: CalibrationError, confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> list[str]:
    """The usual word for the error, and which way it points."""
    if ece.value is None:
        return []
    gap = float(confidence.mean() - correct.mean())
    way = "over-confident" if gap > 0 else "under-confident"
    return [
        f"ece {ece.value:.3f} reads as {ece_band(ece.value)} (below 0.05 well, to 0.10 moderately, above it poorly).",
        f"Mean confidence {confidence.mean():.3f}, accuracy {correct.mean():.3f}: {way} by {abs(gap):.3f} overall.",
    ]


def _reliability(ece: CalibrationError, scaled: CalibrationError | None, level: float) -> Curve:
    series = [_series("as it is", ece.bins, level)]
    if scaled is not None and scaled.n:
        series.append(_series("after temperature scaling", scaled.bins, level))
    return Curve(
        title="Reliability",
        caption=f"Below the diagonal the model is over-confident. Bands: {level:.0%} for each bin by itself.",
        x_label="mean confidence",
        y_label="accuracy",
        references=(Reference(label="calibrated", axis="diagonal"),),
        series=tuple(series),
    )


def _series(name: str, bins: Bins, level: float) -> Series:
    bounds = _bounds(bins, level)
    return Series(
        name=name,
        x=_floats(bins.confidence),
        y=_floats(bins.accuracy),
        lower=tuple(low for low, _ in bounds),
        upper=tuple(high for _, high in bounds),
        size=_floats(bins.count),
    )


def _bounds(bins: Bins, level: float) -> list[tuple[float, float]]:
    """Two-sided Clopper-Pearson bounds of each bin's accuracy."""
    side = 1.0 - (1.0 - level) / 2.0
    shares = [Proportion.of_counts(int(r), int(n)) for r, n in zip(bins.right, bins.count, strict=True)]
    return [(share.bound(side, "lower") or 0.0, share.bound(side, "upper") or 0.0) for share in shares]


def _confidences(confidence: NDArray[np.float64], correct: NDArray[np.bool_], threshold: float | None) -> Histogram:
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    right, wrong = (np.histogram(confidence[mask], edges)[0] for mask in (correct, ~correct))
    line = () if threshold is None else (Reference(label="threshold", value=threshold, axis="x"),)
    return Histogram(
        title="Confidences",
        caption="How sure the model was where it was right and where it was wrong.",
        x_label="confidence",
        y_label="rows",
        edges=_floats(edges),
        counts={"right": tuple(int(c) for c in right), "wrong": tuple(int(c) for c in wrong)},
        references=line,
    )


def _bins(bins: Bins, level: float) -> Table:
    percent = f"{level:.0%}"
    columns = (
        Column(name="from"), Column(name="to"), Column(name="rows", unit="rows"),
        Column(name="confidence", unit="fraction"), Column(name="accuracy", unit="fraction"),
        Column(name=f"lower {percent}", unit="fraction"), Column(name=f"upper {percent}", unit="fraction"),
        Column(name="gap", unit="fraction"),
    )  # fmt: skip
    rows = tuple(
        (float(bins.edges[i]), float(bins.edges[i + 1]), int(bins.count[i]), float(bins.confidence[i]),
         float(bins.accuracy[i]), low, high, float(bins.gap[i]))
        for i, (low, high) in enumerate(_bounds(bins, level))
    )  # fmt: skip
    return Table(title="Bins", caption="Gap: accuracy less confidence.", columns=columns, rows=rows)


def interval_blocks(
    lower: NDArray[np.float64], upper: NDArray[np.float64], inside: NDArray[np.bool_], unit: str | None, level: float
) -> list[AnyBlock]:
    """Blocks of a model with stated intervals: how often narrow and wide ones hold.

    Args:
        lower: shape (n,).
        upper: shape (n,).
        inside: shape (n,), the truth lies in the interval.
        unit: Of the label, or None.
        level: Confidence of the bands.
    """
    if not len(lower):
        return []
    width = upper - lower
    groups = np.array_split(np.argsort(width, kind="stable"), min(10, len(width)))
    shares = [Proportion.of_counts(int(inside[g].sum()), len(g)) for g in groups]
    side = 1.0 - (1.0 - level) / 2.0
    series = Series(
        name="rows by width",
        x=tuple(float(width[g].mean()) for g in groups),
        y=tuple(share.value or 0.0 for share in shares),
        lower=tuple(share.bound(side, "lower") or 0.0 for share in shares),
        upper=tuple(share.bound(side, "upper") or 0.0 for share in shares),
        size=tuple(float(len(g)) for g in groups),
    )
    caption = f"A tenth of the rows each, narrow intervals first. Bands: {level:.0%} for each by itself."
    return [
        Curve(
            title="Coverage by width", caption=caption, x_label="mean width", y_label="share inside",
            x_unit=unit or "", series=(series,),
        )
    ]  # fmt: skip


def _floats(values: NDArray[np.float64] | NDArray[np.int64]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)

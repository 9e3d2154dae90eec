"""Blocks and notes of `calibration` for models with probabilities: reliability, confidences, bins, classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.calibration.recalibration import TITLES
from evalspec.evidence.blocks import AnyBlock, Column, Curve, Histogram, Reference, Series, Table
from evalspec.evidence.words import in_percent, or_list, plural
from evalspec.scoring.on_demand import band, known, shown_bounds
from evalspec.stats.calibration.expected_error import CalibrationError, ece_band
from evalspec.stats.shares.proportion import Proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.calibration.recalibration import Suggestion
    from evalspec.evidence.frozen import Cell
    from evalspec.stats.calibration.classwise import ClasswiseError

CELLS = 20
DEGREES_MOST = 1e6
"""Degrees of freedom from which on t is as good as a normal distribution."""
CLASSES = 20
"""Classes that are listed, the worst first."""
FEWEST_BINS = 3
"""Of a reliability curve."""
BANDS = "below 0.05 well, 0.05 to 0.10 moderately, above 0.10 poorly"


def blocks(
    confidence: NDArray[np.float64],
    correct: NDArray[np.bool_],
    ece: CalibrationError,
    found: Suggestion,
    level: float,
    threshold: float | None,
) -> list[AnyBlock]:
    """Blocks of the reliability diagram, the confidences and the bins.

    Args:
        confidence: shape (n,), n > 0.
        correct: shape (n,).
        ece: Error of the probabilities as they are.
        found: Maps that were tried, with their scores on the half that they were not fitted on.
        level: Confidence of the bands.
        threshold: Confidence from which on answers are used, or None.
    """
    return [_reliability(ece, found, level), _confidences(confidence, correct, threshold), _bins(ece, level)]


def notes(
    ece: CalibrationError, confidence: NDArray[np.float64], correct: NDArray[np.bool_], level: float
) -> list[str]:
    """Sentences with the usual word for the error, how sure that word is, and which way the error points."""
    if ece.value is None:
        return []
    gap = float(confidence.mean() - correct.mean())
    way = "over-confident" if gap > 0 else "under-confident"
    return [
        f"ece {_beside_edges(ece.value)} reads as {ece_band(ece.value)} ({BANDS}){_reach(ece, level)}.",
        f"Mean confidence {confidence.mean():.3f}, accuracy {correct.mean():.3f}: {way} by {abs(gap):.3f} overall.",
        _sight(ece),
    ]


def relative(option_score: Cell) -> list[str]:
    """Sentence on options that are scored by something that is no probability.

    Args:
        option_score: Score by which a model chooses from options; None: it does not.
    """
    if option_score in (None, "letter", "sum"):
        return []
    return [
        f"The model's options are scored `{option_score}`, which ranks them and is not a probability: how sure it is "
        "follows from the length or the frequency of an option too. `score: letter` or `sum` are probabilities."
    ]


def _sight(ece: CalibrationError) -> str:
    """Sentence on which opposite gaps that cancel inside a bin these rows can show."""
    if not ece.sight:
        return (
            f"Opposite gaps that cancel inside of {plural(len(ece.bins.count), 'bin')} are not seen with so few wrong "
            "answers; more rows would show them."
        )
    seen = [f"{least:.2g} over {bins}" for bins, least in ece.sight if least > 0.0]
    if not seen:
        return f"Opposite gaps that cancel inside of a bin are seen over up to {plural(ece.sight[-1][0], 'bin')}."
    return (
        f"Opposite gaps that cancel inside of a bin are seen from an ece of {or_list(seen)} bins on; smaller ones, and "
        "those that change sides more often, take more rows."
    )


def _beside_edges(value: float) -> str:
    """Value with as many digits as show on which side of a band's edge it lies."""
    digits = 3
    while digits < 12 and ece_band(round(value, digits)) != ece_band(value):
        digits += 1
    return f"{value:.{digits}f}"


def _reach(ece: CalibrationError, level: float) -> str:
    """Words for the bounds of the error, where these lie in more than one band."""
    bounds = [ece.bound(level, side) for side in ("lower", "upper")]
    words = list(dict.fromkeys(ece_band(bound) for bound in bounds if bound is not None))
    if not words:
        return "; no bound says how sure that is"
    if len(words) == 1:
        return ""
    first, last = (word.removesuffix(" calibrated") for word in (words[0], words[-1]))
    return f"; its {in_percent(level)} bounds reach from {first} to {last}"


def by_class(names: Sequence[str], found: ClasswiseError, level: float) -> Table:
    """Table of the classes, each one's probability against the rest, the worst first.

    Args:
        names: Names of the classes.
        found: Errors of the classes.
        level: Confidence of the bounds, each on its own side.
    """
    percent = in_percent(level)
    columns = (
        Column(name="class"), Column(name="said", unit="fraction"), Column(name="true", unit="fraction"),
        Column(name="ece", unit="fraction"), Column(name=f"lower {percent}", unit="fraction"),
        Column(name=f"upper {percent}", unit="fraction"),
    )  # fmt: skip
    order = sorted(range(len(names)), key=lambda k: -known(found.classes[k]))[:CLASSES]
    rows: list[tuple[Cell, ...]] = []
    for k in order:
        one = found.classes[k]
        rows.append((names[k], *found.shares[k], one.value, *shown_bounds(one, level)))
    more = f" The {CLASSES} worst of {len(names)}." if len(names) > CLASSES else ""
    caption = f"Said: mean probability of the class; true: its share of the rows.{more}"
    return Table(title="Classes", caption=caption, columns=columns, rows=tuple(rows))


def _reliability(ece: CalibrationError, suggestion: Suggestion, level: float) -> Curve:
    series = [_series("as it is", ece, level)]
    for name in dict.fromkeys(("temperature", suggestion.chosen)):
        tried = None if name is None else suggestion.tried.get(name)
        if tried is not None and tried.error.n:
            title = "temperature scaling" if name == "temperature" else TITLES[name]
            series.append(_series(f"after {title}", tried.error, level))
    return Curve(
        title="Reliability",
        caption=_few_bins(ece)
        or f"Below the diagonal the model is over-confident. Bands: {in_percent(level)} per bin.",
        x_label="mean confidence",
        y_label="accuracy",
        references=(Reference(label="calibrated", axis="diagonal"),),
        series=tuple(series),
    )


def _few_bins(error: CalibrationError) -> str:
    """Sentence on rows that give no curve; empty: they give one."""
    count = error.bins.count
    if len(count) >= FEWEST_BINS:
        return ""
    wrong = int(count.sum() - error.bins.right.sum())
    return (
        f"{plural(int(count.sum()), 'row')} with {plural(wrong, 'wrong answer')} are too few for a curve: they give "
        f"{plural(len(count), 'bin')}. Below the diagonal the model is over-confident."
    )


def _series(name: str, error: CalibrationError, level: float) -> Series:
    bins, bounds = error.bins, _bounds(error, level)
    return Series(
        name=name,
        x=tuple(bins.confidence.tolist()),
        y=tuple(bins.accuracy.tolist()),
        lower=tuple(low for low, _ in bounds),
        upper=tuple(high for _, high in bounds),
        size=tuple(bins.count.tolist()),
    )


def _bounds(error: CalibrationError, level: float) -> list[tuple[float, float]]:
    """Two-sided Clopper-Pearson bounds of each bin's accuracy; with clusters, at the design effect of all rows."""
    bins, design = error.bins, error.design.believable
    largest = None if design.clusters is None else int(design.largest)
    shares = (
        Proportion(float(r), int(n), design.effect, design.clusters, min(design.degrees, DEGREES_MOST), largest)
        for r, n in zip(bins.right, bins.count, strict=True)
    )
    return [band(share, level) for share in shares]


def _confidences(confidence: NDArray[np.float64], correct: NDArray[np.bool_], threshold: float | None) -> Histogram:
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    right, wrong = (np.histogram(confidence[mask], edges)[0] for mask in (correct, ~correct))
    line = () if threshold is None else (Reference(label="threshold", value=threshold, axis="x"),)
    return Histogram(
        title="Confidences",
        caption="How sure the model was where it was right and where it was wrong; the scale of rows is logarithmic.",
        x_label="confidence",
        y_label="rows",
        log_y=True,
        edges=tuple(edges.tolist()),
        counts={"right": tuple(int(c) for c in right), "wrong": tuple(int(c) for c in wrong)},
        references=line,
    )


def _bins(error: CalibrationError, level: float) -> Table:
    bins, percent = error.bins, in_percent(level)
    columns = (
        Column(name="from"), Column(name="to"), Column(name="rows", unit="rows"),
        Column(name="confidence", unit="fraction"), Column(name="accuracy", unit="fraction"),
        Column(name=f"lower {percent}", unit="fraction"), Column(name=f"upper {percent}", unit="fraction"),
        Column(name="gap", unit="fraction"),
    )  # fmt: skip
    rows = tuple(
        (float(bins.edges[i]), float(bins.edges[i + 1]), int(bins.count[i]), float(bins.confidence[i]),
         float(bins.accuracy[i]), low, high, float(bins.gap[i]))
        for i, (low, high) in enumerate(_bounds(error, level))
    )  # fmt: skip
    return Table(title="Bins", caption="Gap: accuracy less confidence.", columns=columns, rows=rows)

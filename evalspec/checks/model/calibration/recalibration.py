"""Recalibration as a suggestion: maps fitted on one half of the rows, judged on the other, one of them exported."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.remedies import Recalibrate
from evalspec.evidence.words import in_percent
from evalspec.scoring.losses import brier_losses, log_losses
from evalspec.scoring.on_demand import shown, shown_bounds
from evalspec.stats.calibration import expected_error as calibration
from evalspec.stats.calibration import recalibration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.calibration.spec import Calibration
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Predictions
    from evalspec.stats.calibration.expected_error import CalibrationError

VERSION = 1
FIT_CELLS = 500_000
"""Most rows x classes that vector scaling and isotonic regression are fitted on and the choice of a map looks at."""
TITLES = {None: "as it is", "temperature": "temperature", "vector": "vector scaling", "isotonic": "isotonic"}
CAPTION = (
    "Each map was fitted on one half of the rows and judged on the other. The suggestion was chosen inside the first "
    "half, by cross-validated log loss; it decides nothing. Isotonic: each class against the rest, divided by the sum."
)


@dataclass(frozen=True)
class Tried:
    """A map and its scores on the held-out rows.

    Args:
        map: The fitted map; None: probabilities as they are.
        fitted_on: Number of rows it was fitted on.
        error: `ece` on the held-out rows.
        log_loss, brier, accuracy: On the held-out rows.
    """

    map: recalibration.Recalibration | None
    fitted_on: int
    error: CalibrationError
    log_loss: float
    brier: float
    accuracy: float


@dataclass(frozen=True)
class Suggestion:
    """Maps that were tried, by name, and the one that is suggested.

    Args:
        tried: Name (None: probabilities as they are): map and scores, the simplest first.
        chosen: Name of the suggested map; None: leave the probabilities as they are.
    """

    tried: Mapping[str | None, Tried]
    chosen: str | None

    @property
    def temperature(self) -> float | None:
        """Number that logits are divided by; None where none could be fitted."""
        tried = self.tried.get("temperature")
        if tried is None or not isinstance(tried.map, recalibration.Scaling):
            return None
        return float(1.0 / tried.map.scale[0])


def suggest(check: Calibration, inputs: Inputs, rows: Predictions) -> Suggestion:
    """Fit every map on one half of the rows and judge it on the other.

    Args:
        check: Its fields.
        inputs: Where randomness comes from.
        rows: With probabilities and truth.
    """
    assert rows.probabilities is not None and rows.truth is not None
    truth = rows.truth.astype(np.int64)
    fit, judge = recalibration.halves(rows.n, inputs.rng, rows.clusters)
    few = _capped(np.flatnonzero(fit), rows.probabilities.shape[1], inputs.rng)
    fitted_on = {name: few for name in recalibration.METHODS} | {"temperature": np.flatnonzero(fit)}
    maps: dict[str, recalibration.Recalibration] = {}
    # The check's own metrics need the temperature alone.
    for name in recalibration.METHODS if shown() else ("temperature",):
        on = fitted_on[name]
        fitted = recalibration.METHODS[name](rows.probabilities[on], truth[on])
        if fitted is not None:
            maps[name] = fitted
    chosen = None
    if shown():
        clusters = None if rows.clusters is None else rows.clusters[few]
        chosen = recalibration.choose(rows.probabilities[few], truth[few], list(maps), inputs.rng, clusters)
    tried: dict[str | None, Tried] = {None: _judged(check, rows, judge, None, 0)}
    tried |= {name: _judged(check, rows, judge, fitted, len(fitted_on[name])) for name, fitted in maps.items()}
    return Suggestion(tried, chosen if judge.any() else None)


def _capped(rows: NDArray[np.int64], classes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    most = max(1, FIT_CELLS // max(1, classes))
    return rows if len(rows) <= most else np.sort(rng.permutation(rows)[:most])


def _judged(
    check: Calibration,
    rows: Predictions,
    judge: NDArray[np.bool_],
    fitted: recalibration.Recalibration | None,
    fitted_on: int,
) -> Tried:
    assert rows.probabilities is not None and rows.truth is not None
    probabilities, truth = rows.probabilities[judge], rows.truth[judge].astype(np.int64)
    if fitted is not None:
        probabilities = fitted.apply(probabilities)
    confidence, correct = calibration.top_label(probabilities, truth)
    name = "top label" if fitted is None else f"top label after {_words(fitted)}"
    error = calibration.expected_calibration_error(
        confidence, correct, bins=check.bins, scheme=check.scheme,
        clusters=None if rows.clusters is None else rows.clusters[judge], name=name,
    )  # fmt: skip
    if not len(truth):
        return Tried(fitted, fitted_on, error, 0.0, 0.0, 0.0)
    losses, squares = log_losses(probabilities, truth), brier_losses(probabilities, truth)
    return Tried(fitted, fitted_on, error, float(losses.mean()), float(squares.mean()), float(correct.mean()))


def _words(fitted: recalibration.Recalibration) -> str:
    if isinstance(fitted, recalibration.Scaling) and not fitted.bias.any():
        return f"temperature {1.0 / fitted.scale[0]:.3g}"
    return "vector scaling" if isinstance(fitted, recalibration.Scaling) else "isotonic regression"


def table(found: Suggestion, level: float) -> Table:
    """Table of the scores before and after each map, all on the held-out rows.

    Args:
        found: The maps that were tried.
        level: Confidence of the bounds, each on its own side.
    """
    percent = in_percent(level)
    columns = (
        Column(name="recalibration"), Column(name="fitted on", unit="rows"), Column(name="judged on", unit="rows"),
        Column(name="ece", unit="fraction"), Column(name=f"lower {percent}", unit="fraction"),
        Column(name=f"upper {percent}", unit="fraction"), Column(name="log loss", unit="score"),
        Column(name="brier", unit="score"), Column(name="accuracy", unit="fraction"), Column(name="suggestion"),
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = [
        (
            TITLES[name], one.fitted_on or None, one.error.n, one.error.value,
            *shown_bounds(one.error, level), one.log_loss, one.brier, one.accuracy,
            "suggested" if name == found.chosen and name is not None else "",
        )
        for name, one in found.tried.items()
    ]  # fmt: skip
    return Table(title="Recalibration", caption=CAPTION, columns=columns, rows=tuple(rows))


def note(found: Suggestion, file: str | None) -> str:
    """Suggestion in one sentence."""
    if found.chosen is None or file is None:
        return "No recalibration is suggested: no map was shown to be better than the probabilities as they are."
    before, after = found.tried[None].error, found.tried[found.chosen].error
    return (
        f"Suggested: {TITLES[found.chosen]} ({file}); on {after.n:,} rows that it was not fitted on ece is "
        f"{after.value:.3f} after it, {before.value:.3f} before."
    )


def remedies(found: Suggestion, file: str | None, level: float) -> tuple[Recalibrate, ...]:
    """Suggested map with the error that is left after it; none where no map is suggested.

    Args:
        found: The maps that were tried.
        file: Where the map is written.
        level: Confidence of the bound.
    """
    if found.chosen is None or file is None:
        return ()
    error = found.tried[found.chosen].error
    method = "temperature scaling" if found.chosen == "temperature" else TITLES[found.chosen]
    return (
        Recalibrate(
            metrics=("ece",), method=method, value=error.value, upper=error.bound(level, "upper"), unit="fraction",
            n=error.n, file=file,
        ),
    )  # fmt: skip


def export(check: Calibration, inputs: Inputs, rows: Predictions, found: Suggestion) -> str | None:
    """Write the suggested map into the evidence.

    Args:
        check: Its fields.
        inputs: Inputs of the check, with the folder of its evidence.
        rows: Rows whose first half it was fitted on.
        found: The maps that were tried.

    Returns:
        Name of the file; None where nothing is suggested.
    """
    if found.chosen is None:
        return None
    chosen = found.tried[found.chosen]
    assert chosen.map is not None
    temperature = {"temperature": found.temperature} if found.chosen == "temperature" else {}
    content = {
        "recalibration": VERSION,
        "method": found.chosen,
        "classes": list(rows.classes or ()),
        **temperature,
        **chosen.map.parameters,
        "model": {"name": rows.model, "digest": rows.digest or None},
        "dataset": {
            "name": rows.dataset,
            "digest": _dataset_digest(inputs, rows.dataset),
            "rows": rows.n // rows.asked,
        },
        "fitted_on": chosen.fitted_on,
        "judged_on": chosen.error.n,
        "ece_before": _figures(found.tried[None].error, inputs.confidence),
        "ece_after": _figures(chosen.error, inputs.confidence),
        "confidence": inputs.confidence,
    }
    name = "recalibration.json" if check.id is None else f"recalibration-{check.id}.json"
    partial = inputs.evidence / f".{name}.part"
    partial.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(partial, inputs.evidence / name)
    return name


def _figures(error: CalibrationError, level: float) -> dict[str, float | None]:
    return {"value": error.value, "lower": error.bound(level, "lower"), "upper": error.bound(level, "upper")}


def _dataset_digest(inputs: Inputs, dataset: str) -> str | None:
    """Digest of the dataset as it stands in the record; None where a column has none."""
    from evalspec.sources.reading.rows import dataset_digest

    try:
        return dataset_digest(inputs.table(dataset))
    except InputError:
        return None

"""Measurement of `calibration`: errors of the confidence, comparisons, recalibration, routing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.calibration import recalibration, show, stated_intervals
from evalspec.checks.model.calibration.paired_rows import beside
from evalspec.checks.model.calibration.routing import routing
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Comparison, Estimate, Parts
from evalspec.evidence.record import Counts
from evalspec.evidence.units import from_unit
from evalspec.language.parts import CheckResult
from evalspec.language.predictions import all_answers
from evalspec.scoring.losses import brier_limits, brier_losses
from evalspec.scoring.scored_rows import needs_task
from evalspec.stats.calibration import expected_error as stats
from evalspec.stats.calibration.classwise import classwise_calibration_error
from evalspec.stats.means.mean import mean, paired_mean
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.calibration.recalibration import Suggestion
    from evalspec.checks.model.calibration.spec import Calibration
    from evalspec.evidence.blocks import AnyBlock
    from evalspec.language.inputs import Inputs, Predictions
    from evalspec.stats.calibration.classwise import ClasswiseError

CLASSIFIED = (
    "ece", "rms_calibration", "mce", "classwise_ece", "brier", "temperature", "ece_after_temperature",
    "selective_accuracy", "selective_coverage", "routing_change",
)  # fmt: skip
STATED = ("interval_coverage", "pinball")
NO_TEMPERATURE = "no temperature is best on the half it is fitted on: every answer there is right, or none is"


def measure(check: Calibration, inputs: Inputs) -> CheckResult:
    """Measure the calibration of one model on one dataset.

    Args:
        check: Its fields.
        inputs: Where predictions come from.

    Raises:
        InputError: There is no truth, or neither probabilities nor a stated interval.
    """
    rows = all_answers(inputs.predictions(check.dataset, check.model))
    needs_task(rows, ("classes", "values"), "calibration")
    if rows.truth is None:
        raise InputError(f"{check.dataset} names no label, so nothing is known to be right")
    if rows.is_classification:
        if rows.probabilities is None:
            raise InputError(
                f"{rows.model} gives labels without probabilities, so it has no confidence to judge",
                remedy="name its `logits` or `probabilities` in outputs",
            )
        return _classified(check, inputs, rows)
    if rows.lower is None or rows.upper is None:
        raise InputError(
            f"{rows.model} gives values without an interval, so it has no confidence to judge",
            remedy="name its `lower` and `upper` in outputs",
        )
    return _stated_intervals(check, inputs, rows)


def _classified(check: Calibration, inputs: Inputs, rows: Predictions) -> CheckResult:
    assert rows.probabilities is not None and rows.truth is not None
    truth = rows.truth.astype(np.int64)
    confidence, correct = stats.top_label(rows.probabilities, truth)
    estimates, classes = _errors(check, inputs, rows, confidence, correct)
    missing = dict.fromkeys(STATED, "the model has classes, not a stated interval")
    suggestion = recalibration.suggest(check, inputs, rows)
    file = recalibration.export(check, inputs, rows, suggestion)
    _after_temperature(suggestion, estimates, missing)
    _selective(check, rows, confidence, correct, estimates, missing)
    ece = estimates["ece"]
    assert isinstance(ece, stats.CalibrationError)
    blocks, notes = _shown(check, inputs, ece, confidence, correct, classes, suggestion)
    if rows.n:
        notes.append(recalibration.note(suggestion, file))
    notes += show.relative(inputs.model_facts(check.model).get("option_score"))
    moved = _routed(check, inputs, rows, estimates, missing)
    return CheckResult(
        estimates=estimates,
        comparisons=_comparisons(check, inputs, rows, brier_losses(rows.probabilities, truth), confidence, missing),
        missing=missing,
        blocks=[*blocks, *moved[0]],
        counts=Counts(attempted=rows.n // rows.asked, used=rows.n // rows.asked),
        conditions={"bins": check.bins, "bins_after_merging": len(ece.bins.count), "scheme": check.scheme},
        notes=[*notes, *moved[1]],
        weakens=_never_fails(check, rows.probabilities.shape[1]),
        remedies=recalibration.remedies(suggestion, file, inputs.confidence),
        blind=_blind(truth, rows.probabilities.shape[1]),
        answers_each=dict.fromkeys(estimates, rows.asked),
        evidence=[] if file is None else [(file, "the suggested recalibration, to be applied where the model serves")],
    )


def _blind(truth: NDArray[np.int64], classes: int) -> dict[str, tuple[float, str]]:
    """Scores of a model that gives every row the shares of the classes."""
    shares = np.bincount(truth, minlength=classes) / max(len(truth), 1)
    words = "the shares of the classes for every row"
    brier = 1.0 - float((shares**2).sum())
    # As `brier_losses` has it: of two classes one square, not both.
    return {
        "brier": (brier / 2.0 if classes == 2 else brier, words),
        "selective_accuracy": (float(shares.max()), words),
    }


def _never_fails(check: Calibration, classes: int) -> list[str]:
    """Sentences on requirements that no model can violate: a row's errors over all classes sum to at most 2."""
    most = 2.0 / classes if classes > 2 else 1.0
    return [
        f"{one.sentence} can never fail with {classes:,} classes: classwise_ece is at most {most:.3g} there"
        for one in check.requirements
        if one.metric == "classwise_ece" and one.part is None and from_unit(one.threshold, one.unit) >= most
    ]


def _errors(
    check: Calibration,
    inputs: Inputs,
    rows: Predictions,
    confidence: NDArray[np.float64],
    correct: NDArray[np.bool_],
) -> tuple[dict[str, Estimate | Parts], ClasswiseError]:
    """Estimates of the calibration error in all its forms and of the Brier score, and the errors by class."""
    assert rows.probabilities is not None and rows.truth is not None
    truth, bins, scheme, clusters = rows.truth.astype(np.int64), check.bins, check.scheme, rows.clusters
    classes = classwise_calibration_error(rows.probabilities, truth, bins=bins, scheme=scheme, clusters=clusters)
    losses = brier_losses(rows.probabilities, truth)
    return {
        "ece": stats.expected_calibration_error(confidence, correct, bins=bins, scheme=scheme, clusters=clusters),
        "rms_calibration": stats.rms_calibration_error(
            confidence, correct, bins=bins, scheme=scheme, clusters=clusters
        ),
        "mce": stats.maximum_calibration_error(confidence, correct, bins=bins, scheme=scheme, clusters=clusters),
        "classwise_ece": Parts(dict(zip(rows.classes or (), classes.classes, strict=True)), classes),
        "brier": mean(
            losses,
            rng=inputs.rng,
            clusters=clusters,
            alpha=inputs.alpha_fail,
            limits=brier_limits(rows.probabilities.shape[1]),
        ),
    }, classes


def _shown(
    check: Calibration,
    inputs: Inputs,
    ece: stats.CalibrationError,
    confidence: NDArray[np.float64],
    correct: NDArray[np.bool_],
    classes: ClasswiseError,
    suggestion: Suggestion,
) -> tuple[list[AnyBlock], list[str]]:
    if not len(confidence):
        return [], []
    names = inputs.predictions(check.dataset, check.model).classes or ()
    level = inputs.confidence
    blocks = show.blocks(confidence, correct, ece, suggestion, level, check.threshold)
    blocks += [show.by_class(names, classes, level), recalibration.table(suggestion, level)]
    return blocks, show.notes(ece, confidence, correct, level)


def _after_temperature(suggestion: Suggestion, estimates: dict[str, Estimate | Parts], missing: dict[str, str]) -> None:
    if suggestion.temperature is None:
        missing |= {"temperature": NO_TEMPERATURE, "ece_after_temperature": NO_TEMPERATURE}
        return
    tried = suggestion.tried["temperature"]
    estimates["temperature"] = stats.temperature_estimate(suggestion.temperature, tried.fitted_on)
    estimates["ece_after_temperature"] = tried.error


def _selective(
    check: Calibration,
    rows: Predictions,
    confidence: NDArray[np.float64],
    correct: NDArray[np.bool_],
    estimates: dict[str, Estimate | Parts],
    missing: dict[str, str],
) -> None:
    if check.threshold is None:
        missing |= dict.fromkeys(("selective_accuracy", "selective_coverage"), "the check has no `threshold:`")
        return
    sure, clusters = confidence >= check.threshold, rows.clusters
    estimates["selective_coverage"] = proportion(sure, clusters)
    if sure.any():
        estimates["selective_accuracy"] = proportion(correct[sure], None if clusters is None else clusters[sure])
    else:
        missing["selective_accuracy"] = f"no row has a confidence of {check.threshold:g} or more"


def _routed(
    check: Calibration,
    inputs: Inputs,
    rows: Predictions,
    estimates: dict[str, Estimate | Parts],
    missing: dict[str, str],
) -> tuple[list[AnyBlock], list[str]]:
    """Table and sentence of the change of routing against `baseline:`, which is added to ``estimates``."""
    if check.baseline is None or check.threshold is None:
        missing["routing_change"] = "the check has no `baseline:` to compare with"
        return [], []
    change = routing(rows, inputs.predictions(check.dataset, check.baseline), check.threshold, inputs.confidence)
    if isinstance(change, str):
        missing["routing_change"] = change
        return [], []
    estimates["routing_change"] = change.estimate
    return ([change.table], [change.note]) if rows.n else ([], [])


def _stated_intervals(check: Calibration, inputs: Inputs, rows: Predictions) -> CheckResult:
    assert rows.lower is not None and rows.upper is not None and rows.truth is not None
    truth = rows.truth.astype(np.float64)
    inside = (rows.lower <= truth) & (truth <= rows.upper)
    losses = _pinball(rows.lower, rows.upper, truth, check.interval)
    missing = dict.fromkeys(CLASSIFIED, "the model gives values, not classes")
    return CheckResult(
        estimates={
            "interval_coverage": proportion(inside, rows.clusters),
            "pinball": mean(losses, rng=inputs.rng, clusters=rows.clusters, alpha=inputs.alpha_fail),
        },
        comparisons=_comparisons(check, inputs, rows, losses, inside.astype(np.float64), missing),
        missing=missing,
        blocks=stated_intervals.blocks(rows, inside, inputs.confidence),
        counts=Counts(attempted=rows.n, used=rows.n),
        conditions={"interval": check.interval},
        notes=stated_intervals.notes(rows, inside, check.interval, inputs.confidence),
    )


def _comparisons(
    check: Calibration, inputs: Inputs, rows: Predictions, losses: NDArray[np.float64], covered: NDArray[np.float64],
    missing: dict[str, str],
) -> dict[tuple[str, str], Comparison]:  # fmt: skip
    """Paired comparisons with every model that a requirement names; ``missing`` gets the reason where there is none."""
    comparisons: dict[tuple[str, str], Comparison] = {}
    for name in dict.fromkeys(one.model for one in check.requirements if one.model is not None):
        try:
            other = beside(rows, inputs.predictions(check.dataset, name))
            comparisons |= {(metric, name): one for metric, one in _pairs(check, rows, other, losses, covered).items()}
        except NotRunError as reason:
            missing |= {f"{one.metric} vs {name}": str(reason) for one in check.requirements if one.model == name}
    return comparisons


def _pairs(
    check: Calibration, rows: Predictions, other: Predictions, losses: NDArray[np.float64], covered: NDArray[np.float64]
) -> dict[str, Comparison]:
    assert other.truth is not None
    comparisons: dict[str, Comparison] = {}
    if rows.is_classification:
        if other.probabilities is None:
            raise NotRunError(f"{other.model!r} gives labels without probabilities")
        truth = other.truth.astype(np.int64)
        comparisons["brier"] = paired_mean(
            losses, brier_losses(other.probabilities, truth), clusters=rows.clusters,
            limits=brier_limits(other.probabilities.shape[1]),
        )  # fmt: skip
        if check.threshold is not None:
            sure = covered >= check.threshold
            theirs = stats.top_label(other.probabilities, truth)[0] >= check.threshold
            comparisons["selective_coverage"] = paired_proportion(sure, theirs, rows.clusters)
        return comparisons
    if other.lower is None or other.upper is None:
        raise NotRunError(f"{other.model!r} gives values without an interval")
    values = other.truth.astype(np.float64)
    inside = (other.lower <= values) & (values <= other.upper)
    pinball = _pinball(other.lower, other.upper, values, check.interval)
    comparisons["interval_coverage"] = paired_proportion(covered > 0, inside, rows.clusters)
    comparisons["pinball"] = paired_mean(losses, pinball, clusters=rows.clusters)
    return comparisons


def _pinball(
    lower: NDArray[np.float64], upper: NDArray[np.float64], truth: NDArray[np.float64], interval: float
) -> NDArray[np.float64]:
    """Mean of the pinball losses of both ends of each row, in the label's unit."""
    tail = (1.0 - interval) / 2.0

    def loss(predicted: NDArray[np.float64], level: float) -> NDArray[np.float64]:
        error = truth - predicted
        return np.maximum(level * error, (level - 1.0) * error)

    losses: NDArray[np.float64] = (loss(lower, tail) + loss(upper, 1.0 - tail)) / 2.0
    return losses

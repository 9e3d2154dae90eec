"""What `calibration` computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model import _reliability
from evalspec.errors import InputError
from evalspec.evidence.estimate import Comparison, Estimate
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.stats import calibration as stats
from evalspec.stats.mean import mean, paired_mean
from evalspec.stats.paired import paired_proportion
from evalspec.stats.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.calibration import Calibration
    from evalspec.language.inputs import Inputs, Predictions

CLASSIFIED = (
    "ece", "mce", "classwise_ece", "brier", "temperature", "ece_after_temperature", "selective_accuracy",
    "selective_coverage",
)  # fmt: skip
STATED = ("interval_coverage", "pinball")


def measure(check: Calibration, inputs: Inputs) -> CheckResult:
    """Estimates, comparisons and blocks of one model on one dataset.

    Args:
        check: Its fields.
        inputs: Where predictions come from.

    Raises:
        InputError: There is no truth, or neither probabilities nor a stated interval.
    """
    rows = inputs.predictions(check.dataset, check.model)
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
    return _stated(check, inputs, rows)


def _classified(check: Calibration, inputs: Inputs, rows: Predictions) -> CheckResult:
    assert rows.probabilities is not None and rows.truth is not None
    probabilities, truth = rows.probabilities, rows.truth.astype(np.int64)
    confidence, correct = _top(probabilities, truth)
    ece = stats.expected_calibration_error(
        confidence, correct, bins=check.bins, scheme=check.scheme, clusters=rows.clusters
    )
    estimates: dict[str, Estimate] = {
        "ece": ece,
        "mce": stats.maximum_calibration_error(
            confidence, correct, bins=check.bins, scheme=check.scheme, clusters=rows.clusters
        ),
        "classwise_ece": stats.classwise_calibration_error(probabilities, truth, bins=check.bins, scheme=check.scheme),
        "brier": mean(_brier(probabilities, truth), rng=inputs.rng, clusters=rows.clusters, alpha=inputs.alpha_fail),
    }
    missing = dict.fromkeys(STATED, "the model has classes, not a stated interval")
    scaled = _after_temperature(check, inputs, rows, estimates, missing)
    if check.threshold is None:
        missing |= dict.fromkeys(("selective_accuracy", "selective_coverage"), "the check has no `threshold:`")
    else:
        sure = confidence >= check.threshold
        clusters = rows.clusters
        estimates["selective_coverage"] = proportion(sure, clusters)
        if sure.any():
            estimates["selective_accuracy"] = proportion(correct[sure], None if clusters is None else clusters[sure])
        else:
            missing["selective_accuracy"] = f"no row has a confidence of {check.threshold:g} or more"
    return CheckResult(
        estimates=estimates,
        comparisons=_comparisons(check, inputs, rows, _brier(probabilities, truth), confidence),
        missing=missing,
        blocks=_reliability.blocks(confidence, correct, ece, scaled, inputs.confidence, check.threshold),
        counts=Counts(attempted=rows.n, used=rows.n),
        conditions={"bins": check.bins, "bins_after_merging": len(ece.bins.count), "scheme": check.scheme},
        notes=_reliability.notes(ece, confidence, correct),
    )


def _after_temperature(
    check: Calibration,
    inputs: Inputs,
    rows: Predictions,
    estimates: dict[str, Estimate],
    missing: dict[str, str],
) -> stats.CalibrationError | None:
    """Fits a temperature on one half and judges it on the other; None where none can be fitted."""
    assert rows.probabilities is not None and rows.truth is not None
    fit, judge = stats.halves(rows.n, inputs.rng, rows.clusters)
    truth = rows.truth.astype(np.int64)
    temperature = stats.fit_temperature(rows.probabilities[fit], truth[fit])
    if temperature is None:
        why = "no temperature is best on the half it is fitted on: every answer there is right, or none is"
        missing |= {"temperature": why, "ece_after_temperature": why}
        return None
    estimates["temperature"] = stats.temperature_estimate(temperature, int(fit.sum()))
    scaled = stats.apply_temperature(rows.probabilities[judge], temperature)
    confidence, correct = _top(scaled, truth[judge])
    clusters = None if rows.clusters is None else rows.clusters[judge]
    after = stats.expected_calibration_error(
        confidence, correct, bins=check.bins, scheme=check.scheme, clusters=clusters,
        name=f"top label after temperature {temperature:.3g}",
    )  # fmt: skip
    estimates["ece_after_temperature"] = after
    return after


def _stated(check: Calibration, inputs: Inputs, rows: Predictions) -> CheckResult:
    assert rows.lower is not None and rows.upper is not None and rows.truth is not None
    truth = rows.truth.astype(np.float64)
    inside = (rows.lower <= truth) & (truth <= rows.upper)
    losses = _pinball(rows.lower, rows.upper, truth, check.interval)
    return CheckResult(
        estimates={
            "interval_coverage": proportion(inside, rows.clusters),
            "pinball": mean(losses, rng=inputs.rng, clusters=rows.clusters, alpha=inputs.alpha_fail),
        },
        comparisons=_comparisons(check, inputs, rows, losses, inside.astype(np.float64)),
        missing=dict.fromkeys(CLASSIFIED, "the model gives values, not classes"),
        blocks=_reliability.interval_blocks(rows.lower, rows.upper, inside, rows.label_unit, inputs.confidence),
        counts=Counts(attempted=rows.n, used=rows.n),
        conditions={"interval": check.interval},
    )


def _comparisons(
    check: Calibration, inputs: Inputs, rows: Predictions, losses: NDArray[np.float64], covered: NDArray[np.float64]
) -> dict[tuple[str, str], Comparison]:
    """Paired comparisons with every model that a requirement names."""
    found: dict[tuple[str, str], Comparison] = {}
    for name in check.baselines:
        other = inputs.predictions(check.dataset, name)
        if rows.is_classification and other.probabilities is not None and other.truth is not None:
            truth = other.truth.astype(np.int64)
            found["brier", name] = paired_mean(losses, _brier(other.probabilities, truth), clusters=rows.clusters)
            if check.threshold is not None:
                sure = covered >= check.threshold
                theirs = _top(other.probabilities, truth)[0] >= check.threshold
                found["selective_coverage", name] = paired_proportion(sure, theirs, rows.clusters)
        elif other.lower is not None and other.upper is not None and other.truth is not None:
            values = other.truth.astype(np.float64)
            inside = (other.lower <= values) & (values <= other.upper)
            pinball = _pinball(other.lower, other.upper, values, check.interval)
            found["interval_coverage", name] = paired_proportion(covered > 0, inside, rows.clusters)
            found["pinball", name] = paired_mean(losses, pinball, clusters=rows.clusters)
    return found


def _top(probabilities: NDArray[np.float64], truth: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Confidence of the most probable class, and whether it is right; both shape (n,)."""
    answer = probabilities.argmax(axis=1)
    confidence = np.clip(np.take_along_axis(probabilities, answer[:, None], axis=1)[:, 0], 0.0, 1.0)
    correct: NDArray[np.bool_] = answer == truth
    return confidence, correct


def _brier(probabilities: NDArray[np.float64], truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """Squared error of each row: of the second class with two, summed over classes with more."""
    target = np.zeros_like(probabilities)
    target[np.arange(len(truth)), truth] = 1.0
    losses: NDArray[np.float64] = ((probabilities - target) ** 2).sum(axis=1)
    return losses / 2.0 if probabilities.shape[1] == 2 else losses


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

"""`calibration`: is a model that says 0.9 right in 9 of 10 cases?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric, Shows
from evalspec.evidence.units import from_unit
from evalspec.language.parts import (
    Check,
    DatasetName,
    ModelName,
    Need,
    NeedPredictions,
    SpecNames,
)
from evalspec.scoring.sample_size import Sample, never_shown

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

_INVERSION = "test inversion, over finer bins too (PASS), plug-in and overall gap at half the level each (FAIL)"
_SHARE = "Clopper-Pearson, with clusters after Korn and Graubard"
_PAIRED_SHARE = f"{_SHARE}; against a model Tango's score interval, corrected for skewness and continuity"
_MEAN = (
    "BCa of the mean (saddlepoint, without resampling) with at least 200 rows; against a model the same of the "
    "differences"
)
_BRIER = (
    "BCa of the mean where so many rows carry it that one more of the worst kind changes little, else Gaffke's bound, "
    "for any number of rows; against a model the same of the differences"
)
_SQUARES = "test inversion of the squared gaps (PASS), the same and the overall gap at half the level each (FAIL)"
_CLASSES = (
    "of a class as `ece`; their mean: test inversion at twice the variance of independent classes (PASS), plug-in and "
    "the rows whose class was thought unlikely at half the level each (FAIL)"
)
_BINS = (
    "all bins by Clopper-Pearson and Gaffke, and finer ones (PASS), one of them at the level divided by the bins and "
    "sides (FAIL)"
)

WITHOUT_INTERVAL = ("temperature",)
COMPARED = ("brier", "selective_coverage", "interval_coverage", "pinball")
"""Metrics with a paired comparison against another model."""
SHARES = ("selective_accuracy", "selective_coverage", "interval_coverage")
ERRORS = ("ece", "rms_calibration", "mce", "ece_after_temperature", "routing_change")
AT_THRESHOLD = ("selective_accuracy", "selective_coverage", "routing_change")


class Calibration(Check):
    """Agreement between the model's confidence and how often it is right.

    ## What it measures
    Models with probabilities: `ece` (expected calibration error of the predicted class), `rms_calibration` (the same
    with squares), `mce` (the worst bin), `classwise_ece` (each class's own probability against the rest, as the mean
    over classes; `classwise_ece(fraud)`: for one class, which is the binary form), `brier`, `temperature` (fitted on
    one half of the rows) and `ece_after_temperature` (judged on the other half). With `threshold:` also
    `selective_accuracy` (how often the model is right where its confidence is at least that) and `selective_coverage`
    (how often its confidence is that high). With both `threshold:` and `baseline:` also `routing_change`: the share of
    rows on another side of the threshold than with that model, now handed to a person (`routing_change(to_person)`) or
    no longer (`routing_change(to_auto)`).
    Models with a stated interval (`lower`, `upper`): `interval_coverage` and `pinball`.

    ## Why it matters
    Whoever acts on a confidence (answer alone above 0.85, ask a person below) needs it to be true. Compression often
    keeps the accuracy and breaks the confidence: an INT8 copy may lose 0.9 pp of accuracy and treble its `ece`; then
    one row in ten that was answered automatically goes to a person, or the other way round.
    The usual words for an `ece`: below 0.05 well calibrated, 0.05 to 0.10 (both included) moderately, above 0.10
    poorly.

    ## Method
    `ece` is the mean absolute gap (L1) between confidence and accuracy over bins of equal mass, cut from the
    confidences and merged from the top until each expects 5 wrong answers. Noise makes the plain value too large, by
    about 0.03 for a calibrated model with 500 rows, so the printed value is debiased by the folded normal. PASS: the
    chance of a plain value as small as this, were the error as large as allowed and spread over the bins in the way
    that makes small values likeliest (in proportion to their standard errors). FAIL: the larger of (plain value
    minus what noise adds to a calibrated model) and (overall gap of confidence and accuracy), at half the level each.
    Both are about the population: the confidences are a sample too, so the variances are those of (answer less
    confidence) where these are larger. With a single bin: Clopper-Pearson on its accuracy, and Gaffke's bound of the
    mean of (answer less confidence); the one that claims less counts.
    Over-confident and under-confident rows cancel inside a bin. PASS therefore also asks finer bins: bins merged by the
    wrong answers in them (split at the quartiles where there are fewer than four), four of equal mass where those are
    no more, and 5 to 160, each for errors that so many bins can see with these rows (each costs a model at half the
    limit at most about 5 points of its chance to pass). The report says from which error on opposite gaps are seen.
    `classwise_ece`: the same for one class; bins don't cross one half. For the mean over classes, the expectation of
    the plain value does not depend on how the classes are correlated, and its variance is at most twice that of
    independent classes (and never that of a coin's side), or that of what rows add. Two classes have the same error.
    `rms_calibration`: the mean square without its noise (Kumar; where that is below 0, 0 is printed). The noise of a
    squared gap is widest with all of the error in the bin that is known worst, so both sides are taken there; finer
    bins as for `ece`, by Gaffke's bound.
    `mce`: the bounds of a single bin in every bin, and in finer bins inside it; all must hold (PASS), or one is shown
    to break the limit (FAIL, at the level divided by the bins).
    Shares: Clopper-Pearson. `brier` and `pinball`: BCa of the mean, by saddlepoint. `pinball` has no largest value, so
    it has a bound with at least 200 rows. Where one more row of the largest loss would change the variance, the bound
    of
    `brier` is Gaffke's, which counts a row of that loss that was not drawn.
    `temperature` has no interval: it is shown, and can't be required.
    Recalibration: temperature, vector scaling and isotonic regression (each class against the rest, divided by the
    sum) are fitted on one half of the rows and judged on the other. Cross-validated log loss inside the first half
    chooses the simplest one within a standard error of the best; where the best is shown to be better than doing
    nothing, it is suggested and written to `recalibration.json` in the evidence. A suggestion decides nothing. How to
    apply it: [recalibration](../recalibration.md).
    Stated intervals: a table shows the coverage by thirds of the width and of the prediction.
    With clusters, variances grow by the design effect of the gap, and tails are those of t with as many degrees of
    freedom as clusters carry the gap; where fewer than 5 carry it, the worst effect counts, up to that of copies. Fewer
    than 20 clusters give no bound.

    References: Naeini, Cooper, Hauskrecht, AAAI 2015 (ECE). Guo et al., ICML 2017 (temperature). Roelofs et al.,
    AISTATS 2022 (bias). Leone, Nelson, Nottingham, Technometrics 1961 (folded normal). Kumar, Liang, Ma, NeurIPS 2019
    (squares). Kuonen, Biometrika 1999 (their tails). Kull et al., NeurIPS 2019 (classes; vector scaling). Zadrozny and
    Elkan, KDD 2002 (isotonic). Gaffke, Mathematical Methods of Statistics 2005 (means). Hall, JRSS B 1992 (skewness).
    Geifman and El-Yaniv, NeurIPS 2017 (selective accuracy).

    ## What it cannot show
    Gaps that cancel inside the finest bins that the rows can show. A gap of 0.06 that changes its sign ten times
    between confidences of 0.5 and 1 passes `ece <= 0.06` in about 22 % of samples of 2,000 rows, and with thirty
    changes in 98 %; a gap of 0.08 with four changes passes `ece <= 0.08` in 20 % of samples of 1,000 rows and in 8 %
    of samples of 2,000. Gaps of a group that is not a bin of its own: see `slices`. Much about many classes:
    `classwise_ece` is at most 2 divided by their number, so require it of single classes.
    Whether the confidence stays true on other rows: see `shift`. A calibrated model can still be useless: see
    `quality`.

    ## Example
    ```yaml
    - check: calibration
      dataset: test
      threshold: 0.85
      baseline: baseline
      require:
        - ece <= 0.05
        - selective_accuracy >= 98 %
        - routing_change <= 5 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    each_template: ClassVar[bool] = True
    shows: ClassVar[tuple[Shows, ...]] = ("confidence",)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "ece", "fraction", "lower", "Mean gap between confidence and accuracy.", interval=_INVERSION,
            scales="error", label="expected calibration error",
        ),
        Metric(
            "rms_calibration", "fraction", "lower", "Root of the mean squared gap.", interval=_SQUARES, scales="error",
            label="root mean squared calibration error",
        ),
        Metric(
            "mce", "fraction", "lower", "Largest gap of any bin.", interval=_BINS, scales="largest error",
            label="largest calibration error",
        ),
        Metric(
            "classwise_ece", "fraction", "lower",
            "Mean gap of a class's own probability and its share; without a class the mean over classes.",
            parts="class", interval=_CLASSES, whole=True, scales="error", label="calibration error by class",
        ),
        Metric(
            "brier", "score", "lower", "Mean squared error of the probabilities.", interval=_BRIER, least=0.0, most=2.0,
            label="Brier score",
        ),
        Metric("temperature", "score", "neither", "What logits must be divided by; over 1: over-confident."),
        Metric(
            "ece_after_temperature", "fraction", "lower", "`ece` after temperature scaling.",
            interval=_INVERSION, scales="error", label="calibration error after temperature scaling",
        ),
        Metric(
            "selective_accuracy", "fraction", "higher", "Accuracy at and above `threshold:`.",
            interval=f"on the rows at and above `threshold:` {_SHARE}",
            label="accuracy above the confidence threshold",
        ),
        Metric(
            "selective_coverage", "fraction", "higher", "Share of rows at and above `threshold:`.",
            interval=_PAIRED_SHARE, label="share of rows above the confidence threshold",
        ),
        Metric(
            "routing_change", "%", "lower",
            "Share of rows on another side of `threshold:` than with `baseline:`; by direction: to_person, to_auto.",
            parts="direction", interval=_SHARE, whole=True,
            shows=("only a difference of models",), label="rows that are routed otherwise",
        ),
        Metric(
            "interval_coverage", "%", "higher", "Share of rows inside the stated interval.",
            interval=_PAIRED_SHARE, label="coverage of the stated intervals",
        ),
        Metric(
            "pinball", "label", "lower", "Mean pinball loss of the stated interval's ends.", interval=_MEAN,
            label="pinball loss",
        ),
    )  # fmt: skip

    check: Literal["calibration"] = "calibration"
    dataset: DatasetName
    bins: int = Field(10, gt=1, le=100, description="Bins before merging.")
    scheme: Literal["equal_mass", "equal_width"] = Field(
        "equal_mass", description="How bins are cut: as many rows in each, or as wide a range of confidence."
    )
    threshold: float | None = Field(
        None, gt=0, le=1, description="Confidence from which on answers are used without a person."
    )
    baseline: ModelName | None = Field(
        None, description="Model whose side of `threshold:` each row is compared with, for `routing_change`."
    )
    interval: float = Field(
        0.9, gt=0, lt=1, description="Share of rows that the stated interval is meant to hold; for `pinball`."
    )

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models that this one is compared with: those that requirements name, and `baseline:`."""
        named = () if self.baseline is None else (self.baseline,)
        return tuple(dict.fromkeys((*super().baselines, *named)))

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """Directions of a change of routing; None for classes, which are known only when the check runs."""
        return ("to_person", "to_auto") if metric.parts == "direction" else None

    def check_names(self, names: SpecNames) -> str | None:
        """Reason why `baseline:` can't be used: it is the model itself, or there is no threshold; None where it can."""
        if self.baseline is None:
            return None
        if self.baseline == self.model:
            return f"{self.name} would compare {self.model} with itself; name another model in `baseline:`"
        if self.threshold is None:
            return f"{self.name} has `baseline:` and no `threshold:` to compare at; add the confidence, such as 0.85"
        return None

    def needs(self) -> tuple[Need, ...]:
        """Predictions of the model and of every model that it is compared with."""
        models = dict.fromkeys((self.model, *self.baselines))
        return tuple(NeedPredictions(self.dataset, model) for model in models)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why it can't pass: no interval, threshold, baseline or paired comparison, or too few rows."""
        metric = requirement.metric
        if metric in WITHOUT_INTERVAL:
            return f"{metric} has no interval, so nothing can show it; use ece_after_temperature"
        if metric in AT_THRESHOLD and self.threshold is None:
            return f"{metric} needs `threshold:`, the confidence from which on answers are used"
        if metric == "routing_change" and self.baseline is None:
            return "routing_change needs `baseline:`, the model whose routing it is compared with"
        sample = Sample(self.dataset, rows.get(self.dataset), confidence)
        if metric == "pinball":
            return never_shown(requirement, "mean", sample)
        if metric == "brier" and requirement.model is None:
            return never_shown(requirement, "share", sample)
        if requirement.model is not None:
            if metric in COMPARED:
                return None
            return f"{metric} has no paired comparison with another model; require it by itself, or compare brier"
        return never_passes(requirement, sample)


def never_passes(requirement: Requirement, sample: Sample) -> str | None:
    """Reason why even the best outcome can't show a share or an error with so many rows; None where it can.

    The best outcome has no row on the wrong side; its bound is that of 0 in n rows.

    Args:
        requirement: The requirement.
        sample: The rows that are to show it.
    """
    limit = from_unit(requirement.threshold, requirement.unit)
    if requirement.metric in SHARES and not requirement.upper:
        allowed = 1.0 - limit
    elif (requirement.metric in ERRORS or requirement.part is not None) and requirement.upper:
        allowed = limit
    else:
        return None
    if allowed <= 0.0:
        return f"no sample shows {requirement.sentence}: its bound stays away from the limit; allow a little"
    if requirement.metric == "ece_after_temperature":
        sample = replace(sample, times=2, more="half of them go into the fit; add rows")
    return never_shown(requirement, "share", sample, "none of them on the wrong side")

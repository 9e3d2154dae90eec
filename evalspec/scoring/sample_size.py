"""Fewest rows that a requirement takes, were the outcome the best there can be. No numpy when imported."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log
from typing import TYPE_CHECKING, Literal

from evalspec.evidence.units import format_quantity, from_unit, to_unit
from evalspec.evidence.words import in_percent
from evalspec.scoring.catalogue.metrics import LARGEST_LOG_LOSS
from evalspec.scoring.sliced_metrics import SHARE_WORSE

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

Kind = Literal["share", "f1", "log_loss", "mean", "resampled", "any"]
"""Basis of a bound: a share of rows (or a mean of numbers in 0..1, which is shown by as many), F1 through one,
a mean of losses up to the largest logarithm, a mean of numbers without a limit, resamples; ``any``: any number of rows.
"""

ALONE: dict[str, Kind] = {
    **dict.fromkeys(
        (
            "accuracy", "top_k_accuracy", "precision", "recall", "subset_accuracy", "exact_match", "hit_rate", "brier",
            "hamming_loss", "token_f1", "rouge1", "rouge2", "rouge_l", "ndcg", "mrr", "recall_at", "pass_at",
            "pass_all",
        ),
        "share",
    ),
    "f1": "f1",
    "log_loss": "log_loss",
    **dict.fromkeys(("mae", "rmse", "map", "map_50", "map_75", "average_recall", "ap"), "mean"),
    **dict.fromkeys(
        (
            "macro_f1", "micro_f1", "average_precision", "r2", "bleu", "chrf", "mean_iou", "mean_dice",
            "pixel_accuracy", "iou",
        ),
        "resampled",
    ),
    **dict.fromkeys(("balanced_accuracy", "macro_precision", "macro_recall", "roc_auc"), "any"),
}  # fmt: skip
"""Metric of `quality`: what its bound is made of. That of boxes is a mean over groups of pictures."""
_BESIDE: dict[str, Kind] = dict.fromkeys(("precision", "f1", "macro_precision", "rmse"), "resampled")
"""Where it is another kind beside a model. Of pairs a share or a mean of numbers with a limit can be shown by few rows,
were only one model right."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows that a requirement is to be shown by.

    Args:
        dataset: Its name, or names.
        rows: That can count, or None where that is not known.
        confidence: Of the policy.
        times: The rows are divided into so many parts, each of which must do.
        more: What to do where there are too few.
    """

    dataset: str
    rows: int | None
    confidence: float
    times: int = 1
    more: str = "add rows"


def kind_of(metric: str, *, beside_a_model: bool = False) -> Kind:
    """Kind of bound that a metric of `quality` has.

    Args:
        metric: Its name.
        beside_a_model: Of the difference to another model on the same rows.
    """
    alone = ALONE[metric]
    if not beside_a_model:
        return alone
    return _BESIDE.get(metric, "any" if alone in ("share", "log_loss") else alone)


def never_shown(
    requirement: Requirement, kind: Kind, sample: Sample, best: str = "every one of them right"
) -> str | None:
    """Reason why so many rows can't show a requirement, were the outcome the best there can be; None: they can.

    With n of n rows right the Clopper-Pearson lower bound is (1 - confidence) ** (1 / n).

    Args:
        requirement: The requirement.
        kind: What its bound is made of.
        sample: What it is to be shown by.
        best: The best outcome of a share, as it stands in a sentence.
    """
    if kind == "any":
        return None
    if kind in ("mean", "resampled"):
        what = "a mean of rows" if kind == "mean" else "resamples"
        return _too_few(requirement, sample, fewest(kind), f"bounds of {what} take so many")
    right = _right(requirement, kind)
    if not 0.0 < right < 1.0:
        return None
    needed = ceil(log(1.0 - sample.confidence) / log(right))
    if kind == "share" and sample.rows is not None and sample.rows // sample.times:
        shown = (1.0 - sample.confidence) ** (1.0 / (sample.rows // sample.times))
        return _too_few(requirement, sample, needed, f"were {best}", _asks(requirement, shown))
    return _too_few(requirement, sample, needed, f"were {best}")


def never_shown_of_pairs(
    requirement: Requirement, sample: Sample, best: str = "were every answer the same as the baseline's"
) -> str | None:
    """Reason why so many pairs can't rule out a loss against another model, were every answer the other's.

    For copies of a model, which are not made to be better than it: one that gains rows needs fewer. A margin of 0 or
    less asks for gains, so that nothing is said of it.

    Args:
        requirement: That the loss is at most so large.
        sample: What it is to be shown by.
        best: The best outcome, as it is in the sentence.
    """
    margin = from_unit(requirement.threshold, requirement.unit)
    if not requirement.upper or not 0.0 < margin < 1.0 or sample.rows is None:
        return None
    needed = fewest_pairs(margin, sample.confidence)
    return _too_few(requirement, sample, needed, best)


def fewest(kind: Literal["mean", "resampled"]) -> int:
    """Rows from which on there are bounds.

    Args:
        kind: What they are made of.
    """
    from evalspec.stats.means import mean
    from evalspec.stats.resampling import bootstrap

    return mean.SMALLEST_N if kind == "mean" else bootstrap.SMALLEST_N


def fewest_pairs(margin: float, confidence: float) -> int:
    """Pairs without a difference that show a loss of at most ``margin``, by Tango's score test.

    Args:
        margin: In the open interval 0..1.
        confidence: One-sided.
    """
    from evalspec.stats.shares.paired import ScoreDifference
    from evalspec.stats.shares.score import PairTable

    def shown(n: int) -> bool:
        p = ScoreDifference(PairTable(float(n), 0.0, 0.0, 0.0), n).p_value(margin, "upper")
        return p is not None and p <= 1.0 - confidence

    high = 2
    while not shown(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def fewest_in_groups(requirement: Requirement, kind: Kind, confidence: float) -> tuple[int, int]:
    """Groups, and rows of each, that a percentile over groups takes at the least.

    Args:
        requirement: On the percentile.
        kind: What the bound of a group is made of.
        confidence: Of the policy.
    """
    from evalspec.stats.shares.over_groups import HOLDING

    right = _right(requirement, kind)
    rows = 1
    if kind in ("mean", "resampled"):
        rows = fewest("mean" if kind == "mean" else "resampled")
    elif kind != "any" and 0.0 < right < 1.0:
        rows = ceil(log(HOLDING) / log(right))
    return ceil(log(1.0 - confidence) / log(1.0 - SHARE_WORSE * (1.0 - HOLDING))), rows


def _right(requirement: Requirement, kind: Kind) -> float:
    """Share of rows that must be shown to be right, were the others as bad as can be."""
    limit = from_unit(requirement.threshold, requirement.unit)
    if kind == "f1":
        limit = limit / (2.0 - limit) if limit < 2.0 else 1.0
    elif kind == "log_loss":
        limit /= LARGEST_LOG_LOSS
    return 1.0 - limit if requirement.upper else limit


def _too_few(requirement: Requirement, sample: Sample, needed: int, why: str, ask: str = "") -> str | None:
    needed *= sample.times
    if sample.rows is None or sample.rows >= needed:
        return None
    rows = "1 row" if sample.rows == 1 else f"{sample.rows:,} rows"
    level = in_percent(sample.confidence)
    return (
        f"{rows} of {sample.dataset} can't show {requirement.sentence} at {level} confidence, {why}: "
        f"{needed:,} are needed; {sample.more}{ask}"
    )


def _asks(requirement: Requirement, shown: float) -> str:
    """The nearest limit that the rows could show, a little on the safe side."""
    unit = requirement.unit if requirement.unit in ("%", "pp") or "%" not in requirement.sentence else "%"
    step = 0.1 if unit in ("%", "pp") else 0.001
    if requirement.upper:
        limit = ceil(to_unit(1.0 - shown, unit) / step) * step
        return f", or allow {format_quantity(round(limit, 3), unit)}"
    limit = floor(to_unit(shown, unit) / step) * step
    return f", or ask for {format_quantity(round(limit, 3), unit)}" if limit > 0.0 else ""

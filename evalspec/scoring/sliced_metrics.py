"""Metrics of `slices`: each quality metric by slice, and what is made of it. No numpy: validation reads this."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from evalspec.evidence.metric import Metric
from evalspec.scoring.catalogue.metrics import SLICED

TOO_SMALL = "slices_too_small"
CELLS_MAX = 500
"""Slices of one check: of more, one looks bad by luck alone."""
WEAK = "weak_slices"
GROUPED = (
    "accuracy", "precision", "recall", "f1", "log_loss", "brier", "mae", "rmse", "subset_accuracy", "hamming_loss",
    "exact_match", "token_f1",
)  # fmt: skip
"""Metrics with a percentile over groups: a group of few rows has a bound of its own, or says so."""
SHARE_WORSE = 0.1
"""Share of groups that may be worse than the tenth percentile (the 90th, where lower is better)."""

_APART = (
    "Miettinen and Nurminen's score interval, corrected for skewness and continuity; MOVER for a metric that is not a "
    "share of independent rows"
)

Form = Literal["each", "worst", "gap", "disparity", "percentile", "too small", "weak"]


@dataclass(frozen=True, slots=True)
class SlicedMetric:
    """Metric of `slices`: the quality metric behind it, and what is made of that.

    Args:
        base: The quality metric behind it; None: it is a count of slices.
        form: What is made of that.
    """

    base: str | None
    form: Form


def percentile_name(metric: Metric) -> str:
    """Name of a metric's percentile over groups: ``accuracy_p10``, ``mae_p90``."""
    return f"{metric.name}_p{10 if metric.better == 'higher' else 90}"


def _named() -> dict[str, tuple[SlicedMetric, Metric]]:
    pairs: list[tuple[SlicedMetric, Metric]] = []
    for metric in SLICED:
        worst = "largest" if metric.better == "lower" else "smallest"
        apart = {"fraction": "pp"}.get(metric.unit, metric.unit)
        # The worst of slices, or a gap between two, is not the score of a model.
        made = replace(metric, shows=(), headline=None, scales=None)
        pairs += [
            (
                SlicedMetric(metric.name, "each"),
                replace(metric, parts="slice", summary=f"{metric.summary} In each slice.", shows=()),
            ),
            (
                SlicedMetric(metric.name, "worst"),
                replace(
                    made, name=f"worst_{metric.name}", parts=None, extreme=True,
                    summary=f"The {worst} {metric.name} of all slices.", label=f"{metric.plain} of the worst slice",
                    interval=f"all slices must clear the threshold, each by {metric.interval}",
                ),
            ),
            (
                SlicedMetric(metric.name, "gap"),
                replace(
                    made, name=f"{metric.name}_gap", unit=apart, better="lower", parts=None, extreme=True,
                    summary=f"The largest difference in {metric.name} between two slices.",
                    label=f"difference in {metric.plain} between slices",
                    interval=f"all pairs must clear the threshold, each by {_APART}",
                ),
            ),
            (
                SlicedMetric(metric.name, "disparity"),
                replace(
                    made, name=f"{metric.name}_disparity", unit=apart, better="lower", parts="slice",
                    summary=f"How far the {metric.name} of a slice lies from that of `reference:`, either way.",
                    label=f"distance of {metric.plain} from the reference",
                    interval=_APART,
                ),
            ),
        ]  # fmt: skip
        if metric.name in GROUPED:
            least = "reach at least" if metric.better == "higher" else "have at most"
            pairs.append(
                (
                    SlicedMetric(metric.name, "percentile"),
                    replace(
                        made, name=percentile_name(metric), parts=None,
                        summary=f"The {metric.name} that nine in ten of `groups:` {least}.",
                        label=f"{metric.plain} of the weakest tenth of groups",
                        interval="binomial count of groups, each by a bound of its own at 80 %",
                    ),
                )
            )  # fmt: skip
    small = Metric(
        TOO_SMALL, "count", "lower", "Cells enumerated from columns with fewer than min_n rows.", exact=True,
        label="slices with too few rows",
        most=float(CELLS_MAX),
    )  # fmt: skip
    weak = Metric(
        WEAK, "count", "lower", "Slices found by `discover:` and confirmed on the other half of the rows.",
        interval="Holm over the candidates; that there are no more by the chance to miss one",
    )  # fmt: skip
    pairs += [(SlicedMetric(None, "too small"), small), (SlicedMetric(None, "weak"), weak)]
    return {metric.name: (asked, metric) for asked, metric in pairs}


_NAMED = _named()
DECLARED: tuple[Metric, ...] = tuple(metric for _, metric in _NAMED.values())
BY_FORMS: tuple[Form, ...] = ("each", "worst", "gap", "disparity")
"""Forms that are made of the slices in ``by:``."""


def asked_of(name: str) -> SlicedMetric:
    """Metric of `slices` that has this name.

    Args:
        name: One of `DECLARED`.
    """
    return _NAMED[name][0]

"""Metrics of several answers to one question. No numpy: validation reads this."""

from __future__ import annotations

from typing import Literal

from evalspec.evidence.metric import Metric

_MEAN = (
    "BCa of the questions' mean where so many carry it that one more of the worst kind changes little, else Gaffke's "
    "bound, for any number of rows; against a model the same of the differences"
)

SAMPLES: tuple[Metric, ...] = (
    Metric(
        "pass_at", "fraction", "higher", "Chance that one of k answers to a question is right, mean over questions.",
        parts="k", interval=_MEAN, label="pass@k",
    ),
    Metric(
        "pass_all", "fraction", "higher", "Chance that all of k answers to a question are right, mean over questions.",
        parts="k", interval=_MEAN, label="pass^k",
    ),
)  # fmt: skip

SampleMetric = Literal["pass_at", "pass_all"]

NAMES = tuple(metric.name for metric in SAMPLES)

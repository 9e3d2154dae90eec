"""Metrics of models that give any number of classes for a row. No numpy: validation reads this."""

from __future__ import annotations

from typing import Literal

from evalspec.evidence.metric import Metric

_SHARE = "Clopper-Pearson, with clusters after Korn and Graubard"
_TANGO = f"{_SHARE}; against a model Tango's score interval, corrected for skewness and continuity"
_MEAN = (
    "BCa of the mean where so many rows carry it that one more of the worst kind changes little, else Gaffke's bound, "
    "for any number of rows; against a model the same of the differences"
)
_BCA = "BCa bootstrap with at least 50 rows; paired against a model"

LABELS_ONLY: tuple[Metric, ...] = (
    Metric(
        "micro_f1", "fraction", "higher", "F1 of all pairs of row and class together.", interval=_BCA, headline=4,
        label="F1 of all pairs of row and class",
    ),
    Metric(
        "subset_accuracy", "fraction", "higher", "Share of rows whose classes are all right, and none too many.",
        interval=_TANGO,
    ),
    Metric("hamming_loss", "fraction", "lower", "Share of pairs of row and class that are wrong.", interval=_MEAN),
)  # fmt: skip

LabelMetric = Literal["micro_f1", "subset_accuracy", "hamming_loss"]

SHARED = ("macro_f1", "precision", "recall", "f1", "average_precision", "roc_auc")
"""Metrics that a model with one class a row has too."""

"""Metrics of models that give a class for each pixel. No numpy: validation reads this."""

from __future__ import annotations

from typing import Literal

from evalspec.evidence.metric import Metric

_SUMS = (
    "BCa bootstrap of the pictures' counts of pixels with at least 50 pictures and 20 of every class that counts; "
    "paired against a model"
)

MASKS: tuple[Metric, ...] = (
    Metric(
        "mean_iou", "fraction", "higher", "Mean over classes of intersection over union, over all pictures.",
        interval=_SUMS, label="mean intersection over union",
    ),
    Metric(
        "mean_dice", "fraction", "higher", "Mean over classes of Dice (F1 of pixels).", interval=_SUMS,
        label="mean Dice score",
    ),
    Metric("pixel_accuracy", "fraction", "higher", "Share of judged pixels with their true class.", interval=_SUMS),
    Metric(
        "iou", "fraction", "higher", "Intersection over union of one class, pixels of all pictures summed.",
        parts="class", interval=_SUMS, label="intersection over union",
    ),
)  # fmt: skip

MaskMetric = Literal["mean_iou", "mean_dice", "pixel_accuracy", "iou"]

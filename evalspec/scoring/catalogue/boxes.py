"""Metrics of models that find boxes. No numpy: validation reads this."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from evalspec.evidence.metric import Metric

_JACKKNIFE = (
    "jackknife over 200 groups of pictures, with at least 200 pictures and 20 of every class that counts; "
    "against a model the same of the differences"
)

BOXES: tuple[Metric, ...] = (
    Metric(
        "map", "fraction", "higher", "COCO's mAP: average precision, mean over classes and overlaps of 0.50 to 0.95.",
        interval=_JACKKNIFE, label="mean average precision",
    ),
    Metric(
        "map_50", "fraction", "higher", "mAP where boxes overlap by 0.50 at least.", interval=_JACKKNIFE,
        label="mean average precision at overlap 0.50",
    ),
    Metric(
        "map_75", "fraction", "higher", "mAP where boxes overlap by 0.75 at least.", interval=_JACKKNIFE,
        label="mean average precision at overlap 0.75",
    ),
    Metric(
        "average_recall", "fraction", "higher",
        "Share of objects found by 100 boxes a picture and class, mean over classes and overlaps.",
        interval=_JACKKNIFE,
    ),
    Metric(
        "ap", "fraction", "higher", "Average precision of one class, mean over overlaps of 0.50 to 0.95.",
        parts="class", interval=_JACKKNIFE, label="average precision",
    ),
)  # fmt: skip

BoxMetric = Literal["map", "map_50", "map_75", "average_recall", "ap"]

NAMES = tuple(metric.name for metric in BOXES)


def missing_detection(metric: str) -> str | None:
    """Sentence that pycocotools is not installed, with the remedy; None where it is, or is not needed.

    Args:
        metric: Name of the metric.
    """
    if metric not in NAMES or find_spec("pycocotools") is not None:
        return None
    return f"{metric} needs pycocotools, which is not installed: pip install 'evalspec-gate[detection]'"

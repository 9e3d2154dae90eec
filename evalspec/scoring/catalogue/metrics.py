"""The quality metrics: what they are called, their units, directions, parts. No numpy: validation reads this."""

from __future__ import annotations

from typing import Literal

from evalspec.evidence.metric import Metric
from evalspec.scoring.catalogue.boxes import BOXES, BoxMetric
from evalspec.scoring.catalogue.labels import LABELS_ONLY, SHARED, LabelMetric
from evalspec.scoring.catalogue.masks import MASKS, MaskMetric
from evalspec.scoring.catalogue.ranking import RANKING, RankingMetric
from evalspec.scoring.catalogue.samples import SAMPLES, SampleMetric
from evalspec.scoring.catalogue.text import TEXTS, TextMetric

_SHARE = "Clopper-Pearson, with clusters after Korn and Graubard"
_STRATA = "score test over the classes, corrected for skewness and continuity, with clusters BCa bootstrap"
_RESAMPLED = "against a model paired BCa bootstrap"
PROPORTION = f"{_SHARE}; against a model Tango's score interval, corrected for skewness and continuity"
PRECISION = f"{_SHARE}; {_RESAMPLED}"
MACRO = f"{_STRATA}; against a model MOVER over the classes' score intervals"
MACRO_PRECISION = f"{_STRATA}; {_RESAMPLED}"
HITS = f"Clopper-Pearson on the hits among rows of or called the class; {_RESAMPLED}"
MEAN = (
    "BCa of the mean (saddlepoint, without resampling) with at least 200 rows; against a model the same of the "
    "differences"
)
BOUNDED = (
    "BCa of the mean where so many rows carry it that one more of the worst kind changes little, else Gaffke's bound, "
    "for any number of rows; against a model the same of the differences"
)
LARGEST_LOG_LOSS = 36.04365338911715
"""-ln of the least probability of which a logarithm is taken, the spacing of numbers at 1."""
ROOT = f"root of the bounds of the mean square (BCa by saddlepoint with at least 200 rows); {_RESAMPLED}"
BCA = "BCa bootstrap with at least 50 rows and 20 of every class that counts; paired against a model"
R2 = "BCa bootstrap with at least 50 rows, where enough rows carry the variance; paired against a model"
AUC = "DeLong on the logit, Gaffke's bound where few pairs are wrong; against a model the same, paired"

CLASSIFICATION: tuple[Metric, ...] = (
    Metric(
        "accuracy", "fraction", "higher", "Share of rows predicted as their true class.",
        interval=PROPORTION, shows=("row accuracy",), headline=1,
    ),
    Metric(
        "top_k_accuracy", "fraction", "higher", "Share of rows whose true class is among the k most probable ones.",
        parts="k", interval=PROPORTION,
    ),
    Metric("balanced_accuracy", "fraction", "higher", "Mean of the classes' recalls.", interval=MACRO, headline=2),
    Metric(
        "macro_precision", "fraction", "higher", "Mean of the classes' precisions.", interval=MACRO_PRECISION,
        label="mean precision of classes",
    ),
    Metric(
        "macro_recall", "fraction", "higher", "Mean of the classes' recalls.", interval=MACRO,
        label="mean recall of classes",
    ),
    Metric(
        "macro_f1", "fraction", "higher", "Mean of the classes' F1 scores.", interval=BCA, headline=3,
        label="mean F1 of classes",
    ),
    Metric(
        "precision", "fraction", "higher", "Share of the rows predicted as a class that are of it.",
        parts="class", interval=PRECISION,
    ),
    Metric(
        "recall", "fraction", "higher", "Share of a class's rows that are predicted as it.",
        parts="class", interval=PROPORTION,
    ),
    Metric(
        "f1", "fraction", "higher", "Harmonic mean of precision and recall.",
        parts="class", interval=HITS, scales="harmonic mean", label="F1 score",
    ),
    Metric(
        "roc_auc", "fraction", "higher", "Chance that a row of a class scores above another row.",
        interval=AUC, headline=5,
        scales="area", label="area under the ROC curve",
    ),
    Metric("average_precision", "fraction", "higher", "Precision averaged over the recall steps.", interval=BCA),
    Metric(
        "log_loss", "score", "lower", "Mean of -ln(probability of the true class), in nats.", interval=BOUNDED,
        least=0.0, most=LARGEST_LOG_LOSS,
    ),
    Metric(
        "brier", "score", "lower", "Mean squared error of the probabilities.", interval=BOUNDED, least=0.0,
        most=2.0, label="Brier score",
    ),
)  # fmt: skip
REGRESSION: tuple[Metric, ...] = (
    Metric(
        "mae",
        "label",
        "lower",
        "Mean absolute error, in the label's unit.",
        interval=MEAN,
        least=0.0,
        headline=7,
        label="mean absolute error",
    ),
    Metric(
        "rmse",
        "label",
        "lower",
        "Root of the mean squared error, in the label's unit.",
        interval=ROOT,
        headline=6,
        label="root mean squared error",
    ),
    Metric(
        "r2",
        "score",
        "higher",
        "Share of the label's variance that the predictions explain.",
        interval=R2,
        headline=8,
        label="explained variance (R²)",
    ),
)
LABELS: tuple[Metric, ...] = (*LABELS_ONLY, *(metric for metric in CLASSIFICATION if metric.name in SHARED))
METRICS: tuple[Metric, ...] = (*CLASSIFICATION, *REGRESSION, *LABELS_ONLY, *TEXTS, *BOXES, *MASKS, *RANKING, *SAMPLES)
SLICED: tuple[Metric, ...] = tuple(
    metric for metric in METRICS if metric.parts in (None, "class") and metric not in RANKING
)
"""Those that `slices` asks of each slice; precision, recall and f1 there are of the positive class. A list of
rows is not cut."""

SliceMetric = Literal[
    "accuracy", "balanced_accuracy", "macro_precision", "macro_recall", "macro_f1", "precision", "recall", "f1",
    "roc_auc", "average_precision", "log_loss", "brier", "mae", "rmse", "r2", LabelMetric,
    TextMetric, BoxMetric, MaskMetric,
]  # fmt: skip
QualityMetric = Literal[SliceMetric, "top_k_accuracy", RankingMetric, SampleMetric]

LABEL_WORD = "class"
"""Name of the label in `by:`, whatever its column is called."""

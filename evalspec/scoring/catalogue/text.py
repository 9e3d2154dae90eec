"""Metrics of models that write text. No numpy: validation reads this."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from evalspec.evidence.metric import Metric

_SHARE = "Clopper-Pearson, with clusters after Korn and Graubard"
_TANGO = f"{_SHARE}; against a model Tango's score interval, corrected for skewness and continuity"
_MEAN = (
    "BCa of the mean where so many rows carry it that one more of the worst kind changes little, else Gaffke's bound, "
    "for any number of rows; against a model the same of the differences"
)
_CORPUS = "BCa bootstrap of the rows' counts with at least 50 rows; paired against a model"

TEXTS: tuple[Metric, ...] = (
    Metric(
        "exact_match", "fraction", "higher", "Share of rows whose text is one of its references.",
        interval=_TANGO, headline=9,
    ),
    Metric(
        "token_f1", "fraction", "higher", "Mean overlap of words with the nearest reference, as SQuAD counts it.",
        interval=_MEAN,
        headline=10, label="overlap of words (F1)",
    ),
    Metric("rouge1", "fraction", "higher", "Mean F1 of words (rouge-score).", interval=_MEAN, label="ROUGE-1"),
    Metric(
        "rouge2", "fraction", "higher", "Mean F1 of pairs of words (rouge-score).", interval=_MEAN,
        label="ROUGE-2",
    ),
    Metric(
        "rouge_l", "fraction", "higher", "Mean F1 of the longest common subsequence (rouge-score).", interval=_MEAN,
        label="ROUGE-L",
    ),
    Metric(
        "bleu", "score", "higher", "Corpus BLEU, 0 to 100 (sacrebleu).", interval=_CORPUS, least=0.0, headline=11,
        label="BLEU",
    ),
    Metric(
        "chrf", "score", "higher", "Corpus chrF2, 0 to 100 (sacrebleu).", interval=_CORPUS, least=0.0, headline=12,
        label="chrF",
    ),
)  # fmt: skip

TextMetric = Literal["exact_match", "token_f1", "rouge1", "rouge2", "rouge_l", "bleu", "chrf"]

PACKAGES = {"rouge1": "rouge_score", "rouge2": "rouge_score", "rouge_l": "rouge_score", "bleu": "sacrebleu",
            "chrf": "sacrebleu"}  # fmt: skip
"""Metric: import name of the package that computes it."""

INSTALL = "pip install 'evalspec-gate[text]'"


def missing_package(metric: str) -> str | None:
    """Sentence that the package for a metric is not installed, with the remedy; None where it is, or none is needed."""
    package = PACKAGES.get(metric)
    if package is None or find_spec(package) is not None:
        return None
    return f"{metric} needs {package.replace('_', '-')}, which is not installed: {INSTALL}"

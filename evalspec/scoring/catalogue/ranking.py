"""Metrics of lists: rows of one query, ranked by the model's score. No numpy: validation reads this."""

from __future__ import annotations

from typing import Literal

from evalspec.evidence.metric import Metric

_MEAN = (
    "BCa of the queries' mean where so many carry it that one more of the worst kind changes little, else Gaffke's "
    "bound, for any number of rows; against a model the same of the differences"
)
_SHARE = (
    "Clopper-Pearson over queries, with clusters after Korn and Graubard; "
    "against a model Tango's score interval, corrected for skewness and continuity"
)

RANKING: tuple[Metric, ...] = (
    Metric(
        "ndcg", "fraction", "higher", "Mean over queries of the normalized discounted gain of the first k rows.",
        parts="k", interval=_MEAN, label="NDCG",
    ),
    Metric(
        "mrr", "fraction", "higher", "Mean over queries of 1 / rank of the first relevant row.", interval=_MEAN,
        label="mean reciprocal rank",
    ),
    Metric(
        "recall_at", "fraction", "higher", "Mean over queries of the share of relevant rows among the first k.",
        parts="k", interval=_MEAN, label="recall among the first",
    ),
    Metric(
        "hit_rate", "fraction", "higher", "Share of queries with a relevant row among the first k.",
        parts="k", interval=_SHARE,
    ),
)  # fmt: skip

RankingMetric = Literal["ndcg", "mrr", "recall_at", "hit_rate"]

NAMES = tuple(metric.name for metric in RANKING)
AT_K = tuple(metric.name for metric in RANKING if metric.parts == "k")

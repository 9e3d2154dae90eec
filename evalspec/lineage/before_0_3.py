"""Declarations of checks of versions before 0.3, which recorded none of their fields and metrics.

Records of those versions hold no declarations. This is the only module outside of `evalspec.checks` that knows fields,
metrics and kinds of checks by name; nothing is added to it, since a check says these things itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from evalspec.evidence.declaration import Declaration
from evalspec.evidence.metric import Shows
from evalspec.evidence.record import CheckRecord

EFFORT = (
    "queries", "processes", "warmup", "repeats", "calls", "show_examples", "max_cv", "caching_audit",
    "design_effect", "clients", "search", "offline", "report", "metrics",
)  # fmt: skip
"""Fields of any check."""
CONDITIONS = ("scenario",)
LISTS = ("by", "min_n", "rates", "batch_sizes", "corruptions", "severities", "columns", "top_k", "modules")
HEADLINE = (
    "accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "roc_auc", "rmse", "mae", "r2", "exact_match", "token_f1",
    "bleu", "chrf",
)  # fmt: skip
NEUTRAL: Mapping[str, float] = {
    "accuracy_drop": 0.0, "top_5_drop": 0.0, "ece_increase": 0.0, "mae_increase": 0.0, "worst_slice_drop": 0.0,
    "size_ratio": 1.0, "speedup": 1.0,
}  # fmt: skip
SHOWS: Mapping[str, tuple[Shows, ...]] = {
    "compression": ("only a difference of models",),
    "quality": ("right answers",),
    "slices": ("answers in slices",),
    "calibration": ("confidence",),
    "shift": ("population shift",),
}
"""Kind of check: what all of its metrics show."""
METRICS: Mapping[Shows, tuple[str, ...]] = {
    "only a difference of models": ("routing_change",),
    "best batch": ("best_batch",),
    "cost of loading": ("load_time",),
    "cost of a first answer": ("first_inference",),
    "cost of idling": ("idle_power",),
    "cost of queueing": ("latency_p99",),
    "clean score": ("clean_score",),
    "clean score change": ("clean_score_change",),
}
"""Metrics of any check that show something."""
METRICS_OF_A_KIND: Mapping[str, Mapping[Shows, tuple[str, ...]]] = {
    "quality": {"row accuracy": ("accuracy",)},
    "shift": {"moved column": ("shift", "missingness_shift"), "share of moved columns": ("drifted_columns",)},
    "coverage": {
        "rare group": ("representation_gap", "smallest_slice"),
        "absent group": ("missing_conditions",),
    },
    "stages": {"share of a stage": ("stage_share",)},
    "roofline": {"share of the roof": ("roof_fraction",)},
    "memory": {"host memory": ("peak_host_memory",)},
    "sustained": {"sustained share": ("sustained_ratio",)},
    "precision": {"covered operators": ("operator_coverage",)},
}
TIMED = ("latency", "load")
LATE = ("latency_", "deadline_miss_rate", "max_rate", "goodput", "spike_factor")
"""Prefixes of the metrics of `TIMED` that tell of time."""
PERCENTILE = "latency_p"


def declared_before(check: CheckRecord) -> Declaration:
    """Declaration that is assumed for a check of a version that declared nothing.

    Args:
        check: The check as it was recorded.
    """
    names = dict.fromkeys((*(test.metric for test in check.tests), *(name.split("(")[0] for name in check.measured)))
    metrics: dict[Shows, tuple[str, ...]] = {**METRICS, **METRICS_OF_A_KIND.get(check.check, {})}
    metrics["a distribution of latency"] = tuple(name for name in names if name.startswith(PERCENTILE))
    if check.check in TIMED:
        metrics["late answers"] = tuple(name for name in names if name.startswith(LATE))
    return Declaration(
        effort=EFFORT,
        conditions=CONDITIONS,
        lists=LISTS,
        shows=SHOWS.get(check.check, ()),
        metrics=metrics,
        headline={name: rank for rank, name in enumerate(HEADLINE, 1)},
        neutral=dict(NEUTRAL),
    )

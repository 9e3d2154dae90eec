"""Metrics of every kind, for sentences."""

from __future__ import annotations

from evalspec.evidence.metric import Metric

METRICS = (
    Metric("accuracy", "fraction", "higher", "", parts="slice", whole=True),
    Metric("ece", "fraction", "lower", ""),
    Metric("latency_p50", "ms", "lower", ""),
    Metric("latency_p99", "ms", "lower", "", parts="rate"),
    Metric("latency_mean", "ms", "lower", "", instead=("latency_p99",)),
    Metric("near_duplicates", "%", "lower", "", exact=True),
    Metric("exact_duplicates", "rows", "lower", "", exact=True),
    Metric("mae", "label", "lower", ""),
    Metric("r2", "score", "higher", ""),
    Metric("speedup", "x", "higher", ""),
    Metric("accuracy_drop", "pp", "lower", ""),
    Metric("throughput", "samples/s", "higher", "", parts="batch"),
    Metric("temperature", "score", "neither", ""),
    Metric("parameters", "count", "neither", "", exact=True),
    Metric("model_size", "MiB", "lower", "", exact=True),
)

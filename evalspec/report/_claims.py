"""The claim sentence: what was measured of a system, with everything that it holds for, to be quoted whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from evalspec.evidence.comparability import NOT_SHOWN, comparability_key, holds_for, unlike
from evalspec.evidence.record import CheckRecord, ModelRecord, Record
from evalspec.evidence.words import in_percent, short_digest
from evalspec.report._doubts import NOT_TRUSTED
from evalspec.report._names import quantity

PERFORMANCE_UNITS = ("ms", "s", "samples/s", "qps", "J", "W", "samples/J", "MiB", "GFLOP/s")
MOST = 3
"""Values in one sentence."""
SHARED = ("batch", "scenario", "dataset")
"""Of one check, these are the same for both models."""
QUALITY = (
    "accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "roc_auc", "rmse", "mae", "r2", "exact_match", "token_f1",
    "bleu", "chrf",
)  # fmt: skip
"""What stands for how good the answers are, first that was measured."""


Doubts = Mapping[str, Collection[str]]
"""Id of a check: names of what it measured that is not to be trusted, and so not to be quoted."""


def claim_sentence(record: Record, check: CheckRecord, doubts: Doubts) -> str:
    """One sentence for a check of the system: value, model, batch, precision, quality, stages, device, power limit.

    Args:
        record: The run.
        check: One of its checks.
        doubts: What is not to be trusted of what the checks of the run measured.

    Returns:
        Empty where it measured no performance, or where its measurement does not count.
    """
    if check.dimension != "system" or check.status != "measured":
        return ""
    model = _model(record, check)
    values = _values(check, record.policy.confidence, doubts.get(check.id, ()))
    if model is None or not values:
        return ""
    fields = holds_for(record, check, model)
    batch = check.measured.get("best_batch")
    if fields["batch"] == NOT_SHOWN and isinstance(batch, int | float):
        fields = fields | {"batch": f"{batch:g} (best)"}
    digest = f"[{short_digest(model.digest)}]" + (" as stated" if model.digest_stated else "")
    parts = [
        f"{', '.join(values)}: {model.name} {digest}",
        f"batch {fields['batch']}",
        f"precision {fields['precision']}",
        _quality(record, model, doubts),
        f"stages {fields['stages']}",
        f"scenario {fields['scenario']}",
        f"on {fields['device']} ({fields['hardware']})",
        f"threads {fields['threads']}",
        f"{fields['framework']}" + ("" if fields["provider"] == NOT_SHOWN else f" {fields['provider']}"),
        f"power limit {fields['power limit']}",
    ]
    return "; ".join(parts) + f". Comparable with results of key {comparability_key(fields)} only."


def unlike_words(record: Record, check: CheckRecord, against: str) -> str:
    """In what a check's model and the one it is compared with differ, beside being two models; empty: in nothing."""
    other = next((one for one in record.models if one.name == against), None)
    model = _model(record, check)
    if model is None or other is None:
        return ""
    ours, theirs = holds_for(record, check, model), holds_for(record, check, other)
    return "; ".join(
        f"{name} {ours[name]} against {theirs[name]}" if ours[name] != theirs[name] else f"{name} not shown of either"
        for name in unlike(ours, theirs)
        if name not in SHARED
    )


def _model(record: Record, check: CheckRecord) -> ModelRecord | None:
    names = [name for name in check.models if name not in check.baseline_models]
    return next((one for one in record.models if one.name in names), None)


def _values(check: CheckRecord, confidence: float, doubts: Collection[str]) -> Sequence[str]:
    """Values with their bounds: those that something is required of first."""
    bounds = {
        (test.metric, test.name): (test.lower, test.upper) for test in check.tests if test.against is None and test.n
    }
    by_metric = {name.partition("/")[2]: bound for (_, name), bound in bounds.items()}
    names = [name for name in check.measured if check.units.get(name) in PERFORMANCE_UNITS and name not in doubts]
    names.sort(key=lambda name: name not in by_metric)
    found = []
    for name in names[:MOST]:
        value, unit = check.measured[name], check.units[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        lower, upper = by_metric.get(name, (None, None))
        sides = [
            f"{word} {quantity(bound, unit)}"
            for word, bound in (("at least", lower), ("at most", upper))
            if bound is not None
        ]
        said = f" ({', '.join(sides)}, each at {in_percent(confidence)})" if sides else ""
        found.append(f"{name} {quantity(float(value), unit)}{said}")
    return found


def _quality(record: Record, model: ModelRecord, doubts: Doubts) -> str:
    """How good the answers of the same model are, from a check of this run."""
    for metric in QUALITY:
        for check in record.checks:
            value = check.measured.get(metric)
            own = model.name in check.models and model.name not in check.baseline_models
            if check.dimension == "model" and check.status == "measured" and own and isinstance(value, int | float):
                where = f"({check.id} on {', '.join(check.datasets)})"
                trust = f", {NOT_TRUSTED}" if metric in doubts.get(check.id, ()) else ""
                return f"{metric} {quantity(float(value), check.units.get(metric, ''))} {where}{trust}"
    return "quality not measured in this run"

"""The claim sentence: what was measured of a system, with everything that it holds for, to be quoted whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from evalspec.evidence.frozen import is_number
from evalspec.evidence.record import CheckRecord, ModelRecord, Record
from evalspec.evidence.words import in_percent, short_digest
from evalspec.evidence.written import in_unit, unit_of
from evalspec.lineage.comparability import NOT_SHOWN, comparability_key, holds_for, unlike
from evalspec.lineage.declared import declared, number_that_shows
from evalspec.report.names import measured_quantity, quantity
from evalspec.report.words import NOT_JUDGED

PERFORMANCE_UNITS = ("ms", "s", "samples/s", "qps", "J", "W", "samples/J", "MiB", "GFLOP/s")
MOST = 3
"""Values in one sentence."""
SHARED = ("batch", "scenario", "dataset")
"""Of one check, these are the same for both models."""
Doubts = Mapping[str, Collection[str]]
"""Id of a check: names of what it measured that is not judged, and so not to be quoted."""


def claim_sentence(record: Record, check: CheckRecord, doubts: Doubts) -> str:
    """One sentence for a check of the system: value, model, batch, precision, quality, stages, device, power limit.

    Args:
        record: The run.
        check: One of its checks.
        doubts: What is not judged of what the checks of the run measured.

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
    batch = number_that_shows(check, "best batch")
    if fields["batch"] == NOT_SHOWN and batch is not None:
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
    return "; ".join(parts) + f". Compare it only with results of key {comparability_key(fields)}."


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
    bounds = {test.quantity: (test.lower, test.upper) for test in check.tests if test.against is None and test.n}
    names = [name for name in check.measured if check.units.get(name) in PERFORMANCE_UNITS and name not in doubts]
    names.sort(key=lambda name: name not in bounds)
    found = []
    for name in names[:MOST]:
        value, unit = check.measured[name], check.units[name]
        if not is_number(value):
            continue
        lower, upper = bounds.get(name, (None, None))
        to = unit_of(check, name)
        sides = [
            f"{word} {quantity(in_unit(bound, unit, to), to)}"
            for word, bound in (("at least", lower), ("at most", upper))
            if bound is not None
        ]
        said = f" ({', '.join(sides)}, each at {in_percent(confidence)})" if sides else ""
        found.append(f"{name} {measured_quantity(check, name)}{said}")
    return found


def _quality(record: Record, model: ModelRecord, doubts: Doubts) -> str:
    """How good the answers of the same model are, from a check of this run."""
    found = [
        (rank, number, metric, check)
        for number, check in enumerate(record.checks)
        if check.dimension == "model" and check.status == "measured"
        if model.name in check.models and model.name not in check.baseline_models
        for metric, rank in declared(check).headline.items()
        if isinstance(check.measured.get(metric), int | float)
    ]
    if not found:
        return "quality not measured in this run"
    _, _, metric, check = min(found, key=lambda one: one[:3])
    where = f"({check.id} on {', '.join(check.datasets)})"
    trust = f", {NOT_JUDGED}" if metric in doubts.get(check.id, ()) else ""
    return f"{metric} {measured_quantity(check, metric)} {where}{trust}"

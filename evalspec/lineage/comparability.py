"""Scope of a number: the fields that two numbers must share before they are set side by side."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import PROMPT, TEMPLATE, CheckRecord, Dimension, ModelRecord, Record
from evalspec.evidence.test import Test
from evalspec.evidence.words import short_digest
from evalspec.lineage.declared import is_shown

NOT_SHOWN = "not shown"
FIELDS = (
    "hardware", "device", "precision", "batch", "scenario", "stages", "dataset", "framework", "provider", "threads",
    "power limit",
)  # fmt: skip
"""Fields that must be alike, in the order in which they are read."""
SUBJECT = ("precision", "framework", "provider", "stages")
"""Fields that may change with the subject on purpose: they are named, and the numbers still compared."""
MAY_BE_NONE = ("provider", "power limit", "threads")
"""Fields that some runs truly have none of, so that their absence alone makes nothing incomparable."""
ASKED = {"prompt": PROMPT, "chat template": TEMPLATE}
"""Field: detail of a language model, both digests. They may change on purpose, and are named."""
BASELINE = "model "
"""Prefix of a field that names the artifact which a number is held against."""
COUNTED = "counted over"
"""Field that says of what a number was made, where a condition of its check is called as its metric is."""


def holds_for(record: Record, check: CheckRecord, model: ModelRecord) -> dict[str, str]:
    """Each field of `FIELDS` in words, for what one check measured of one model.

    A field that nobody recorded says so; it is not the same as any value, nor as itself elsewhere.
    """
    own = not check.models or model.name == next((m for m in check.models if m not in check.baseline_models), "")
    conditions = check.conditions if own else {}
    shared = {name: check.conditions.get(name) for name in ("scenario", "batch", "threads")}
    known: dict[str, Cell] = {**shared, **conditions}
    limit = record.environment.facts.get(f"gpu{_index(model)}_power_limit_W") if "cuda" in model.device else None
    preprocessing = f" (preprocessing {model.preprocess_digest[:8]})" if model.preprocess else ""
    digests = {one.name: short_digest(one.digest) for one in record.datasets}
    fields = {
        "hardware": _hardware(record, model),
        "device": model.device_observed or model.device or known.get("device"),
        "precision": model.precision_observed or model.precision or known.get("precision"),
        "batch": known.get("batch"),
        "scenario": known.get("scenario"),
        "stages": ", ".join((*model.preprocess, "model")) + preprocessing,
        "dataset": ", ".join(f"{name} {digests.get(name, NOT_SHOWN)}" for name in check.datasets) or None,
        "framework": model.details.get("framework", known.get("framework")),
        "provider": model.details.get("provider"),
        "threads": model.details.get("threads", known.get("threads")),
        "power limit": None if limit is None else f"{limit} W",
    }  # fmt: skip
    return {name: _text(fields[name]) for name in FIELDS}


def comparability_key(fields: Mapping[str, str]) -> str:
    """A digest of `holds_for`; two numbers with the same one, and nothing not shown, are alike."""
    return hashlib.sha256(json.dumps(dict(fields), sort_keys=True).encode()).hexdigest()[:16]


def unlike(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the fields in which two numbers are not alike, or not known to be."""
    names = []
    for name in FIELDS:
        one, other = ours.get(name, NOT_SHOWN), theirs.get(name, NOT_SHOWN)
        unknown = NOT_SHOWN in (one, other) and name not in MAY_BE_NONE
        if one != other or unknown:
            names.append(name)
    return tuple(names)


def own_fields(record: Record, check: CheckRecord, test: Test) -> dict[str, str]:
    """`holds_for` of the model that a check is about; of a check that has none, the dataset alone.

    With it stand the column of the truth, what the number was counted over, and the artifact of each model that the
    number of ``test`` is held against.
    """
    models = {one.name: one for one in record.models}
    relative = is_shown(check, test, "only a difference of models")
    others = (test.against,) if test.against else check.baseline_models if relative else ()
    against = {f"{BASELINE}{name}": short_digest(models[name].digest) for name in others if name in models}
    labels = {one.name: one.label for one in record.datasets if one.label is not None and one.name in check.datasets}
    if labels and check.dimension == "model":
        against["label"] = ", ".join(f"{label} of {name}" for name, label in labels.items())
    if test.metric in check.conditions:
        against[COUNTED] = _text(check.conditions[test.metric])
    own = [name for name in check.models if name not in check.baseline_models and name in models]
    if own:
        details = models[own[0]].details
        asked = {field: short_digest(str(details[name])) for field, name in ASKED.items() if name in details}
        return holds_for(record, check, models[own[0]]) | asked | against
    digests = {one.name: short_digest(one.digest) for one in record.datasets}
    datasets = ", ".join(f"{name} {digests.get(name, NOT_SHOWN)}" for name in check.datasets) or NOT_SHOWN
    return {"dataset": datasets, **against}


class Dissimilarity(NamedTuple):
    """Fields in which two numbers of one requirement are not alike, each ``field: before, then after``.

    Args:
        forbids: What keeps them from being set side by side.
        named: What may change with the subject on purpose.
        fields: Names of the fields in ``forbids``, in its order.
    """

    forbids: tuple[str, ...]
    named: tuple[str, ...]
    fields: tuple[str, ...] = ()


def apart(dimension: Dimension, ours: Mapping[str, str], theirs: Mapping[str, str]) -> Dissimilarity:
    """Hold the fields of one requirement in two runs against each other.

    A timing needs all of them alike, a score only its rows and their truth, and what is held against another model the
    same one, which must be shown. What else neither run recorded is no difference.

    Args:
        dimension: Of the check.
        ours: `own_fields` of the earlier run.
        theirs: Of the later run.
    """
    others = sorted(name for name in {**ours, **theirs} if name.startswith(BASELINE))
    wanted = (*(FIELDS if dimension == "system" else ("dataset", "label")), COUNTED, *ASKED, *others)
    words = {
        name: f"{name}: {ours.get(name, NOT_SHOWN)}, then {theirs.get(name, NOT_SHOWN)}"
        for name in wanted
        if ours.get(name, NOT_SHOWN) != theirs.get(name, NOT_SHOWN) or (name in others and ours.get(name) == NOT_SHOWN)
    }
    return Dissimilarity(
        tuple(text for name, text in words.items() if name not in (*SUBJECT, *ASKED)),
        tuple(text for name, text in words.items() if name in (*SUBJECT, *ASKED)),
        tuple(name for name in words if name not in (*SUBJECT, *ASKED)),
    )


def asked_unlike(record: Record) -> tuple[str, ...]:
    """Sentences on models of one run that are held against each other and were not asked alike."""
    models = {one.name: one for one in record.models}
    lines = []
    for check in record.checks:
        own = next((name for name in check.models if name not in check.baseline_models), "")
        for other in check.baseline_models:
            both = [models[name].details for name in (own, other) if name in models]
            differ = [
                field
                for field, name in ASKED.items()
                if len(both) > 1 and all(name in one for one in both) and both[0][name] != both[1][name]
            ]
            if differ:
                lines.append(
                    f"{check.id}: {own} and {other} differ in {' and '.join(differ)}, so a difference between "
                    "them is not due to the model alone"
                )
    return tuple(lines)


def _text(value: Cell) -> str:
    if value is None or value == "":
        return NOT_SHOWN
    return f"{value:g}" if isinstance(value, float) else str(value)


def _hardware(record: Record, model: ModelRecord) -> str | None:
    facts = record.environment.facts
    cpu, cores = facts.get("cpu"), facts.get("cores")
    if cpu is None:
        return None
    gpu = facts.get(f"gpu{_index(model)}_name") if "cuda" in model.device else None
    return ", ".join(str(word) for word in (cpu, None if cores is None else f"{cores} cores", gpu) if word)


def _index(model: ModelRecord) -> str:
    """Index of the GPU that the model runs on."""
    return model.device.partition(":")[2] or "0"

"""Models and datasets held against themselves under another name: nothing would be found there."""

from __future__ import annotations

from evalspec.evidence.record import CheckRecord, ModelRecord, Record
from evalspec.evidence.subject import ANSWERS_ON, CLASSES


def same_models(record: Record) -> list[str]:
    """Models that are held against themselves under another name."""
    known = {model.name: model for model in record.models}
    pairs = [
        (name, test.against)
        for check in record.checks
        for test in check.tests
        for name in check.models
        if test.against in known and name in known and name not in check.baseline_models
    ]
    return [
        f"{name} and {other} are the same artifact, run in the same way: being no worse than itself shows nothing"
        for name, other in dict.fromkeys(pairs)
        if other is not None and _as_run(known[name]) == _as_run(known[other])
    ] + [
        f"{name} and {other} are the same files of answers: being no worse than itself shows nothing"
        for name, other in dict.fromkeys(pairs)
        if other is not None and _answers(known[name]) and _answers(known[name]) == _answers(known[other])
        if _as_run(known[name]) != _as_run(known[other])
    ]


def against_itself(record: Record, check: CheckRecord) -> str | None:
    """The model that is all that a check's blocking requirements hold its model against, and is that model itself.

    Args:
        record: The run.
        check: One of its checks, which compares models.

    Returns:
        Its name; None: the check holds the model against another one, or compares nothing.
    """
    known = {model.name: model for model in record.models}
    asked = {test.against for test in check.tests if test.severity == "require" and test.against is not None}
    others = [known[name] for name in (asked or check.baseline_models) if name in known]
    own = next((known[name] for name in check.models if name in known and name not in check.baseline_models), None)
    if own is None or not others or any(_as_run(one) != _as_run(own) for one in others):
        return None
    return others[0].name


def _as_run(model: ModelRecord) -> tuple[object, ...]:
    """Facts that tell a model from another one; one without a digest is like no other."""
    # Two functions of one module are two models.
    parts = frozenset(one.what for one in model.contents)
    settings = (model.kind, model.precision, model.device, model.batch, model.preprocess_digest)
    return (model.digest or object(), parts - {CLASSES}, *settings)


def _answers(model: ModelRecord) -> frozenset[tuple[str, str]]:
    """Files of answers that stand for a model; empty: it is one that runs."""
    found = [one for one in model.contents if one.what != CLASSES]
    if not all(one.what.startswith(ANSWERS_ON) for one in found):
        return frozenset()
    return frozenset((one.what, one.digest) for one in found)


def same_rows(record: Record) -> list[str]:
    """Checks that held rows against the same rows under another name."""
    digests = {dataset.name: dataset.digest for dataset in record.datasets if dataset.digest}
    lines = []
    for check in record.checks:
        names: dict[str, str] = {}
        for name in check.datasets:
            before = names.setdefault(digests.get(name, name), name)
            if before != name:
                lines.append(f"{check.id} compares {before} and {name}, which have the same rows")
    return lines

"""A first run of a new spec, with thresholds that nearly everything meets: what it measures becomes the thresholds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evalspec.errors import Problem, SpecError
from evalspec.evidence.record import Record
from evalspec.evidence.test import Test, holds
from evalspec.language.registry import Registry
from evalspec.language.requirement import split_sentence
from evalspec.loading import LoadOptions, Spec
from evalspec.planning import plan
from evalspec.running.children.process import Limits
from evalspec.running.options import Options
from evalspec.running.preflight import Start, refuse
from evalspec.running.runner import run
from evalspec.running.subjects import Observer
from evalspec.starting.drafts import Ask, CheckDraft
from evalspec.starting.settle import settle
from evalspec.starting.sketch import Sketch
from evalspec.starting.thresholds import loose, measured, unmeasured
from evalspec.starting.writing import spec_text

LONGEST_S = 60.0
"""Of asking the model about all rows; beyond, the first run sees a few of them."""
STRICT = 0.995
"""Confidence of its bounds at the most: several requirements are held at once."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a first run is made.

    Args:
        path: A file beside the spec, which goes away again.
        options: What may be looked at.
        limits: Of its children.
        observer: Who watches.
        registry: The kinds there are.
    """

    path: Path
    options: LoadOptions
    limits: Limits
    observer: Observer
    registry: Registry


def with_thresholds(sketch: Sketch, checks: Sequence[CheckDraft], bench: Bench) -> tuple[list[CheckDraft], list[str]]:
    """The checks with measured thresholds, and sentences on what the first run found.

    Args:
        sketch: What was seen.
        checks: What may be written.
        bench: Where it is run.
    """
    if sketch.model.unopened or not any(not one.left_out for one in checks):
        return [_unmeasured(one, sketch) for one in checks], []
    tried = [_loosened(one, bench.registry) for one in checks]
    tried = [replace(one, left_out="timed") if _is_timed(one) else one for one in tried]
    blocking = sum(ask.blocking for one in tried if not one.left_out for ask in one.asks)
    policy = {"confidence": round(min(STRICT, 1 - 0.05 / max(blocking, 1)), 4), "screens": "off"}
    text = spec_text(sketch, tried, {"name": "first-run"}, policy)
    try:
        _, spec = settle(text, bench.path, bench.options)
        record = _run(spec, sketch, bench)
    except SpecError as error:
        return [_unmeasured(one, sketch) for one in checks], [f"nothing was measured: {error.problems[0]}"]
    filled = [
        _unmeasured(before, sketch) if _is_timed(before) else _filled(one, before, record)
        for one, before in zip(tried, checks, strict=True)
    ]
    _refuse_empty(filled)
    return filled, list(_findings(record))


def _refuse_empty(checks: Sequence[CheckDraft]) -> None:
    """Stop where nothing of the model could be measured: a gate without would say nothing of it.

    Raises:
        SpecError: So it is, and why.
    """
    own = [one for one in checks if one.section == "model" and any(ask.blocking for ask in one.asks)]
    if own and all(one.left_out for one in own):
        remedy = "name the label column: --label COLUMN"
        raise SpecError(Problem(f"no metric of the model could be measured: {own[0].left_out}", remedy=remedy))


def _is_timed(draft: CheckDraft) -> bool:
    return any(ask.timed for ask in draft.asks)


def _unmeasured(draft: CheckDraft, sketch: Sketch | None = None) -> CheckDraft:
    query_s = 0.0 if sketch is None else sketch.model.query_s
    return replace(draft, asks=tuple(unmeasured(ask, query_s) for ask in draft.asks))


def _loosened(draft: CheckDraft, registry: Registry) -> CheckDraft:
    metrics = {metric.name: metric for metric in registry.check(draft.entry["check"]).metrics}
    asks = []
    for ask in draft.asks:
        if ask.otherwise:
            name = split_sentence(f"{ask.start} 1").metric
            ask = replace(ask, threshold=loose(ask, metrics[name]))
        asks.append(ask)
    return replace(draft, asks=tuple(asks))


def _run(spec: Spec, sketch: Sketch, bench: Bench) -> Record:
    access = spec.access(
        trust=bench.options.trust,
        allow_outside=bench.options.allow_outside,
        hub=bench.options.hub,
        hosts=bench.options.hosts,
    )
    planned = plan(spec)
    refuse([Start(planned, access, bench.limits)])
    slow = sketch.model.row_s * (sketch.test.rows or 1) > LONGEST_S
    with tempfile.TemporaryDirectory(prefix="evalspec-init-") as folder:
        options = Options(access=access, output=Path(folder) / "run", limits=bench.limits, draft=slow)
        record, _ = run(planned, options, bench.observer)
    if record.interrupted:
        raise KeyboardInterrupt
    return record


def _filled(tried: CheckDraft, before: CheckDraft, record: Record) -> CheckDraft:
    """A check with the thresholds that its record gives."""
    if tried.left_out:
        return _unmeasured(before)
    found = next((one for one in record.checks if one.check == tried.entry["check"]), None)
    if found is None:
        # Why it can't be is said when the spec is read as a whole.
        return _unmeasured(before)
    if found.status in ("not_run", "error"):
        return replace(_unmeasured(before), left_out=found.reason or "it could not be measured")
    tests: dict[str, Test] = {" ".join(test.sentence.split()): test for test in found.tests}
    asks: list[Ask] = []
    for ask, plain in zip(tried.asks, before.asks, strict=True):
        test = tests.get(ask.sentence)
        asks.append(unmeasured(plain) if test is None else measured(plain, test))
    if all(ask.left_out for ask in asks):
        return replace(
            before, asks=tuple(replace(unmeasured(one), left_out="") for one in before.asks), left_out=asks[0].left_out
        )
    return replace(before, asks=tuple(asks))


def _findings(record: Record) -> Iterator[str]:
    """Sentences on what the first run found wrong already, whatever the thresholds."""
    for check in record.checks:
        for test in check.tests:
            if test.exact and test.value is not None and not holds(test.op, test.value, test.threshold):
                which = f" ({test.first})" if test.first else ""
                yield f"{test.sentence} already fails: it is {test.value:,.0f}{which}"

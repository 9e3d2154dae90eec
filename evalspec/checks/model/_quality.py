"""What `quality` does when it runs: which metrics, their estimates and comparisons, what to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evalspec.checks.model import _baselines, _blocks
from evalspec.checks.model._catalogue import CLASSIFICATION, METRICS, REGRESSION
from evalspec.checks.model._metrics import score
from evalspec.checks.model._scored import Scored, Undefined, aligned, scored
from evalspec.checks.model._scores import Tools
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Measured, Parts
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from evalspec.checks.model.quality import Quality
    from evalspec.evidence.blocks import AnyBlock
    from evalspec.language.inputs import Inputs

PART_KINDS = {metric.name: metric.parts for metric in METRICS}
RANKED = ("roc_auc", "average_precision")
CLASSES_RANKED = 30
"""Above so many classes the one-vs-rest areas are computed only when they are asked for."""


@dataclass(slots=True)
class Found:
    """What was found so far.

    Args:
        estimates: Metric: estimate or parts.
        missing: Metric or ``metric(part)``: why there is none.
    """

    estimates: dict[str, Estimate | Parts] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def flat(self) -> list[tuple[str, str | None, Estimate]]:
        """(metric, part, estimate) of everything but classes."""
        rows: list[tuple[str, str | None, Estimate]] = []
        for metric, found in self.estimates.items():
            if not isinstance(found, Parts):
                rows.append((metric, None, found))
            elif PART_KINDS[metric] == "k":
                rows += [(metric, k, part) for k, part in found.parts.items() if isinstance(part, Estimate)]
        return rows


def measure(check: Quality, inputs: Inputs) -> CheckResult:
    """Score a model's answers.

    Args:
        check: The check.
        inputs: What it is handed.

    Raises:
        InputError: The answers or the labels can't be scored.
    """
    rows = scored(
        inputs, check.dataset, check.model, positive=check.positive, decision_threshold=check.decision_threshold
    )
    tools = Tools.of(inputs)
    found = Found()
    for metric, parts in wanted(check, rows).items():
        _estimate(found, metric, parts, rows, tools)
    comparisons = _comparisons(check, inputs, rows, tools, found)
    no_better = _no_better(rows, found, tools, inputs.confidence)
    return CheckResult(
        estimates=found.estimates,
        comparisons=comparisons,
        missing=found.missing,
        blocks=_shown(check, inputs, rows, found),
        counts=Counts(attempted=rows.n, used=rows.n),
        conditions=_conditions(check, rows),
        notes=(*no_better, *_notes(rows, found, inputs.confidence)),
        weakens=no_better,
    )


def wanted(check: Quality, rows: Scored) -> dict[str, tuple[str, ...] | None]:
    """Metrics to compute, with their parts (None: it has none).

    Args:
        check: The check.
        rows: The candidate's rows.
    """
    required = [requirement.metric for requirement in check.requirements]
    listed = check.listed or _sensible(rows, check.top_k)
    parts: dict[str, tuple[str, ...] | None] = {}
    for metric in dict.fromkeys((*required, *listed)):
        if PART_KINDS[metric] == "class":
            asked = [r.part for r in check.requirements if r.metric == metric and r.part is not None]
            parts[metric] = tuple(dict.fromkeys((*(rows.classes or ()), *asked)))
        elif PART_KINDS[metric] == "k":
            asked_k = {int(r.part) for r in check.requirements if r.metric == metric and r.part is not None}
            fitting = {k for k in check.top_k if rows.classes is not None and k < len(rows.classes)}
            parts[metric] = tuple(str(k) for k in sorted(asked_k | (fitting or set(check.top_k))))
        else:
            parts[metric] = None
    return parts


def _sensible(rows: Scored, top_k: Sequence[int]) -> tuple[str, ...]:
    if rows.classes is None:
        return tuple(metric.name for metric in REGRESSION)
    count = len(rows.classes)
    skipped = set() if any(k < count for k in top_k) else {"top_k_accuracy"}
    if count > CLASSES_RANKED and rows.positive is None:
        skipped |= set(RANKED)
    if rows.probabilities is None:
        skipped |= {*RANKED, "top_k_accuracy", "log_loss", "brier"}
    return tuple(metric.name for metric in CLASSIFICATION if metric.name not in skipped)


def _estimate(found: Found, metric: str, parts: Sequence[str] | None, rows: Scored, tools: Tools) -> None:
    if parts is None:
        try:
            found.estimates[metric] = score(metric, None, rows).estimate(rows, tools)
        except Undefined as undefined:
            found.missing[metric] = str(undefined)
        return
    estimates: dict[str, Estimate] = {}
    for part in parts:
        try:
            estimates[part] = score(metric, part, rows).estimate(rows, tools)
        except Undefined as undefined:
            found.missing[f"{metric}({part})"] = str(undefined)
            if PART_KINDS[metric] == "class" and part in (rows.classes or ()):
                # It stays among the parts, so that a sentence over all classes can't pass without it.
                estimates[part] = ValueOnly(None, 0, str(undefined))
    if all(estimate.value is None for estimate in estimates.values()):
        reasons = [found.missing[f"{metric}({part})"] for part in parts]
        found.missing[metric] = reasons[0] if reasons else f"no part of {metric} can be computed"
        return
    found.estimates[metric] = Parts(estimates)


def _comparisons(
    check: Quality, inputs: Inputs, rows: Scored, tools: Tools, found: Found
) -> Mapping[tuple[str, str], Comparison | ComparisonParts]:
    comparisons: dict[tuple[str, str], Comparison | ComparisonParts] = {}
    asked = dict.fromkeys((r.metric, r.model) for r in check.requirements if r.model is not None)
    for metric, model in asked:
        assert model is not None
        sentences = [r for r in check.requirements if (r.metric, r.model) == (metric, model)]
        parts = _compared_parts(metric, [r.part for r in sentences], found)
        try:
            other = aligned(_other(check, inputs, model), rows)
        except NotRunError as reason:
            found.missing[f"{metric} vs {model}"] = str(reason)
            continue
        made: dict[str | None, Comparison] = {}
        for part in parts:
            name = metric if part is None else f"{metric}({part})"
            try:
                made[part] = score(metric, part, rows).compare(rows, other, tools)
            except Undefined as undefined:
                found.missing[f"{name} vs {model}"] = str(undefined)
        if None in made:
            comparisons[metric, model] = made[None]
        elif made:
            comparisons[metric, model] = ComparisonParts({part: one for part, one in made.items() if part is not None})
    return comparisons


def _compared_parts(metric: str, asked: Sequence[str | None], found: Found) -> tuple[str | None, ...]:
    if PART_KINDS[metric] is None:
        return (None,)
    estimates = found.estimates.get(metric)
    every = tuple(estimates.parts) if isinstance(estimates, Parts) else ()
    return every if None in asked else tuple(dict.fromkeys(asked))


def _other(check: Quality, inputs: Inputs, model: str) -> Scored:
    return scored(inputs, check.dataset, model, positive=check.positive, decision_threshold=check.decision_threshold)


def _shown(check: Quality, inputs: Inputs, rows: Scored, found: Found) -> Sequence[AnyBlock]:
    required = frozenset(requirement.metric for requirement in check.requirements)
    blocks: list[AnyBlock] = [_blocks.metric_table(rows, found.flat(), inputs.confidence, required)]
    if rows.classes is None:
        blocks += _blocks.residuals(rows)
    else:
        scores = {metric: parts for metric, parts in found.estimates.items() if isinstance(parts, Parts)}
        blocks += [_blocks.class_table(rows, scores), _blocks.confusion(rows)]
    examples = _blocks.wrong_rows(inputs, rows) if check.show_examples else None
    return [*blocks, examples] if examples is not None else blocks


def _conditions(check: Quality, rows: Scored) -> dict[str, str | float]:
    conditions: dict[str, str | float] = {}
    if rows.classes is not None and rows.positive is not None:
        conditions["positive class"] = rows.classes[rows.positive]
    if check.decision_threshold is not None:
        conditions["decision threshold"] = check.decision_threshold
    return conditions


def _notes(rows: Scored, found: Found, confidence: float) -> tuple[str, ...]:
    notes = (_beside_median(rows, found, confidence), _beside_top_1(found))
    return tuple(note for note in notes if note is not None)


def _no_better(rows: Scored, found: Found, tools: Tools, confidence: float) -> tuple[str, ...]:
    """That the model does no better than an answer that never looks at the row; empty: it is shown to."""
    if rows.classes is None:
        estimate = _whole("r2", rows, found, tools)
        if estimate is None or estimate.value is None or estimate.value > 0.0:
            return ()
        return (_sentence("r2", estimate.value, 0.0, "the mean", worse=True),)
    estimate, blind = _whole("accuracy", rows, found, tools), _baselines.majority(rows, "accuracy")
    if estimate is None or estimate.value is None or blind is None:
        return ()
    bound = estimate.bound(confidence, "lower")
    if bound is not None and bound > blind:
        return ()
    return (_sentence("accuracy", estimate.value, blind, "the most frequent class", worse=estimate.value <= blind),)


def _beside_median(rows: Scored, found: Found, confidence: float) -> str | None:
    estimate, blind = found.estimates.get("mae"), _baselines.majority(rows, "mae")
    if (
        rows.classes is not None
        or estimate is None
        or isinstance(estimate, Parts)
        or estimate.value is None
        or blind is None
    ):
        return None
    bound = estimate.bound(confidence, "upper")
    if bound is not None and bound < blind:
        return None
    return _sentence("mae", estimate.value, blind, "the median", worse=estimate.value >= blind)


def _whole(metric: str, rows: Scored, found: Found, tools: Tools) -> Estimate | None:
    """The estimate of a metric, whether or not it was asked for; None: it is not defined here."""
    estimate = found.estimates.get(metric)
    if isinstance(estimate, Estimate):
        return estimate
    try:
        return score(metric, None, rows).estimate(rows, tools)
    except Undefined:
        return None


def _sentence(metric: str, value: float, blind: float, answer: str, *, worse: bool) -> str:
    verb = "is not better" if worse else "is not shown to be better"
    return f"{metric} {value:.4g} {verb} than the {blind:.4g} of answering always {answer}"


def _beside_top_1(found: Found) -> str | None:
    first, tops = found.estimates.get("accuracy"), found.estimates.get("top_k_accuracy")
    if first is None or isinstance(first, Parts) or first.value is None or not isinstance(tops, Parts):
        return None
    gaps = [
        f"top-{k} is {100 * (top.value - first.value):.3g} pp above top-1"
        for k, top in tops.parts.items()
        if k != "1" and not isinstance(top, Measured) and top.value is not None
    ]
    return "; ".join(gaps) or None

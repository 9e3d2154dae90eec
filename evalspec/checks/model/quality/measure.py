"""Measurement of `quality`: the metrics to compute, their estimates and comparisons, what to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Parts
from evalspec.evidence.record import Counts
from evalspec.evidence.units import from_unit
from evalspec.language.inputs import RowScores
from evalspec.language.parts import CheckResult
from evalspec.scoring import show
from evalspec.scoring.catalogue.ranking import NAMES
from evalspec.scoring.catalogue.samples import NAMES as OF_QUESTIONS
from evalspec.scoring.dummies import WORDS
from evalspec.scoring.family import PART_KINDS, QualityContext, ScoredMetrics, plain_parts
from evalspec.scoring.on_demand import shown
from evalspec.scoring.ranking.family import at_random
from evalspec.scoring.ranking.lists import queries_of
from evalspec.scoring.repeats import RepeatedAnswers
from evalspec.scoring.scored_rows import Scored, TextOptions, Undefined, aligned, scored, scored_answers
from evalspec.scoring.scores import Estimators, MeanLoss, Share
from evalspec.scoring.tasks import families, family_of, score
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.quality.spec import Quality
    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Predictions
    from evalspec.language.requirement import Requirement


MARGIN = 0.02
"""Loss that answers given while timing may have, where no requirement says it."""
BLIND_ON_LISTS = {"random": at_random}
DEFAULT_ROWS = ("token_f1", "exact_match")


def measure(check: Quality, inputs: Inputs) -> CheckResult:
    """Score a model's answers.

    Args:
        check: The check.
        inputs: Inputs of the check.

    Raises:
        InputError: The answers or the labels can't be scored.
    """
    rows = _answers(check, inputs, check.model)
    tools = Estimators.of(inputs)
    metrics = ScoredMetrics()
    for metric, parts in wanted(check, rows).items():
        _estimate(metrics, metric, parts, rows, tools)
    comparisons = _comparisons(check, inputs, rows, tools, metrics)
    seen = QualityContext(check, inputs, rows, metrics, tools)
    weakens = tuple(sentence for family in families(rows) for sentence in family.weakens(seen))
    notes = [sentence for family in families(rows) for sentence in family.notes(seen)]
    repeats = _repeats(check, rows)
    notes += [] if repeats is None else [repeats.sentence]
    return CheckResult(
        estimates=metrics.estimates,
        comparisons=comparisons,
        missing=metrics.missing,
        blocks=_shown(seen),
        counts=Counts(attempted=rows.questions, used=rows.questions),
        conditions=_conditions(check, seen) | ({} if repeats is None else repeats.conditions()),
        notes=(*weakens, *notes),
        weakens=weakens,
        blind=_blind(seen),
        answers_each=_each(rows),
    )


def _each(rows: Scored) -> dict[str, int]:
    """Answers to each row; what is made of all answers to a question counts questions."""
    return {name: rows.asked for family in families(rows) for name in family.names if name not in OF_QUESTIONS}


def wanted(check: Quality, rows: Scored) -> dict[str, tuple[str, ...] | None]:
    """Metrics to compute, each with its parts (None where the metric has none).

    Args:
        check: The check.
        rows: Rows of the candidate.
    """
    required = [requirement.metric for requirement in check.requirements]
    return {metric: _parts(metric, check, rows) for metric in dict.fromkeys((*required, *_listed(check, rows)))}


def _listed(check: Quality, rows: Scored) -> Sequence[str]:
    """Metrics that are shown beside what is required."""
    if not shown():
        return ()
    return check.listed or [name for family in families(rows) for name in family.listed(rows, check)]


def _parts(metric: str, check: Quality, rows: Scored) -> tuple[str, ...] | None:
    if PART_KINDS[metric] is None:
        return None
    asked = [r.part for r in check.requirements if r.metric == metric and r.part is not None]
    try:
        plain = family_of(metric, rows).parts(metric, rows, check)
    except Undefined:
        # The sentence that says why stands with each part, and one there must be.
        plain = plain_parts(metric, rows, check)
    parts = tuple(dict.fromkeys((*plain, *asked)))
    return tuple(sorted(parts, key=int)) if PART_KINDS[metric] == "k" else parts


def _estimate(
    metrics: ScoredMetrics, metric: str, parts: Sequence[str] | None, rows: Scored, tools: Estimators
) -> None:
    if parts is None:
        try:
            metrics.estimates[metric] = score(metric, None, rows).estimate(rows, tools)
        except Undefined as undefined:
            metrics.missing[metric] = str(undefined)
        return
    estimates: dict[str, Estimate] = {}
    for part in parts:
        try:
            estimates[part] = score(metric, part, rows).estimate(rows, tools)
        except Undefined as undefined:
            metrics.missing[f"{metric}({part})"] = str(undefined)
            if PART_KINDS[metric] == "class" and part in (rows.classes or ()):
                # It stays among the parts, so that a sentence over all classes can't pass without it.
                estimates[part] = ValueOnly(None, 0, str(undefined))
    if all(estimate.value is None for estimate in estimates.values()):
        reasons = [metrics.missing[f"{metric}({part})"] for part in parts]
        metrics.missing[metric] = reasons[0] if reasons else _without_parts(metric, rows)
        return
    metrics.estimates[metric] = Parts(estimates)


def _without_parts(metric: str, rows: Scored) -> str:
    try:
        family_of(metric, rows)
    except Undefined as undefined:
        return str(undefined)
    return f"no part of {metric} can be computed"


def _comparisons(
    check: Quality, inputs: Inputs, rows: Scored, tools: Estimators, metrics: ScoredMetrics
) -> Mapping[tuple[str, str], Comparison | ComparisonParts]:
    comparisons: dict[tuple[str, str], Comparison | ComparisonParts] = {}
    asked = dict.fromkeys((r.metric, r.model) for r in check.requirements if r.model is not None)
    for metric, model in asked:
        assert model is not None
        sentences = [r for r in check.requirements if (r.metric, r.model) == (metric, model)]
        parts = _compared_parts(metric, [r.part for r in sentences], metrics)
        try:
            other = aligned(_answers(check, inputs, model), rows)
        except NotRunError as reason:
            metrics.missing[f"{metric} vs {model}"] = str(reason)
            continue
        made: dict[str | None, Comparison] = {}
        for part in parts:
            name = metric if part is None else f"{metric}({part})"
            try:
                made[part] = score(metric, part, rows).compare(rows, other, tools)
            except Undefined as undefined:
                metrics.missing[f"{name} vs {model}"] = str(undefined)
        if None in made:
            comparisons[metric, model] = made[None]
        elif made:
            comparisons[metric, model] = ComparisonParts({part: one for part, one in made.items() if part is not None})
    return comparisons


def _compared_parts(metric: str, asked: Sequence[str | None], metrics: ScoredMetrics) -> tuple[str | None, ...]:
    if PART_KINDS[metric] is None:
        return (None,)
    estimates = metrics.estimates.get(metric)
    every = tuple(estimates.parts) if isinstance(estimates, Parts) else ()
    return every if None in asked else tuple(dict.fromkeys(asked))


def _answers(check: Quality, inputs: Inputs, model: str) -> Scored:
    rows = scored(
        inputs, check.dataset, model, positive=check.positive, decision_threshold=check.decision_threshold,
        options=TextOptions(check.normalize, check.bleu_tokenize),
    )  # fmt: skip
    if check.query is not None:
        return replace(rows, queries=rows.spread(queries_of(inputs, check.dataset, check.query)))
    # Several answers to a row are answers to one question.
    return rows if rows.asked == 1 or rows.task != "text" else replace(rows, queries=rows.number(np.arange(rows.n)))


def row_scores(check: Quality, answers: Predictions) -> RowScores | None:
    """Scores of texts, by the first metric that the check requires and that is a mean over rows.

    Args:
        check: Its requirements name the metric, and the margin against another model.
        answers: Texts; of other answers there are none.
    """
    if answers.task != "text":
        return None
    rows = scored_answers(answers, check.dataset, options=TextOptions(check.normalize, check.bleu_tokenize))
    mean = _first_mean(check.blocking, DEFAULT_ROWS, rows)
    return None if mean is None else RowScores(mean[0], mean[1].mean(axis=0), _margin(check, mean[0]))


def _repeats(check: Quality, rows: Scored) -> RepeatedAnswers | None:
    """Variance within and between rows, where each was answered several times."""
    if rows.asked == 1 or rows.questions < 2:
        return None
    usual = [name for family in families(rows) for name in family.names]
    mean = _first_mean(check.requirements, usual, rows)
    return None if mean is None else RepeatedAnswers.of(*mean)


def _first_mean(
    requirements: Sequence[Requirement], usual: Sequence[str], rows: Scored
) -> tuple[str, NDArray[np.float64]] | None:
    """The first metric that is required and is a mean over answers, else the first usual one; what each answer scores.

    Returns:
        Name, and scores of shape (answers to each row, rows of the dataset); None: no metric is such a mean.
    """
    for metric in dict.fromkeys((*(one.metric for one in requirements if one.part is None), *usual)):
        try:
            definition = score(metric, None, rows)
            if isinstance(definition, Share) and definition.counted(rows).all():
                values: NDArray[Any] = definition.hit(rows)
            elif isinstance(definition, MeanLoss):
                values = definition.losses(rows)
            else:
                continue
        except Undefined:
            continue
        return metric, values.astype(np.float64).reshape(rows.asked, -1)
    return None


def _margin(check: Quality, metric: str) -> float:
    """Largest loss against another model in this metric that the check lets pass; by default `MARGIN`."""
    losses = [
        -from_unit(one.threshold, one.unit) for one in check.blocking
        if one.metric == metric and one.model is not None and not one.is_ratio and one.threshold < 0
    ]  # fmt: skip
    return min(losses, default=MARGIN)


def _blind(seen: QualityContext) -> Mapping[str, tuple[float, str]]:
    """The best of a family's blind answers for each metric that is required, as `CheckResult` has them."""
    blind_scores: dict[str, tuple[float, str]] = {}
    for one in seen.check.requirements:
        metric = one.metric
        for part in _parts_but_classes(seen, one):
            try:
                family = family_of(metric, seen.rows)
            except Undefined:
                continue
            scores = [
                (value, WORDS.get(name, name))
                for name, of in (BLIND_ON_LISTS if metric in NAMES else family.blind).items()
                if (value := seen.blind(name, of, metric, part)) is not None
            ]
            if scores:
                best = (min if one.upper else max)(scores)
                blind_scores[metric if part is None else f"{metric}({part})"] = best
    return blind_scores


def _parts_but_classes(seen: QualityContext, one: Requirement) -> Sequence[str | None]:
    """Parts that a requirement is about, those of classes left out: what is always said has all of its class."""
    kind = PART_KINDS[one.metric]
    if kind == "class":
        return ()
    if kind is None or one.part is not None:
        return (one.part,)
    return tuple(seen.found.parts()[one.metric].parts) if one.metric in seen.found.parts() else ()


def _shown(seen: QualityContext) -> Sequence[AnyBlock]:
    if not shown():
        return ()
    used = families(seen.rows)
    return [show.metric_table(seen, used), *(block for family in used for block in family.blocks(seen))]


def _conditions(check: Quality, seen: QualityContext) -> dict[str, Cell]:
    rows = seen.rows
    conditions: dict[str, Cell] = {}
    if rows.classes is not None and rows.positive is not None:
        conditions["positive class"] = rows.classes[rows.positive]
    if check.decision_threshold is not None:
        conditions["decision threshold"] = check.decision_threshold
    for family in families(rows):
        conditions |= family.conditions(seen)
    return conditions

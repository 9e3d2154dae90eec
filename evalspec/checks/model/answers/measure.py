"""Measurement of `answers`: which texts have which fault, and how long they are beside another model's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.answers import choices, refusals, show, variants
from evalspec.checks.model.answers.faults import FaultyRows, faults
from evalspec.checks.model.answers.loops import word_counts
from evalspec.checks.model.answers.spec import GAP, LENGTH, REFUSAL, UNLIKE
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Comparison, Estimate, Measured
from evalspec.evidence.record import Counts
from evalspec.evidence.words import plural, verb
from evalspec.language.parts import CheckResult
from evalspec.language.predictions import all_answers, as_often
from evalspec.scoring.scored_rows import needs_task
from evalspec.stats.means.mean import SMALLEST_N, PairedMean, paired_mean
from evalspec.stats.shares.macro import Transformed
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    from evalspec.checks.model.answers.refusals import RefusalAudit
    from evalspec.checks.model.answers.spec import WrittenAnswers
    from evalspec.evidence.blocks import AnyBlock
    from evalspec.language.inputs import Inputs, Predictions


@dataclass(frozen=True, slots=True)
class LengthRatio(Comparison):
    """Length of two models' answers to the same rows, the other model's taken for 1.

    Args:
        paired: As if no length were the largest.
        limited: As if none were longer than the longest that was seen; None: of so few that says little.
    """

    paired: PairedMean
    limited: PairedMean | None

    @property
    def baseline_value(self) -> float | None:
        """The other model's length beside its own."""
        return 1.0

    @property
    def candidate_value(self) -> float | None:
        """The ratio."""
        return self.ratio().value

    def ratio(self) -> Estimate:
        """Estimate of the ratio."""
        found = self.paired.ratio()
        if found is not None and self.limited is not None and found.bound(0.95, "upper") is None:
            found = self.limited.ratio()
        return found or ValueOnly(None, self.paired.n, "no bound: the other model wrote nothing at all")

    def difference(self, factor: float, margin: float) -> Estimate:
        """Estimate of the ratio less ``factor``."""
        return Transformed(self.ratio(), lambda value: value - factor, lambda value: value + factor, "minus the factor")


def measure(check: WrittenAnswers, inputs: Inputs) -> CheckResult:
    """Count the faults of a model's texts.

    Raises:
        InputError: There are no rows.
        NotRunError: The model writes no texts.
    """
    answers = inputs.predictions(check.dataset, check.model)
    if answers.masses is None:
        return _of_texts(check, inputs, answers)
    chosen = choices.measure(check, inputs, answers)
    return chosen if answers.written is None else _both(chosen, _of_texts(check, inputs, answers.written))


def _both(chosen: CheckResult, written: CheckResult) -> CheckResult:
    """Findings on a model that chooses, and on the texts that it writes beside."""
    estimates = {**written.estimates, **chosen.estimates}
    comparisons = {**written.comparisons, **chosen.comparisons}
    known = {*estimates, *(f"{metric} vs {model}" for metric, model in comparisons)}
    missing = {name: why for name, why in {**chosen.missing, **written.missing}.items() if name not in known}
    return replace(
        written, estimates=estimates, comparisons=comparisons, missing=missing,
        blocks=(*chosen.blocks, *written.blocks), answers_each={**written.answers_each, **chosen.answers_each},
    )  # fmt: skip


def _of_texts(check: WrittenAnswers, inputs: Inputs, answers: Predictions) -> CheckResult:
    """Faults of texts.

    Raises:
        InputError: There are no rows.
        NotRunError: The model writes no texts.
    """
    needs_task(answers, ("text",), "answers")
    if answers.n == 0:
        raise InputError(f"dataset {check.dataset!r} has no rows", remedy="check its path and its `where:`")
    looked_for = () if check.refusals is None else refusals.patterns(check.refusals, inputs)
    every = all_answers(answers)
    ours = faults(every, looked_for)
    estimates: dict[str, Estimate | Measured] = {
        metric: proportion(rows, every.clusters) for metric, rows in ours.rows.items()
    }
    audit = None if check.refusals is None else refusals.audit_of(check.refusals, inputs, answers)
    if audit is not None:
        # People looked at one answer to each row.
        ours.rows[REFUSAL] = ours.rows[REFUSAL][: answers.n]
        estimates[REFUSAL] = _audited(ours, audit, answers)
    missing = dict(ours.missing)
    blocks: list[AnyBlock] = []
    if variants.wanted(check, UNLIKE):
        try:
            estimates[UNLIKE] = proportion(variants.unlike(answers), answers.clusters)
        except NotRunError as reason:
            missing[UNLIKE] = str(reason)
    if variants.wanted(check, GAP):
        try:
            asked = variants.template_rows(answers)
            estimates[GAP] = asked.gap()
            blocks.append(asked.table(inputs.confidence))
        except NotRunError as reason:
            missing[GAP] = str(reason)
    comparisons, conditions = _comparisons(check, inputs, answers, ours, looked_for, missing)
    return CheckResult(
        estimates=estimates,
        comparisons=comparisons,
        missing=missing,
        blocks=(*show.blocks(check, inputs, every, ours, audit), *blocks),
        counts=Counts(attempted=answers.n, used=answers.n),
        conditions=conditions,
        notes=_notes(check, audit),
        weakens=_weakens(audit),
        answers_each=_each(ours, every.asked, audited=audit is not None),
    )


def _each(ours: FaultyRows, asked: int, *, audited: bool) -> dict[str, int]:
    """Answers to each row, of metrics that look at all of them."""
    return {name: asked for name in (*ours.rows, LENGTH) if not (audited and name == REFUSAL)}


def _audited(ours: FaultyRows, audit: RefusalAudit, answers: Predictions) -> Measured:
    marks = ours.rows[REFUSAL]
    rate = refusals.audited_rate(marks, audit, answers.clusters)
    return Measured(rate, invalid=refusals.invalid(audit), withhold=refusals.uneven(marks, audit))


def _notes(check: WrittenAnswers, audit: RefusalAudit | None) -> tuple[str, ...]:
    if check.refusals is None:
        return ()
    if audit is None:
        return (f"{REFUSAL} is what the pattern finds: no sample of the answers was audited",)
    if audit.elsewhere:
        return (f"{plural(audit.elsewhere, 'audited row')} {verb(audit.elsewhere, 'is', 'are')} not in the dataset",)
    return ()


def _weakens(audit: RefusalAudit | None) -> tuple[str, ...]:
    if audit is None or audit.named == int(audit.audited.sum()):
        return ()
    return ("the audit file has no texts, so it is unknown whether these answers were audited",)


def _comparisons(
    check: WrittenAnswers,
    inputs: Inputs,
    answers: Predictions,
    ours: FaultyRows,
    looked_for: tuple[str, ...],
    missing: dict[str, str],
) -> tuple[dict[tuple[str, str], Comparison], dict[str, str]]:
    """Comparisons that requirements ask for, and what lengths are counted in."""
    made: dict[tuple[str, str], Comparison] = {}
    conditions: dict[str, str] = {}
    for model in check.baselines:
        wanted = dict.fromkeys(one.metric for one in check.requirements if one.model == model)
        try:
            other = inputs.predictions(check.dataset, model)
            other = other.written or other
            needs_task(other, ("text",), "answers")
            every = all_answers(answers), as_often(other, 1 + len(answers.again))
        except NotRunError as reason:
            missing |= {f"{metric} vs {model}": str(reason) for metric in wanted}
            continue
        theirs = faults(every[1], looked_for)
        for metric in wanted:
            if metric == LENGTH:
                made[metric, model], conditions[f"length beside {model}"] = _lengths(*every)
            elif metric == UNLIKE:
                try:
                    both = variants.unlike(answers), variants.unlike(other)
                    made[metric, model] = paired_proportion(*both, answers.clusters)
                except NotRunError as reason:
                    missing[f"{metric} vs {model}"] = str(reason)
            elif metric in ours.rows and metric in theirs.rows:
                # Where people looked at refusals, each row has one answer.
                count = min(len(ours.rows[metric]), len(theirs.rows[metric]))
                clusters = every[0].clusters
                made[metric, model] = paired_proportion(
                    ours.rows[metric][:count],
                    theirs.rows[metric][:count],
                    None if clusters is None else clusters[:count],
                )
            else:
                why = ours.missing.get(metric) or theirs.missing[metric]
                missing[f"{metric} vs {model}"] = why
    return made, conditions


def _lengths(answers: Predictions, other: Predictions) -> tuple[LengthRatio, str]:
    """Both models' lengths, and what they are counted in."""
    assert answers.texts is not None and other.texts is not None
    if answers.tokens is not None and other.tokens is not None:
        ours, theirs, unit = answers.tokens.astype(np.float64), other.tokens.astype(np.float64), "tokens"
    else:
        ours, theirs = word_counts(answers.texts.tolist()), word_counts(other.texts.tolist())
        unit = "words"
    # The longest of few answers says little of how long one may be.
    units = answers.n if answers.clusters is None else len(np.unique(answers.clusters))
    limits = (0.0, float(max(ours.max(), theirs.max())))
    limited = paired_mean(ours, theirs, clusters=answers.clusters, limits=limits) if units >= SMALLEST_N else None
    return LengthRatio(paired_mean(ours, theirs, clusters=answers.clusters), limited), unit

"""Models that choose from options: whether they answer with one of them, and whether its place decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.answers.spec import FLIPS, GAP, LENGTH, MASS, REFUSAL, UNLIKE, WORST_ORDER, WrittenAnswers
from evalspec.checks.model.answers.variants import template_rows, wanted
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.record import Counts
from evalspec.evidence.words import in_percent
from evalspec.language.parts import CheckResult
from evalspec.language.predictions import all_answers
from evalspec.stats.conjunction import AllParts
from evalspec.stats.means.bounded import SHARE
from evalspec.stats.means.mean import mean
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.estimate import Comparison, Estimate
    from evalspec.language.inputs import Inputs, Predictions

OF_TEXTS = ("truncated", "empty", "unparsed", "repeated", REFUSAL, LENGTH, UNLIKE)


def measure(check: WrittenAnswers, inputs: Inputs, answers: Predictions) -> CheckResult:
    """Look at the probabilities that a model gives the options of each row.

    Args:
        check: Its fields.
        inputs: What it is handed.
        answers: Probabilities of options.
    """
    assert answers.masses is not None
    every = all_answers(answers)
    assert every.masses is not None
    estimates: dict[str, Estimate] = {
        MASS: mean(every.masses, rng=inputs.rng, clusters=every.clusters, alpha=inputs.alpha_fail, limits=SHARE)
    }
    missing = dict.fromkeys(OF_TEXTS, f"{answers.model} chooses from options and writes no text")
    blocks: list[AnyBlock] = [_places(every, inputs.confidence)]
    try:
        estimates[FLIPS] = proportion(flipped(answers), answers.clusters)
        estimates |= _worst_order(answers, missing, blocks, inputs.confidence)
    except NotRunError as reason:
        missing |= dict.fromkeys((FLIPS, WORST_ORDER), str(reason))
    if wanted(check, GAP):
        try:
            asked = template_rows(answers)
            estimates[GAP] = asked.gap()
            blocks.append(asked.table(inputs.confidence))
        except NotRunError as reason:
            missing[GAP] = str(reason)
    return CheckResult(
        estimates=estimates,
        comparisons=_comparisons(check, inputs, answers, missing),
        missing=missing,
        blocks=blocks,
        counts=Counts(attempted=answers.n, used=answers.n),
        answers_each={MASS: every.asked},
    )


def flipped(answers: Predictions) -> NDArray[np.bool_]:
    """Rows whose chosen option depends on the order in which options are shown, shape (n,).

    Args:
        answers: Of a model that chooses, in all its orders.

    Raises:
        NotRunError: It is asked in one order.
    """
    if not answers.again:
        raise NotRunError(f"{answers.model} is asked in one order; say such as `orders: 4` in its `options`")
    every = np.stack([np.asarray(one.predicted) for one in (answers, *answers.again)])
    turned: NDArray[np.bool_] = (every != every[0]).any(axis=0)
    return turned


def _worst_order(
    answers: Predictions, missing: dict[str, str], blocks: list[AnyBlock], confidence: float
) -> dict[str, AllParts]:
    """Share of right answers in the worst order; shown order by order."""
    if answers.truth is None:
        missing[WORST_ORDER] = f"dataset {answers.dataset} has no label, so no answer is known to be right"
        return {}
    every = (answers, *answers.again)
    parts = {
        f"order {at + 1}": proportion(np.asarray(one.predicted == one.truth), one.clusters)
        for at, one in enumerate(every)
    }
    percent = in_percent(confidence)
    columns = (
        Column(name="order"), Column(name="right", unit="fraction"),
        Column(name=f"lower {percent}", unit="fraction"), Column(name=f"upper {percent}", unit="fraction"),
    )  # fmt: skip
    lines = tuple(
        (name, one.value, one.bound(confidence, "lower"), one.bound(confidence, "upper")) for name, one in parts.items()
    )
    caption = "The same rows, their options turned by one place each time; the first is what ships."
    blocks.append(Table(title="Right answers by order", caption=caption, columns=columns, rows=lines))
    return {WORST_ORDER: AllParts(parts, "higher")}


def _comparisons(
    check: WrittenAnswers, inputs: Inputs, answers: Predictions, missing: dict[str, str]
) -> dict[tuple[str, str], Comparison]:
    made: dict[tuple[str, str], Comparison] = {}
    for one in check.requirements:
        if one.model is None:
            continue
        try:
            if one.metric != FLIPS:
                raise NotRunError(f"{one.metric} of a model that chooses is not compared with another model's")
            other = flipped(inputs.predictions(check.dataset, one.model))
            made[one.metric, one.model] = paired_proportion(flipped(answers), other, answers.clusters)
        except NotRunError as reason:
            missing[f"{one.metric} vs {one.model}"] = str(reason)
    return made


def _places(answers: Predictions, confidence: float) -> Table:
    """How often each place of the list is chosen, and how often it is right."""
    assert answers.predicted is not None and answers.classes is not None
    percent = in_percent(confidence)
    columns = (
        Column(name="place"), Column(name="chosen", unit="rows"), Column(name="share", unit="fraction"),
        Column(name=f"lower {percent}", unit="fraction"), Column(name=f"upper {percent}", unit="fraction"),
        Column(name="right", unit="rows"),
    )  # fmt: skip
    lines = []
    for place, name in enumerate(answers.classes):
        share = proportion(answers.predicted == place, answers.clusters)
        bounds = share.bound(confidence, "lower"), share.bound(confidence, "upper")
        true = None if answers.truth is None else int((answers.truth == place).sum())
        lines.append((name, int((answers.predicted == place).sum()), share.value, *bounds, true))
    caption = "Places in the row's own list, whatever the order in which it was shown."
    return Table(title="Options chosen", caption=caption, columns=columns, rows=tuple(lines))

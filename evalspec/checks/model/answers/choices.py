"""Models that choose from options: whether they answer with one of them, and whether its place decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.answers.spec import FLIPS, GAP, LENGTH, MASS, REFUSAL, UNLIKE, WrittenAnswers
from evalspec.checks.model.answers.variants import asked_templates, wanted
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.record import Counts
from evalspec.evidence.words import in_percent
from evalspec.language.inputs import Variant
from evalspec.language.parts import CheckResult
from evalspec.stats.means.bounded import SHARE
from evalspec.stats.means.mean import mean
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.estimate import Comparison, Estimate
    from evalspec.language.inputs import Inputs, Predictions

ORDER = "order"
"""First word of the name under which rows are asked about in one order."""
OF_TEXTS = ("truncated", "empty", "unparsed", "repeated", REFUSAL, LENGTH, UNLIKE)


def measure(check: WrittenAnswers, inputs: Inputs, answers: Predictions) -> CheckResult:
    """Look at the probabilities that a model gives the options of each row.

    Args:
        check: Its fields.
        inputs: What it is handed.
        answers: Probabilities of options.
    """
    assert answers.masses is not None
    estimates: dict[str, Estimate] = {
        MASS: mean(answers.masses, rng=inputs.rng, clusters=answers.clusters, alpha=inputs.alpha_fail, limits=SHARE)
    }
    missing = dict.fromkeys(OF_TEXTS, f"{answers.model} chooses from options and writes no text")
    blocks: list[AnyBlock] = [_places(answers, inputs.confidence)]
    if wanted(check, FLIPS):
        try:
            estimates[FLIPS] = proportion(flipped(inputs, answers), answers.clusters)
        except NotRunError as reason:
            missing[FLIPS] = str(reason)
    if wanted(check, GAP):
        try:
            asked = asked_templates(check, inputs)
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
    )


def flipped(inputs: Inputs, answers: Predictions) -> NDArray[np.bool_]:
    """Rows whose chosen option depends on the order in which options are shown, shape (n,).

    Args:
        inputs: What asks again, in each rotation.
        answers: Of a model that chooses.

    Raises:
        NotRunError: It is asked in one order, or can't be asked again.
    """
    count = inputs.model_facts(answers.model).get("orders")
    orders = count if isinstance(count, int) else 1
    if orders < 2:
        raise NotRunError(f"{answers.model} is asked in one order; say such as `orders: 4` in its `options`")
    rows, chosen = inputs.table(answers.dataset), []
    for order in range(orders):
        inputs.progress(order, orders, f"{answers.model}: order {order + 1} of {orders}")
        name, variant = f"{ORDER} {order + 1}", Variant(order=order)
        chosen.append(inputs.predict(rows, answers.dataset, name, answers.model, variant=variant).predicted)
    every = np.stack([np.asarray(one) for one in chosen])
    turned: NDArray[np.bool_] = (every != every[0]).any(axis=0)
    return turned


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
            other = flipped(inputs, inputs.predictions(check.dataset, one.model))
            made[one.metric, one.model] = paired_proportion(flipped(inputs, answers), other, answers.clusters)
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

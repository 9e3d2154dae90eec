"""Measurement of `judged`: the judge's verdicts, corrected by those of people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.judged import show
from evalspec.checks.model.judged.verdicts import Verdicts, read_verdicts
from evalspec.evidence.estimate import Estimate, Measured
from evalspec.evidence.record import Counts
from evalspec.evidence.words import plural
from evalspec.language.parts import CheckResult
from evalspec.stats.means.bounded import SHARE
from evalspec.stats.means.mean import mean
from evalspec.stats.means.prediction_powered import Correction, rectified_mean
from evalspec.stats.shares.proportion import proportion
from evalspec.stats.shares.two_shares import apart

if TYPE_CHECKING:
    from evalspec.checks.model.judged.spec import JudgedAnswers
    from evalspec.language.inputs import Inputs
    from evalspec.stats.types import IntArray

BY_CHANCE = 0.001


def measure(check: JudgedAnswers, inputs: Inputs) -> CheckResult:
    """Join the verdicts, and correct the judge's by those of people.

    Raises:
        InputError: Keys or verdicts can't be used.
        InvalidError: Other answers were judged than the candidate's.
        NotRunError: There are no rows.
    """
    answers = inputs.predictions(check.dataset, check.model)
    verdicts = read_verdicts(check, inputs, answers)
    clusters = inputs.clusters(check.dataset)
    judge = _judge_alone(verdicts, clusters)
    found = rectified_mean(verdicts.judge, verdicts.labelled, verdicts.human, clusters=clusters)
    estimate = judge if check.human is None else found.estimate
    unlike = None if check.human is None else _unlike(verdicts, clusters)
    weakens = tuple(_weakens(check, verdicts))
    return CheckResult(
        estimates={check.metric_name: Measured(estimate, withhold=unlike)},
        missing={name.name: _not_asked(name.name) for name in check.metrics if name.name != check.metric_name},
        blocks=show.blocks(show.JudgedView(check, inputs, answers, verdicts, judge, found)),
        counts=Counts(attempted=answers.n, used=answers.n),
        weakens=weakens,
        notes=(*weakens, *_notes(check, found)),
    )


def _judge_alone(verdicts: Verdicts, clusters: IntArray | None) -> Estimate:
    """Mean of the judge alone."""
    if verdicts.turned is None:
        return proportion(verdicts.judge == 1.0, clusters)
    return mean(verdicts.judge, clusters=clusters, limits=SHARE)


def _unlike(verdicts: Verdicts, clusters: IntArray | None) -> str | None:
    """Why the labelled rows were not drawn at random, as far as the judge's verdicts show it; None: nothing shows."""
    inside = np.zeros(len(verdicts.judge), dtype=np.bool_)
    inside[verdicts.labelled] = True
    if inside.all() or not inside.any():
        return None
    good = verdicts.judge == 1.0
    ours, rest = (
        proportion(good[rows], None if clusters is None else clusters[rows]) for rows in (inside, ~inside)
    )  # fmt: skip
    gap = apart(ours, rest)
    p = [gap.p_value(0.0, side) for side in ("lower", "upper")]
    if all(one is None or one > BY_CHANCE / 2.0 for one in p):
        return None
    return (
        f"the judge passes {100 * float(ours.value or 0.0):.1f} % of the audited rows and "
        f"{100 * float(rest.value or 0.0):.1f} % of the others, so they were not drawn at random"
    )


def _weakens(check: JudgedAnswers, verdicts: Verdicts) -> list[str]:
    said = []
    if check.human is None:
        said.append("no answer was audited: the share is the judge's, and its error is unknown")
    if check.answer is None:
        said.append("it is unknown whether the judge has seen these answers: `answer:` names no column")
    unscored = int(verdicts.unscored.sum())
    counts = "a loss" if verdicts.turned is not None else "a fail"
    if unscored:
        said.append(f"the judge gave no verdict on {plural(unscored, 'answer')}, each of which counts as {counts}")
    if verdicts.undecided:
        said.append(
            f"people did not decide on {plural(verdicts.undecided, 'answer')}, each of which counts as {counts}"
        )
    return said


def _notes(check: JudgedAnswers, found: Correction) -> list[str]:
    if check.human is None or not found.alone:
        return []
    return [f"People's verdicts decide alone: {found.alone}."]


def _not_asked(name: str) -> str:
    columns = "`verdict:`" if name == "judged_pass" else "`seats:`"
    return f"{columns} names no column"

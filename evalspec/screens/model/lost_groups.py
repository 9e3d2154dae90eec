"""A group of rows that a model lost against the one that it is held against, while the average holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from evalspec.screens.answers import baselines, fields_of, losses
from evalspec.screens.evidence import Look
from evalspec.screens.groups import FEWEST, decided, row_groups
from evalspec.screens.pairs import independent_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.screens import Suspicion
    from evalspec.screens.answers import RowLosses
    from evalspec.screens.evidence import Evidence
    from evalspec.screens.groups import RowGroup

LOST = 0.1
"""Least share of a group that was lost on balance, beyond what all other rows lost."""
LOST_OF_VALUES = 0.25
"""The same of values: more error, in parts of the baseline's mean error."""
MARGIN = 0.03
"""Beyond the other rows' share of lost rows, which a group may have by its nature."""


def look(evidence: Evidence) -> Look:
    """Every group that a column makes, for every pair of models that the spec compares."""
    suspicions: list[Suspicion] = []
    questions = 0
    for model, baseline, dataset in baselines(evidence):
        for suspicion in _of_pair(evidence, model, baseline, dataset):
            questions += 1
            suspicions += [suspicion] if suspicion is not None else []
    return Look(tuple(suspicions), questions)


def _of_pair(evidence: Evidence, model: str, baseline: str, dataset: str) -> Iterator[Suspicion | None]:
    """Suspicion about each group, or None."""
    rows = evidence.index(dataset)[independent_rows(evidence, dataset)]
    ours, theirs = (losses(evidence, dataset, name, rows) for name in (model, baseline))
    if ours is None or theirs is None or ours.metric != theirs.metric:
        return
    known = np.isfinite(ours.rows) & np.isfinite(theirs.rows)
    # Of values a loss is a large one beside those that the baseline has anyway.
    scale = 1.0 if ours.better else float(theirs.rows[known].mean())
    for group in row_groups(evidence, dataset):
        inside, others = group.inside & known, ~group.inside & known
        more = (ours.rows - theirs.rows) / (scale or 1.0)
        least = LOST if ours.better else LOST_OF_VALUES
        if min(inside.sum(), others.sum()) < FEWEST or decided(evidence, dataset, group.column):
            yield None
            continue
        if more[inside].mean() - max(0.0, more[others].mean()) < least:
            yield None
            continue
        p_value = (_of_hits if ours.metric == "accuracy" else _of_amounts)(more[inside], more[others])
        sentence = _sentence((model, ours), (baseline, theirs), f"with {group.name} of {dataset}", inside, others)
        yield evidence.suspicion(
            group.name, sentence, _suggestion(evidence, model, baseline, dataset, group, ours), p_value
        )


def _of_hits(inside: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Binomial, of rows that were lost; two more of the others, since these are a sample as well."""
    from scipy.special import bdtrc

    rate = ((others > 0).sum() + 2) / (len(others) + 2) + MARGIN
    return float(bdtrc(int((inside > 0).sum()) - 1, len(inside), min(1.0, rate)))


def _of_amounts(inside: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """The larger one of Welch's t and of the rank sum's: means of few rows lean, and ranks don't see how far."""
    from scipy.stats import mannwhitneyu, ttest_ind

    beyond = inside - MARGIN
    above = np.maximum(0.0, others.mean()) - others.mean()
    by_mean = ttest_ind(beyond, others + above, equal_var=False, alternative="greater").pvalue
    return float(max(by_mean, mannwhitneyu(inside, others, alternative="greater").pvalue))


def _sentence(
    own: tuple[str, RowLosses],
    other: tuple[str, RowLosses],
    rows: str,
    inside: NDArray[np.bool_],
    others: NDArray[np.bool_],
) -> str:
    """Scores of both models in the group, and in the other rows."""
    (model, ours), (baseline, theirs) = own, other
    means = [one.rows[part].mean() for part in (inside, others) for one in (ours, theirs)]
    first, second, third, fourth = (f"{100 * (1 - one):.3g} %" if ours.better else f"{one:.3g}" for one in means)
    count = f"the {inside.sum():,} rows {rows}"
    if ours.metric == "accuracy":
        said = f"{model} answers {first} of {count} rightly, {baseline} {second}; of the other rows"
    elif ours.better:
        said = f"{ours.metric} of {model} is {first} in {count}, of {baseline} {second}; in the other rows"
    else:
        said = f"{model} is off by {first} on average in {count}, {baseline} by {second}; in the other rows by"
    return f"{said} {third} and {fourth}"


def _suggestion(
    evidence: Evidence, model: str, baseline: str, dataset: str, group: RowGroup, losses_of: RowLosses
) -> str:
    bound = f">= {baseline} - 5 pp" if losses_of.better else f"<= 1.1x {baseline}"
    return evidence.slice_requirement(group.where, f"worst_{losses_of.metric} {bound}", fields_of(dataset, model))

"""A group of rows that a model lost against the one that it is held against, while the average holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evalspec.screens.answers import baselines, fields_of, right
from evalspec.screens.evidence import Look
from evalspec.screens.groups import decided, independent_rows, row_groups

if TYPE_CHECKING:
    from evalspec.evidence.screens import Suspicion
    from evalspec.screens.evidence import Evidence
    from evalspec.screens.groups import RowGroup

LOST = 0.1
"""Least share of a group that was lost on balance, beyond what all other rows lost."""
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
    from scipy.special import bdtrc

    rows = evidence.index(dataset)[independent_rows(evidence, dataset)]
    ours, theirs = (right(evidence.predictions(dataset, name), rows) for name in (model, baseline))
    if ours is None or theirs is None:
        return
    lost, won = theirs & ~ours, ours & ~theirs
    for group in row_groups(evidence, dataset):
        inside, n = group.inside, int(group.inside.sum())
        others = len(rows) - n
        net = float(lost[inside].sum() - won[inside].sum()) / n
        elsewhere = float(lost[~inside].sum() - won[~inside].sum()) / others
        if net - max(0.0, elsewhere) < LOST or decided(evidence, dataset, group.column):
            yield None
            continue
        # Two rows more, since the others are a sample as well.
        rate = (lost[~inside].sum() + 2) / (others + 2) + MARGIN
        p_value = float(bdtrc(lost[inside].sum() - 1, n, min(1.0, rate)))
        own, base, own_others, base_others = (
            f"{100 * hits[rows_of].mean():.3g} %" for rows_of in (inside, ~inside) for hits in (ours, theirs)
        )
        sentence = (
            f"{model} answers {own} of the {n:,} rows with {group.name} of {dataset} rightly, {baseline} {base}; of "
            f"the other rows {own_others} and {base_others}"
        )
        yield evidence.suspicion(group.name, sentence, _suggestion(evidence, model, baseline, dataset, group), p_value)


def _suggestion(evidence: Evidence, model: str, baseline: str, dataset: str, group: RowGroup) -> str:
    fields = fields_of(dataset, model)
    sentence = f"worst_accuracy >= {baseline} - 5 pp"
    return evidence.slice_requirement(group.where, sentence, fields)

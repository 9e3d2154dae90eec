"""Answers of a model that is asked again: samples that come to another one, templates with fewer right ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.answers.spec import GAP, UNLIKE
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.words import in_percent
from evalspec.scoring.text.variants import right, said, samples, templates
from evalspec.stats.conjunction import AbsoluteDifference, AllParts
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.answers.faults import FaultyRows
    from evalspec.checks.model.answers.spec import WrittenAnswers
    from evalspec.language.inputs import Inputs


@dataclass(frozen=True, slots=True)
class TemplateRows:
    """Rows that each template is right about.

    Args:
        right: Name of the template: shape (n,); at least two.
        clusters: shape (n,), or None.
    """

    right: dict[str, NDArray[np.bool_]]
    clusters: NDArray[np.int64] | None

    def gap(self) -> AllParts:
        """The largest difference between two of them, in either direction."""
        pairs = {
            f"{first} - {second}": AbsoluteDifference(
                paired_proportion(self.right[first], self.right[second], self.clusters).difference()
            )
            for first, second in combinations(self.right, 2)
        }
        return AllParts(pairs, "lower")

    def table(self, confidence: float) -> Table:
        """Share of right answers by template."""
        percent = in_percent(confidence)
        columns = (
            Column(name="template"), Column(name="right", unit="rows"), Column(name="share", unit="fraction"),
            Column(name=f"lower {percent}", unit="fraction"), Column(name=f"upper {percent}", unit="fraction"),
        )  # fmt: skip
        lines = []
        for name, rows in self.right.items():
            share = proportion(rows, self.clusters)
            bounds = share.bound(confidence, "lower"), share.bound(confidence, "upper")
            lines.append((name, int(rows.sum()), share.value, *bounds))
        caption = "The same rows, each template in turn; the first is what all other checks ask."
        return Table(title="Right answers by template", caption=caption, columns=columns, rows=tuple(lines))


def wanted(check: WrittenAnswers, metric: str) -> bool:
    """True where a requirement is about a metric."""
    return any(one.metric == metric for one in check.requirements)


def add_unlike(check: WrittenAnswers, inputs: Inputs, model: str, rows: FaultyRows) -> None:
    """Ask for the other samples of a model, and mark the rows whose samples come to several answers."""
    try:
        several = np.stack([said(one) for one in samples(inputs, check.dataset, model)])
    except NotRunError as reason:
        rows.missing[UNLIKE] = str(reason)
        return
    if len(several) == 1:
        rows.missing[UNLIKE] = f"{model} gives one answer to each row; say `samples:` in its `generate`"
        return
    rows.rows[UNLIKE] = (several != several[0]).any(axis=0)


def asked_templates(check: WrittenAnswers, inputs: Inputs) -> TemplateRows:
    """Ask all templates about all rows.

    Raises:
        NotRunError: The model can't be asked, has one template, or the rows have no label.
    """
    answers = inputs.predictions(check.dataset, check.model)
    if answers.truth is None:
        raise NotRunError(f"dataset {check.dataset} has no label, so no answer is known to be right")
    several = templates(inputs, check.dataset, check.model)
    if len(several) == 1:
        raise NotRunError(f"the prompt of {check.model} has one text in `user`, so {GAP} has nothing to compare")
    names = [f"template {number + 1}" for number in range(len(several))]
    return TemplateRows({name: right(one) for name, one in zip(names, several, strict=True)}, answers.clusters)

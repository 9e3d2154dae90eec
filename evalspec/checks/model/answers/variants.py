"""Answers of a model that is asked again: samples that come to another one, templates with fewer right ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.answers.spec import GAP
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.words import in_percent
from evalspec.language.predictions import all_answers
from evalspec.scoring.text.variants import right, said
from evalspec.stats.conjunction import AbsoluteDifference, AllParts
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.answers.spec import WrittenAnswers
    from evalspec.language.inputs import Predictions


@dataclass(frozen=True, slots=True)
class TemplateRows:
    """Answers by each template that are right.

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
        caption = "The same rows, each template in turn; the first is what ships."
        return Table(title="Right answers by template", caption=caption, columns=columns, rows=tuple(lines))


def wanted(check: WrittenAnswers, metric: str) -> bool:
    """True where a requirement is about a metric."""
    return any(one.metric == metric for one in check.requirements)


def unlike(answers: Predictions) -> NDArray[np.bool_]:
    """Rows whose samples do not all come to the same answer, shape (n,).

    Raises:
        NotRunError: There is one sample of each.
    """
    if not answers.again or answers.texts is None:
        raise NotRunError(f"{answers.model} gives one answer to each row; say `samples:` in its `generate`")
    several = np.stack([said(one) for one in (answers, *answers.again)])
    rows: NDArray[np.bool_] = (several != several[0]).any(axis=0)
    return rows


def template_rows(answers: Predictions) -> TemplateRows:
    """Answers by all templates that are right.

    Raises:
        NotRunError: The model has one template, or the rows have no label.
    """
    if answers.truth is None:
        raise NotRunError(f"dataset {answers.dataset} has no label, so no answer is known to be right")
    if not answers.by_template:
        raise NotRunError(f"the prompt of {answers.model} has one text in `user`, so {GAP} has nothing to compare")
    several = (answers, *answers.by_template)
    names = [f"template {number + 1}" for number in range(len(several))]
    rows = {name: right(one) for name, one in zip(names, several, strict=True)}
    return TemplateRows(rows, all_answers(answers).clusters)

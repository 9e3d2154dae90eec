"""Blocks of `judged`: the judge beside people, where they differ, lengths of answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Example, Examples, Interval, Intervals, Matrix, Table
from evalspec.evidence.words import in_percent
from evalspec.scoring.on_demand import shown_bounds

if TYPE_CHECKING:
    from evalspec.checks.model.judged.spec import JudgedAnswers
    from evalspec.checks.model.judged.verdicts import Verdicts
    from evalspec.evidence.estimate import Estimate
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Predictions
    from evalspec.stats.means.prediction_powered import Correction
    from evalspec.stats.types import BoolArray, FloatArray

EXAMPLES_SHOWN = 8
LONGEST_SHOWN = 600


@dataclass(frozen=True, slots=True)
class JudgedView:
    """All that is shown of.

    Args:
        check: The check.
        inputs: Its inputs.
        answers: The candidate's, in row order.
        verdicts: Of judge and people.
        judge: What the judge says by itself.
        found: What follows with people's verdicts.
    """

    check: JudgedAnswers
    inputs: Inputs
    answers: Predictions
    verdicts: Verdicts
    judge: Estimate
    found: Correction

    @property
    def beside(self) -> FloatArray:
        """The judge's verdicts on the labelled rows, shape (m,)."""
        return self.verdicts.judge[self.verdicts.labelled]


def blocks(seen: JudgedView) -> list[AnyBlock]:
    """Blocks to show."""
    shown: list[AnyBlock] = [_estimates(seen), _facts(seen)]
    if len(seen.verdicts.labelled):
        shown.append(_matrix(seen))
    if seen.answers.texts is not None and seen.answers.n >= 2:
        shown.append(_by_length(seen, np.array([len(text.split()) for text in seen.answers.texts])))
    if seen.check.show_examples and seen.answers.texts is not None:
        shown += _examples(seen, seen.answers.texts)
    return shown


def _estimates(seen: JudgedView) -> Intervals:
    confidence, found = seen.inputs.confidence, seen.found
    lines = [("the judge, all rows", seen.judge)]
    if len(seen.verdicts.labelled):
        lines.append(("people, labelled rows", found.humans))
        if not found.alone:
            lines.append(("people and judge, all rows", found.estimate))
    rows = []
    for label, one in lines:
        lower, upper = shown_bounds(one, confidence)
        rows.append(Interval(label=label, value=one.value, lower=lower, upper=upper, n=one.n))
    return Intervals(
        title=f"{seen.check.metric_name} by judge and people",
        caption=f"One-sided bounds at {in_percent(confidence)} each; that of the judge knows nothing of its errors.",
        unit="fraction", rows=tuple(rows),
    )  # fmt: skip


def _facts(seen: JudgedView) -> Table:
    verdicts, found = seen.verdicts, seen.found
    rows: list[tuple[Cell, ...]] = [
        ("answers", seen.answers.n), ("answers without a verdict of the judge", int(verdicts.unscored.sum())),
        ("the judge's share of all answers", _percent(float(verdicts.judge.mean()))),
    ]  # fmt: skip
    if len(verdicts.labelled):
        rows += [
            ("answers with a verdict of people", len(verdicts.labelled)),
            ("agreement on these", _percent(float(np.mean(seen.beside == verdicts.human)))),
            ("people's share of these", _percent(float(verdicts.human.mean()))),
            ("the judge's share of these", _percent(float(seen.beside.mean()))),
            ("people less judge (the rectifier)", f"{100 * (found.rectifier or 0.0):+.1f} pp"),
            ("weight of the judge", round(found.weight, 3)),
            ("corrected share", _percent(found.value or 0.0)),
        ]
    if verdicts.turned is not None and verdicts.first_seat is not None:
        rows += [
            ("verdicts that turn with the seat", verdicts.turned),
            ("wins of the first seat", _percent(verdicts.first_seat)),
        ]
    return Table(
        title="The judge and its errors", caption="The judge's error on the audited rows.",
        columns=(Column(name="what"), Column(name="value")), rows=tuple(rows),
    )  # fmt: skip


def _matrix(seen: JudgedView) -> Matrix:
    names = ("fail", "pass") if seen.verdicts.turned is None else ("loss", "tie", "win")
    steps = len(names) - 1
    table = np.zeros((len(names), len(names)))
    np.add.at(table, ((seen.verdicts.human * steps).astype(int), (seen.beside * steps).astype(int)), 1.0)
    return Matrix(
        title="People and judge on the same answers", caption="Off the diagonal they differ.", row_label="people",
        column_label="judge", rows=names, columns=names, values=tuple(tuple(row) for row in table.tolist()),
    )  # fmt: skip


def _by_length(seen: JudgedView, words: FloatArray) -> Table:
    """Shares among the shorter and the longer half of the answers."""
    middle = float(np.median(words))
    longer = words > middle
    labelled = seen.verdicts.labelled
    rows = []
    for name, inside in ((f"up to {middle:g} words", ~longer), (f"over {middle:g} words", longer)):
        own = inside[labelled]
        rows.append((
            name, int(inside.sum()), _share(seen.verdicts.judge, inside), int(own.sum()), _share(seen.beside, own),
            _share(seen.verdicts.human, own),
        ))  # fmt: skip
    return Table(
        title="By length of the answer", caption="A judge who likes long answers is further above people there.",
        columns=(
            Column(name="answers"), Column(name="rows", unit="rows"), Column(name="judge", unit="fraction"),
            Column(name="labelled", unit="rows"), Column(name="judge on these", unit="fraction"),
            Column(name="people on these", unit="fraction"),
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _examples(seen: JudgedView, texts: np.ndarray) -> Iterator[Examples]:
    apart = np.flatnonzero(seen.beside != seen.verdicts.human)
    if not len(apart):
        return
    examples = tuple(
        Example(
            title=f"row {seen.verdicts.labelled[one]:,}",
            fields={"judge": float(seen.beside[one]), "people": float(seen.verdicts.human[one])},
            text=str(texts[seen.verdicts.labelled[one]])[:LONGEST_SHOWN],
        )
        for one in apart[:EXAMPLES_SHOWN]
    )  # fmt: skip
    yield Examples(title="Where people and judge differ", examples=examples, total=len(apart))


def _share(scores: FloatArray, inside: BoolArray) -> float | None:
    return float(scores[inside].mean()) if inside.any() else None


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"

"""Blocks of `answers`: how many rows have each fault, why texts end, and some of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.answers.spec import REFUSAL
from evalspec.evidence.blocks import AnyBlock, Column, Example, Examples, Table
from evalspec.evidence.words import in_percent
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from evalspec.checks.model.answers.faults import FaultyRows
    from evalspec.checks.model.answers.refusals import RefusalAudit
    from evalspec.checks.model.answers.spec import WrittenAnswers
    from evalspec.language.inputs import Inputs, Predictions

EACH_SHOWN = 3
ENDS_SHOWN = 160
"""Characters of both ends of a text."""
REASONS_SHOWN = 20


def blocks(
    check: WrittenAnswers, inputs: Inputs, answers: Predictions, ours: FaultyRows, audit: RefusalAudit | None = None
) -> list[AnyBlock]:
    """Blocks of the check's evidence.

    Args:
        check: The check.
        inputs: What it was handed.
        answers: The candidate's.
        ours: Their faults.
        audit: People's word on refusals; None: there is none.
    """
    found: list[AnyBlock] = [_table(answers, ours, inputs.confidence)]
    if answers.finish_reasons is not None:
        found.append(_reasons(answers))
    if audit is not None:
        found.append(_errors(ours, audit, inputs.confidence))
    if check.show_examples and any(rows.any() for rows in ours.rows.values()):
        found.append(_examples(ours))
    return found


def _table(answers: Predictions, ours: FaultyRows, confidence: float) -> Table:
    percent = in_percent(confidence)
    columns = (
        Column(name="fault"), Column(name="rows", unit="rows"), Column(name="share", unit="fraction"),
        Column(name=f"lower {percent}", unit="fraction"), Column(name=f"upper {percent}", unit="fraction"),
    )  # fmt: skip
    lines = []
    for metric, rows in ours.rows.items():
        share = proportion(rows, answers.clusters)
        bounds = share.bound(confidence, "lower"), share.bound(confidence, "upper")
        lines.append((metric, int(rows.sum()), share.value, *bounds))
    by_pattern = " Refusals as the pattern finds them." if REFUSAL in ours.rows else ""
    caption = f"Of {answers.n:,} answers; one may have several faults.{by_pattern}"
    return Table(title="Faults of answers", caption=caption, columns=columns, rows=tuple(lines))


def _reasons(answers: Predictions) -> Table:
    assert answers.finish_reasons is not None
    counts = Counter(answers.finish_reasons.tolist()).most_common()
    columns = (Column(name="reason"), Column(name="rows", unit="rows"))
    more = f" The {REASONS_SHOWN} most frequent of {len(counts)}." if len(counts) > REASONS_SHOWN else ""
    return Table(
        title="Why texts end", caption=f"As the model says.{more}", columns=columns, rows=tuple(counts[:REASONS_SHOWN])
    )


def _errors(ours: FaultyRows, audit: RefusalAudit, confidence: float) -> Table:
    """How often the pattern finds what is no refusal, and misses what is one."""
    marks, refused = ours.rows[REFUSAL][audit.audited], audit.refused[audit.audited]
    percent = in_percent(confidence)
    columns = (
        Column(name="the pattern"), Column(name="audited", unit="rows"), Column(name="refusals", unit="rows"),
        Column(name="share", unit="fraction"), Column(name=f"lower {percent}", unit="fraction"),
        Column(name=f"upper {percent}", unit="fraction"),
    )  # fmt: skip
    lines = []
    for name, inside in (("finds it", marks), ("does not find it", ~marks)):
        share = proportion(refused[inside])
        bounds = share.bound(confidence, "lower"), share.bound(confidence, "upper")
        lines.append((name, share.n, int(refused[inside].sum()), share.value, *bounds))
    caption = "Audited rows by what the pattern says of them; the share is that of refusals by people's word."
    return Table(title="What people say of the pattern", caption=caption, columns=columns, rows=tuple(lines))


def _examples(ours: FaultyRows) -> Examples:
    shown = [
        Example(title=f"row {row}", fields={"row": row, "fault": metric}, text=_ends(ours.texts[row]))
        for metric, rows in ours.rows.items()
        for row in np.flatnonzero(rows)[:EACH_SHOWN].tolist()
    ]
    total = sum(int(rows.sum()) for rows in ours.rows.values())
    return Examples(
        title="Answers with a fault", caption="The first rows of each fault.", examples=tuple(shown), total=total
    )


def _ends(text: str) -> str:
    return text if len(text) <= 2 * ENDS_SHOWN else f"{text[:ENDS_SHOWN]} … {text[-ENDS_SHOWN:]}"

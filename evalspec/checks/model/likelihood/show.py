"""Blocks, notes and warnings of `likelihood`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.likelihood.documents import NATS
from evalspec.evidence.blocks import AnyBlock, Column, Histogram, Table
from evalspec.evidence.estimate import Estimate
from evalspec.evidence.words import in_percent, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.model.likelihood.documents import Documents
    from evalspec.checks.model.likelihood.spec import Likelihood
    from evalspec.evidence.frozen import Cell
    from evalspec.language.likelihoods import TokenLikelihoods

CELLS = 20
EXAMPLES = 5
"""Documents that are named."""


def blocks(
    check: Likelihood, documents: Documents, estimates: Mapping[str, Estimate], confidence: float
) -> list[AnyBlock]:
    """Models side by side, documents by how likely they are, and those that stand out.

    Args:
        check: Its fields.
        documents: Sums by document.
        estimates: Metrics of the check's own model.
        confidence: Of the bounds.
    """
    found: list[AnyBlock] = [_metrics(estimates, confidence), _models(check, documents), _histogram(check, documents)]
    if check.show_examples:
        found.append(_outstanding(check, documents))
    return found


def _metrics(estimates: Mapping[str, Estimate], confidence: float) -> Table:
    percent = in_percent(confidence)
    columns = (
        Column(name="metric"), Column(name="value"), Column(name=f"lower {percent}"), Column(name=f"upper {percent}"),
        Column(name="method"),
    )  # fmt: skip
    rows = tuple(
        (name, one.value, one.bound(confidence, "lower"), one.bound(confidence, "upper"), one.method)
        for name, one in estimates.items()
    )
    return Table(title="Likelihood of the texts", caption="Over documents; shares in 0..1.", columns=columns, rows=rows)


def _models(check: Likelihood, documents: Documents) -> Table:
    tokens, size = documents.tokens.sum(), documents.bytes.sum()

    def line(name: str, nll: NDArray[np.float64], right: NDArray[np.float64] | None) -> tuple[Cell, ...]:
        total = float(nll.sum())
        # Of other tokens the number by token is another thing.
        by_token = None if right is None or total / tokens > 700.0 else float(np.exp(total / tokens))
        accuracy = None if right is None else 100.0 * float(right.sum() / tokens)
        return name, by_token, total / NATS / float(size), accuracy

    columns = (
        Column(name="model"), Column(name="perplexity", unit="score"), Column(name="bits by byte", unit="score"),
        Column(name="next token right", unit="%"),
    )  # fmt: skip
    rows = [line(check.model, documents.own.nll, documents.own.right)]
    rows += [line(name, other.nll, other.right) for name, other in documents.others.items()]
    caption = f"{int(tokens):,} tokens, {int(size):,} bytes, of {plural(len(documents.rows), 'document')}."
    return Table(title="Models on the same texts", caption=caption, columns=columns, rows=tuple(rows))


def _histogram(check: Likelihood, documents: Documents) -> Histogram:
    bits = {check.model: documents.own.nll / NATS / documents.bytes}
    bits |= {name: other.nll / NATS / documents.bytes for name, other in documents.others.items()}
    low, high = min(float(one.min()) for one in bits.values()), max(float(one.max()) for one in bits.values())
    edges = np.linspace(low, high if high > low else low + 1.0, CELLS + 1)
    counts = {name: tuple(int(one) for one in np.histogram(values, edges)[0]) for name, values in bits.items()}
    return Histogram(
        title="Bits by byte of each document", caption="Unlikely documents stand to the right.",
        x_label="bits by byte", y_label="documents", edges=tuple(float(edge) for edge in edges), counts=counts,
    )  # fmt: skip


def _outstanding(check: Likelihood, documents: Documents) -> Table:
    """Documents with the most bits by byte, or where there is a baseline with the largest change in nats a token."""
    name, other = next(iter(documents.others.items()), (None, None))
    bits = documents.own.nll / NATS / documents.bytes
    change = None if other is None else (documents.own.nll - other.nll) / documents.tokens
    worst = np.argsort(-(bits if change is None else change), kind="stable")[:EXAMPLES]
    columns = [
        Column(name="row", unit="count"), Column(name="tokens", unit="count"), Column(name="bits by byte", unit="score")
    ]  # fmt: skip
    if name is not None:
        columns.append(Column(name=f"nats a token more than {name}", unit="score"))
    rows = tuple(
        (int(documents.rows[at]), int(documents.tokens[at]), float(bits[at]),
         *(() if change is None else (float(change[at]),)))
        for at in worst
    )  # fmt: skip
    what = "least likely" if change is None else "that lost most"
    return Table(
        title=f"Documents {what}", caption="Rows of the dataset, counted from 0.", columns=tuple(columns), rows=rows
    )


def notes(check: Likelihood, documents: Documents, rows: int) -> list[str]:
    """Sentences on what was left out, and on how many documents carry the numbers."""
    found = []
    if rows > len(documents.rows):
        found.append(f"{plural(rows - len(documents.rows), 'row')} of {check.dataset} without a token to score.")
    largest = float(documents.tokens.max() / documents.tokens.sum())
    if largest > 0.1:
        found.append(
            f"One document has {100 * largest:.0f} % of all tokens: it counts as one, however many tokens it has."
        )
    return found


def weakens(check: Likelihood, mine: TokenLikelihoods) -> list[str]:
    """Sentences on what makes the numbers weaker than they read: texts that begin twice."""
    if not mine.begins_twice:
        return []
    return [
        f"{check.model} sees {plural(mine.begins_twice, 'text')} of {check.dataset} with two begin tokens (the first "
        f"ids are {' '.join(str(one) for one in mine.first[:4])}): the text, or its template, holds the one that the "
        "tokenizer adds; remove it from one of them"
    ]

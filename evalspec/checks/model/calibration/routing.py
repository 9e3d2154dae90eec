"""Rows that change sides at the threshold: from answered alone to handed to a person, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.model.calibration.paired_rows import beside
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.estimate import Parts
from evalspec.evidence.words import in_percent
from evalspec.scoring.on_demand import known
from evalspec.stats.calibration.expected_error import top_label
from evalspec.stats.shares.proportion import Proportion, proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Predictions


@dataclass(frozen=True)
class Routing:
    """Routing of the same rows by two models, at one threshold.

    Args:
        estimate: Share of rows that change sides, with both directions as parts.
        table: What happens to the rows, and the accuracy of both models on them.
        note: The same in a sentence.
    """

    estimate: Parts
    table: Table
    note: str


@dataclass(frozen=True)
class _Side:
    """Side of the threshold, correctness and answer of one model for each row: shape (n,) each."""

    alone: NDArray[np.bool_]
    correct: NDArray[np.bool_]
    answer: NDArray[np.object_]


def routing(rows: Predictions, other: Predictions, threshold: float, level: float) -> Routing | str:
    """Compare the side of the threshold that each row is on with its side for another model.

    Args:
        rows: Answers of the check's model, with probabilities and truth.
        other: Answers of the model that it is compared with.
        threshold: Confidence from which on answers are used without a person.
        level: Confidence of the bounds in the table, each on its own side.

    Returns:
        The routing, or the reason why there is none.
    """
    if not other.is_classification or other.probabilities is None or other.truth is None:
        return f"{other.model} has no probabilities, so it has no side of the threshold"
    try:
        other = beside(rows, other)
    except NotRunError as reason:
        return str(reason)
    ours, theirs = _side(rows, threshold), _side(other, threshold)
    clusters = rows.clusters
    to_person, to_auto = theirs.alone & ~ours.alone, ours.alone & ~theirs.alone
    moved = proportion(to_person | to_auto, clusters)
    parts = {"to_person": proportion(to_person, clusters), "to_auto": proportion(to_auto, clusters)}
    same = ours.answer == theirs.answer
    kinds = {
        "alone with both, same answer": ours.alone & theirs.alone & same,
        "alone with both, another answer": ours.alone & theirs.alone & ~same,
        f"to a person now, alone with {other.model}": to_person,
        f"alone now, to a person with {other.model}": to_auto,
        "to a person with both": ~ours.alone & ~theirs.alone,
    }
    lines = tuple(_line(name, mask, ours, theirs, clusters, level) for name, mask in kinds.items())
    return Routing(Parts(parts, moved), _table(lines, rows.model, other.model, threshold, level), _note(moved, parts))


def _side(rows: Predictions, threshold: float) -> _Side:
    assert rows.probabilities is not None and rows.truth is not None
    confidence, correct = top_label(rows.probabilities, rows.truth.astype(np.int64))
    names = np.array(rows.classes or (), dtype=np.object_)
    return _Side(confidence >= threshold, correct, names[rows.probabilities.argmax(axis=1)])


def _line(
    name: str,
    mask: NDArray[np.bool_],
    ours: _Side,
    theirs: _Side,
    clusters: NDArray[np.int64] | None,
    level: float,
) -> tuple[Cell, ...]:
    share = proportion(mask, clusters)
    percent = [None if one is None else 100.0 * one for one in (share.value, *_bounds(share, level))]
    right = [float(side.correct[mask].mean()) if mask.any() else None for side in (ours, theirs)]
    return (name, int(mask.sum()), *percent, *right)


def _bounds(share: Proportion, level: float) -> tuple[float | None, float | None]:
    return share.bound(level, "lower"), share.bound(level, "upper")


def _table(lines: tuple[tuple[Cell, ...], ...], model: str, other: str, threshold: float, level: float) -> Table:
    columns = (
        Column(name="rows that are answered"), Column(name="rows", unit="rows"), Column(name="share", unit="%"),
        Column(name=f"lower {in_percent(level)}", unit="%"), Column(name=f"upper {in_percent(level)}", unit="%"),
        Column(name=f"accuracy of {model}", unit="fraction"), Column(name=f"accuracy of {other}", unit="fraction"),
    )  # fmt: skip
    caption = f"Alone: with a confidence of {threshold:g} or more. Rows that change sides change who does the work."
    return Table(title="Routing", caption=caption, columns=columns, rows=lines)


def _note(moved: Proportion, parts: dict[str, Proportion]) -> str:
    if moved.value is None:
        return "There are no rows to route."
    shares = [100.0 * known(part) for part in parts.values()]
    return (
        f"{100.0 * moved.value:.3g} % of rows change sides at the threshold: {shares[0]:.3g} % go to a person now, "
        f"{shares[1]:.3g} % are answered alone now."
    )

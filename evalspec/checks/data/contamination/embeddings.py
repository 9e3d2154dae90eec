"""Rows of the test set whose embeddings point the way of one in training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.checks.data.contamination.detector import Level, RowPair, TestSide
from evalspec.checks.data.contamination.examples import PAIRS_SHOWN, example, with_fields
from evalspec.errors import InputError
from evalspec.evidence.blocks import Column, Example, Table
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import plural, verb
from evalspec.stats.sets.neighbours import Neighbours, directions, neighbours

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs

KIND, METRIC, TITLE = "embedding", "embedding_neighbours", "neighbours"
MUCH = 0.01
"""Share of test rows with a neighbour among themselves above which the limit says little."""
EQUAL = 1.0 - 1e-6
"""Cosine above which embeddings are those of equal rows."""


@dataclass
class _Found:
    """The neighbours in one training set, and those of its rows that are shown."""

    found: Neighbours
    rows: int
    wanted: dict[int, list[int]]
    shown: dict[int, Example] = field(default_factory=dict)


class EmbeddingDetector:
    """Test rows with a near neighbour in training, by the embeddings of a model; a `Detector`.

    Args:
        inputs: What the check is handed.
        asked: The test side.
        model: Gives the embeddings.
        similarity: Cosine from which on rows are neighbours.

    Raises:
        InputError: The model gives no embeddings, or not one for each row.
    """

    def __init__(self, inputs: Inputs, asked: TestSide, model: str, similarity: float) -> None:
        self._inputs, self._asked, self._model, self._similarity = inputs, asked, model, similarity
        self._ours = _embeddings(inputs, asked.name, model)
        self._among = neighbours(self._ours, self._ours, similarity, same=True)
        self._sets: dict[str, _Found] = {}
        self._now = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are shown."""
        return self._asked.named

    @property
    def notes(self) -> tuple[str, ...]:
        """Rows that can have no neighbour, and that rows have neighbours anyway."""
        none, test = int((~self._ours.any(axis=1)).sum()), self._asked.name
        has = verb(none, "has", "have")
        found = [f"{plural(none, 'row')} of {test} {has} an embedding of zeros, without neighbours."] if none else []
        if self.chance > MUCH:
            found.append(
                f"{100 * self.chance:.3g} % of the rows of {test} have a neighbour inside {test}: if these are not "
                f"copies, raise `embedding_similarity:` (here {self._similarity:g})."
            )
        return tuple(found)

    def begin(self, train_set: str) -> None:
        """Compare with all of this training set; the batches that follow are looked at for examples only."""
        theirs = _embeddings(self._inputs, train_set, self._model)
        found = neighbours(theirs, self._ours, self._similarity)
        near = np.flatnonzero(found.near)
        # Equal rows are shown as such; here those come first that only the embeddings find.
        equal = found.similarity[near] > EQUAL
        closest = near[np.lexsort((-found.similarity[near], equal))][:PAIRS_SHOWN]
        wanted: dict[int, list[int]] = {}
        for row in closest:
            wanted.setdefault(int(found.row[row]), []).append(int(row))
        self._now, self._sets[train_set] = train_set, _Found(found, len(theirs), wanted)

    def see(self, rows: pa.Table, first_row: int) -> None:
        """Keep the training rows that are shown."""
        one = self._sets[self._now]
        for row in one.wanted:
            if first_row <= row < first_row + rows.num_rows:
                one.shown[row] = example(self._asked, rows, row - first_row, TITLE, name=self._now, number=row)

    def levels(self) -> tuple[Level, ...]:
        """One: the test rows with a neighbour in training."""
        near = {name: one.found.near > 0 for name, one in self._sets.items()}
        every = np.asarray(np.logical_or.reduce([np.zeros(len(self._ours), bool), *near.values()]))
        found = {name: one.found for name, one in self._sets.items()}
        return (
            Level(
                kind=KIND,
                metric=METRIC,
                title=TITLE,
                rows=every,
                in_set=near,
                train_row={name: np.where(near[name], one.row, -1) for name, one in found.items()},
                closeness={name: np.where(near[name], one.similarity, np.nan) for name, one in found.items()},
                method=(
                    f"cosine of the embeddings of {self._model} of at least {self._similarity:g}, all pairs compared; "
                    f"test rows among themselves: {100 * self.chance:.3g} % have such a neighbour"
                ),
            ),
        )

    @property
    def chance(self) -> float:
        """Share of test rows with such a neighbour among the test rows themselves: what the limit means here."""
        return float((self._among.near > 0).mean()) if len(self._ours) else 0.0

    def table(self) -> Table:
        """How often rows are neighbours, in training and inside the test set."""
        m = max(len(self._ours), 1)

        def line(name: str, rows: int, found: Neighbours) -> tuple[Cell, ...]:
            closest = found.similarity[np.isfinite(found.similarity)]
            median = float(np.median(closest)) if len(closest) else None
            return (name, rows, 100 * float((found.near > 0).sum()) / m, 1e6 * found.pair_share, median)

        lines = [line(name, one.rows, one.found) for name, one in self._sets.items()]
        lines.append(line(f"{self._asked.name} itself", len(self._ours), self._among))
        columns = (
            Column(name="rows of"), Column(name="rows", unit="rows"), Column(name="test rows with one", unit="%"),
            Column(name="pairs per million"), Column(name="median of the nearest"),
        )  # fmt: skip
        return Table(
            title=f"Neighbours in the embeddings of {self._model}",
            caption=f"Cosine of at least {self._similarity:g}. The last line is the chance level: independent rows of "
            "one source. As many pairs per million in training are not a sign of copies.",
            columns=columns,
            rows=tuple(lines),
        )

    def pairs(self) -> tuple[RowPair, ...]:
        """The closest ones."""
        made = []
        for name, one in self._sets.items():
            for train_row, ours in one.wanted.items():
                if train_row not in one.shown:
                    continue
                for row in ours:
                    cosine = {"cosine": round(float(one.found.similarity[row]), 4)}
                    mine = example(self._asked, self._asked.table, row, TITLE)
                    pair = [with_fields(side, cosine) for side in (mine, one.shown[train_row])]
                    made.append(RowPair(KIND, row, name, train_row, pair[0], pair[1]))
        return tuple(made)


def _embeddings(inputs: Inputs, dataset: str, model: str) -> NDArray[np.float32]:
    found = inputs.predictions(dataset, model).embeddings
    if found is None:
        raise InputError(
            f"model {model!r} gives no embeddings", remedy="name the output: `outputs: {embedding: NAME}`"
        )  # fmt: skip
    return directions(found)

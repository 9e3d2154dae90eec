"""Lists of rows ranked by score: one number for each query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.words import plural
from evalspec.language.predictions import GIVES
from evalspec.scoring.scored_rows import Scored, Undefined, over

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Inputs

    FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Lists:
    """Rows by query and falling score, those that tie with the least relevant first.

    Args:
        order: shape (n,), row at each place.
        query: shape (n,), rising: index of the query at each place.
        rank: shape (n,), from 1 within each query.
        gain: shape (n,), relevance at each place.
        ideal: shape (n,), relevance at each place were each list ranked by it.
        queries: How many.
    """

    order: NDArray[np.int64]
    query: NDArray[np.int64]
    rank: NDArray[np.int64]
    gain: FloatArray
    ideal: FloatArray
    queries: int

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Queries that have a relevant row, shape (queries,)."""
        return np.asarray(self._sums(self.gain > 0) > 0)

    def gains(self, k: int) -> FloatArray:
        """Discounted gain of the first k over the highest possible one, shape (queries,); NaN where none is relevant.

        References:
            Jarvelin and Kekalainen (2002), ACM TOIS 20: linear gains, discounts 1 / log2(1 + rank).
        """
        weights = np.where(self.rank <= k, 1.0 / np.log2(1.0 + self.rank), 0.0)
        return over(self._sums(self.gain * weights), self._sums(self.ideal * weights))

    def reciprocal(self) -> FloatArray:
        """1 / rank of the first relevant row, shape (queries,); NaN where there is none."""
        first = np.zeros(self.queries)
        np.maximum.at(first, self.query, np.where(self.gain > 0, 1.0 / self.rank, 0.0))
        return np.where(self.counted, first, np.nan)

    def found(self, k: int) -> FloatArray:
        """Share of the relevant rows that are among the first k, shape (queries,); NaN where there are none."""
        relevant = self.gain > 0
        return over(self._sums(relevant & (self.rank <= k)), self._sums(relevant))

    def hits(self, k: int) -> NDArray[np.bool_]:
        """A relevant row is among the first k, shape (queries,)."""
        return np.asarray(self._sums((self.gain > 0) & (self.rank <= k)) > 0)

    def _sums(self, values: NDArray[np.bool_] | FloatArray) -> FloatArray:
        sums = np.bincount(self.query, weights=values.astype(np.float64), minlength=self.queries)
        return sums.astype(np.float64, copy=False)


def lists(rows: Scored) -> Lists:
    """A model's lists.

    Args:
        rows: Rows with queries, and values or probabilities.

    Raises:
        Undefined: They have none, or relevance that is below 0.
    """
    if rows.queries is None:
        raise Undefined("this metric is of lists of rows; name the column that says which rows are one: `query:`")
    relevance, scores = _relevance(rows), _scores(rows)
    codes = rows.queries
    # Of rows with the same score the least relevant stand first: a model that says nothing finds nothing.
    order = np.lexsort((relevance, -scores, codes))
    query = codes[order]
    start = np.searchsorted(query, query, side="left")
    best = np.lexsort((-relevance, codes))
    return Lists(
        order, query, np.arange(rows.n) - start + 1, relevance[order], relevance[best], int(codes.max(initial=-1)) + 1
    )


def _relevance(rows: Scored) -> FloatArray:
    if rows.task == "classes":
        if rows.positive is None:
            raise Undefined(f"{rows.model!r} has more than two classes; name the relevant one: `positive:`")
        return rows.is_of(rows.positive).astype(np.float64)
    if rows.task != "values":
        raise Undefined(f"model {rows.model!r} gives {GIVES[rows.task]}, and lists are ranked by values or classes")
    relevance = rows.truth.astype(np.float64)
    if relevance.min(initial=0.0) < 0:
        raise Undefined(f"the label of {rows.where} is below 0 in some rows, and relevance is not")
    return relevance


def _scores(rows: Scored) -> FloatArray:
    if rows.values is not None:
        return rows.values
    assert rows.positive is not None
    return rows.shares()[:, rows.positive]


def queries_of(inputs: Inputs, dataset: str, column: str) -> NDArray[np.int64]:
    """Index of each row's query, shape (n,).

    Args:
        inputs: What the check is handed.
        dataset: Name of the dataset.
        column: Whose equal values are one query.

    Raises:
        InputError: The column is empty in some rows, or holds what can't be told apart.
    """
    import pyarrow as pa

    values = inputs.table(dataset, [column]).column(0)
    if values.null_count:
        raise InputError(
            f"column {column!r} of dataset {dataset!r} is empty in {plural(values.null_count, 'row')}",
            remedy="`query:` names the column that says which rows are one list",
        )
    try:
        codes = values.combine_chunks().dictionary_encode()
    except pa.ArrowNotImplementedError as error:
        raise InputError(
            f"column {column!r} of dataset {dataset!r} holds {values.type}, and `query:` needs words or numbers"
        ) from error
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.combine_chunks()
    return np.asarray(codes.indices.to_numpy(zero_copy_only=False), dtype=np.int64)

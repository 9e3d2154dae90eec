"""Shift beside columns: a model's answers and embeddings, texts, categories never seen, a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.data.shift.outputs import Outputs, compare_outputs
from evalspec.checks.data.shift.reweighting import consequence
from evalspec.checks.data.shift.text import TextShift, compare_texts
from evalspec.evidence.blocks import Column, Table
from evalspec.stats.drift.association import cramers_v, stability, stability_of_numbers
from evalspec.stats.drift.columns import CategoryCounts
from evalspec.stats.drift.distances import matched_counts
from evalspec.stats.drift.mmd import mmd_test
from evalspec.tables.columns import LENGTH, ColumnPair, compare_columns, plain

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.checks.data.shift.classifier import Pool
    from evalspec.checks.data.shift.columns import RawColumnPair
    from evalspec.checks.data.shift.spec import Shift
    from evalspec.checks.data.shift.summaries import TableSummary
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs

    Clusters = tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows of both sides, at most 20,000 each.

    Args:
        tables: Of the reference and of the current data.
        rows: Their numbers in the datasets, shape (k,) each.
        clusters: Of these rows, or None.
        columns: As they are compared.
    """

    tables: tuple[pa.Table, pa.Table]
    rows: tuple[NDArray[np.int64], NDArray[np.int64]]
    clusters: tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]
    columns: Sequence[ColumnPair]


def draw(
    scans: Sequence[TableSummary], names: Sequence[str], pairs: Sequence[RawColumnPair], clusters: Clusters
) -> Drawn:
    """The rows that were kept when both datasets were gone through.

    Args:
        scans: Of the reference and of the current data.
        names: Columns of the data.
        pairs: The columns as they are compared.
        clusters: Of all rows, or None.
    """
    (first, first_rows), (second, second_rows) = (scan.sample() for scan in scans)
    columns, _ = compare_columns(first, second, names, {pair.name for pair in pairs})
    ours, theirs = (
        None if ids is None else ids[rows] for ids, rows in zip(clusters, (first_rows, second_rows), strict=True)
    )
    return Drawn((first, second), (first_rows, second_rows), (ours, theirs), columns)


def compare_drawn_texts(drawn: Drawn, pairs: Sequence[RawColumnPair], rng: np.random.Generator) -> list[TextShift]:
    """Characters and words of every column that is compared as texts.

    Args:
        drawn: Rows of both sides.
        pairs: The columns as they are compared.
        rng: Draws permutations.
    """
    found = []
    for pair in pairs:
        if pair.name == pair.source + LENGTH:
            first, second = (plain(table.column(pair.source).combine_chunks()) for table in drawn.tables)
            found.append(compare_texts(pair.source, first, second, drawn.clusters, rng))
    return found


def look_further(
    check: Shift, inputs: Inputs, pairs: Sequence[RawColumnPair], drawn: Drawn, pool: Pool | None, why: str
) -> Outputs:
    """All that is not a distance of a column.

    Args:
        check: Its fields.
        inputs: What the check is handed.
        pairs: The columns, all rows of them.
        drawn: Rows of both sides.
        pool: Rows of both sides as the classifier has them; None: there is no classifier.
        why: Why there is none.

    Raises:
        InputError: A model's answers can't be read or scored.
    """
    found = compare_outputs(check, inputs)
    told = consequence(check, inputs, pool, why)
    if told.change is None:
        found.missing["reweighted_score_change"] = told.why
    else:
        found.estimates["reweighted_score_change"] = told.change
    found.blocks += told.blocks
    found.notes += told.notes
    found.blocks += conventions(check, pairs, drawn)
    if "mmd" in check.report:
        _discrepancies(check, inputs, pool, found)
    return found


def conventions(check: Shift, pairs: Sequence[RawColumnPair], drawn: Drawn) -> list[Table]:
    """Cramer's V of categories, and the population stability index where it is asked for.

    Args:
        check: Its fields.
        pairs: The columns, all rows of them.
        drawn: Rows of both sides, of which the index of numbers is.
    """
    asked = "psi" in check.report
    numbers = {column.name: column for column in drawn.columns if column.kind == "number"}
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs:
        v, index = None, None
        if isinstance(pair.reference, CategoryCounts) and isinstance(pair.current, CategoryCounts):
            _, a, b = matched_counts(pair.reference.counts, pair.current.counts)
            v, index = cramers_v(a, b), stability(a, b) if asked else None
        elif asked and pair.name in numbers:
            sides = numbers[pair.name].reference, numbers[pair.name].current
            index = stability_of_numbers(*(side.values.astype(np.float64) for side in sides))
        if v is not None or index is not None:
            told: tuple[Cell, ...] = (
                (None, None, None) if index is None else (index.plain, index.by_chance, index.value)
            )
            rows.append((pair.name, v, *(told if asked else ())))
    if not rows:
        return []
    heads = [Column(name="column"), Column(name="Cramer's V", unit="score")]
    caption = "Cramer's V of categories, corrected for its bias: what other tools show beside total variation."
    if asked:
        heads += [
            Column(name="PSI", unit="score"), Column(name="of it by chance", unit="score"),
            Column(name="PSI less chance", unit="score"),
        ]  # fmt: skip
        caption += (
            " PSI over deciles of the reference (of categories: each): its bands, 0.1 and 0.25, are a convention "
            "without an error rate, and what chance adds hangs on the number of rows. Neither decides anything."
        )
    return [Table(title="Conventions", caption=caption, columns=tuple(heads), rows=tuple(rows))]


def _discrepancies(check: Shift, inputs: Inputs, pool: Pool | None, found: Outputs) -> None:
    """Permutation tests by maximum mean discrepancy, of columns of numbers and of embeddings."""
    sides: dict[str, tuple[NDArray[np.floating], NDArray[np.floating], Clusters]] = {}
    if pool is not None:
        half = len(pool.values) // 2
        values = pool.values[:, ~pool.categorical]
        whole = np.asarray(np.isfinite(values).all(axis=1), dtype=np.bool_)
        spread = values[whole].std(axis=0) if whole.any() else np.ones(values.shape[1])
        scaled = values / np.where(spread > 0, spread, 1.0)
        first, second = (slice(None, half), slice(half, None))
        ids: Clusters = (None, None)
        if pool.clustered:
            ids = pool.units[:half][whole[:half]], pool.units[half:][whole[half:]]
        if values.shape[1]:
            sides["columns of numbers"] = scaled[first][whole[first]], scaled[second][whole[second]], ids
    if check.embedding is not None:
        answers = [inputs.predictions(name, check.embedding) for name in (check.reference, check.current)]
        if answers[0].embeddings is not None and answers[1].embeddings is not None:
            ids = (answers[0].clusters, answers[1].clusters)
            sides[f"embeddings of {check.embedding}"] = answers[0].embeddings, answers[1].embeddings, ids
    rows: list[tuple[Cell, ...]] = []
    for name, (first_rows, second_rows, ids) in sides.items():
        told = mmd_test(first_rows, second_rows, rng=inputs.rng, clusters=ids)
        if told is not None:
            rows.append((name, told.squared, told.p_value, told.permutations, told.rows[0], told.rows[1]))
    if rows:
        found.blocks.append(
            Table(
                title="Maximum mean discrepancy",
                caption=(
                    "Permutation test with a Gaussian kernel as wide as the median distance; of columns of numbers "
                    "each in its own standard deviation, rows without a missing cell. It decides nothing: its p-value "
                    "falls with the number of rows, and its size hangs on the kernel."
                ),
                columns=(
                    Column(name="of"), Column(name="squared discrepancy", unit="score"),
                    Column(name="p-value", unit="score"), Column(name="permutations", unit="count"),
                    Column(name=f"rows of {check.reference}", unit="rows"),
                    Column(name=f"rows of {check.current}", unit="rows"),
                ),
                rows=tuple(rows),
            )
        )  # fmt: skip

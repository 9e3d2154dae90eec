"""Answers of a model to every row, in memory and as a file that one process writes and another reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.answers.boxes import joined_boxes
from evalspec.answers.from_outputs import Mapped, only_embeds
from evalspec.answers.parts import META_KEY, PARTS, whole
from evalspec.answers.task_columns import columns_of, fields_of, numbers, shape_of
from evalspec.arrow import column_of, read_parquet
from evalspec.errors import RecordError, WorkerError
from evalspec.evidence.frozen import Cell
from evalspec.language.predictions import AnswerKind, Boxes, Task, task_of

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("predicted", "value", "lower", "upper")


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of a model to every row, in the dataset's row order.

    Args:
        n: Rows.
        classes: Label of each class index; None where nothing has classes.
        probabilities: shape (n, C), rows sum to 1 (with several labels a row: each by itself); or None.
        predicted: shape (n,), class index; or None.
        values, lower, upper: shape (n,); or None.
        details: Batch, padded rows, seconds.
        members: shape (n, C), classes that a row is said to have; or None.
        texts: shape (n,), str objects; or None.
        masks: shape (n, H, W), class index; or None.
        boxes: What was found in each row; or None.
        embeddings: shape (n, d), float32; or None.
        finish_reasons: shape (n,), str objects; or None.
        tokens: shape (n,), how many were written; or None.
        extracted: shape (n,), objects: the answer inside each text, None where there is none; or None.
        extracted_as: How these are compared, or None.
        masses: shape (n,), probability that all options together have, of a model that chooses; or None.
        again: Further answers to the same rows, each as good as these: other samples, or other orders of options.
        by_template: Answers by the other templates of the prompt, each with further ones of its own.
        written: Texts that a model which chooses from options writes beside, with further ones of their own; or None.
    """

    n: int
    classes: tuple[str, ...] | None
    probabilities: NDArray[np.float64] | None
    predicted: NDArray[np.int64] | None
    values: NDArray[np.float64] | None
    lower: NDArray[np.float64] | None
    upper: NDArray[np.float64] | None
    details: Mapping[str, Cell] = field(default_factory=dict)
    members: NDArray[np.bool_] | None = None
    texts: NDArray[np.object_] | None = None
    masks: NDArray[np.int64] | None = None
    boxes: Boxes | None = None
    embeddings: NDArray[np.float32] | None = None
    finish_reasons: NDArray[np.object_] | None = None
    tokens: NDArray[np.int64] | None = None
    extracted: NDArray[np.object_] | None = None
    extracted_as: AnswerKind | None = None
    masses: NDArray[np.float64] | None = None
    again: tuple[Answers, ...] = ()
    by_template: tuple[Answers, ...] = ()
    written: Answers | None = None

    @property
    def task(self) -> Task:
        """Task of the model, by the answer that it gave for a row."""
        return task_of(self)


def joined(parts: Sequence[Mapped], n: int, classes: tuple[str, ...] | None, details: Mapping[str, Cell]) -> Answers:
    """Answers of all batches, one after the other."""

    def whole(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return np.concatenate(arrays) if arrays and all(one is not None for one in arrays) else None

    values, texts = whole("values"), whole("texts")
    batches = [(part.n, part.boxes) for part in parts if part.boxes is not None]
    return Answers(
        n=n,
        classes=None if values is not None or texts is not None or only_embeds(parts) else classes,
        probabilities=whole("probabilities"),
        predicted=whole("predicted"),
        values=values,
        lower=whole("lower"),
        upper=whole("upper"),
        details=details,
        members=whole("members"),
        texts=texts,
        masks=whole("masks"),
        boxes=joined_boxes(batches) if batches else None,
        embeddings=whole("embeddings"),
        finish_reasons=whole("finish_reasons"),
        tokens=whole("tokens"),
        extracted=whole("extracted"),
        extracted_as=parts[0].extracted_as if parts else None,
        masses=whole("masses"),
    )


def compared_numbers(answers: Answers | Mapped) -> NDArray[np.float64]:
    """Class index or value of each row, or a number that stands for its answer (see `_kept.numbers`), shape (n,)."""
    column = answers.values if answers.predicted is None else answers.predicted
    return numbers(answers) if column is None else column.astype(np.float64)


def compared_exactly(answers: Answers) -> bool:
    """Two of its `compared_numbers` are of the same answer only where they are equal; else where they are close."""
    return answers.task in ("classes", "labels", "text")


def write_answers(answers: Answers, path: Path) -> None:
    """Write a parquet file; it appears whole or not at all. Further answers follow row by row after the first ones.

    Raises:
        WorkerError: It can't be written (full disk, no permission).
    """
    import pyarrow.parquet as pq

    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(_as_table(answers), partial)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WorkerError(f"predictions can't be written to {path}: {error.strerror or error}") from error


def as_bytes(answers: Answers) -> bytes:
    """The file that `write_answers` writes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(_as_table(answers), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def told_beside(answers: Answers) -> dict[str, Any]:
    """Facts that a file states beside the rows of its answers."""
    sets = _flat(answers)
    meta: dict[str, Any] = {
        "version": 1, "n": answers.n, "classes": answers.classes, "details": dict(answers.details),
        "mask_shape": shape_of(answers),
    }  # fmt: skip
    if answers.extracted_as is not None:
        meta["extracted_as"] = answers.extracted_as
    if len(sets) > 1:
        meta["templates"] = 1 + len(answers.by_template)
    if answers.written is not None:
        meta["written"] = {"sets": 1 + len(answers.written.again), "columns": list(_columns(answers.written)),
                           "extracted_as": answers.written.extracted_as}  # fmt: skip
        meta["columns"] = list(_columns(answers))
    return meta


def _as_table(answers: Answers) -> pa.Table:
    import pyarrow as pa

    tables = [pa.table(_columns(one)) for one in _flat(answers)]
    told = json.dumps(told_beside(answers)).encode()
    return _readable(pa.concat_tables(tables, promote_options="default")).replace_schema_metadata({META_KEY: told})


def _readable(table: pa.Table) -> pa.Table:
    """The table, with lists of any length where those of one length have missing cells.

    pyarrow before 26 writes those and cannot read them again ("Expected all lists to be of size").
    """
    import pyarrow as pa

    for index, column in enumerate(table.schema):
        if pa.types.is_fixed_size_list(column.type) and table.column(index).null_count:
            plain = pa.field(column.name, pa.list_(column.type.value_type))
            table = table.set_column(index, plain, table.column(index).cast(plain.type))
    return table


def count(answers: Answers) -> int:
    """Number of all answers, which is that of the rows of their file."""
    return answers.n * len(_flat(answers))


def _flat(answers: Answers) -> list[Answers]:
    """All sets of answers: template after template, each with its further ones, and then with what is written."""
    kinds = [kind for first in (answers, *answers.by_template) for kind in (first, first.written) if kind is not None]
    return [one for first in kinds for one in (first, *first.again)]


def _columns(answers: Answers) -> dict[str, Any]:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    if answers.probabilities is not None:
        width = answers.probabilities.shape[1]
        flat = column_of(np.ascontiguousarray(answers.probabilities).reshape(-1))
        columns["probabilities"] = pa.FixedSizeListArray.from_arrays(flat, width)
    for name, array in zip(COLUMNS, (answers.predicted, answers.values, answers.lower, answers.upper), strict=True):
        if array is not None:
            columns[name] = column_of(array)
    return columns | columns_of(answers)


def read_answers(path: Path) -> Answers:
    """Read what `write_answers` wrote, in one file or in parts.

    Raises:
        RecordError: Missing, truncated, changed or something else.
    """
    import pyarrow as pa

    try:
        table = read_parquet(path)
        meta = json.loads(table.schema.metadata[META_KEY])
        n, templates = int(meta["n"]), int(meta.get("templates", 1))
        if PARTS in meta:
            table = whole(path, table)
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"the predictions in {path} can't be read: {error}") from error
    each = len(table) // (n * templates) if n else 1
    if n and each * templates * n != len(table):
        raise RecordError(f"the predictions in {path} can't be read: {len(table):,} answers to {n:,} rows")
    parts = [table.slice(first, each * n) for first in range(0, len(table), each * n)] if n else [table]
    first, *others = [_with_written(part, meta) for part in parts]
    return replace(first, by_template=tuple(others))


def _with_written(table: pa.Table, meta: Mapping[str, Any]) -> Answers:
    """Answers by one template, and what is written beside them."""
    written = meta.get("written")
    if written is None:
        return _with_further(table, meta)
    chosen = len(table) - int(written["sets"]) * int(meta["n"])
    texts = {**meta, "classes": None, "extracted_as": written["extracted_as"]}
    beside = _with_further(table.slice(chosen).select(written["columns"]), texts)
    return replace(_with_further(table.slice(0, chosen).select(meta["columns"]), meta), written=beside)


def _with_further(table: pa.Table, meta: Mapping[str, Any]) -> Answers:
    """Answers, with further ones to the same rows."""
    n = int(meta["n"])
    first, *further = (
        [_answers(table.slice(at, n), meta) for at in range(0, len(table), n)] if n else [_answers(table, meta)]
    )
    return replace(first, again=tuple(further))


def _answers(table: pa.Table, meta: Mapping[str, Any]) -> Answers:
    """One set of answers."""
    import pyarrow as pa

    columns = {name: table.column(name).to_numpy() for name in COLUMNS if name in table.column_names}
    probabilities = None
    if "probabilities" in table.column_names:
        listed = table.column("probabilities").combine_chunks()
        flat = listed.flatten().to_numpy(zero_copy_only=False)
        fixed = pa.types.is_fixed_size_list(listed.type)
        probabilities = flat.reshape(len(table), listed.type.list_size if fixed else len(flat) // len(table))
    classes = meta["classes"]
    return Answers(
        n=int(meta["n"]),
        classes=None if classes is None else tuple(classes),
        probabilities=probabilities,
        predicted=columns.get("predicted"),
        values=columns.get("value"),
        lower=columns.get("lower"),
        upper=columns.get("upper"),
        details=meta["details"],
        extracted_as=meta.get("extracted_as"),
        **fields_of(table, meta),
    )

"""Raw timings as a parquet file: every query of every process, written once and read back by ``verify``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.arrow import read_parquet
from evalspec.errors import RecordError, WriteError
from evalspec.language.inputs import Samples
from evalspec.language.streams import PER_STREAM, Streams
from evalspec.running.as_json import telemetry_as_json, telemetry_from_json

if TYPE_CHECKING:
    import pyarrow as pa

META_KEY = b"evalspec"
ARRAYS = ("block", "intended_ns", "sent_ns", "end_ns", "items", "ok")
OPTIONAL = ("first_ns", "outcome", "together", "sizes")
"""Arrays that a way of measuring may lack; null in the file."""
PIECES, TEXT = ("piece_ns", "piece_kind"), "text"
"""Columns of streamed answers, beside those of `PER_STREAM`."""


def write_samples(samples: Sequence[Samples], path: Path) -> None:
    """Write all queries, one row each; what holds for a process stands in the file's metadata.

    Raises:
        WriteError: It can't be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in samples]) for name in ARRAYS}
    columns |= {name: pa.chunked_array([_optional(one, name) for one in samples]) for name in OPTIONAL}
    columns["answers"] = pa.chunked_array([_lists(one) for one in samples])
    if any(one.streams is not None for one in samples):
        columns |= _stream_columns(samples)
    columns["run"] = np.repeat(np.arange(len(samples)), [len(one.end_ns) for one in samples])
    meta = [
        {
            "model": one.model,
            "process": one.process,
            "batch": one.batch,
            "warmup": one.warmup,
            "answered": one.answers is not None,
            "details": dict(one.details),
            "has": [name for name in OPTIONAL if getattr(one, name) is not None],
            "streamed": one.streams is not None,
            "telemetry": None if one.telemetry is None else telemetry_as_json(one.telemetry),
        }
        for one in samples
    ]
    table = pa.table(columns).replace_schema_metadata({META_KEY: json.dumps(meta).encode()})
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, partial, compression="zstd")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WriteError(f"{path} can't be written: {error.strerror or error}") from error


def read_samples(path: Path) -> list[Samples]:
    """Samples that `write_samples` wrote, in its order.

    Raises:
        RecordError: The file is missing, truncated or something else.
    """
    import pyarrow as pa

    try:
        table = read_parquet(path)
        meta = json.loads(table.schema.metadata[META_KEY])
        columns = {name: table.column(name).to_numpy() for name in (*ARRAYS, "run")}
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"the samples in {path} can't be read: {error}") from error
    samples = []
    for index, one in enumerate(meta):
        rows = columns["run"] == index
        arrays = {name: columns[name][rows] for name in ARRAYS}
        answered, has, told = one.pop("answered"), one.pop("has", ()), one.pop("telemetry", None)
        arrays |= {name: table.column(name).filter(pa.array(rows)).to_numpy() for name in has}
        answers = table.column("answers").filter(pa.array(rows)).combine_chunks() if answered else None
        shape = (int(rows.sum()), one["batch"])
        kept = None if answers is None else answers.flatten().to_numpy(zero_copy_only=False).reshape(shape)
        telemetry = None if told is None else telemetry_from_json(told)
        streams = _streams(table.filter(pa.array(rows))) if one.pop("streamed", False) else None
        samples.append(Samples(**one, **arrays, answers=kept, telemetry=telemetry, streams=streams))
    return samples


def _stream_columns(samples: Sequence[Samples]) -> dict[str, Any]:
    """Streamed answers: their pieces as lists, one a row; null where there are none."""
    import pyarrow as pa

    def chunk(one: Samples, name: str) -> pa.Array:
        streams, rows = one.streams, len(one.end_ns)
        if name == TEXT:
            return pa.nulls(rows, pa.string()) if streams is None else pa.array(streams.texts, pa.string())
        if name in PER_STREAM:
            return pa.nulls(rows, pa.int64()) if streams is None else pa.array(getattr(streams, name), pa.int64())
        if streams is None:
            return pa.nulls(rows, pa.list_(pa.int64()))
        return pa.ListArray.from_arrays(streams.offsets.astype(np.int32), pa.array(getattr(streams, name), pa.int64()))

    names = (*PIECES, *PER_STREAM, TEXT)
    return {name: pa.chunked_array([chunk(one, name) for one in samples]) for name in names}


def _streams(rows: pa.Table) -> Streams:
    lists = {name: rows.column(name).combine_chunks() for name in PIECES}
    lengths = lists[PIECES[0]].value_lengths().to_numpy()
    return Streams(
        offsets=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        **{name: one.flatten().to_numpy() for name, one in lists.items()},
        **{name: rows.column(name).to_numpy() for name in PER_STREAM},
        texts=np.array(rows.column(TEXT).to_pylist(), dtype=object),
    )


def _optional(one: Samples, name: str) -> pa.Array:
    import pyarrow as pa

    values = getattr(one, name)
    return pa.nulls(len(one.end_ns), pa.int64()) if values is None else pa.array(values, pa.int64())


def _lists(one: Samples) -> pa.Array:
    """Answers as a list column: one list of the batch's length a row, or null where none were kept."""
    import pyarrow as pa

    if one.answers is None:
        return pa.nulls(len(one.end_ns), pa.list_(pa.float64()))
    offsets = np.arange(len(one.end_ns) + 1, dtype=np.int32) * one.batch
    return pa.ListArray.from_arrays(offsets, pa.array(one.answers.reshape(-1)))

"""Digests of rows and of whole tables.

What counts as equal in a row's digest:

- Numbers by value: 1 in int8, int64 and float64 is the same; 0.1 in float32 is not 0.1 in float64; -0.0 is 0.0; NaN
  is NaN. ``true`` is no 1, and "1" is no 1.
- Text and bytes byte by byte; text is no bytes. Missing is missing: neither "" nor NaN nor 0.
- Lists by length and elements, a fixed-size list like any other. Times by instant; a time with a zone is none without.
- Columns by name: their order doesn't matter, their names do.

Missing sits beside every type, so ("a,b", "c") and ("a", "b,c") differ, and so do ("", missing) and (missing, "").
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.moments import PER_SECOND
from evalspec.stats.sets.hashing import Words, hash_segments, keys, mix

LANES = 2
ROWS_AT_A_TIME = 1 << 16
PORTION_ROWS = 1 << 16
"""Rows beyond which a table's digest is that of its portions' digests."""
# What a value is, so that equal bits of different types differ.
_NULL, _INTEGER, _FLOAT, _BOOL, _TEXT, _BYTES, _LIST, _TIME, _ZONED, _DAY, _SPAN, _STRUCT, _BIG = range(1, 14)
_DAY_MS = 86_400_000


def row_digests(table: pa.Table, columns: Sequence[str] | None = None) -> Words:
    """A 128-bit digest of each row; what counts as equal stands at the head of this module.

    It is for finding equal rows, not against people who construct collisions: among a thousand million rows the chance
    of one accidental collision is under 1e-20.

    Args:
        table: n rows.
        columns: Columns that count; None: all.

    Returns:
        shape (n, 2).

    Raises:
        InputError: A column is of a type that has no digest.
    """
    names = table.column_names if columns is None else list(columns)
    digests = np.empty((table.num_rows, LANES), np.uint64)
    table = table.select(names)
    for start in range(0, table.num_rows, ROWS_AT_A_TIME):
        # A part of a table without columns does not say how many rows it has.
        stop = min(start + ROWS_AT_A_TIME, table.num_rows)
        digests[start:stop] = _part(table.slice(start, stop - start), stop - start)
    return digests


def _part(table: pa.Table, rows: int) -> Words:
    total = np.zeros((LANES, rows), np.uint64)
    for name in table.column_names:
        chunks = [hash_values(chunk, name) for chunk in table.column(name).chunks]
        if chunks:
            total += np.concatenate(chunks, axis=1)
    return mix(total).T


def _name_keys(name: str) -> tuple[int, ...]:
    digest = hashlib.blake2b(name.encode(), digest_size=8 * LANES).digest()
    return tuple(int(key) for key in np.frombuffer(digest, "<u8"))


def hash_values(array: pa.Array, name: str = "") -> Words:
    """Two independent 64-bit hashes of each value of an array, typed; missing values have one of their own.

    Args:
        array: n values.
        name: The column's name, which is part of the hash.

    Returns:
        shape (2, n).

    Raises:
        InputError: The type has no digest.
    """
    tag, words = _words(array, name)
    hashed = np.empty((LANES, len(array)), np.uint64)
    missing = np.asarray(array.is_null()) if array.null_count else None
    for lane, salt in enumerate(_name_keys(name)):
        tags = keys(np.asarray(tag, np.uint64), lane + 16) ^ np.uint64(salt)
        hashed[lane] = mix((words if words.ndim == 1 else words[lane]) ^ tags)
        if missing is not None:
            hashed[lane, missing] = mix(keys(np.array([_NULL], np.uint64), lane + 16) ^ np.uint64(salt))[0]
    return hashed


def _words(array: pa.Array, name: str) -> tuple[int | Words, Words]:
    """Kind of a value, and its payload: shape (n,), or (2, n) where it is a hash itself."""
    kind = array.type
    if pa.types.is_null(kind):
        return _NULL, np.zeros(len(array), np.uint64)
    if pa.types.is_boolean(kind):
        return _BOOL, _filled(array.cast(pa.uint8()), 0).astype(np.uint64)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers(_filled(array, 0))
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _times(array)
    if pa.types.is_dictionary(kind):
        return _words(array.dictionary_decode(), name)
    if isinstance(kind, pa.BaseExtensionType):
        return _words(array.storage, name)
    return _nested(array, name)


def _nested(array: pa.Array, name: str) -> tuple[int, Words]:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _TEXT, _bytes(array.cast(pa.large_string()).cast(pa.large_binary()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _BYTES, _bytes(array.cast(pa.large_binary()))
    if pa.types.is_decimal(kind):
        return _BIG, _bytes(array.cast(pa.string()).cast(pa.large_binary()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _LIST, _lists(array)
    if pa.types.is_struct(kind):
        children = zip(kind, array.flatten(), strict=True)
        return _STRUCT, np.add.reduce([hash_values(child, field.name) for field, child in children])
    raise InputError(f"column {name!r} is of type {kind}, which can't be compared", remedy="name different columns")


def _filled(array: pa.Array, value: int) -> NDArray[np.generic]:
    if array.null_count:
        array = array.fill_null(pa.scalar(value, array.type))
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _numbers(values: NDArray[np.generic]) -> tuple[int | Words, Words]:
    """Payloads of numbers: whole ones as integers, whatever their type; the others as the bits of a float64."""
    if values.dtype.kind == "i":
        return _INTEGER, values.astype(np.int64).view(np.uint64)
    if values.dtype.kind == "u":
        words = values.astype(np.uint64)
        big = words > np.uint64(2**63 - 1)
        return (np.where(big, np.uint64(_BIG), np.uint64(_INTEGER)), words) if big.any() else (_INTEGER, words)
    floats = values.astype(np.float64)
    floats[np.isnan(floats)] = np.nan
    whole = (np.floor(floats) == floats) & (np.abs(floats) < 2.0**63)
    words = floats.view(np.uint64).copy()
    words[whole] = floats[whole].astype(np.int64).view(np.uint64)
    return np.where(whole, np.uint64(_INTEGER), np.uint64(_FLOAT)), words


def _times(array: pa.Array) -> tuple[int | Words, Words]:
    """Payloads of times: days, or nanoseconds; what these can't count, beyond 1677..2262, as seconds and the rest."""
    kind = array.type
    if pa.types.is_date(kind):
        return _DAY, _days(array).view(np.uint64)
    tag = _SPAN if not pa.types.is_timestamp(kind) else _ZONED if kind.tz else _TIME
    counts, nanoseconds = _counts(array), 10**9 // PER_SECOND[kind.unit]
    # Of each value by itself: what stands beside it must not change what it is equal to.
    far = (counts > (2**63 - 1) // nanoseconds) | (counts < -(2**63 // nanoseconds))
    words = counts * np.int64(nanoseconds)
    if not far.any():
        return tag, words.view(np.uint64)
    tags = np.where(far, np.uint64(_BIG), np.uint64(tag))
    both = np.stack([words.view(np.uint64)] * LANES)
    both[:, far] = _far(counts[far], nanoseconds, tag)
    return tags, both


def _far(counts: NDArray[np.int64], nanoseconds: int, tag: int) -> Words:
    """Hash of times that nanoseconds can't count, whatever their unit: shape (2, n)."""
    seconds, rest = np.divmod(counts, np.int64(10**9 // nanoseconds))
    parts = np.stack([np.full(len(counts), tag), seconds, rest * np.int64(nanoseconds)], axis=1)
    words = mix(parts.astype(np.int64).view(np.uint64).reshape(-1))
    bounds = np.arange(len(counts) + 1) * parts.shape[1]
    return np.stack([hash_segments(words, bounds, lane) for lane in range(LANES)])


def _days(array: pa.Array) -> NDArray[np.int64]:
    """Days since 1970; milliseconds that are no whole day belong to theirs."""
    counts = _counts(array)
    return counts if array.type.bit_width == 32 else counts // _DAY_MS


def _counts(array: pa.Array) -> NDArray[np.int64]:
    """Times as whole numbers in their own unit; 0 where one is missing."""
    whole = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return np.asarray(_filled(whole, 0)).astype(np.int64)


def _bytes(array: pa.Array) -> Words:
    """Hash of each byte string: its 8-byte words, the last one cut to its length, and its length."""
    if array.null_count:
        array = array.fill_null(b"")
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    first = int(offsets[0]) if len(offsets) else 0
    size = int(offsets[-1]) - first
    data = array.buffers()[2]
    padded = np.zeros(size + 8, np.uint8)
    if size:
        padded[:size] = np.frombuffer(data, np.uint8, size, first)
    lengths = np.diff(offsets)
    counts = (lengths + 7) // 8
    bounds = np.concatenate(([0], np.cumsum(counts)))
    within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts)
    starts = np.repeat(offsets[:-1] - first, counts) + within * 8
    # Words begin at any byte: a view with a stride of one byte reads them where they lie.
    anywhere = np.ndarray((size + 1,), np.dtype("<u8"), padded.data, 0, (1,))
    left = np.minimum(np.repeat(lengths, counts) - within * 8, 8).astype(np.uint64)
    words = anywhere[starts] & (np.uint64(2**64 - 1) >> (np.uint64(64) - left * np.uint64(8)))
    words = mix(words)
    sizes = lengths.astype(np.uint64)
    return np.stack([mix(hash_segments(words, bounds, lane) ^ keys(sizes, lane + 24)) for lane in range(LANES)])


def _lists(array: pa.Array) -> Words:
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    # `flatten` leaves out what stands under missing lists.
    elements = hash_values(array.flatten())
    return np.stack([hash_segments(elements[lane], offsets, lane) for lane in range(LANES)])


def dataset_digest(table: pa.Table) -> str:
    """``sha256:`` of a table's content as it was read, after ``where``: columns, types, rows, order.

    The file format doesn't count, but types do: rows of a csv and of a parquet file have one digest only where both
    give the same types. Chunks and slices don't count. Of more than 65,536 rows it is the digest of the digests of each
    65,536, so that it can be made without holding all of them.
    """
    digest = TableDigest()
    digest.update(table)
    return digest.end()


class TableDigest:
    """`dataset_digest` of rows that come one after the other."""

    def __init__(self) -> None:
        self.rows = 0
        self._schema: pa.Schema | None = None
        self._waiting: list[pa.Table] = []
        self._portions: list[str] = []

    def update(self, table: pa.Table) -> None:
        """More rows, at least one call."""
        self._schema = table.schema
        # Rows without columns could be cut for ever.
        while table.num_rows and table.num_columns:
            room = PORTION_ROWS - self.rows % PORTION_ROWS
            self._waiting.append(table.slice(0, room))
            self.rows += self._waiting[-1].num_rows
            table = table.slice(room)
            if self.rows % PORTION_ROWS == 0:
                self._close()

    def _close(self) -> None:
        self._portions.append(_portion_digest(pa.concat_tables(self._waiting)))
        self._waiting = []

    def merge(self, later: TableDigest) -> None:
        """Take over the rows that come after, which begin with a portion of their own."""
        self._schema = later._schema if self._schema is None else self._schema
        self._close_last()
        self._portions += later.portions()
        self.rows += later.rows

    def portions(self) -> list[str]:
        """The digest of each portion; no row comes after that."""
        self._close_last()
        return self._portions

    def _close_last(self) -> None:
        if self._waiting:
            self._close()

    @classmethod
    def of_portions(cls, schema: pa.Schema | None, rows: int, portions: Sequence[str]) -> TableDigest:
        """The digest of so many rows whose portions have these digests."""
        digest = cls()
        digest._schema, digest.rows, digest._portions = schema, rows, list(portions)
        return digest

    @property
    def schema(self) -> pa.Schema | None:
        """Columns and their types; None: there was no table."""
        return self._schema

    def end(self) -> str:
        """The digest of all rows.

        Raises:
            ValueError: There was no table, so there are no columns.
        """
        if self._schema is None:
            raise ValueError("no table, no digest")
        self._close_last()
        if not self._portions:
            return _portion_digest(self._schema.empty_table())
        if len(self._portions) == 1:
            return self._portions[0]
        all_of_them = hashlib.sha256(f"rows {self.rows}\n".encode() + "\n".join(self._portions).encode())
        return f"sha256:{all_of_them.hexdigest()}"


def _portion_digest(table: pa.Table) -> str:
    digest = hashlib.sha256()
    digest.update(f"rows {table.num_rows}\n".encode())
    for name in table.column_names:
        column = table.column(name)
        digest.update(f"{len(name.encode())} {name} {column.type}\n".encode())
        _update(digest, column)
    return f"sha256:{digest.hexdigest()}"


def _update(digest: hashlib._Hash, column: pa.ChunkedArray) -> None:
    kind = column.type
    nulls = np.concatenate([np.asarray(chunk.is_null()) for chunk in column.chunks] or [np.zeros(0, bool)])
    digest.update(np.packbits(nulls).tobytes())
    if pa.types.is_null(kind):
        return
    if isinstance(kind, pa.BaseExtensionType):
        _update(digest, pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type))
    elif pa.types.is_map(kind):
        pairs = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        _update(digest, column.cast(pa.list_(pairs)))
    elif pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            parts = [chunk.flatten()[index] for chunk in column.chunks]
            _update(digest, pa.chunked_array(parts, kind.field(index).type))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        digest.update(_lengths(pc.list_value_length(column)))
        _update(digest, pa.chunked_array([chunk.flatten() for chunk in column.chunks], kind.value_type))
    else:
        try:
            _update_flat(digest, column)
        except pa.ArrowException as error:
            message = f"a column of type {kind} can't be read"
            raise InputError(message, remedy="remove it from the file") from error


def _lengths(column: pa.ChunkedArray) -> bytes:
    lengths: NDArray[np.int64] = column.fill_null(0).to_numpy().astype("<i8")
    return lengths.tobytes()


def _update_flat(digest: hashlib._Hash, column: pa.ChunkedArray) -> None:
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_temporal(kind):
        column = pa.chunked_array(
            [chunk.view(pa.int64() if kind.bit_width == 64 else pa.int32()) for chunk in column.chunks],
            pa.int64() if kind.bit_width == 64 else pa.int32(),
        )
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        _update_bytes(digest, column)
        return
    for chunk in column.chunks:
        digest.update(np.ascontiguousarray(_filled(chunk, 0)).tobytes())


def _update_bytes(digest: hashlib._Hash, column: pa.ChunkedArray) -> None:
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    column = column.cast(pa.large_binary()).fill_null(b"")
    digest.update(_lengths(pc.binary_length(column)))
    for chunk in column.chunks:
        offsets = np.frombuffer(chunk.buffers()[1], np.int64, len(chunk) + 1, chunk.offset * 8)
        if len(chunk) and chunk.buffers()[2] is not None:
            digest.update(memoryview(chunk.buffers()[2])[int(offsets[0]) : int(offsets[-1])])

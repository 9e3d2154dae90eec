"""Tables of all sources: columns chosen, and brought to the few types that the rest knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evalspec.arrow import array_of
from evalspec.errors import InputError
from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Dataset
from evalspec.sources.reading.objects import DataFile, size_of

# Below this a header is read with the whole file, so that rows and types are exact; it takes some 30 ms.
SMALL_BYTES = 8 * 2**20
Raw = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
"""Columns -> their batches as they stand in the file, from the first one on at each call."""


def tidy(table: pa.Table, lengths: Mapping[str, int | None] | None = None) -> pa.Table:
    """Dictionaries decoded, views and large types made plain, lists of one length made fixed-size lists.

    Fields inside of maps lose their names, which hang on the way that rows have come.

    Args:
        table: The rows.
        lengths: Of rows that are a part of the whole: list column: the length of all its lists (`list_lengths`), or
            None where they have several. None: these rows are the whole.

    Raises:
        InputError: A column is damaged: text that is no UTF-8, lengths that point outside the file.
    """
    for index, field in enumerate(table.schema):
        try:
            table.column(index).validate(full=True)
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"column {field.name!r} is damaged or not text in UTF-8: {reason}") from error
        column = _plain(table.column(index), field.name, lengths)
        if not column.type.equals(field.type, check_metadata=True):
            table = table.set_column(index, pa.field(field.name, column.type), column)
    return table


def tidied(
    raw: Raw, schema: pa.Schema, what: str, rows: int, lengths: Mapping[str, int | None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of the rows that `tidy` would make of all of them.

    Whether lists have one length is known only when all were seen, so their columns are read twice.

    Args:
        raw: Gives the batches.
        schema: Columns wanted, with the types that they have in all files together.
        what: The files, in words.
        rows: Of a batch at most.
        lengths: Of lists, where these rows are a part of the whole (`lengths_of`).

    Raises:
        InputError: A column is damaged, or its types in several files don't go together.
    """
    lengths = lengths_of(raw, schema) if lengths is None else lengths
    for batch in raw(schema.names):
        table = tidy(_as(batch, schema, what), lengths)
        yield from table.to_batches(max_chunksize=rows)


def lengths_of(raw: Raw, schema: pa.Schema) -> dict[str, int | None]:
    """`list_lengths` of the columns of lists among these; nothing is read where there are none.

    Args:
        raw: Gives the batches of all rows.
        schema: Columns wanted.
    """
    listed = [field.name for field in schema if _is_list(field.type)]
    return list_lengths(raw(listed)) if listed else {}


def _plain(column: pa.ChunkedArray, name: str, lengths: Mapping[str, int | None] | None) -> pa.ChunkedArray:
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        return column
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(_storage(column), name, lengths)
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type), name, lengths)
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        size = one_length(column) if lengths is None else lengths.get(name)
        if size is not None:
            return _fixed(column, size)
    unnamed = _unnamed(kind)
    if unnamed is kind or str(unnamed) == str(kind):
        return column
    try:
        return column.cast(unnamed)
    except pa.ArrowException as error:
        raise InputError(f"column {name!r} can't be read: {str(error).splitlines()[0]}") from error


def _unnamed(kind: pa.DataType) -> pa.DataType:
    """The type with fields of maps named as Arrow does, at any depth: what a file calls them is part of a type's text.

    Args:
        kind: Any type.
    """
    if pa.types.is_map(kind):
        key, item = (field.with_type(_unnamed(field.type)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key.with_name("key"), item.with_name("value"), kind.keys_sorted)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_unnamed(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_unnamed(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_unnamed(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_unnamed(kind.value_type)))
    return kind


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)


def one_length(column: pa.ChunkedArray) -> int | None:
    """The length of all lists of numbers in a column; None: they have several, or hold something else."""
    value = column.type.value_type
    if not (pa.types.is_integer(value) or pa.types.is_floating(value)) or column.null_count or not len(column):
        return None
    lengths = {int(n) for chunk in column.chunks for n in np.unique(np.diff(_offsets(chunk)))}
    return None if len(lengths) != 1 or lengths == {0} else lengths.pop()


def _fixed(column: pa.ChunkedArray, size: int) -> pa.ChunkedArray:
    """A list column as a fixed-size list."""
    chunks = [pa.FixedSizeListArray.from_arrays(chunk.flatten(), size) for chunk in column.chunks]
    return pa.chunked_array(chunks, pa.list_(column.type.value_type, size))


def _offsets(chunk: pa.Array) -> NDArray[Any]:
    return array_of(chunk.offsets)


def list_lengths(batches: Iterable[pa.RecordBatch]) -> dict[str, int | None]:
    """Column of lists: the one length that they all have, or None.

    Args:
        batches: Of columns of lists.
    """
    lengths: dict[str, int | None] = {}
    names: set[str] = set()
    for batch in batches:
        names |= set(batch.schema.names)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if len(column):
                length = one_length(_lists(column))
                lengths[name] = length if lengths.get(name, length) == length else None
        if names and all(name in lengths and lengths[name] is None for name in names):
            break
    return lengths


def _lists(column: pa.Array) -> pa.ChunkedArray:
    while not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column.storage
    return pa.chunked_array([column])


def _is_list(kind: pa.DataType) -> bool:
    """`tidy` would make fixed-size lists of it, if they all had one length."""
    if isinstance(kind, pa.FixedShapeTensorType):
        return False
    if isinstance(kind, pa.BaseExtensionType):
        return _is_list(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _is_list(kind.value_type)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    return bool(pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type))


def _as(batch: pa.RecordBatch, schema: pa.Schema, what: str) -> pa.Table:
    """A batch with the types of all files together; dictionaries stay what they are."""
    columns = {}
    for field in schema:
        column = pa.chunked_array([batch.column(field.name)])
        if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(field.type):
            column = column.cast(column.type.value_type)
        if not column.type.equals(field.type) and not pa.types.is_dictionary(column.type):
            try:
                column = column.cast(field.type)
            except pa.ArrowException as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"the files of {what} don't fit together: column {field.name!r}: {reason}") from error
        columns[field.name] = column
    return pa.table(columns)


def type_text(kind: pa.DataType) -> str:
    """A column's type as it stands in a header: as `tidy` will give it, as far as the type alone tells."""
    if pa.types.is_dictionary(kind):
        return type_text(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if isinstance(kind, pa.FixedShapeTensorType):
        return f"tensor<{kind.value_type}>{list(kind.shape)}"
    return str(_unnamed(kind))


def type_texts(schema: pa.Schema) -> Mapping[str, str]:
    """Column: type as text, in the file's order."""
    return {field.name: type_text(field.type) for field in schema}


def small_header(dataset: Dataset, access: Access, path: DataFile) -> Header | None:
    """The header of a file of text, read with all of it; None: it is too large for that.

    Args:
        dataset: The dataset.
        access: Where it may be read from.
        path: Its file.

    Raises:
        InputError: As `Dataset.read`.
    """
    return None if size_of(path) > SMALL_BYTES else header_of_all(dataset, access)


def header_of_all(dataset: Dataset, access: Access) -> Header:
    """The header of a small file of text, read with all of it, so that rows and types are exact.

    Raises:
        InputError: As `Dataset.read`.
    """
    table = dataset.read(access)
    return Header(rows=table.num_rows, columns=type_texts(table.schema))


def merged(schemas: Iterable[pa.Schema], what: str) -> pa.Schema:
    """One schema for several files of a dataset.

    Raises:
        InputError: Their columns differ, or a column's types don't go together.
    """
    schemas = [schema.remove_metadata() for schema in schemas]
    for schema in schemas:
        choose(None, schema.names, what)
    first = schemas[0]
    for other in schemas[1:]:
        if set(other.names) != set(first.names):
            odd = sorted(set(other.names) ^ set(first.names))
            raise InputError(f"the files of {what} don't have the same columns: {odd[0]!r} is only in some of them")
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise InputError(f"the files of {what} don't fit together: {str(error).splitlines()[0]}") from error

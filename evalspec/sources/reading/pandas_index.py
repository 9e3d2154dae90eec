"""The index that pandas writes beside a frame's columns, which is no column of the data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from evalspec.language.parts import Dataset
from evalspec.language.where import parse_where

if TYPE_CHECKING:
    import pyarrow as pa

UNNAMED = re.compile(r"__index_level_\d+__")
"""What pandas calls an index that has no name of its own."""


def without_index(schema: pa.Schema, dataset: Dataset) -> pa.Schema:
    """A file's schema without an index that nobody has named, in the file or in the spec.

    An index with a name is a column that was meant, and so is one that is the dataset's label, key or cluster, or that
    its ``where`` reads. Any other is the number of a row in some frame: two datasets that were cut from one frame never
    share it, and everything that looks for drift, leaks or repeated rows would go by it.

    Args:
        schema: As it stands in the file, with its metadata.
        dataset: Whose file it is.
    """
    found = unnamed(schema.names, dataset)
    dropped = found & _index_columns(schema) if found else set()
    kept = [field for field in schema if field.name not in dropped]
    return _schema(kept, schema) if dropped and kept else schema


def unnamed(names: Iterable[str], dataset: Dataset) -> set[str]:
    """Columns that are called as pandas calls an index without a name, and that the dataset does not name."""
    found = {name for name in names if UNNAMED.fullmatch(name)}
    if not found:
        return found
    read = parse_where(dataset.where).columns if dataset.where else ()
    return found - {dataset.label, dataset.key, dataset.cluster, *read}


def _index_columns(schema: pa.Schema) -> set[str]:
    """Columns that pandas noted down as the index."""
    try:
        noted = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return set()
    return {name for name in noted if isinstance(name, str)} if isinstance(noted, list) else set()


def _schema(fields: list[pa.Field], schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(fields, schema.metadata)

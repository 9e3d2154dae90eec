"""Numpy archives, without Python objects."""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.bounded import check_zip
from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Dataset
from evalspec.sources.reading.arrays import array_column, array_type
from evalspec.sources.reading.files import check_format, one_file, reading, shown
from evalspec.sources.reading.table import type_text

# An encrypted member is a RuntimeError; heads of arrays are parsed as Python literals.
DAMAGED = (
    zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, OverflowError, RuntimeError, SyntaxError,
    tokenize.TokenError,
)  # fmt: skip


HEAD_BYTES = 2**16


class Npz(Dataset):
    """Rows in one .npz file: each array is a column, its first axis the rows."""

    kind: Literal["npz"] = "npz"
    path: str = Field(description="The file.")
    arrays: tuple[str, ...] = Field((), description="Arrays that are columns; default: all in the file.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The file.

        Raises:
            InputError: It is missing or empty.
        """
        return (one_file(access, self.path, "npz"),)

    def header(self, access: Access) -> Header:
        """Rows and columns from the heads of the arrays; no row is read.

        Raises:
            InputError: Missing, empty, truncated, of another format, with Python objects, or arrays of several lengths.
        """
        path, heads = self._heads(access)
        rows = self._rows(access, path, heads)
        return Header(rows=rows, columns={name: type_text(kind) for name, (kind, _) in heads.items()})

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        path, heads = self._heads(access)
        rows = self._rows(access, path, heads)
        names = choose(columns, list(heads), repr(self.path))
        read: dict[str, pa.Array] = {}
        with _reading(access, path), np.load(path, allow_pickle=False) as archive:
            for name in names:
                values: NDArray[Any] = archive[name]
                read[name] = array_column(values, f"array {name!r} of {shown(access, path)}")
        return pa.table(read) if read else pa.table({"": pa.nulls(rows)}).select([])

    def _heads(self, access: Access) -> tuple[Path, Mapping[str, tuple[pa.DataType, int]]]:
        """Each array's column type and its length, in the file's order."""
        path = one_file(access, self.path, "npz")
        check_format(access, path, "npz")
        heads: dict[str, tuple[pa.DataType, int]] = {}
        check_zip(path, shown(access, path))
        with _reading(access, path), zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            for name in self.arrays:
                choose([name], list(members), repr(self.path))
            for name in self.arrays or members:
                size = archive.getinfo(members[name]).file_size
                with archive.open(members[name]) as stream:
                    heads[name] = _head(stream, size, f"array {name!r} of {shown(access, path)}")
        if not heads:
            raise InputError(f"{shown(access, path)} holds no array")
        return path, heads

    def _rows(self, access: Access, path: Path, heads: Mapping[str, tuple[pa.DataType, int]]) -> int:
        lengths = {length for _, length in heads.values()}
        if len(lengths) > 1:
            each = ", ".join(f"{name} {length:,}" for name, (_, length) in heads.items())
            raise InputError(
                f"the arrays of {shown(access, path)} have different numbers of rows: {each}",
                remedy="list those that belong together in `arrays:`",
            )
        return lengths.pop()


def _head(packed: IO[bytes], size: int, what: str) -> tuple[pa.DataType, int]:
    # A head that says it is longer ends here, before it is unpacked.
    stream = io.BytesIO(packed.read(HEAD_BYTES))
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise InputError(
            f"{what} holds Python objects, which only pickle can read",
            remedy="save it with a plain dtype (numbers, or text as `<U`)",
        )
    if size != stream.tell() + dtype.itemsize * math.prod(shape):
        raise OSError(f"{what} is not as long as its header says")
    if not shape:
        raise InputError(f"{what} is a single value and has no rows", remedy="list the others in `arrays:`")
    return array_type(dtype, shape[1:], what), int(shape[0])


@contextmanager
def _reading(access: Access, path: Path) -> Iterator[None]:
    """As `reading`, for what zipfile and numpy raise over damaged archives and heads of arrays as well."""
    with reading(access, path, "npz"):
        try:
            yield
        except DAMAGED as error:
            raise OSError(str(error)) from error

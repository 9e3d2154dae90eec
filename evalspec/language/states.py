"""States of summaries as Arrow tables of one row: what is handed from one process to another, without pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from evalspec.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

Value: TypeAlias = Union[bool, int, float, str, bytes, "pa.Buffer", "NDArray[Any]", Sequence[str], "pa.Array", None]
"""Of a state."""

NAME = b"evalspec_state"
"""Where the schema says what it is the state of, and in which version."""


def packed(name: str, version: int, values: Mapping[str, Value]) -> pa.Table:
    """A table of one row with these values, each a column.

    Args:
        name: What it is the state of.
        version: Of the columns.
        values: Numbers, texts, and arrays of them; an array of numbers may have any shape, and comes back flat.
    """
    import pyarrow as pa

    columns = {key: _column(value) for key, value in values.items()}
    return pa.table(columns).replace_schema_metadata({NAME: f"{name} {version}".encode()})


def under(place: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """The same values at a place of a larger state: `State.at` finds them there."""
    return {f"{place}/{key}": value for key, value in values.items()}


def _column(value: Value) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    if isinstance(value, pa.Buffer):
        offsets = pa.py_buffer(np.array([0, value.size], np.int64))
        return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, value])
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return pa.array([value], pa.large_string() if isinstance(value, str) else None)
    if isinstance(value, np.ndarray):
        values = pa.array(value.ravel())
    else:
        values = value if isinstance(value, pa.Array) else pa.array(list(value), pa.large_string())
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


class State:
    """The values of a table that `packed` made, by their keys."""

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        self._columns = columns

    @classmethod
    def of(cls, table: pa.Table, name: str, version: int) -> State:
        """The values of a table.

        Raises:
            InputError: It is the state of something else, or of another version.
        """
        wanted, told = f"{name} {version}", (table.schema.metadata or {}).get(NAME, b"nothing").decode()
        if told != wanted:
            raise InputError(f"the state of {told} came where that of {wanted} was to come")
        columns = zip(table.column_names, table.columns, strict=True)
        return cls({key: column.combine_chunks() for key, column in columns})

    def __bool__(self) -> bool:
        """True where there is any."""
        return bool(self._columns)

    def __contains__(self, key: str) -> bool:
        """True where there is such a value."""
        return key in self._columns

    def at(self, place: str) -> State:
        """The values that `under` put there."""
        start = f"{place}/"
        return State({key.removeprefix(start): one for key, one in self._columns.items() if key.startswith(start)})

    def scalar(self, key: str) -> Any:
        """A number, a text, bytes, or None."""
        return self._columns[key][0].as_py()

    def buffer(self, key: str) -> pa.Buffer:
        """Bytes, without a copy."""
        return self._columns[key][0].as_buffer()

    def values(self, key: str) -> pa.Array:
        """An array as Arrow has it."""
        return self._columns[key].flatten()

    def numbers(self, key: str) -> NDArray[Any]:
        """An array of numbers, which may be changed; shape (n,)."""
        numbers: NDArray[Any] = self.values(key).to_numpy(zero_copy_only=False).copy()
        return numbers

    def texts(self, key: str) -> list[str]:
        """An array of texts."""
        texts: list[str] = self.values(key).to_pylist()
        return texts

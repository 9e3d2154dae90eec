"""Corrupted copies of rows: columns picked, made worse, and put back in the type that they had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Literal
from zlib import crc32

import numpy as np

from evalspec.answers.arrays import column_array
from evalspec.checks.model.robustness import tables
from evalspec.checks.model.robustness.pictures import PICTURES
from evalspec.checks.model.robustness.sound import SOUNDS
from evalspec.checks.model.robustness.text import TEXTS, CodePoints
from evalspec.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

Kind = Literal["picture", "number", "category", "cell", "text", "sound"]
NEEDS: dict[str, Kind] = {
    **dict.fromkeys(PICTURES, "picture"),
    **dict.fromkeys(SOUNDS, "sound"),
    **dict.fromkeys(TEXTS, "text"),
    "missing": "cell",
    "number_noise": "number",
    "unit_slip": "number",
    "category_swap": "category",
}
"""Corruption: kind of column that it changes."""
WHAT: dict[Kind, str] = {
    "picture": "pictures (lists with two or three axes, or flat ones with `shape:`)",
    "sound": "flat lists of numbers",
    "text": "text",
    "cell": "single values",
    "number": "numbers",
    "category": "text, true/false or categories",
}
VALUES_AT_ONCE = 4_000_000
"""Values that are changed at a time: as float64 they take eight bytes each."""


@dataclass(frozen=True, slots=True)
class Material:
    """Rows to be corrupted.

    Args:
        rows: The rows, with all their columns.
        columns: Names of the columns that may be corrupted.
        shape: Height, width and (3) colours of flat pictures, or None.
        range: Smallest and largest value of a pixel or a sound; None: 0 and 255 for bytes, else as seen in these rows.
        seed: Seed of all corruptions; each has its own stream, so that one more changes no other.
    """

    rows: pa.Table
    columns: tuple[str, ...]
    shape: tuple[int, ...] | None
    range: tuple[float, float] | None
    seed: int

    def corrupted(self, corruption: str, severity: int) -> pa.Table:
        """Make a corrupted copy of the rows.

        Args:
            corruption: A key of `NEEDS`.
            severity: 1 to 5.

        Raises:
            InputError: No column is of the kind that the corruption changes, or a list is no picture.
        """
        rng = np.random.default_rng([self.seed, crc32(corruption.encode()), severity])
        names = self.fitting(corruption)
        kind = NEEDS[corruption]
        if kind in ("number", "category", "cell"):
            change = getattr(tables, corruption)
            changed: pa.Table = change(self.rows, names, severity, rng)
            return changed
        table = self.rows
        for name in names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, self._changed(table.column(name), name, corruption, severity, rng))
        return table

    def changed(self, copy: pa.Table, corruption: str) -> int:
        """Count the rows of a copy that differ from the original.

        Args:
            copy: A copy made by `corrupted`.
            corruption: The corruption it was made with.
        """
        differs = np.zeros(len(self.rows), dtype=np.bool_)
        for name in self.fitting(corruption):
            differs |= _differs(self.rows.column(name), copy.column(name), name)
        return int(np.count_nonzero(differs))

    def fitting(self, corruption: str) -> tuple[str, ...]:
        """Columns of the kind that a corruption changes.

        Raises:
            InputError: There are no such columns.
        """
        kind = NEEDS[corruption]
        names = tuple(name for name in self.columns if self._is(self.rows.schema.field(name).type, name, kind))
        if not names:
            raise InputError(
                f"{corruption} changes {WHAT[kind]}, and the model reads none: {', '.join(self.columns)}",
                remedy="remove it from `corruptions:`, or name what it changes in `columns:`",
            )
        return names

    def bounds(self, name: str) -> tuple[float, float]:
        """Smallest and largest value that a pixel or a sound may have."""
        if self.range is not None:
            return self.range
        import pyarrow as pa
        import pyarrow.compute as pc

        flat = self.rows.column(name)
        while pa.types.is_nested(flat.type) or isinstance(flat.type, pa.BaseExtensionType):
            if isinstance(flat.type, pa.BaseExtensionType):
                flat = pa.chunked_array([chunk.storage for chunk in flat.chunks], type=flat.type.storage_type)
            flat = pc.list_flatten(flat)
        if flat.type == pa.uint8():
            return 0.0, 255.0
        ends = pc.min_max(flat).as_py()
        return float(ends["min"]), float(ends["max"])

    def _is(self, kind: pa.DataType, name: str, wanted: Kind) -> bool:
        import pyarrow as pa

        types = pa.types
        plain = kind.value_type if types.is_dictionary(kind) else kind
        text = types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain)
        number = types.is_integer(plain) or types.is_floating(plain)
        listed = types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType)
        fits: dict[Kind, bool] = {
            "picture": listed, "sound": listed and _axes(kind) == 1, "text": text and not types.is_dictionary(kind),
            "number": number and not types.is_dictionary(kind), "category": text or types.is_boolean(plain),
            "cell": not listed,
        }  # fmt: skip
        return fits[wanted]

    def _changed(
        self, column: pa.ChunkedArray, name: str, corruption: str, severity: int, rng: np.random.Generator
    ) -> pa.Array:
        import pyarrow as pa

        if corruption in TEXTS:
            given = column.to_pylist()
            made = TEXTS[corruption](CodePoints.of([text or "" for text in given]), severity, rng).strings()
            kept = [None if old is None else new for old, new in zip(given, made, strict=True)]
            return pa.array(kept, type=column.type)
        values = column_array(pa.table({name: column}), name)
        if values.dtype.kind not in "biuf":
            raise InputError(f"the column {name!r} holds lists of text, which {corruption} can't change")
        low, high = self.bounds(name)
        change = self._pictures if corruption in PICTURES else self._sounds
        step = max(1, VALUES_AT_ONCE // max(1, values[0].size))
        parts = [
            _fitted(
                change(_scaled(values[at : at + step], low, high), name, corruption, severity, rng), low, high, values
            )
            for at in range(0, len(values), step)
        ]
        return _as_column(np.concatenate(parts), column.type)

    def _pictures(self, values: Values, name: str, corruption: str, severity: int, rng: np.random.Generator) -> Values:
        order, shape = _layout(values.shape[1:], self.shape, name)
        plain = values.reshape(len(values), *shape)
        pictures = plain[..., None] if plain.ndim == 3 else (np.moveaxis(plain, 1, 3) if order == "first" else plain)
        made = PICTURES[corruption](pictures, severity, rng)
        back = np.moveaxis(made, 3, 1) if order == "first" else made
        return np.asarray(back).reshape(values.shape)

    def _sounds(self, values: Values, name: str, corruption: str, severity: int, rng: np.random.Generator) -> Values:
        # Silence lies in the middle of the range.
        return np.asarray((SOUNDS[corruption](2.0 * values - 1.0, severity, rng) + 1.0) / 2.0)


def known(name: str) -> None:
    """Check the name of a corruption.

    Raises:
        InputError: There is no such corruption.
    """
    if name not in NEEDS:
        raise InputError(f"no corruption is called {name!r}", choices=NEEDS, remedy=did_you_mean(name, tuple(NEEDS)))


def _differs(before: pa.ChunkedArray, after: pa.ChunkedArray, name: str) -> NDArray[np.bool_]:
    """True where two columns differ, shape (n,); values missing, or NaN, in both are the same."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_nested(before.type) or isinstance(before.type, pa.BaseExtensionType):
        old, new = column_array(pa.table({name: before}), name), column_array(pa.table({name: after}), name)
        unequal = (old != new) & ((old == old) | (new == new))
        return np.asarray(unequal.reshape(len(unequal), -1).any(axis=1))
    if pa.types.is_dictionary(before.type):
        before, after = before.cast(before.type.value_type), after.cast(before.type.value_type)
    there = pc.and_(before.is_valid(), after.is_valid())
    other = pc.if_else(there, pc.not_equal(before, after), pc.xor(before.is_valid(), after.is_valid()))
    if pa.types.is_floating(before.type):
        both = pc.and_(pc.is_nan(before), pc.is_nan(after)).fill_null(False)
        other = pc.and_not(other, both)
    return np.asarray(other, dtype=np.bool_)


def _axes(kind: pa.DataType) -> int:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return len(getattr(kind, "shape", ())) or _axes(kind.storage_type)
    return 1 + _axes(kind.value_type) if pa.types.is_nested(kind) and kind.num_fields == 1 else 0


def _layout(
    given: Sequence[int], shape: tuple[int, ...] | None, name: str
) -> tuple[Literal["grey", "first", "last"], tuple[int, ...]]:
    """Place of the colours among the axes, and the axes of one picture."""
    axes = tuple(given)
    if len(axes) == 1:
        side = isqrt(axes[0])
        wanted = shape or ((side, side) if side * side == axes[0] else ())
        if int(np.prod(wanted)) != axes[0] or not wanted:
            stated = f"`shape: {list(shape)}`" if shape else "their height and width are unknown"
            raise InputError(
                f"pictures in {name!r} have {axes[0]} values, and {stated} does not fit"
                if shape
                else f"pictures in {name!r} have {axes[0]} values, and {stated}",
                remedy="state it: `shape: [height, width]`, or [height, width, 3]",
            )
        axes = tuple(wanted)
    if len(axes) == 2:
        return "grey", axes
    if len(axes) == 3 and axes[2] in (1, 3):
        return "last", axes
    if len(axes) == 3 and axes[0] in (1, 3):
        return "first", axes
    raise InputError(
        f"rows of {name!r} have axes {list(axes)}, which is not a picture: height, width and 1 or 3 colours"
    )


def _scaled(values: NDArray[np.generic], low: float, high: float) -> Values:
    span = high - low if high > low else 1.0
    return np.asarray((values.astype(np.float64) - low) / span)


def _fitted(values: Values, low: float, high: float, like: NDArray[np.generic]) -> NDArray[np.generic]:
    """Values back in the range and the type that they had."""
    span = high - low if high > low else 1.0
    made = np.clip(values, 0.0, 1.0) * span + low
    return np.round(made).astype(like.dtype) if like.dtype.kind in "biu" else made.astype(like.dtype)


def _as_column(values: NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    """Column of lists, in the type that it had."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _as_column(values.reshape(len(values), -1), kind.storage_type))
    made: pa.Array = pa.array(np.ascontiguousarray(values).reshape(-1))
    for length in reversed(values.shape[1:]):
        made = pa.FixedSizeListArray.from_arrays(made, length)
    return made.cast(kind)

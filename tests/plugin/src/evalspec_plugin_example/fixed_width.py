"""`fixed_width`: text files whose columns stand at fixed places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evalspec.api import Access, Dataset, Header, InputError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa


class Place(BaseModel):
    """Where a column stands."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: int = Field(ge=0, description="First character, counted from 0.")
    stop: int = Field(description="Character after the last one.")
    type: Literal["number", "text"] = Field("number", description="What the characters are.")

    @model_validator(mode="after")
    def _holds_something(self) -> Place:
        if self.stop <= self.start:
            raise ValueError(f"stop {self.stop} must be larger than start {self.start}")
        return self


class FixedWidth(Dataset):
    """A text file with one row a line and columns at fixed places."""

    kind: Literal["fixed_width"] = "fixed_width"
    path: str = Field(description="The file, relative to the spec's folder.")
    places: dict[str, Place] = Field(min_length=1, description="Column: where it stands in a line.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The file."""
        return (access.path(self.path),)

    def header(self, access: Access) -> Header:
        """Rows and columns.

        Raises:
            InputError: The file is missing or empty.
        """
        types = {"number": "double", "text": "string"}
        return Header(
            rows=len(self._lines(access)), columns={name: types[place.type] for name, place in self.places.items()}
        )

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, these columns.

        Raises:
            InputError: As `header`; a column isn't there; or its characters are no number.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        lines = pa.array(self._lines(access), pa.string())
        read: dict[str, pa.Array] = {}
        for name in self.places if columns is None else columns:
            place = self.places.get(name)
            if place is None:
                raise InputError(
                    f"{self.path!r} has no column {name!r}", choices=self.places, remedy=did_you_mean(name, self.places)
                )
            text = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(lines, place.start, place.stop))
            try:
                read[name] = text.cast(pa.float64()) if place.type == "number" else text
            except pa.ArrowInvalid as error:
                raise InputError(f"the column {name!r} of {self.path!r} holds no numbers: {error}") from error
        return pa.table(read) if read else pa.table({"": pa.nulls(len(lines))}).select([])

    def _lines(self, access: Access) -> list[str]:
        lines = access.path(self.path).read_text(encoding="utf-8").splitlines()
        if not lines:
            raise InputError(f"{self.path!r} is empty")
        return lines

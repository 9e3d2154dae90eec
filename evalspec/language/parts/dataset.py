"""Base of the kinds of dataset: a source is one class of this, in a file of ``evalspec/sources``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, field_validator

from evalspec.evidence.model_card import Benchmark
from evalspec.language.names import check_where
from evalspec.language.parts.part import Access, Part

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.evidence.record import ObjectStamp
    from evalspec.language.header import Header
    from evalspec.language.places import ObjectPlace

    Between = Callable[[int, int], Iterator[pa.RecordBatch]]
    """First row, and the one after the last -> these rows, some at a time."""

BATCH_ROWS = 65_536
"""Rows that are held at a time where data are read in batches."""


class Dataset(Part):
    """A named table or collection. Its kind is read by a source: one file of ``evalspec/sources``."""

    extra_name: ClassVar[str] = ""
    packages: ClassVar[tuple[str, ...]] = ()
    plain_header: ClassVar[bool] = False
    """Its header can be read without its packages, so that ``validate`` may."""
    in_memory: ClassVar[bool] = False
    """Its rows were held by the calling program."""
    rows_fit: ClassVar[bool] = True
    """Memory holds `BATCH_ROWS` of its rows, so that they can be handed on so many at a time, whatever else is read."""
    by_number: ClassVar[bool] = False
    """Its header always says how many rows there are, and any of them can be read without those before (`between`)."""
    only_files: ClassVar[bool] = False
    """Its rows hang on the bytes and the paths of its `files` alone, and take longer to read than a digest of these."""

    kind: str
    label: str | None = Field(None, description="Column with the true label.")
    label_unit: str | None = Field(None, description="Unit of a regression label: `min` makes `mae <= 3 min`.")
    key: str | None = Field(None, description="Column that names a row; joins predictions made elsewhere.")
    cluster: str | None = Field(
        None, description="Column with what rows share (patient, session): rows of one cluster are not independent."
    )
    where: str | None = Field(None, description="Only rows that meet this condition: `lux < 100 and site == 'lab'`.")
    origin: dict[str, str] = Field(
        default_factory=dict, description="Where and when it was collected: site, collected, device."
    )
    hub: Benchmark | None = Field(
        None, description="The hub benchmark that these rows are, for a model card: {id, task, metric}."
    )

    @field_validator("where")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        return check_where(value) if value is not None else None

    def header(self, access: Access) -> Header:
        """Number of rows, and columns, before ``where``; rows are read only if the format requires it.

        Raises:
            InputError: Missing, empty, truncated or of another format.
        """
        raise NotImplementedError

    @property
    def place(self) -> ObjectPlace | None:
        """Where in object storage it lies; None: on this machine."""
        return None

    def check_place(self, access: Access) -> None:
        """Stop where it lies outside this machine, and nobody allowed that; nothing is looked up.

        Raises:
            InputError: It does.
        """

    def secrets_read(self) -> tuple[str, ...]:
        """Variables of the environment that it needs as secrets."""
        return ()

    def list_objects(self, access: Access) -> None:
        """List its objects and keep their stamps, where it lies in object storage and nobody has.

        Raises:
            InputError: They can't be listed, or there are none.
        """

    def probe_objects(self, access: Access) -> None:
        """Read the end of one of its objects, where it lies in object storage: whether that works from here.

        Raises:
            InputError: It does not.
            InvalidError: The object has other contents than those that were listed, or is gone.
        """

    def stamps(self, access: Access) -> tuple[ObjectStamp, ...]:
        """Objects that were listed of it; empty: none were, or it lies on this machine."""
        return ()

    def keep_stamps(self, access: Access, stamps: Sequence[ObjectStamp]) -> None:
        """Have all that is read from now on be of these objects, with these contents."""

    def label_names(self, access: Access) -> tuple[str, ...]:
        """Names of the labels 0, 1, ... in the data, if labels are read as numbers; empty: none.

        Raises:
            InputError: As `header`.
        """
        return ()

    def files(self, access: Access) -> tuple[Path, ...]:
        """The files that hold it; empty: it comes with a package, or lies in object storage."""
        raise NotImplementedError

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows before ``where``, with these columns.

        Raises:
            InputError: As `header`, or a column isn't there.
        """
        raise NotImplementedError

    def batches(
        self, access: Access, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `read`, with the same values and types, in batches; each call begins with the first row.

        If the format allows, only one batch is in memory; otherwise all rows are read first.

        Args:
            access: Where it may be read from.
            columns: These columns; None: all.
            rows: Maximum number of rows in a batch.

        Raises:
            InputError: As `read`. A later batch raises it if the damage is there.
        """
        return iter(self.read(access, columns).to_batches(max_chunksize=rows))

    def between(self, access: Access, columns: Sequence[str] | None = None) -> Between:
        """Reader of any of the rows of `batches`, by their numbers; of a source whose rows go `by_number`.

        Args:
            access: Where it may be read from.
            columns: These columns; None: all.

        Raises:
            InputError: As `batches`.
        """
        raise NotImplementedError

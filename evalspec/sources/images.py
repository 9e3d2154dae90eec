"""A folder of images, with an optional table of what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from evalspec.errors import InputError
from evalspec.language.header import Header, choose
from evalspec.language.parts import BATCH_ROWS, Access, Dataset
from evalspec.sources.arrow import Arrow
from evalspec.sources.csv import Csv
from evalspec.sources.jsonl import Jsonl
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading.files import below, one_file, shown
from evalspec.sources.reading.pictures import Colours, decode, from_file, type_of
from evalspec.sources.reading.table import tidy, type_text

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
IMAGE, PATH, LABEL = "image", "path", "label"
Side = Annotated[int, Field(ge=1, le=16384)]
DECODED_BYTES = 1 << 26
"""Of images that are held at a time where they are read in batches."""


class Images(Dataset):
    """Images in a folder and the folders below, in the order of their paths.

    Columns are ``image`` (height x width, or height x width x 3), ``path`` (relative to the folder), ``label`` (the
    topmost folder below, where images lie in such folders) and those of ``metadata``, whose ``label`` goes before the
    folder's name. Pixels are as they are stored: not turned by EXIF.
    """

    extra_name: ClassVar[str] = "images"
    packages: ClassVar[tuple[str, ...]] = ("PIL",)
    rows_fit: ClassVar[bool] = False
    plain_header: ClassVar[bool] = True
    only_files: ClassVar[bool] = True

    kind: Literal["images"] = "images"
    path: str = Field(description="The folder.")
    metadata: str | None = Field(None, description="A table with one row per image: .csv, .jsonl, .parquet or .arrow.")
    file_column: str = Field(
        "file_name", description="Column of the metadata with the image's path relative to the folder."
    )
    colours: Colours | None = Field(None, description="Convert all images to grey or rgb; default: unchanged.")
    size: tuple[Side, Side] | None = Field(None, description="Height and width to resize to; default: unchanged.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The images, in the order of their paths, and the metadata last.

        Raises:
            InputError: There is no such folder, no image in it, or no metadata.
        """
        metadata = () if self.metadata is None else (one_file(access, self.metadata, "images"),)
        return (*self._images(access), *metadata)

    def header(self, access: Access) -> Header:
        """Rows and columns; only the first image is read.

        Raises:
            InputError: No folder, no image, or one that can't be read; metadata that can't be read.
        """
        files = self._images(access)
        extra = self._metadata_kind().header(access).columns if self.metadata is not None else {}
        head = type_of(from_file(files[0]), shown(access, files[0]), colours=self.colours, size=self.size)
        columns = {IMAGE: type_text(head), PATH: "string"}
        if self._labels(access, files) is not None:
            columns[LABEL] = "string"
        known = {name: kind for name, kind in extra.items() if name != self.file_column}
        return Header(rows=len(files), columns={**columns, **known})

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, these columns; images are read only where they are asked for.

        Raises:
            InputError: As `header`; an image without a row in the metadata, or the other way round.
        """
        files = self._images(access)
        paths = pa.array([self._relative(access, file) for file in files], pa.string())
        found: dict[str, pa.Array | pa.ChunkedArray] = {PATH: paths}
        labels = self._labels(access, files)
        if labels is not None:
            found[LABEL] = pa.array(labels, pa.string())
        if self.metadata is not None:
            found |= self._known(access, paths)
        names = choose(columns, [IMAGE, *found], repr(self.path))
        if IMAGE in names:
            found[IMAGE] = self._decoded(access, files)
        return tidy(pa.table({name: found[name] for name in names}))

    def batches(
        self, access: Access, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `read`; so many images are decoded at a time as fit into 64 MiB."""
        names = choose(columns, list(self.header(access).columns), repr(self.path))
        if IMAGE not in names:
            yield from super().batches(access, columns, rows)
            return
        files = self._images(access)
        known = self.read(access, [name for name in names if name != IMAGE] or [PATH])
        first = self._decoded(access, files[:1])
        size = min(rows, max(1, DECODED_BYTES // max(first.nbytes, 1)))
        for start in range(0, len(files), size):
            images = self._decoded(access, files[start : start + size])
            if images.type != first.type:
                # Says which two differ, and how.
                self._decoded(access, (files[0], files[start]))
            part = known.slice(start, size).combine_chunks()
            found = {name: images if name == IMAGE else part.column(name) for name in names}
            yield from pa.table(found).combine_chunks().to_batches()

    def _images(self, access: Access) -> tuple[Path, ...]:
        folder = access.path(self.path)
        if not folder.is_dir():
            raise InputError(f"{self.path!r} is a file; kind images reads a folder")
        files = sorted(
            below(folder, self.path, lambda file: _is_image(folder / file)),
            key=lambda file: file.relative_to(folder).as_posix(),
        )
        if not files:
            raise InputError(f"there is no image in {self.path!r}", choices=sorted(SUFFIXES))
        for file in files:
            access.path(str(file))
        return tuple(files)

    def _relative(self, access: Access, file: Path) -> str:
        return file.relative_to(access.path(self.path)).as_posix()

    def _decoded(self, access: Access, files: Sequence[Path]) -> pa.Array:
        return decode(
            [from_file(file) for file in files],
            [shown(access, file) for file in files],
            colours=self.colours,
            size=self.size,
        )

    def _labels(self, access: Access, files: Sequence[Path]) -> list[str | None] | None:
        """The topmost folder of each image; None where none lies in one."""
        parts = [self._relative(access, file).split("/") for file in files]
        labels = [part[0] if len(part) > 1 else None for part in parts]
        return labels if any(label is not None for label in labels) else None

    def _metadata_kind(self) -> Dataset:
        kinds: dict[str, type[Csv] | type[Jsonl] | type[Parquet] | type[Arrow]] = {
            ".csv": Csv, ".jsonl": Jsonl, ".parquet": Parquet, ".arrow": Arrow, ".feather": Arrow,
        }  # fmt: skip
        path = str(self.metadata)
        kind = kinds.get(Path(path).suffix.lower())
        if kind is None:
            raise InputError(f"metadata {path!r} is not a readable table", choices=list(kinds))
        return kind(path=path)

    def _known(self, access: Access, paths: pa.Array) -> dict[str, pa.ChunkedArray]:
        """Columns of the metadata, in the order of the images."""
        table = self._metadata_kind().read(access)
        choose([self.file_column], table.column_names, f"metadata {self.metadata!r}")
        named = table.column(self.file_column).cast(pa.string())
        twice = [entry["values"] for entry in pc.value_counts(named).to_pylist() if entry["counts"] > 1]
        if twice:
            raise InputError(f"metadata {self.metadata!r} has two rows for {twice[0]!r}")
        at = pc.index_in(paths, value_set=named.combine_chunks())
        lost = paths.filter(pc.is_null(at)).to_pylist()
        if lost:
            raise InputError(f"{len(lost):,} images have no row in metadata {self.metadata!r}, such as {lost[0]!r}")
        gone = named.filter(pc.invert(pc.is_in(named, value_set=paths))).to_pylist()
        if gone:
            raise InputError(f"metadata {self.metadata!r} names {len(gone):,} images that don't exist: {gone[0]!r}")
        taken = [name for name in (IMAGE, PATH) if name in table.column_names]
        if taken:
            raise InputError(
                f"metadata {self.metadata!r} has a column {taken[0]!r}, a name that images already use",
                remedy="rename it",
            )
        return {name: table.column(name).take(at) for name in table.column_names if name != self.file_column}


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and not file.is_dir()

"""Data sets of Hugging Face's `datasets`: saved to disk, as data files, or by name on the hub."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from evalspec.errors import InputError
from evalspec.language.bounded import read_bounded
from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Dataset
from evalspec.sources.arrow import Arrow
from evalspec.sources.csv import Csv
from evalspec.sources.jsonl import Jsonl
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading.files import many_files, shown
from evalspec.sources.reading.pandas_index import unnamed
from evalspec.sources.reading.pictures import Opener, decode, from_bytes, from_file
from evalspec.sources.reading.table import merged, tidy, type_texts

# Suffix: the builder of `datasets` that reads it. Its builder for pickles is left out on purpose.
BUILDERS: Mapping[str, str] = {
    ".parquet": "parquet", ".csv": "csv", ".jsonl": "json", ".json": "json", ".arrow": "arrow",
}  # fmt: skip
DICT, INFO, STATE = "dataset_dict.json", "dataset_info.json", "state.json"


class Huggingface(Dataset):
    """A data set read with the package `datasets`.

    ``path`` is a folder written by ``save_to_disk``, or data files (parquet, csv, jsonl, arrow) and folders of them;
    nothing is looked up. ``name`` is a name on the hub, with the revision, so that it stays the same data. Images
    become arrays of one shape; class labels stay numbers, or become their names with ``class_names: true``; a label of
    -1, which stands for none there, is missing.
    """

    extra_name: ClassVar[str] = "huggingface"
    packages: ClassVar[tuple[str, ...]] = ("datasets",)

    kind: Literal["huggingface"] = "huggingface"
    path: str | None = Field(None, description="A folder of `save_to_disk`, or data files.")
    name: str | None = Field(None, description="A name on the hub, such as `owner/name`.")
    revision: str | None = Field(None, description="Commit or tag on the hub.")
    config: str | None = Field(None, description="Configuration on the hub, if there are several.")
    split: str | None = Field(None, description="Split, such as `test`, if there are several.")
    class_names: bool = Field(False, description="Read class labels as names instead of numbers.")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.name is None):
            raise ValueError("give either `path` (local) or `name` (on the hub)")
        if self.path is not None and (self.revision or self.config):
            raise ValueError("`revision` and `config` go with `name`")
        if self.name is not None and (self.revision is None or self.split is None):
            raise ValueError("with `name` also give `revision` and `split`, so that the data stay the same")
        if self.name is not None and self.hub is not None and self.hub.id != self.name:
            raise ValueError(f"`hub` names {self.hub.id!r}, but the rows are read from {self.name!r}")
        if self.name is not None and self.hub is not None and self.hub.revision not in (None, self.revision):
            raise ValueError("the `revision` in `hub` differs from the one that is read")
        return self

    def files(self, access: Access) -> tuple[Path, ...]:
        """Local files; none for a name on the hub.

        Raises:
            InputError: There are none.
        """
        if self.path is None:
            return ()
        folder = self._saved(access)
        if folder is None:
            return self._data_files(access)
        return tuple(sorted(file for file in folder.rglob("*") if file.is_file()))

    def label_names(self, access: Access) -> tuple[str, ...]:
        folder = None if self.path is None or self.class_names else self._saved(access)
        if folder is None or self.label is None:
            return ()
        feature = (_json(access, folder / INFO).get("features") or {}).get(self.label)
        names = feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None
        return tuple(map(str, names)) if isinstance(names, list) else ()

    def header(self, access: Access) -> Header:
        """Rows and columns. Local ones are read without the package `datasets`; images are not decoded."""
        header = self._whole_header(access)
        index = unnamed(header.columns, self)
        return replace(header, columns={name: kind for name, kind in header.columns.items() if name not in index})

    def _whole_header(self, access: Access) -> Header:
        """With an index that pandas handed on: `datasets` keeps no note of which column that is."""
        if self.path is None:
            return self._hub_header(access)
        folder = self._saved(access)
        if folder is None:
            headers = [self._file_header(access, file) for file in self._data_files(access)]
            rows = [header.rows for header in headers]
            known = [row for row in rows if row is not None]
            return Header(rows=sum(known) if len(known) == len(rows) else None, columns=headers[0].columns)
        tables = []
        for file in self._arrow_files(access, folder):
            tables.append(Arrow(path=str(file))._mapped(access, file))
        schema = merged([table.schema for table in tables], repr(self.path))
        images = [name for name, kind in self._features(access, folder).items() if kind == "Image"]
        columns = {**type_texts(schema), **{name: "image" for name in images if name in schema.names}}
        return Header(rows=sum(table.num_rows for table in tables), columns=columns)

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows, these columns.

        Raises:
            InputError: As `header`, a column isn't there, or its feature can't be a column (audio, video).
        """
        with tempfile.TemporaryDirectory() as cache, self._reading():
            data = self._load(access, cache)
            aside = unnamed(data.column_names, self)
            there = [name for name in data.column_names if name not in aside]
            names = choose(columns, there, self._shown)
            table = data.select_columns(names).with_format("arrow")[:].replace_schema_metadata(None)
            features = {name: data.features[name] for name in names}
        for index, name in enumerate(names):
            column = self._converted(access, name, features[name], table.column(name))
            table = table.set_column(index, name, column)
        return tidy(table)

    @property
    def _shown(self) -> str:
        return repr(self.path or self.name)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what `datasets` raises over files and names into one sentence."""
        datasets = _datasets(offline=self.name is None)
        try:
            yield
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            pa.ArrowException,
            datasets.exceptions.DatasetsError,
        ) as error:
            cause = error.__cause__ or error
            reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0].rstrip(".")[:200]
            raise InputError(f"{self._shown} can't be read as huggingface: {reason}") from error

    def _load(self, access: Access, cache: str) -> Any:
        datasets = _datasets(offline=self.name is None)
        if self.path is None:
            self._check_hub(access)
            return datasets.load_dataset(self.name, self.config, revision=self.revision, split=self.split)
        folder = self._saved(access)
        if folder is not None:
            self._arrow_files(access, folder)
            return datasets.load_from_disk(str(folder))
        files = self._data_files(access)
        builder = BUILDERS[files[0].suffix.lower()]
        paths = [str(file) for file in files]
        return datasets.load_dataset(builder, data_files=paths, split="train", cache_dir=cache, keep_in_memory=True)

    def _check_hub(self, access: Access) -> None:
        if not access.hub:
            raise InputError(
                f"{self.name!r} is a name on the hub, but this run may not look up names on the hub",
                remedy="pass --hub, or download it and give its `path`",
            )

    def _hub_header(self, access: Access) -> Header:
        self._check_hub(access)
        datasets = _datasets(offline=False)
        with self._reading():
            info = datasets.load_dataset_builder(self.name, self.config, revision=self.revision).info
        splits = info.splits or {}
        if self.split not in splits:
            raise InputError(f"{self.name!r} has no split {self.split!r}", choices=sorted(splits))
        schema = (info.features or datasets.Features()).arrow_schema
        return Header(rows=splits[self.split].num_examples, columns=type_texts(schema))

    def _saved(self, access: Access) -> Path | None:
        """The folder of the split written by ``save_to_disk``; None where the path holds data files."""
        path = access.path(str(self.path))
        if not path.is_dir():
            return None
        if not (path / DICT).is_file():
            return path if (path / INFO).is_file() or (path / STATE).is_file() else None
        splits = _json(access, path / DICT).get("splits", [])
        if self.split is None:
            raise InputError(f"{self.path!r} has several splits", choices=splits, remedy="name one in `split:`")
        if self.split not in splits:
            raise InputError(f"{self.path!r} has no split {self.split!r}", choices=splits)
        return access.path(str(path / self.split))

    def _arrow_files(self, access: Access, folder: Path) -> list[Path]:
        """Files that the folder's state names; they must lie in it."""
        named = [str(entry.get("filename", "")) for entry in _json(access, folder / STATE).get("_data_files", [])]
        for name in named:
            if Path(name).name != name or not (folder / name).is_file():
                raise InputError(f"{self._shown} is incomplete: its file {name!r} is missing")
        if not named:
            raise InputError(f"{self._shown} holds no data")
        return [access.path(str(folder / name)) for name in named]

    def _features(self, access: Access, folder: Path) -> dict[str, str]:
        features = _json(access, folder / INFO).get("features") or {}
        return {name: str(kind.get("_type")) for name, kind in features.items() if isinstance(kind, dict)}

    def _data_files(self, access: Access) -> tuple[Path, ...]:
        files = many_files(access, str(self.path), "huggingface", tuple(BUILDERS))
        files = tuple(file for file in files if file.name not in (DICT, INFO, STATE))
        if self.split is not None:
            word = re.compile(rf"(?<![a-z]){re.escape(self.split.lower())}(?![a-z])")
            root = access.path(str(self.path)) if len(files) > 1 else files[0].parent
            chosen = tuple(file for file in files if word.search(file.relative_to(root).as_posix().lower()))
            if not chosen:
                names = [file.name for file in files[:10]]
                raise InputError(f"no data file of {self.path!r} names the split {self.split!r}", choices=names)
            files = chosen
        kinds = sorted({BUILDERS.get(file.suffix.lower(), file.suffix) for file in files})
        if len(kinds) != 1 or kinds[0] not in BUILDERS.values():
            raise InputError(
                f"{self.path!r} holds files of {' and '.join(kinds) or 'no readable kind'}",
                choices=sorted(BUILDERS),
                remedy="give files of one kind",
            )
        return files

    def _file_header(self, access: Access, file: Path) -> Header:
        kinds: dict[str, type[Csv] | type[Jsonl] | type[Parquet] | type[Arrow]] = {
            "parquet": Parquet, "csv": Csv, "json": Jsonl, "arrow": Arrow,
        }  # fmt: skip
        kind = kinds[BUILDERS[file.suffix.lower()]]
        return kind(path=str(file), label=self.label, key=self.key, cluster=self.cluster, where=self.where).header(
            access
        )

    def _converted(self, access: Access, name: str, feature: Any, column: pa.ChunkedArray) -> pa.ChunkedArray:
        kind = type(feature).__name__
        if kind == "ClassLabel":
            column = pc.if_else(pc.less(column, 0), pa.scalar(None, column.type), column)
            return pc.take(pa.array(feature.names, pa.string()), column) if self.class_names else column
        if kind == "Image":
            return pa.chunked_array([self._images(access, name, column)])
        if kind in ("Audio", "Video", "Pdf", "Nifti"):
            raise InputError(f"column {name!r} of {self._shown} holds {kind.lower()}, which can't be a column")
        if re.fullmatch(r"Array[2-5]D", kind) and feature.shape[0] is not None:
            return pa.chunked_array([_tensor(column, tuple(feature.shape), name)])
        return column

    def _images(self, access: Access, name: str, column: pa.ChunkedArray) -> pa.Array:
        rows = column.to_pylist()
        openers: list[Opener] = []
        for index, row in enumerate(rows):
            if row is None:
                raise InputError(f"column {name!r} of {self._shown} has no image in row {index:,}")
            # A path without bytes may point anywhere, so it is held to the rules of paths in a spec.
            openers.append(from_bytes(row["bytes"]) if row["bytes"] else from_file(access.path(row["path"])))
        names = [f"in row {index:,} of {self._shown}" for index in range(len(rows))]
        return decode(openers, names, colours=None, size=None)


def _datasets(*, offline: bool) -> Any:
    """The package `datasets`, which reads where it may look only when it is imported."""
    if offline and "datasets" not in sys.modules and "huggingface_hub" not in sys.modules:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
    import datasets

    datasets.disable_progress_bars()
    return datasets


def _json(access: Access, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_bounded(access.path(str(path)), shown(access, path)).decode("utf-8"))
    except (OSError, ValueError, RecursionError, InputError) as error:
        raise InputError(f"{shown(access, path)} is missing or damaged, so its data set can't be read") from error
    if not isinstance(content, dict):
        raise InputError(f"{shown(access, path)} is damaged: it holds no object")
    return content


def _tensor(column: pa.ChunkedArray, shape: tuple[int, ...], name: str) -> pa.Array:
    array = column.combine_chunks()
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if array.null_count:
        raise InputError(f"column {name!r} has {array.null_count:,} missing arrays", remedy="drop these rows")
    storage = getattr(array, "storage", array)
    for _ in shape:
        storage = storage.flatten()
    size = 1
    for side in shape:
        size *= side
    lists = pa.FixedSizeListArray.from_arrays(storage, size)
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(storage.type, list(shape)), lists)

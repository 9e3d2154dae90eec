"""An index that pandas wrote without a name is not a column of the data; one with a name is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from evalspec.errors import SpecError
from evalspec.language.parts import Access, Dataset
from evalspec.loading import load
from evalspec.sources.arrow import Arrow
from evalspec.sources.huggingface import Huggingface
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading.footer import read_footer
from evalspec.sources.reading.open import open_dataset

FRAME = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": ["a", "b", "a"]}, index=[5, 6, 9])


def write(folder: Path, kind: str, frame: pd.DataFrame) -> type[Dataset]:
    path = folder / "d"
    if kind == "parquet":
        frame.to_parquet(path)
        return Parquet
    if kind == "feather":
        feather.write_feather(pa.Table.from_pandas(frame), path)
    else:
        table = pa.Table.from_pandas(frame)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return Arrow


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
@pytest.mark.parametrize("levels", [1, 2])
def test_it_is_dropped_at_the_source(kind: str, levels: int, tmp_path: Path) -> None:
    frame = FRAME if levels == 1 else FRAME.set_index(pd.MultiIndex.from_arrays([[1, 1, 2], [0, 1, 0]]))
    dataset = write(tmp_path, kind, frame)(path="d")  # type: ignore[call-arg]
    access = Access(tmp_path)
    assert list(dataset.header(access).columns) == ["x", "y"]
    assert dataset.read(access).column_names == ["x", "y"]
    assert [name for batch in dataset.batches(access) for name in batch.schema.names] == ["x", "y"]


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
@pytest.mark.parametrize("fields", [{"key": "__index_level_0__"}, {"where": "__index_level_0__ > 5"}])
def test_what_the_dataset_names_is_kept(kind: str, fields: dict[str, Any], tmp_path: Path) -> None:
    dataset = write(tmp_path, kind, FRAME)(path="d", **fields)
    access = Access(tmp_path)
    assert "__index_level_0__" in dataset.header(access).columns
    assert open_dataset(dataset, access).column("__index_level_0__").to_pylist()[-1] == 9


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
def test_an_index_with_a_name_and_a_column_of_that_name_are_columns(kind: str, tmp_path: Path) -> None:
    access = Access(tmp_path)
    named = write(tmp_path, kind, FRAME.rename_axis("row"))(path="d")  # type: ignore[call-arg]
    assert set(named.header(access).columns) == {"x", "y", "row"}
    plain = write(tmp_path, kind, FRAME.reset_index(drop=True))(path="d")  # type: ignore[call-arg]
    assert list(plain.header(access).columns) == ["x", "y"]
    own = FRAME.reset_index(drop=True).assign(__index_level_0__=[1, 2, 3])
    assert "__index_level_0__" in write(tmp_path, kind, own)(path="d").header(access).columns  # type: ignore[call-arg]


def test_files_of_which_one_has_an_index_go_together(tmp_path: Path) -> None:
    FRAME.reset_index(drop=True).to_parquet(tmp_path / "a.parquet")
    FRAME.to_parquet(tmp_path / "b.parquet")
    dataset = Parquet(path="*.parquet")
    assert dataset.header(Access(tmp_path)).rows == 6
    assert dataset.read(Access(tmp_path)).column_names == ["x", "y"]


def test_a_footer_with_one_is_left_to_pyarrow(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    assert read_footer(tmp_path / "a.parquet") is None
    FRAME.rename_axis("row").to_parquet(tmp_path / "b.parquet")
    footer = read_footer(tmp_path / "b.parquet")
    assert footer is not None and set(footer.columns) == {"x", "y", "row"}


@pytest.mark.parametrize(
    "noted", [b"{", b"[]", b'{"index_columns": 3}', b"\xff", b"[" * 100_000, b'{"index_columns": [{}]}']
)
def test_a_note_that_is_damaged_drops_nothing(noted: bytes, tmp_path: Path) -> None:
    table = pa.table({"x": [1.0], "__index_level_0__": [1]}).replace_schema_metadata({b"pandas": noted})
    pq.write_table(table, tmp_path / "a.parquet")
    assert len(Parquet(path="a.parquet").header(Access(tmp_path)).columns) == 2


def test_of_a_hugging_face_data_set_too(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    datasets.Dataset.from_pandas(FRAME).save_to_disk(tmp_path / "d")
    dataset = Huggingface(path="d")
    assert list(dataset.header(Access(tmp_path)).columns) == ["x", "y"]
    assert dataset.read(Access(tmp_path)).column_names == ["x", "y"]


def test_inputs_that_name_it_are_told_what_it_is(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    FRAME.rename_axis("__index_level_0__").reset_index().to_parquet(tmp_path / "b.parquet")
    (tmp_path / "s.yaml").write_text(
        "evalspec: 1\nname: s\ndatasets: {a: {kind: parquet, path: a.parquet}, b: {kind: parquet, path: b.parquet}}\n"
        "data: [{check: leakage, train: [b], test: a, group: __index_level_0__, require: [group_overlap == 0]}]\n"
    )
    with pytest.raises(SpecError, match=r"a has no column '__index_level_0__' .*it is the index of a frame"):
        load(tmp_path / "s.yaml")

"""Bad files, for every kind that reads files: each is one clear sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access, Dataset
from evalspec.sources.arrow import Arrow
from evalspec.sources.csv import Csv
from evalspec.sources.jsonl import Jsonl
from evalspec.sources.npz import Npz
from evalspec.sources.parquet import Parquet

TABLE = pa.table({"a": pa.array(range(5000)), "y": np.arange(5000) / 7, "s": [f"row {i}" for i in range(5000)]})


def write_jsonl(table: pa.Table, path: Path) -> None:
    import json

    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def write_npz(table: pa.Table, path: Path) -> None:
    np.savez(path, **{name: np.array(table[name].to_pylist()) for name in table.column_names})


WRITERS: dict[str, tuple[type[Dataset], Callable[[pa.Table, Path], object]]] = {
    "parquet": (Parquet, lambda table, path: pq.write_table(table, path)),
    "csv": (Csv, lambda table, path: pacsv.write_csv(table, path)),
    "jsonl": (Jsonl, write_jsonl),
    "arrow": (Arrow, lambda table, path: feather.write_feather(table, path)),
    "npz": (Npz, write_npz),
}
KINDS = sorted(WRITERS)


def make(kind: str, path: Path) -> Dataset:
    return WRITERS[kind][0](path=path.name)  # type: ignore[call-arg]


def refused(dataset: Dataset, folder: Path) -> str:
    access = Access(folder)
    with pytest.raises(InputError) as read:
        dataset.read(access)
    with pytest.raises(InputError):
        dataset.header(access)
    message = str(read.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_is_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"data.{kind}"
    WRITERS[kind][1](TABLE, path)
    dataset = make(kind, path)
    header = dataset.header(Access(tmp_path))
    assert header.rows == 5000
    assert header.columns == {"a": "int64", "y": "double", "s": "string"}
    assert dataset.read(Access(tmp_path)).equals(TABLE)
    assert dataset.read(Access(tmp_path), ["s", "a"]).equals(TABLE.select(["s", "a"]))
    assert dataset.files(Access(tmp_path)) == (path,)


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_isnt_there(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"data.{kind}"
    WRITERS[kind][1](TABLE.rename_columns(["amount", "y", "s"]), path)
    with pytest.raises(InputError, match=r"no column 'amunt' \(choices: amount, y, s\); did you mean 'amount'\?"):
        make(kind, path).read(Access(tmp_path), ["amunt"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_file(kind: str, tmp_path: Path) -> None:
    assert "there is no file or folder" in refused(make(kind, tmp_path / "nothing"), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"data.{kind}"
    path.touch()
    assert f"'data.{kind}' is empty (0 bytes)" in refused(make(kind, path), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", [0.02, 0.5, 0.99])
def test_a_truncated_file(kind: str, keep: float, tmp_path: Path) -> None:
    path = tmp_path / f"data.{kind}"
    WRITERS[kind][1](TABLE, path)
    data = path.read_bytes()
    cut = int(len(data) * keep)
    if kind in ("csv", "jsonl"):
        # In the middle of a row; between rows a shorter file is whole.
        cut = data.rindex(b",", 0, cut)
    path.write_bytes(data[:cut])
    message = refused(make(kind, path), tmp_path)
    assert f"'data.{kind}' can't be read as {kind}" in message


# JSON lines read as a csv file of odd columns, which is no error of the file's.
PAIRS = [(kind, other) for kind in KINDS for other in KINDS if kind != other and (kind, other) != ("csv", "jsonl")]


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_a_file_of_another_kind(kind: str, other: str, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    WRITERS[other][1](TABLE, path if other != "npz" else tmp_path / "data.npz")
    path = path if path.exists() else tmp_path / "data.npz"
    message = refused(make(kind, path), tmp_path)
    assert repr(path.name) in message
    if other in ("parquet", "arrow", "npz"):
        assert f"write `kind: {other}`" in message


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_are_nothing(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(np.random.default_rng(0).bytes(10_000))
    refused(make(kind, path), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_anywhere_is_never_a_traceback(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"data.{kind}"
    WRITERS[kind][1](TABLE.slice(0, 200), path)
    data = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(1)
    for _ in range(60):
        broken = data.copy()
        at = rng.integers(0, len(data), 8)
        broken[at] = rng.integers(0, 256, 8)
        path.write_bytes(broken.tobytes())
        for act in (make(kind, path).header, make(kind, path).read):
            try:
                act(Access(tmp_path))
            except InputError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_outside_the_folder(kind: str, tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    WRITERS[kind][1](TABLE, tmp_path / f"data.{kind}")
    dataset = WRITERS[kind][0](path=f"../data.{kind}")  # type: ignore[call-arg]
    with pytest.raises(InputError, match="--allow-outside"):
        dataset.read(Access(tmp_path / "spec"))
    assert dataset.read(Access(tmp_path / "spec", allow_outside=True)).num_rows == 5000


@pytest.mark.parametrize("kind", ["csv", "jsonl", "npz"])
def test_a_folder_where_a_file_is_read(kind: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "is a folder" in refused(make(kind, tmp_path / "folder"), tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_folders_and_globs_in_the_order_of_names(kind: str, tmp_path: Path) -> None:
    (tmp_path / "parts" / "b").mkdir(parents=True)
    write = WRITERS[kind][1]
    for name, start in ((f"parts/a.{kind}", 0), (f"parts/b/0.{kind}", 10), (f"parts/c.{kind}", 20)):
        write(TABLE.slice(start, 10), tmp_path / name)
    (tmp_path / "parts" / "notes.txt").write_text("no data")
    (tmp_path / "parts" / f".hidden.{kind}").write_text("no data")
    make_at = WRITERS[kind][0]
    whole = make_at(path="parts")  # type: ignore[call-arg]
    assert whole.header(Access(tmp_path)).rows == 30
    assert whole.read(Access(tmp_path)).equals(TABLE.slice(0, 30))
    flat = make_at(path=f"parts/*.{kind}")  # type: ignore[call-arg]
    assert flat.read(Access(tmp_path), ["a"])["a"].to_pylist() == [*range(10), *range(20, 30)]
    deep = make_at(path=f"parts/**/*.{kind}")  # type: ignore[call-arg]
    assert deep.header(Access(tmp_path)).rows == 30
    with pytest.raises(InputError, match=f"there is no {kind} file in 'parts/z"):
        make_at(path=f"parts/z*.{kind}").read(Access(tmp_path))  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_of_one_set_with_other_columns(kind: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    WRITERS[kind][1](TABLE, tmp_path / "parts" / f"a.{kind}")
    WRITERS[kind][1](TABLE.rename_columns(["a", "y", "t"]), tmp_path / "parts" / f"b.{kind}")
    assert "'s' is only in some of them" in refused(make(kind, tmp_path / "parts"), tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_types_that_widen_and_types_that_dont(kind: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    dataset = make(kind, tmp_path / "parts")
    WRITERS[kind][1](pa.table({"a": pa.array([1], pa.int32())}), tmp_path / "parts" / f"a.{kind}")
    WRITERS[kind][1](pa.table({"a": pa.array([2.5])}), tmp_path / "parts" / f"b.{kind}")
    assert dataset.read(Access(tmp_path))["a"].to_pylist() == [1.0, 2.5]
    WRITERS[kind][1](pa.table({"a": ["x"]}), tmp_path / "parts" / f"b.{kind}")
    assert "don't fit together" in refused(dataset, tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_link_out_of_the_folder_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "spec" / "parts").mkdir(parents=True)
    WRITERS[kind][1](TABLE, tmp_path / f"secret.{kind}")
    (tmp_path / "spec" / "parts" / f"a.{kind}").symlink_to(tmp_path / f"secret.{kind}")
    with pytest.raises(InputError, match="outside"):
        make(kind, tmp_path / "spec" / "parts").read(Access(tmp_path / "spec"))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_lists_of_one_length_and_dictionaries_are_made_plain(kind: str, tmp_path: Path) -> None:
    table = pa.table(
        {
            "pixels": pa.array([[1, 2], [3, 4]], pa.list_(pa.uint8())),
            "ragged": pa.array([[1], [3, 4]], pa.list_(pa.uint8())),
            "site": pa.array(["a", "b"]).dictionary_encode(),
            "large": pa.array(["a", "b"], pa.large_string()),
        }
    )
    path = tmp_path / f"data.{kind}"
    WRITERS[kind][1](table, path)
    read = make(kind, path).read(Access(tmp_path))
    assert read.schema.field("pixels").type == pa.list_(pa.uint8(), 2)
    assert pa.types.is_list(read.schema.field("ragged").type)
    assert read.schema.field("site").type == read.schema.field("large").type == pa.string()
    assert read.to_pylist() == table.to_pylist()
    assert make(kind, path).header(Access(tmp_path)).columns["site"] == "string"


def test_lengths_that_point_outside_the_file_are_refused(tmp_path: Path) -> None:
    table = pa.table({"s": ["ab", "cd", "ef", "gh"]})
    with pa.ipc.new_file(tmp_path / "d.arrow", table.schema) as writer:
        writer.write_table(table)
    data = (tmp_path / "d.arrow").read_bytes()
    good, bad = (np.array(ends, np.int32).tobytes() for ends in ([0, 2, 4, 6, 8], [0, 2, 2**30, 6, 8]))
    assert data.count(good) == 1
    (tmp_path / "d.arrow").write_bytes(data.replace(good, bad))
    with pytest.raises(InputError, match="column 's' is damaged"):
        Arrow(path="d.arrow").read(Access(tmp_path))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_text_that_is_no_utf8_is_refused(kind: str, tmp_path: Path) -> None:
    raw = pa.array([b"fine", b"caf\xe9"])
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    path = tmp_path / f"d.{kind}"
    WRITERS[kind][1](pa.table({"s": text}), path)
    with pytest.raises(InputError, match="column 's' is damaged or not text in UTF-8"):
        make(kind, path).read(Access(tmp_path))


def test_a_zip_archive_is_called_what_it_is(tmp_path: Path) -> None:
    import zipfile

    kinds = {
        "schema.json": "it is a skops model; put it under `models:`, as `kind: sklearn`",
        "x.npy": "it is an npz archive; write `kind: npz`",
        "net/data.pkl": "it is a torch file; put it under `models:`, as `kind: torch`",
        "[Content_Types].xml": "it is an office document, such as a workbook; export its sheet as csv",
        "rows.csv": "it is a zip archive; unpack it, and give the file inside",
    }
    for name, said in kinds.items():
        with zipfile.ZipFile(tmp_path / "a.csv", "w") as archive:
            archive.writestr(name, "x")
        assert refused(Csv(path="a.csv"), tmp_path) == f"'a.csv' is not a csv file: {said}"
    (tmp_path / "a.csv").write_bytes(b"PK\x03\x04 and no more")
    assert refused(Csv(path="a.csv"), tmp_path) == "'a.csv' is not a csv file: it is a damaged zip archive"


def test_a_name_that_stands_twice_in_a_parquet_file(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t.parquet")
    part = Parquet.model_validate({"kind": "parquet", "path": "t.parquet"})
    with pytest.raises(InputError, match=r"'t\.parquet' has two columns called 'a'; rename one of them"):
        part.read(Access(tmp_path))

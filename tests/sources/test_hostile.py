"""F9, F10: files and fields that nobody means well by end in one sentence, soon, and without much memory."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import socket
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.bounded import check_zip, read_bounded
from evalspec.language.header import MOST_COLUMNS
from evalspec.language.parts import Access, Dataset
from evalspec.sources.arrow import Arrow
from evalspec.sources.csv import Csv
from evalspec.sources.images import Images
from evalspec.sources.jsonl import Jsonl
from evalspec.sources.npz import Npz
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading import files, json_shape
from evalspec.sources.reading.open import open_counted
from evalspec.sources.reading.rows import dataset_digest

MIB = 2**20


def refused(dataset: Dataset, folder: Path, **allowed: Any) -> str:
    with pytest.raises(InputError) as caught:
        dataset.header(Access(folder, **allowed))
    return str(caught.value)


# -- F9: fields ------


@pytest.mark.parametrize("glob", ["te**st.parquet", "**/**/*.parquet", "a/**b/*.parquet"])
def test_f9_a_glob_that_can_t_be_followed(glob: str, tmp_path: Path) -> None:
    said = refused(Parquet(path=glob), tmp_path)
    assert said == (
        f"the glob {glob!r} is not supported: ** must be a whole path component and may occur only once; "
    ) + ("write such as data/**/*.parquet")


@pytest.mark.parametrize(
    "encoding", ["undefined", "punycode", "rot13", "base64", "hex", "zlib", "mbcs", "nothing", "a\0b", ""]
)
def test_f9_an_encoding_that_is_none_of_text(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1,2\n")
    said = refused(Csv(path="d.csv", encoding=encoding), tmp_path)
    assert said.startswith(f"there is no text encoding {encoding!r}; write the encoding in which the file was saved")


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "latin-1", "utf-16", "utf-8-sig", "cp1252", "shift_jis"])
def test_encodings_of_text_are_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes("a,b\n1,x\n".encode(encoding))
    assert Csv(path="d.csv", encoding=encoding).read(Access(tmp_path)).to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize("delimiter", ["é", '"', "\n", "\r", "\0", "\x7f", ",,", ""])
def test_f9_a_delimiter_that_is_no_plain_character(delimiter: str) -> None:
    with pytest.raises(ValidationError, match="String should match pattern"):
        Csv(path="d.csv", delimiter=delimiter)


# -- F10: what is opened ------


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    "dataset",
    [Csv(path="pipe"), Jsonl(path="pipe"), Parquet(path="pipe"), Arrow(path="pipe"), Npz(path="pipe"),
     Images(path="images"), Images(path="plain", metadata="pipe.csv"), Parquet(path="link")],
    ids=lambda one: f"{one.kind} {one.path}",
)  # fmt: skip
def test_f10_a_named_pipe_is_never_opened(dataset: Dataset, pipe: Path) -> None:
    for name in ("images", "plain"):
        (pipe / name).mkdir()
    os.mkfifo(pipe / "images" / "x.png")
    (pipe / "plain" / "x.png").write_bytes(b"")
    (pipe / "link").symlink_to("pipe")
    (pipe / "pipe.csv").symlink_to("pipe")
    assert "is not a file: it is a named pipe; name a regular file or a folder" in refused(dataset, pipe)


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        yield tmp_path


@pytest.mark.parametrize(
    ("path", "what"),
    [("/dev/zero", "a device"), ("/dev/stdin", "a "), ("/proc/self/mem", "a view of the system"),
     ("/proc/kmsg", "a view of the system"), ("/sys/kernel", "a view of the system"), ("socket", "a socket")],
)  # fmt: skip
def test_f10_nor_is_a_device_or_a_view_of_the_system(path: str, what: str, listening: Path) -> None:
    with pytest.raises(InputError, match=rf"is not a file: it is {what}|there is no file"):
        Access(listening, allow_outside=True).path(path)


def test_a_link_that_leads_to_itself_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "'a' can't be looked up: " in refused(Parquet(path="a"), tmp_path)


def test_a_folder_of_more_files_than_can_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 5)
    for number in range(6):
        (tmp_path / f"{number}.png").write_bytes(b"x")
        pq.write_table(pa.table({"a": [1]}), tmp_path / f"{number}.parquet")
    for dataset in (Images(path="."), Parquet(path="."), Parquet(path="**/*.parquet")):
        assert "holds more than 5 files; put the rows into fewer files" in refused(dataset, tmp_path)


def test_a_folder_that_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`path: ../..` would be walked for minutes."""
    monkeypatch.setattr(files, "MOST_OTHERS", 5)
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text("x")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "0.parquet")
    for dataset in (Images(path="."), Parquet(path="."), Parquet(path="**/*.parquet")):
        assert "holds more than 5 other files; give the folder of the dataset" in refused(dataset, tmp_path)
    for number in range(4):
        pq.write_table(pa.table({"a": [1]}), tmp_path / f"{number}.parquet")
    assert len(Parquet(path="*.parquet").files(Access(tmp_path))) == 4
    for number in range(5, 40):
        (tmp_path / f"{number}.txt").unlink()
    assert len(Parquet(path=".").files(Access(tmp_path))) == 4


def test_a_glob_through_folders(tmp_path: Path) -> None:
    for name in ("sub/a.parquet", "x/sub/b.parquet", "x/c.parquet", "x/y/sub/d.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"a": [1]}), tmp_path / name)
    below = {
        "**/sub/*.parquet": ["sub/a", "x/sub/b", "x/y/sub/d"], "x/**/*.parquet": ["x/c", "x/sub/b", "x/y/sub/d"],
        "sub/**/sub/*.parquet": [], "sub/**/*.parquet": ["sub/a"], "?/**/sub/b.parquet": ["x/sub/b"],
    }  # fmt: skip
    for glob, expected in below.items():
        if not expected:
            assert "there is no parquet file" in refused(Parquet(path=glob), tmp_path)
            continue
        names = [
            one.relative_to(tmp_path).with_suffix("").as_posix() for one in Parquet(path=glob).files(Access(tmp_path))
        ]
        assert names == expected, glob
    assert "there is no parquet file" in refused(Parquet(path="x/**"), tmp_path)


# -- F10: what unpacks ------


@pytest.mark.proof
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress], ids=["gz", "bz2"])
def test_f10_a_table_that_unpacks_to_more_is_read_no_further_than_its_head(pack: Any, tmp_path: Path) -> None:
    name = "d.csv.gz" if pack is gzip.compress else "d.csv.bz2"
    rows = b"1,2\n" * (2 * MIB + MIB // 2)
    (tmp_path / name).write_bytes(pack(b"a,b\n" + rows))
    assert (tmp_path / name).stat().st_size < MIB
    before = pa.total_allocated_bytes()
    header = Csv(path=name).header(Access(tmp_path))
    # All of it would be counted: what is too much for that has no number of rows yet.
    assert header.rows is None and dict(header.columns) == {"a": "int64", "b": "int64"}
    assert pa.total_allocated_bytes() - before < 64 * MIB
    small = pack(b"a,b\n1,2\n")
    (tmp_path / name).write_bytes(small)
    assert Csv(path=name).header(Access(tmp_path)).rows == 1


def test_f10_a_first_row_that_never_ends_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalspec.sources.csv.FIRST_BYTES", 2 * MIB)
    (tmp_path / "d.csv").write_bytes(b"a,b\n1," + b"x" * (9 * MIB) + b"\n")
    assert "can't be read as csv: " in refused(Csv(path="d.csv"), tmp_path)
    (tmp_path / "d.csv").write_bytes(b"a," * (5 * MIB))
    assert "its header line is longer than 1 MiB" in refused(Csv(path="d.csv"), tmp_path)


def test_f10_an_arrow_file_is_not_unpacked_for_its_header(tmp_path: Path) -> None:
    table = pa.table({"a": np.zeros(4 * MIB)})
    for number, new in enumerate((pa.ipc.new_file, pa.ipc.new_stream)):
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.OSFile(str(tmp_path / f"{number}.arrow"), "wb") as sink, new(sink, table.schema, options=options) as to:
            to.write_table(table)
        assert (tmp_path / f"{number}.arrow").stat().st_size < MIB
        before = pa.default_memory_pool().max_memory()
        assert Arrow(path=f"{number}.arrow").header(Access(tmp_path)).rows == 4 * MIB
        assert pa.default_memory_pool().max_memory() - before < MIB


def test_f10_the_head_of_an_array_is_no_longer_than_it_may_be(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 64 * MIB) + b" " * (64 * MIB))
    assert "can't be read as npz" in refused(Npz(path="d.npz"), tmp_path)


def test_f10_an_archive_with_a_directory_beyond_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        for number in range(100):
            archive.writestr(f"{number}.npy", b"")
    check_zip(tmp_path / "d.npz", "it")
    monkeypatch.setattr("evalspec.language.bounded.DIRECTORY_BYTES", 1000)
    assert "is a zip archive with too many members" in refused(Npz(path="d.npz"), tmp_path)


def test_f10_a_large_picture_is_not_decoded_for_its_header(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (4000, 4000)).save(tmp_path / "x.png")
    columns = Images(path=".").header(Access(tmp_path)).columns
    assert columns["image"] == "tensor<uint8>[4000, 4000, 3]"
    # Nor is one blown up to the size that the spec asks for.
    Image.new("L", (8, 9)).save(tmp_path / "x.png")
    assert Images(path=".", size=(16384, 16384)).header(Access(tmp_path)).columns["image"] == (
        "tensor<uint8>[16384, 16384]"
    )
    assert Images(path=".").header(Access(tmp_path)).columns["image"] == "tensor<uint8>[9, 8]"


def test_f10_a_file_that_is_read_whole_has_a_bound(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_bytes(b"x" * (2 * MIB + 1))
    with pytest.raises(InputError, match="c is larger than 2 MiB"):
        read_bounded(tmp_path / "c.txt", "c", 2 * MIB)


# -- F10: what is wide or deep ------


@pytest.mark.parametrize("columns", [20_000, 70_000])
def test_f10_many_columns_are_read_or_refused(columns: int, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(columns)]
    (tmp_path / "d.jsonl").write_text(json.dumps(dict.fromkeys(names, 1)) + "\n")
    (tmp_path / "d.csv").write_text(",".join(names) + "\n" + ",".join("1" * columns) + "\n")
    if columns < MOST_COLUMNS:
        assert len(Jsonl(path="d.jsonl").header(Access(tmp_path)).columns) == columns
        return
    assert "70,000 different keys; at most 65,536 columns are allowed" in refused(Jsonl(path="d.jsonl"), tmp_path)
    assert "has 70,000 columns; at most 65,536 are allowed" in refused(Csv(path="d.csv"), tmp_path)


def test_f10_lines_with_a_key_of_their_own_each(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("".join(f'{{"k{number}": 1}}\n' for number in range(30_000)))
    said = refused(Jsonl(path="d.jsonl"), tmp_path)
    assert "has 30,000 different keys in 30,001 lines, and most lines lack most of them; write keys that vary" in said


@pytest.mark.parametrize("opened", ["[", '{"a": ', '[1, {"a": ["]", '])
def test_json_that_would_end_the_process_is_refused_before_it_is_parsed(opened: str, tmp_path: Path) -> None:
    deep = opened * 20_000
    closed = "".join({"[": "]", "{": "}"}[mark] for mark in reversed(deep.replace('"]"', "")) if mark in "[{")
    (tmp_path / "d.jsonl").write_text('{"x": 1}\n{"x": ' + deep + "1" + closed + "}\n")
    said = refused(Jsonl(path="d.jsonl"), tmp_path)
    assert (
        "'d.jsonl' can't be read as jsonl: line 2 is nested " in said and "; at most 200 are allowed" not in said[:20]
    )


@pytest.mark.parametrize(
    "line", ['{"a": "[[[["}', '{"a": "\\"[[[["}', '{"a": [[1], [2]]}', "", "}}}}", '{"a": "x', '{"\\\\": [1]}']
)
def test_brackets_in_texts_are_no_nesting(line: str) -> None:
    assert json_shape.depth(f"{line}\n{line}".encode() * 300) is None


def test_rows_without_columns_are_refused_and_digested_for_no_longer_than_they_are(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("{}\n{}\n")
    assert refused(Jsonl(path="d.jsonl"), tmp_path) == "'d.jsonl' has no columns"
    pq.write_table(pa.table({}), tmp_path / "d.parquet")
    assert refused(Parquet(path="d.parquet"), tmp_path) == "'d.parquet' has no columns"
    assert dataset_digest(pa.table({"a": [1, 2]}).select([])).startswith("sha256:")


def test_maps_have_a_digest(tmp_path: Path) -> None:
    def digest(rows: list[Any]) -> str:
        pq.write_table(pa.table({"m": pa.array(rows, pa.map_(pa.string(), pa.int64()))}), tmp_path / "d.parquet")
        return dataset_digest(open_counted(Parquet(path="d.parquet"), Access(tmp_path)).table)

    found = [digest(rows) for rows in ([[("k", 1)], None], [[("k", 2)], None], [[("k", 1)], []], [[("l", 1)], None])]
    assert len(set(found)) == 4 and digest([[("k", 1)], None]) == found[0]


@pytest.mark.parametrize(
    ("lines", "line"), [("null\n", 1), ("null null\n", 1), ("\n \tnull\n", 2), ('{"a": 1}\nnull\n{"a": 2}\n', 2)]
)
def test_lines_that_are_null_are_refused_before_they_are_parsed(lines: str, line: int, tmp_path: Path) -> None:
    """F9: where no line is an object Arrow's reader ends the process."""
    (tmp_path / "d.jsonl").write_text(lines)
    assert f"'d.jsonl' can't be read as jsonl: line {line} is null" in refused(Jsonl(path="d.jsonl"), tmp_path)


def test_text_that_says_null_is_no_such_line(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"a": "null", "b": null}\n')
    assert Jsonl(path="d.jsonl").header(Access(tmp_path)).rows == 1

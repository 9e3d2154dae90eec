from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources import csv
from evalspec.sources.csv import Csv


def read(folder: Path, text: str | bytes, **fields: object) -> pa.Table:
    (folder / "d.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return Csv(path="d.csv", **fields).read(Access(folder))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b,c\n1,2,3\n4,5\n6,7,8\n", "row 3: Expected 3 columns, got 2: 4,5"),
        ("a,b\n1,2\n3,4,5\n", "row 3: Expected 2 columns, got 3"),
        ("a,a\n1,2\n", "two columns called 'a'"),
        ('a,b\n1,"open\n2,3\n', "a quote that is never closed"),
        (b"a,b\n1,caf\xe9\n", "column 'b' of 'd.csv' is not text in utf-8; name the file's `encoding`"),
        ("\n\n", "can't be read as csv"),
        (b"a,b\n1,\x00\n", "not text"),
    ],
)
def test_bad_files(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)


def test_quotes_that_are_closed_may_hold_new_lines(tmp_path: Path) -> None:
    assert read(tmp_path, 'a,b\n1,"x\ny"\n2,"say ""so"""\n').to_pylist() == [
        {"a": 1, "b": "x\ny"},
        {"a": 2, "b": 'say "so"'},
    ]
    assert read(tmp_path, 'a,b\n1,5" pipe\n')["b"].to_pylist() == ['5" pipe']


def test_what_is_missing(tmp_path: Path) -> None:
    table = read(tmp_path, "n,t\n1,NA\nNA,\n,x\nnan,?\n", missing=["?"])
    assert table["n"].to_pylist() == [1, None, None, None]
    assert table["t"].to_pylist() == ["NA", None, "x", None]


def test_types_that_must_not_be_guessed(tmp_path: Path) -> None:
    text = "zip,n\n01234,1\n99999,2\n"
    assert read(tmp_path, text)["zip"].to_pylist() == [1234, 99999]
    assert read(tmp_path, text, types={"zip": "text", "n": "number"}).schema.types == [pa.string(), pa.float64()]
    with pytest.raises(InputError, match="no column 'zap'"):
        read(tmp_path, text, types={"zap": "text"})
    with pytest.raises(InputError, match=r"can't be read as csv: .*column #0: .*invalid value 'x'"):
        read(tmp_path, "zip\n1\nx\n", types={"zip": "integer"})


def test_encodings_delimiters_and_compression(tmp_path: Path) -> None:
    assert (
        read(tmp_path, "a;b\n1;caf\u00e9\n".encode("latin-1"), delimiter=";", encoding="latin-1")["b"][0].as_py()
        == "caf\u00e9"
    )
    assert read(tmp_path, "a,b\n1,\u00e9\n".encode("utf-16"), encoding="utf-16").to_pylist() == [
        {"a": 1, "b": "\u00e9"}
    ]
    assert read(tmp_path, "\ufeffa\n1\n").column_names == ["a"]
    with pytest.raises(InputError, match="there is no text encoding 'utf-9'"):
        read(tmp_path, "a\n1\n", encoding="utf-9")
    with pytest.raises(InputError, match="can't be read as csv"):
        read(tmp_path, b"a\n\xe9\n", encoding="ascii")
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"a\n1\n2\n"))
    assert Csv(path="d.csv.gz").read(Access(tmp_path))["a"].to_pylist() == [1, 2]
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"a\n1\n2\n" * 100)[:-20])
    with pytest.raises(InputError, match="can't be read as csv"):
        Csv(path="d.csv.gz").read(Access(tmp_path))


def test_a_large_file_gives_columns_without_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "SMALL_BYTES", 10)
    (tmp_path / "d.csv").write_text("a,b\n" + "1,x\n" * 100)
    header = Csv(path="d.csv").header(Access(tmp_path))
    assert header.rows is None
    assert header.columns == {"a": "int64", "b": "string"}


def test_only_a_header_line(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b\n")
    assert table.num_rows == 0
    assert table.column_names == ["a", "b"]

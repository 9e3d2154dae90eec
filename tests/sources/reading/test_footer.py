"""Footers read without a library say what pyarrow says, or nothing."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading.footer import LARGEST, read_footer
from evalspec.sources.reading.table import type_texts

ROWS = 3
LISTS = dict.fromkeys(("list", "list of floats", "fixed"), "list")
UNDERSTOOD: dict[str, pa.Array] = {
    **{
        kind: pa.array([1, 2, None], kind)
        for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "float32": pa.array([1.5, None, 2.5], pa.float32()),
    "float64": pa.array([1.5, None, 2.5], pa.float64()),
    "bool": pa.array([True, False, None]),
    "string": pa.array(["a", "ä", None]),
    "large_string": pa.array(["a", "b", None], pa.large_string()),
    "string_view": pa.array(["a", "b", None], pa.string_view()),
    "binary": pa.array([b"a", b"b", None]),
    "dictionary": pa.array(["a", "b", None]).dictionary_encode(),
    "list": pa.array([[1, 2], [3], None]),
    "list of floats": pa.array([[1.0, 2.0], [3.0], None], pa.list_(pa.float32())),
    "fixed": pa.array([[1, 2], [3, 4], None], pa.list_(pa.uint8(), 2)),
}
LEFT_TO_PYARROW: dict[str, pa.Array] = {
    "list of text": pa.array([["a"], ["b"], None]),
    "large list": pa.array([[1], [2], None], pa.large_list(pa.int64())),
    "list of lists": pa.array([[[1]], [[2]], None]),
    "list without null": pa.array([[1], [2], [3]], pa.list_(pa.field("item", pa.int64(), nullable=False))),
    "struct": pa.array([{"a": 1}, {"a": 2}, None]),
    "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "timestamp": pa.array([datetime.datetime(2024, 1, 1)] * 3),  # noqa: DTZ001  # a column without a zone
    "date": pa.array([datetime.date(2024, 1, 1)] * 3),
    "time": pa.array([datetime.time(1)] * 3),
    "duration": pa.array([datetime.timedelta(1)] * 3),
    "decimal": pa.array([decimal.Decimal("1.5")] * 3),
    "half": pa.array(np.array([1, 2, 3], np.float16)),
    "null": pa.nulls(3),
    "fixed binary": pa.array([b"ab"] * 3, pa.binary(2)),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((3, 2, 2), np.float32)),
    "uuid": pa.array([b"a" * 16] * 3, pa.uuid()),
}


def of_pyarrow(path: Path) -> tuple[int, dict[str, str]]:
    with pq.ParquetFile(path) as file:
        return file.metadata.num_rows, dict(type_texts(file.schema_arrow))


@pytest.mark.parametrize("name", [*UNDERSTOOD, *LEFT_TO_PYARROW])
@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_a_footer_says_what_pyarrow_says_or_nothing(name: str, version: str, tmp_path: Path) -> None:
    column = (UNDERSTOOD | LEFT_TO_PYARROW)[name]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"before": [1, 2, 3], name: column, "ätsch": ["x"] * ROWS}), path, version=version)
    footer = read_footer(path)
    assert footer is None or (footer.rows, dict(footer.columns)) == of_pyarrow(path)
    # Format 1.0 has no unsigned type of 32 bits: pyarrow then reads more than was written.
    understood = name in UNDERSTOOD and (name, version) != ("uint32", "1.0")
    assert (footer is not None) == understood
    header = Parquet(path="a.parquet").header(Access(tmp_path))
    assert (header.rows, dict(header.columns)) == of_pyarrow(path)


def test_a_file_without_an_arrow_schema_is_left_to_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1]}), path, store_schema=False)
    assert read_footer(path) is None
    assert Parquet(path="a.parquet").header(Access(tmp_path)).columns == {"a": "int64"}


def test_a_large_footer_is_left_to_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({f"column_{index}": [1] for index in range(1500)}), path)
    assert pq.read_metadata(path).serialized_size > LARGEST
    assert read_footer(path) is None
    assert len(Parquet(path="a.parquet").header(Access(tmp_path)).columns) == 1500


def test_several_files_add_up_and_promote_as_pyarrow_does(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32())}), tmp_path / "rows" / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([3], pa.int32())}), tmp_path / "rows" / "2.parquet")
    header = Parquet(path="rows").header(Access(tmp_path))
    assert (header.rows, dict(header.columns)) == (3, {"a": "int32"})
    pq.write_table(pa.table({"a": pa.array([4.5], pa.float64())}), tmp_path / "rows" / "3.parquet")
    header = Parquet(path="rows").header(Access(tmp_path))
    assert (header.rows, dict(header.columns)) == (4, {"a": "double"})


@pytest.mark.proof
def test_damaged_footers_end_in_pyarrows_error_or_its_answer(tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.table(UNDERSTOOD), whole)
    content = whole.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    truth = of_pyarrow(whole)
    rng = np.random.default_rng(7)
    path = tmp_path / "a.parquet"
    understood = 0
    for place in rng.integers(len(content) - 8 - length, len(content), 1500):
        damaged = bytearray(content)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        footer = read_footer(path)
        if footer is not None:
            understood += 1
            # One byte can change the number of rows and the name of a list's values, and else nothing that is said.
            assert {**footer.columns, **LISTS} == {**truth[1], **LISTS}
    assert 0 < understood < 1500


def test_nested_without_end_is_refused(tmp_path: Path) -> None:
    nested = b"\x1c" * 50_000
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + nested + len(nested).to_bytes(4, "little") + b"PAR1")
    assert read_footer(tmp_path / "a.parquet") is None
    with pytest.raises(InputError, match="can't be read as parquet"):
        Parquet(path="a.parquet").header(Access(tmp_path))


def test_a_plain_header_takes_no_pyarrow(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "image": pa.array([[1, 2]], pa.list_(pa.uint8(), 2))}), tmp_path / "a.parquet")
    code = (
        "import sys; from pathlib import Path; from evalspec.language.parts import Access; "
        "from evalspec.sources.parquet import Parquet; "
        f"print(Parquet(path='a.parquet').header(Access(Path({str(tmp_path)!r}))).rows, 'pyarrow' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "1 False\n"

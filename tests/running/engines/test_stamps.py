"""A node that sees other files than those of the plan."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.running.engines.stamps import same_files, stamps_of, unchanged
from evalspec.sources.parquet import Parquet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir()
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": range(50)}), tmp_path / "d" / f"{name}.parquet")
    return tmp_path


def later(path: Path) -> None:
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def other_end(path: Path) -> None:
    times, data = path.stat(), bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "said", "seen"),
    [
        (later, "is a different file: it was changed at .* UTC, and elsewhere at", True),
        (lambda path: pq.write_table(pa.table({"x": range(60)}), path), "is a different file: it has .* bytes", True),
        (other_end, "its end has other bytes than elsewhere", False),
        (lambda path: path.unlink(), r"there is no .*b\.parquet", True),
        (lambda path: (path.parent / "c.parquet").write_bytes(path.read_bytes()), r"c\.parquet is there, which", False),
        (lambda path: path.chmod(0), "can't be read: Permission denied", False),
    ],
)
def test_other_files(folder: Path, change: object, said: str, seen: bool) -> None:
    """``seen``: a look at sizes and times alone sees it, as is done before each leaf."""
    if "Permission" in said and os.geteuid() == 0:
        pytest.skip("root reads everything")
    dataset, access = Parquet(path="d"), Access(folder)
    planned = stamps_of(dataset, access)
    same_files(dataset, access, planned)
    assert unchanged(planned) and len(planned) == 2
    assert callable(change)
    change(folder / "d" / "b.parquet")
    with pytest.raises(InputError, match=said):
        same_files(dataset, access, planned)
    assert unchanged(planned) != seen


def test_no_folder(folder: Path) -> None:
    dataset = Parquet(path="d")
    planned = stamps_of(dataset, Access(folder))
    with pytest.raises(InputError, match="there is no file or folder 'd'"):
        same_files(dataset, Access(folder / "d"), planned)

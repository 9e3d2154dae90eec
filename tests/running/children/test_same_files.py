from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.language.parts import Access
from evalspec.running.children import reader
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.messages import Message
from evalspec.running.children.same_files import FilesWatch
from evalspec.sources.parquet import Parquet


class Derived(Parquet):
    """Reads something beside its files."""


def dataset(folder: Path, values: list[int], kind: type[Parquet] = Parquet) -> Parquet:
    pq.write_table(pa.table({"x": values}), folder / "a.parquet")
    return kind(kind="parquet", path=".")


def test_files_are_the_same_while_their_bytes_and_paths_are(tmp_path: Path) -> None:
    part, access = dataset(tmp_path, [1, 2]), Access(folder=tmp_path)
    first = FilesWatch(part, access)
    assert first.digest() is not None and first.end() == first.digest()
    times = os.stat(tmp_path / "a.parquet")
    dataset(tmp_path, [1, 3])
    os.utime(tmp_path / "a.parquet", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert FilesWatch(part, access).digest() != first.digest()
    dataset(tmp_path, [1, 2])
    assert FilesWatch(part, access).digest() == first.digest()
    pq.write_table(pa.table({"x": [3]}), tmp_path / "b.parquet")
    assert FilesWatch(part, access).digest() != first.digest()


def test_what_is_written_to_while_it_is_read_has_no_digest(tmp_path: Path) -> None:
    watch = FilesWatch(dataset(tmp_path, [1, 2]), Access(folder=tmp_path))
    dataset(tmp_path, [1, 2])
    assert watch.end() is None


def test_what_is_gone_has_no_digest(tmp_path: Path) -> None:
    part = dataset(tmp_path, [1, 2])
    watch = FilesWatch(part, Access(folder=tmp_path))
    (tmp_path / "a.parquet").unlink()
    assert watch.end() is None and FilesWatch(part, Access(folder=tmp_path)).digest() is None


def test_a_kind_made_from_another_may_read_more(tmp_path: Path) -> None:
    assert FilesWatch(dataset(tmp_path, [1, 2], Derived), Access(folder=tmp_path)).digest() is None


def test_rows_are_parsed_again_where_their_files_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = dataset(tmp_path, [1, 2])
    handle = reader.start(SpecParts({}, {"test": part}, {}, Access(folder=tmp_path)))

    def ask(known: Message) -> Message:
        return handle({"do": "dataset", "name": "test", **known}, lambda *_: None)

    first = ask({})
    known = {"files": first["files"], "record": first["record"]}
    with monkeypatch.context() as patched:
        patched.setattr(reader, "dataset_record", None)
        assert ask(known)["record"] == first["record"]
    dataset(tmp_path, [1, 3])
    assert ask(known)["record"]["digest"] != first["record"]["digest"]


def test_looked_at_again_what_is_as_before_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    parts = {name: dataset(tmp_path / name, [1, 2]).model_copy(update={"path": name}) for name in ("a", "b")}
    handle = reader.start(SpecParts({}, parts, {}, Access(folder=tmp_path)))

    def ask(question: Message) -> Message:
        return handle(question, lambda *_: None)

    known = {name: ask({"do": "dataset", "name": name})["files"] for name in parts}
    dataset(tmp_path / "b", [1, 3])
    assert ask({"do": "second look", "files": known, "models": []}) == {"same": [True, False], "models": []}
    (tmp_path / "a" / "a.parquet").unlink()
    assert ask({"do": "second look", "files": known, "models": []}) == {"same": [False, False], "models": []}

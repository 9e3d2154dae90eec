"""Answers in parts: they read as a single file would, and a part that is not what was written is refused."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.answers.file import Answers, as_bytes, read_answers, told_beside, write_answers
from evalspec.answers.parts import (
    ANSWER_ROWS,
    MOST_PARTS,
    AnswerPart,
    copy_answers,
    first_fault,
    part_path,
    parts_of,
    rows_of_a_part,
    write_list,
)
from evalspec.errors import RecordError

NOTHING = Answers(n=0, classes=None, probabilities=None, predicted=None, values=None, lower=None, upper=None)


def classes(rows: range) -> Answers:
    shares = np.stack([np.asarray(rows) / 100, 1 - np.asarray(rows) / 100], axis=1)
    return replace(
        NOTHING, n=len(rows), classes=("a", "b"), probabilities=shares, predicted=shares.argmax(axis=1)
    )  # fmt: skip


def values(rows: range) -> Answers:
    numbers = np.asarray(rows, dtype=np.float64)
    return replace(NOTHING, n=len(rows), values=numbers, lower=numbers - 1, upper=numbers + 1)


def texts(rows: range) -> Answers:
    said = np.array([f"text {row}" for row in rows], dtype=object)
    found = np.array([None if row % 3 else f"{row}" for row in rows], dtype=object)
    return replace(NOTHING, n=len(rows), texts=said, extracted=found, extracted_as="text")


def embeddings(rows: range) -> Answers:
    made = np.outer(np.asarray(rows), [1.0, 2.0]).astype(np.float32)
    return replace(NOTHING, n=len(rows), embeddings=made)


def masks(rows: range) -> Answers:
    return replace(
        NOTHING, n=len(rows), classes=("a", "b"), masks=np.stack([np.full((2, 3), row % 2, np.int64) for row in rows])
    )


KINDS = [classes, values, texts, embeddings, masks]


def write(folder: Path, kind: Callable[[range], Answers], ends: list[int]) -> Path:
    """Answers to so many rows, cut at these."""
    path, parts, first = folder / "predictions-m-d.parquet", [], 0
    part_path(path, 0).parent.mkdir(exist_ok=True)
    for number, end in enumerate(ends):
        data = as_bytes(kind(range(first, end)))
        part_path(path, number).write_bytes(data)
        parts.append(AnswerPart(first, end - first, hashlib.sha256(data).hexdigest(), "A"))
        first = end
    write_list(path, parts, {**told_beside(kind(range(ends[0]))), "details": {"batch": 10}})
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_they_read_as_a_single_file(tmp_path: Path, kind: Callable[[range], Answers]) -> None:
    path = write(tmp_path, kind, [20, 40, 47])
    write_answers(replace(kind(range(47)), details={"batch": 10}), tmp_path / "one.parquet")
    parted, single = (read_answers(one) for one in (path, tmp_path / "one.parquet"))
    for name in Answers.__slots__:
        one, other = getattr(parted, name), getattr(single, name)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other, name
    assert [one.rows for one in parts_of(path)] == [20, 20, 7] and first_fault(path) is None
    assert parts_of(tmp_path / "one.parquet") == () and first_fault(tmp_path / "one.parquet") is None


def changed(path: Path) -> None:
    data = bytearray(part_path(path, 1).read_bytes())
    data[len(data) // 2] ^= 1
    part_path(path, 1).write_bytes(bytes(data))


def swapped(path: Path) -> None:
    first, second = (part_path(path, number) for number in (0, 1))
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "why", "fault"),
    [
        (changed, "part-00001.parquet have changed since they were written", "part-00001.parquet has changed since"),
        (swapped, "part-00000.parquet have changed since they were written", "part-00000.parquet has changed since"),
        (lambda path: part_path(path, 2).unlink(), "part-00002.parquet can't be read", "part-00002.parquet can't be"),
    ],
)
def test_a_part_that_is_not_what_was_written_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], why: str, fault: str
) -> None:
    path = write(tmp_path, classes, [20, 40, 47])
    damage(path)
    with pytest.raises(RecordError, match=why):
        read_answers(path)
    found = first_fault(path)
    assert found is not None and found.startswith(f"predictions-m-d/{fault}")


def test_a_list_that_says_other_rows_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, classes, [20, 40])
    parts = parts_of(path)
    write_list(path, [replace(parts[0], rows=19), parts[1]], told_beside(classes(range(20))))
    with pytest.raises(RecordError, match=r"part-00000.parquet are to other rows than predictions-m-d.parquet says"):
        read_answers(path)
    path.write_bytes(b"no list")
    with pytest.raises(RecordError, match="can't be read"):
        read_answers(path)
    assert first_fault(path) is not None


@pytest.mark.parametrize("instead", [None, b"a file"])
def test_parts_without_their_folder_are_no_single_file(tmp_path: Path, instead: bytes | None) -> None:
    path = write(tmp_path, classes, [3, 6])
    shutil.rmtree(path.with_suffix(""))
    if instead is not None:
        path.with_suffix("").write_bytes(instead)
    fault = first_fault(path)
    assert len(parts_of(path)) == 2 and fault is not None and "part-00000.parquet can't be read" in fault
    single = tmp_path / "single.parquet"
    write_answers(classes(range(3)), single)
    assert parts_of(single) == () and first_fault(single) is None and parts_of(tmp_path / "none.parquet") == ()


def test_a_copy_has_all_parts(tmp_path: Path) -> None:
    path = write(tmp_path, classes, [20, 40])
    (tmp_path / "copy").mkdir()
    copied = tmp_path / "copy" / path.name
    write(tmp_path / "copy", values, [5, 6, 7])
    copy_answers(path, copied)
    assert first_fault(copied) is None and len(list(copied.with_suffix("").iterdir())) == 2
    assert read_answers(copied).n == 40
    write_answers(values(range(3)), tmp_path / "one.parquet")
    copy_answers(tmp_path / "one.parquet", tmp_path / "two.parquet")
    assert pq.read_metadata(tmp_path / "two.parquet").num_rows == 3


@given(rows=st.integers(0, 2**36), batch=st.integers(1, 2**18))
def test_parts_are_multiples_of_a_batch_and_not_too_many(rows: int, batch: int) -> None:
    size = rows_of_a_part(rows, batch)
    assert size % batch == 0 and size >= ANSWER_ROWS and -(-rows // size) <= MOST_PARTS

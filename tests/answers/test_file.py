"""Files of answers: all that there are to each row come back as they were written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evalspec.answers.file import Answers, count, read_answers, write_answers
from evalspec.errors import RecordError


def kept(places: list[int]) -> Answers:
    shares = np.eye(3)[places] * 0.7 + 0.1
    return Answers(
        n=3, classes=("A", "B", "C"), probabilities=shares, predicted=shares.argmax(axis=1), values=None, lower=None,
        upper=None, details={"batch": 1}, masses=np.full(3, 0.9),
    )  # fmt: skip


def test_a_file_keeps_them_all(tmp_path: Path) -> None:
    orders = replace(kept([0, 1, 1]), again=(kept([0, 0, 2]),))
    whole = replace(orders, by_template=(replace(kept([2, 2, 2]), again=(kept([1, 1, 1]),)),))
    write_answers(whole, tmp_path / "all.parquet")
    read = read_answers(tmp_path / "all.parquet")
    assert count(read) == 12
    found = [one.predicted for first in (read, *read.by_template) for one in (first, *first.again)]
    assert [one.tolist() for one in found if one is not None] == [[0, 1, 1], [0, 0, 2], [2, 2, 2], [1, 1, 1]]


def test_a_file_of_one_answer_to_each_row_is_as_ever(tmp_path: Path) -> None:
    write_answers(kept([0, 1, 1]), tmp_path / "one.parquet")
    read = read_answers(tmp_path / "one.parquet")
    assert (count(read), read.again, read.by_template) == (3, (), ())


def test_a_file_that_lost_rows_is_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_answers(replace(kept([0, 1, 1]), again=(kept([0, 0, 2]),)), tmp_path / "cut.parquet")
    pq.write_table(pq.read_table(tmp_path / "cut.parquet").slice(0, 5), tmp_path / "cut.parquet")
    with pytest.raises(RecordError, match="5 answers to 3 rows"):
        read_answers(tmp_path / "cut.parquet")


def test_a_file_keeps_what_is_written_beside(tmp_path: Path) -> None:
    def said(text: str) -> Answers:
        return Answers(
            n=3, classes=None, probabilities=None, predicted=None, values=None, lower=None, upper=None,
            texts=np.array([text] * 3, dtype=object), tokens=np.array([4, 5, 6]),
        )  # fmt: skip

    first = replace(kept([0, 1, 1]), again=(kept([0, 0, 2]),), written=replace(said("a"), again=(said("b"), said("c"))))
    other = replace(kept([2, 2, 2]), again=(kept([1, 1, 1]),), written=replace(said("d"), again=(said("e"), said("f"))))
    write_answers(replace(first, by_template=(other,)), tmp_path / "both.parquet")
    read = read_answers(tmp_path / "both.parquet")
    assert count(read) == 30
    assert (read.task, [one.task for one in read.by_template]) == ("classes", ["classes"])
    for one, texts, places in ((read, "abc", [0, 1, 1]), (read.by_template[0], "def", [2, 2, 2])):
        assert one.written is not None and one.predicted is not None and one.probabilities is not None
        assert one.predicted.tolist() == places
        assert one.probabilities.shape == (3, 3)
        several = (one.written, *one.written.again)
        assert [each.texts.tolist() for each in several if each.texts is not None] == [[text] * 3 for text in texts]
        assert one.written.task == "text" and one.written.probabilities is None
        assert one.written.tokens is not None and one.written.tokens.tolist() == [4, 5, 6]

"""All answers to the same rows: below each other, as often as another model's, by template, and through a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evalspec.answers.every import all_answers, as_often, each_set, of_template, with_clusters
from evalspec.answers.file import Answers, count, read_answers, write_answers
from evalspec.errors import NotRunError, RecordError
from evalspec.language.inputs import Predictions
from tests.fakes import classifier, writer

TRUTH = [0, 1, 2]


def chooser(*places: list[int], model: str = "candidate") -> Predictions:
    """A model that takes these places, order after order."""
    several = [classifier(np.eye(3)[one] * 0.7 + 0.1, TRUTH, model=model) for one in places]
    return replace(several[0], again=tuple(several[1:]))


def test_answers_stand_below_each_other_and_a_row_is_a_cluster() -> None:
    every = all_answers(chooser([0, 1, 1], [0, 0, 2]))
    assert (every.n, every.asked) == (6, 2)
    assert every.predicted is not None and every.truth is not None and every.clusters is not None
    assert every.predicted.tolist() == [0, 1, 1, 0, 0, 2]
    assert every.truth.tolist() == [0, 1, 2, 0, 1, 2]
    assert every.clusters.tolist() == [0, 1, 2, 0, 1, 2]
    assert every.again == ()


def test_rows_that_share_something_stay_together() -> None:
    every = all_answers(with_clusters(chooser([0, 1, 1], [0, 0, 2]), np.array([4, 4, 7])))
    assert every.clusters is not None
    assert every.clusters.tolist() == [4, 4, 7, 4, 4, 7]


def test_one_answer_stays_as_it_is() -> None:
    one = chooser([0, 1, 1])
    assert all_answers(one) is one


def test_a_model_that_was_asked_once_is_set_beside_one_that_was_asked_often() -> None:
    often = as_often(chooser([0, 1, 1]), 3)
    assert often.predicted is not None
    assert (often.asked, often.predicted.tolist()) == (3, [0, 1, 1] * 3)
    with pytest.raises(NotRunError, match="gives 2 answers to each row, and the other model 3"):
        as_often(chooser([0, 1, 1], [0, 0, 2]), 3)


def test_templates_are_found_by_their_place() -> None:
    first, second = writer(["a"], ["a"]), writer(["b"], ["a"])
    both = replace(first, by_template=(second,))
    assert of_template(both, 0) is both
    assert of_template(both, 1) is second
    assert of_template(first, 1) is first
    with pytest.raises(
        NotRunError, match="has 2 templates, and number 3 is needed; give both models the same number of templates"
    ):
        of_template(both, 2)


def test_a_change_reaches_every_set() -> None:
    both = replace(chooser([0, 1, 1], [0, 0, 2]), by_template=(chooser([1, 1, 1], [2, 2, 2]),))
    changed = each_set(both, lambda one: replace(one, masses=np.full(one.n, 0.5)))
    sets = [changed, *changed.again, *changed.by_template, *changed.by_template[0].again]
    assert len(sets) == 4
    assert all(one.masses is not None for one in sets)


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
    every = each_set(
        replace(chooser([0, 1, 1]), written=writer(["a"], ["a"])), lambda one: replace(one, details={"seen": True})
    )
    assert every.written is not None and every.written.details == {"seen": True}

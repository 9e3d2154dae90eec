"""All answers to the same rows: below each other, as often as another model's, by template."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalspec.errors import NotRunError
from evalspec.language.inputs import Predictions
from evalspec.language.predictions import all_answers, as_often, each_set, of_template, with_clusters
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
    with pytest.raises(NotRunError, match="has 2 templates, and number 3 is needed"):
        of_template(both, 2)


def test_a_change_reaches_every_set() -> None:
    both = replace(chooser([0, 1, 1], [0, 0, 2]), by_template=(chooser([1, 1, 1], [2, 2, 2]),))
    changed = each_set(both, lambda one: replace(one, masses=np.full(one.n, 0.5)))
    sets = [changed, *changed.again, *changed.by_template, *changed.by_template[0].again]
    assert len(sets) == 4
    assert all(one.masses is not None for one in sets)


def test_what_is_written_beside_is_changed_too() -> None:
    every = each_set(
        replace(chooser([0, 1, 1]), written=writer(["a"], ["a"])), lambda one: replace(one, details={"seen": True})
    )
    assert every.written is not None and every.written.details == {"seen": True}

"""Texts given while timing are scored beside those that quality is computed on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalspec.checks.model.quality.spec import Quality
from evalspec.evidence.blocks import Table
from evalspec.language.inputs import Samples
from evalspec.language.parts import CheckResult
from evalspec.measure.servable import item_order
from evalspec.pipeline.answer_place import AnswerPlace
from evalspec.running.graded_answers import GradedAnswers, graded
from evalspec.running.guardrail import guarded
from tests.fakes import writer
from tests.timing.test_streams import samples, streams

ROWS = 200
TRUTH = [f"the answer is {k}" for k in range(ROWS)]


def quality(*require: str) -> Quality:
    return Quality.model_validate({"check": "quality", "dataset": "test", "model": "m", "require": list(require)})


def timed(said: list[str], rows: np.ndarray) -> Samples:
    """One query a text."""
    of = replace(streams(*([[10, 20]] * len(said))), texts=np.array(said, dtype=object))
    return samples(of, items=rows, answers=np.arange(len(said), dtype=float)[:, None], details={"order_seed": 3})


def told(said: list[str], rows: np.ndarray, grader: Quality, place: AnswerPlace | None = None) -> GradedAnswers:
    found = graded([timed(said, rows)], writer(TRUTH, TRUTH, model="m"), grader, place)
    assert found is not None
    return found


def test_as_good_is_enough_though_no_text_is_the_same() -> None:
    rows = item_order(ROWS, 3)
    # As words they are the same, as texts they are not.
    said = [f"The answer is: {k}." for k in rows]
    found = told(said, rows, quality("token_f1 >= 90 %"))
    assert (found.metric, found.compared, found.calm, found.timed) == ("token_f1", ROWS, 1.0, 1.0)
    assert found.shown(0.95)


@pytest.mark.parametrize(("wrong", "shown"), [(0, True), (4, True), (5, False), (100, False)])
def test_at_most_the_margin_may_be_lost(wrong: int, shown: bool) -> None:
    rows = item_order(ROWS, 3)
    said = ["none" if place < wrong else TRUTH[row] for place, row in enumerate(rows)]
    found = told(said, rows, quality("exact_match >= 50 %"))
    assert found.timed == pytest.approx(1 - wrong / ROWS) and found.margin == 0.02
    assert found.shown(0.95) == shown


def test_the_margin_is_that_of_the_requirement_against_a_baseline() -> None:
    assert told(TRUTH[:1], np.array([0]), quality("exact_match >= baseline - 3 pp")).margin == pytest.approx(0.03)


def test_few_rows_show_nothing_and_repeats_of_a_row_count_once() -> None:
    few = np.repeat(np.arange(20), 50)
    found = told([TRUTH[row] for row in few], few, quality("exact_match >= 50 %"))
    assert found.compared == 20 and not found.shown(0.95)
    assert "more queries must be timed to show that at most 2 % are lost" in found.doubt


def test_the_answer_inside_a_text_is_what_is_compared() -> None:
    rows = item_order(ROWS, 3)
    place = AnswerPlace.model_validate({"after": "####", "as": "text"})
    calm = writer([f"so #### {one}" for one in TRUTH], TRUTH, model="m")
    calm = replace(calm, extracted=np.array(TRUTH, dtype=object), extracted_as="text")
    said = [f"in other words #### {TRUTH[row]}" for row in rows]
    found = graded([timed(said, rows)], calm, quality("exact_match >= 90 %"), place)
    assert found is not None and found.timed == 1.0


def test_worse_answers_void_the_speed_and_stand_beside_it() -> None:
    rows = item_order(ROWS, 3)
    grade = told(["none"] * ROWS, rows, quality("exact_match >= 50 %"))
    one = timed(["none"] * ROWS, rows)
    found = guarded(CheckResult({}), [one], {}, 0.95, grades={"m": grade})
    assert found.invalid is not None and "exact_match of m was 0 % while it was timed and 100 % where" in found.invalid
    assert isinstance(found.blocks[-1], Table) and found.blocks[-1].rows == (
        ("m", "exact_match", 100.0, 0.0, 200, 2.0, pytest.approx(25.0)),
    )
    assert guarded(CheckResult({}), [one], {}, 0.95, grades={"m": grade}, draft=True).invalid is None


@pytest.mark.parametrize(("words", "void"), [(10, False), (9, False), (8, True), (30, False)])
def test_answers_that_are_right_and_shorter_void_the_speed(words: int, void: bool) -> None:
    """They end sooner, whoever cut them short; longer ones make nothing look faster."""
    rows = item_order(ROWS, 3)
    place = AnswerPlace.model_validate({"after": "####", "as": "text"})
    truth = [str(row) for row in range(ROWS)]
    calm = writer([" ".join(["so"] * 8) + f" #### {one}" for one in truth], truth, model="m")
    calm = replace(calm, extracted=np.array(truth, dtype=object), extracted_as="text")
    one = timed([" ".join(["so"] * (words - 2)) + f" #### {row}" for row in rows], rows)
    grade = graded([one], calm, quality("exact_match >= 90 %"), place)
    assert grade is not None and grade.timed == 1.0 and grade.unit == "words"
    assert grade.length == pytest.approx(words / 10)
    found = guarded(CheckResult({}), [one], {}, 0.95, grades={"m": grade})
    assert (found.invalid is not None) == void
    assert not void or "answers with 80 % of the words" in str(found.invalid)
    assert guarded(CheckResult({}), [one], {}, 0.95, grades={"m": grade}, draft=True).invalid is None


@pytest.mark.parametrize(("counted", "unit", "length"), [(True, "tokens", 0.5), (False, "words", 1.0)])
def test_lengths_are_in_tokens_where_both_are_counted(counted: bool, unit: str, length: float) -> None:
    rows = item_order(ROWS, 3)
    one = timed([TRUTH[row] for row in rows], rows)
    assert one.streams is not None
    one = replace(one, streams=replace(one.streams, usage_tokens=np.full(ROWS, 5)))
    calm = replace(writer(TRUTH, TRUTH, model="m"), tokens=np.full(ROWS, 10) if counted else None)
    grade = graded([one], calm, quality("exact_match >= 90 %"), None)
    assert grade is not None and (grade.unit, grade.length) == (unit, length)

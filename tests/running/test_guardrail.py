"""A fast model that answers otherwise than the one that was judged is not the one that was judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evalspec.answers.file import Answers, write_answers
from evalspec.evidence.estimate import Measured
from evalspec.language.inputs import Samples
from evalspec.language.parts import CheckResult
from evalspec.language.timings import OUTCOMES
from evalspec.loading import load
from evalspec.measure.servable import item_order
from evalspec.planning import plan
from evalspec.running.children.jobs import graders_beside
from evalspec.running.guardrail import AnswerComparison, compare, guarded, unjudged
from evalspec.stats.timing.percentile import percentile
from tests.running.test_samples import some
from tests.shared import ROOT

N = 900


def answers(tmp_path: Path) -> tuple[Path, np.ndarray]:
    predicted = np.random.default_rng(3).integers(0, 10, N)
    path = tmp_path / "answers.parquet"
    write_answers(Answers(N, tuple("0123456789"), None, predicted, None, None, None), path)
    return path, predicted


def timed(predicted: np.ndarray, queries: int, *, wrong: int = 0, batch: int = 1) -> Samples:
    order = item_order(N, 5)
    rows = order[(np.arange(queries)[:, None] * batch + np.arange(batch)) % N]
    given = predicted[rows].astype(float)
    given[:wrong] = (given[:wrong] + 1) % 10
    base = some("candidate", 0, queries, batch)
    return replace(base, items=rows[:, 0], ok=np.ones(queries, bool), answers=given, details={"order_seed": 5})


@pytest.mark.parametrize("batch", [1, 4])
def test_equal_answers_are_admissible(tmp_path: Path, batch: int) -> None:
    path, predicted = answers(tmp_path)
    result = guarded(CheckResult({}), [timed(predicted, 700, batch=batch)], {"candidate": path}, 0.95)
    assert result.invalid is None
    said = "while it was timed, candidate answered as it did where quality is computed, on all "
    assert result.notes[0].startswith(said) and "rows that were compared" in result.notes[0]
    assert ("each row was sent" in result.notes[0]) == (batch > 1)


def test_other_answers_void_the_timing(tmp_path: Path) -> None:
    path, predicted = answers(tmp_path)
    result = guarded(CheckResult({}), [timed(predicted, 700, wrong=10)], {"candidate": path}, 0.95)
    assert result.invalid is not None
    said = "while it was timed, candidate answered 10 of 700 rows differently from where quality is computed"
    assert result.invalid == f"{said}, and at most 0.5 % may differ"


def test_too_few_show_nothing(tmp_path: Path) -> None:
    path, predicted = answers(tmp_path)
    few = guarded(CheckResult({}), [timed(predicted, 300)], {"candidate": path}, 0.95)
    enough = guarded(CheckResult({}), [timed(predicted, 450)], {"candidate": path}, 0.95)
    assert few.invalid is not None
    said = "on all 300 rows that were compared, which are too few to show that at most 0.5 % differ; time more queries"
    assert said in few.invalid
    # A draft times a few queries on purpose; another answer is another answer there too.
    draft = guarded(CheckResult({}), [timed(predicted, 20)], {"candidate": path}, 0.95, draft=True)
    assert draft.invalid is None and draft.notes[0].endswith("on all 20 rows that were compared")
    wrong = guarded(CheckResult({}), [timed(predicted, 20, wrong=1)], {"candidate": path}, 0.95, draft=True)
    assert wrong.invalid is not None and "answered 1 of 20 rows differently" in wrong.invalid
    assert enough.invalid is None


def test_all_rows_of_a_small_dataset_are_counted_not_sampled() -> None:
    assert AnswerComparison(items=100, rows=100, different=0).shown_equal(0.95)
    assert not AnswerComparison(items=100, rows=100, different=1).shown_equal(0.95)
    assert not AnswerComparison(items=50, rows=100, different=0).shown_equal(0.95)
    assert AnswerComparison(items=389, rows=400, different=0).shown_equal(0.95)


def test_of_very_many_rows_598_are_needed() -> None:
    assert not AnswerComparison(items=597, rows=10**9, different=0).shown_equal(0.95)
    assert AnswerComparison(items=598, rows=10**9, different=0).shown_equal(0.95)


@pytest.mark.parametrize(("rows", "items"), [(400, 300), (850, 450), (5000, 600)])
def test_unequal_answers_are_rarely_called_equal(rows: int, items: int) -> None:
    """Just over 0.5 % of all rows differ; in at most 5 % of draws is that missed."""
    rng = np.random.default_rng(1)
    wrong = int(0.005 * rows) + 1
    missed = sum(
        AnswerComparison(items, rows, int(rng.hypergeometric(wrong, rows - wrong, items))).shown_equal(0.95)
        for _ in range(1000)
    )
    assert missed <= 73


def test_failed_queries_and_unkept_answers_do_not_count(tmp_path: Path) -> None:
    path, predicted = answers(tmp_path)
    one = timed(predicted, 700, wrong=10)
    ok = one.ok.copy()
    ok[:10] = False
    assert compare([replace(one, ok=ok)], path) == AnswerComparison(items=690, rows=N, different=0, broken=10)


def test_without_quality_it_says_so(tmp_path: Path) -> None:
    _, predicted = answers(tmp_path)
    result = guarded(CheckResult({}), [timed(predicted, 700)], {}, 0.95)
    assert result.invalid is None
    assert "not compared" in result.notes[0]


@pytest.mark.parametrize(("outcome", "withheld"), [("failed", True), ("timed out", False), ("not connected", False)])
def test_rows_that_the_model_fails_on_only_while_it_is_timed_keep_from_passing(
    tmp_path: Path, outcome: str, withheld: bool
) -> None:
    """Violations stay: failing is what the model did."""
    path, predicted = answers(tmp_path)
    one = timed(predicted, N)
    bad = np.arange(N) < 45
    index = np.where(bad, OUTCOMES.index(outcome), 0)
    given = np.where(bad[:, None], np.nan, one.answers)
    broken = replace(one, ok=~bad, outcome=index, answers=given)
    plain = CheckResult({"latency_p99": percentile([np.ones(2000)], 0.99)})
    result = guarded(plain, [broken], {"candidate": path}, 0.95)
    found = result.estimates["latency_p99"]
    assert result.invalid is None
    assert isinstance(found, Measured) == withheld
    if isinstance(found, Measured):
        assert found.withhold is not None and "failed, while it was timed, on 45 rows" in found.withhold
    # A row that was answered another time is not a row that it fails on.
    again = guarded(plain, [broken, timed(predicted, N)], {"candidate": path}, 0.95)
    assert not isinstance(again.estimates["latency_p99"], Measured)


def test_of_queries_with_sizes_only_the_rows_that_were_asked_for_count(tmp_path: Path) -> None:
    path, predicted = answers(tmp_path)
    made = timed(predicted, 225, batch=4)
    sizes = np.where(np.arange(225) % 2 == 0, 2, 9)
    given = np.where(np.arange(4) < sizes[:, None], made.answers, np.nan)  # type: ignore[arg-type]  # they are there
    one = replace(made, sizes=sizes, answers=given)
    compared = compare([one], path)
    # Half of the queries have two rows, of the others four answers are kept.
    assert (compared.items, compared.different) == (113 * 2 + 112 * 4, 0)
    note = guarded(CheckResult({}), [one], {"candidate": path}, 0.95).notes[0]
    assert f"each row was sent {(113 * 2 + 112 * 9) / compared.items:,.0f} times on average" in note
    # All queries fail by themselves: of those with two rows no third row is broken.
    broken = replace(one, ok=np.zeros(225, bool), answers=np.full_like(given, np.nan))
    assert compare([broken], path).broken == compared.items


def test_f16_speed_without_a_requirement_on_the_answers_stands_with_the_verdict() -> None:
    """Random answers may be fast: a note alone said that nothing was compared."""
    planned = plan(load(ROOT / "suites" / "digits" / "evalspec.yaml"))
    timed_checks = [one for one in planned.checks if one.timed]
    assert timed_checks
    for one in timed_checks:
        assert set(graders_beside(planned, one)) == {"candidate"}
        assert unjudged(one.check, [some("candidate", 0, 9, 1)], graders_beside(planned, one)) == []
        (line,) = unjudged(one.check, [some("candidate", 0, 9, 1)], frozenset())
        assert "answers wrongly would pass" in line
        assert unjudged(one.check, [], frozenset()) == []
    # Quality that is only reported, or sizes, ask nothing of an answer.
    quality = next(one for one in planned.checks if one.check.check == "quality")
    lenient = replace(quality, check=quality.check.model_copy(update={"require": (), "report_only": True}))
    others = tuple(one for one in planned.checks if one.check.dimension == "system")
    assert graders_beside(replace(planned, checks=(*others, lenient)), others[0]) == {}

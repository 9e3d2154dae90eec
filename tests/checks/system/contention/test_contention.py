"""`contention`: how much slower beside other work; the load runs beside one side only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evalspec.checks.system.contention.spec import Contention
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Intervals, Table
from evalspec.evidence.estimate import Measured, Parts
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import CheckResult, NeedTiming, SpecNames
from evalspec.language.requirement import Requirement
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs, samples
from tests.meters import telemetry, times_of, with_meter

MEDIAN = Requirement("contention_ratio(p50) <= 1.5x", "contention_ratio", "p50", "<=", 1.5, "x")
TAIL = Requirement("contention_ratio(p99) <= 3x", "contention_ratio", "p99", "<=", 3.0, "x")
Pairs = Callable[[Schedule, str], tuple[list[Samples], list[Samples]]]


def beside(slower: float, waits: float = 0.0, fails: float = 0.0, queries: int | None = None) -> Pairs:
    """Alone 2 ms; beside the load so many times that, and a share of queries waits 50 ms more."""
    rng = np.random.default_rng(9)

    def make(schedule: Schedule, baseline: str) -> tuple[list[Samples], list[Samples]]:
        assert schedule.background is not None
        count = max(40, schedule.queries) if queries is None else queries
        sides: tuple[list[Samples], list[Samples]] = ([], [])
        for process in range(schedule.processes):
            level = np.exp(0.05 * rng.standard_normal())
            for side, factor in ((0, slower), (1, 1.0)):
                spent = 2.0 * factor * level * rng.gamma(100.0, 0.01, count)
                spent += 50.0 * (rng.random(count) < waits) * (side == 0)
                block = np.repeat([0, 3] if side == 0 else [1, 2], [count - count // 2, count // 2])
                ok = rng.random(count) >= (fails if side == 0 else 0.0)
                sides[side].append(samples(spent, process=process, block=block, batch=schedule.batch, ok=ok))
        return sides

    return make


def run(folder: Path, pairs: Pairs, **fields: object) -> CheckResult:
    check = Contention.model_validate({"check": "contention", "dataset": "test", **fields})
    return check.run(FakeInputs(folder, pairs=pairs))


def ratio(result: CheckResult, part: str) -> float | None:
    found = result.estimates["contention_ratio"]
    assert isinstance(found, Measured) and isinstance(found.estimate, Parts)
    return found.estimate.parts[part].value


def test_twice_as_slow_beside_the_load_fails(tmp_path: Path) -> None:
    result = run(tmp_path, beside(2.0))
    assert ratio(result, "p50") == pytest.approx(2.0, rel=0.05)
    assert outcome(result, MEDIAN) == "FAIL" and outcome(result, TAIL) == "PASS"


def test_a_load_that_costs_little_passes(tmp_path: Path) -> None:
    result = run(tmp_path, beside(1.2))
    assert outcome(result, MEDIAN) == "PASS" and outcome(result, TAIL) == "PASS"


def test_only_the_tail_suffers(tmp_path: Path) -> None:
    result = run(tmp_path, beside(1.0, waits=0.03))
    assert outcome(result, MEDIAN) == "PASS" and outcome(result, TAIL) == "FAIL"


def test_a_load_that_leaves_no_mark_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, beside(0.99), workers=3)
    assert any("3 processes of cpu load leave no mark" in note for note in result.notes)
    assert not any("no mark" in note for note in run(tmp_path, beside(1.2)).notes)


def test_throughput_halves(tmp_path: Path) -> None:
    result = run(tmp_path, beside(2.0), scenario="offline", batch_size=8)
    assert ratio(result, "throughput") == pytest.approx(2.0, rel=0.05)
    needed = Requirement("contention_ratio <= 1.5x", "contention_ratio", None, "<=", 1.5, "x")
    assert outcome(result, needed) == "FAIL"


def test_what_is_asked_for(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, pairs=beside(1.0))
    check = Contention.model_validate(
        {"check": "contention", "dataset": "test", "background": "memory", "workers": 2, "require": [TAIL.sentence]}
    )
    check.run(inputs)
    (schedule,) = inputs.schedules
    assert (schedule.background, schedule.background_workers, schedule.kind) == ("memory", 2, "single_stream")
    assert schedule.queries == 2000 and schedule.processes == 5 and schedule.min_s > 0
    (need,) = check.needs()
    assert isinstance(need, NeedTiming) and need.queries == 20_000


def test_a_median_needs_fewer_queries() -> None:
    check = Contention.model_validate({"check": "contention", "dataset": "test", "require": [MEDIAN.sentence]})
    assert check.each == 40


def test_failures_keep_the_ratio_from_pass_not_from_fail(tmp_path: Path) -> None:
    assert outcome(run(tmp_path, beside(1.0, fails=0.2)), MEDIAN) == "INCONCLUSIVE"
    assert outcome(run(tmp_path, beside(2.0, fails=0.2)), MEDIAN) == "FAIL"
    assert any("queries failed" in note for note in run(tmp_path, beside(1.0, fails=0.2)).notes)


def test_failures_are_slower_than_all_answers(tmp_path: Path) -> None:
    """2 % fail beside the load and take no time over it: the p99 is that of a failure, not the p97 of the rest."""
    few = run(tmp_path, beside(1.0, fails=0.02))
    assert outcome(few, TAIL) == "FAIL" and (ratio(few, "p99") or 0.0) > 100.0
    assert outcome(few, MEDIAN) == "PASS" or "failed" in str(few.estimates["contention_ratio"])
    assert outcome(run(tmp_path, beside(1.0, fails=1.0)), MEDIAN) == "FAIL"


def test_without_the_load_a_failure_is_nothing_to_compare_with(tmp_path: Path) -> None:
    make = beside(1.0, fails=1.0)
    result = run(tmp_path, lambda schedule, baseline: make(schedule, baseline)[::-1])
    assert "failed without the load" in result.missing["contention_ratio(p50)"]


def test_no_pairs_are_no_number(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="no pair of processes"):
        run(tmp_path, lambda schedule, baseline: ([], []))


def test_other_work_voids_it(tmp_path: Path) -> None:
    """The load is ours and does not count; a neighbour does."""
    make = beside(1.0)

    def busy(schedule: Schedule, baseline: str, others: float) -> tuple[list[Samples], list[Samples]]:
        assert schedule.telemetry_s is not None
        told = telemetry(0.0, 5.0, counter=None, more={"cpu_others_share": np.full(len(times_of(5.0)), others)})
        ours, alone = make(schedule, baseline)
        return ours, [with_meter(one, told) for one in alone]

    assert outcome(run(tmp_path, lambda schedule, name: busy(schedule, name, 0.9)), MEDIAN) == "INVALID"
    fine = run(tmp_path, lambda schedule, name: busy(schedule, name, 0.3))
    assert outcome(fine, MEDIAN) == "PASS" and any("used 30 %" in note for note in fine.notes)


def test_all_failed_is_no_rate(tmp_path: Path) -> None:
    offline = run(tmp_path, beside(1.0, fails=1.0), scenario="offline")
    assert "answered nothing" in offline.missing["contention_ratio(throughput)"]


def test_the_plan_that_was_not_reached_is_invalid(tmp_path: Path) -> None:
    assert outcome(run(tmp_path, beside(1.0, queries=30)), MEDIAN) == "INVALID"


def test_what_is_shown(tmp_path: Path) -> None:
    result = run(tmp_path, beside(1.3), require=[MEDIAN.sentence], background="memory", workers=2)
    forest, table = result.blocks
    assert isinstance(forest, Intervals) and "2 x memory" in forest.title
    assert [reference.value for reference in forest.references] == [1.0, 1.5]
    assert isinstance(table, Table) and len(table.rows) == 10
    assert result.conditions["background"] == "memory" and result.conditions["background_workers"] == 2


def test_parts_and_refusals() -> None:
    check = Contention.model_validate({"check": "contention", "dataset": "test"})
    assert check.part_names(check.metrics[0], SpecNames(models=(), datasets=(), slices=())) == ("p50", "p99")
    other = Requirement("contention_ratio(p90) <= 2x", "contention_ratio", "p90", "<=", 2.0, "x")
    assert "has no 'p90'; choices: p50, p99" in (check.check_requirement(other, {}) or "")
    # A percentile that there is not is refused later; counting queries for it must not fail before.
    asked = {"check": "contention", "dataset": "test", "require": ["contention_ratio(p95) <= 3x"]}
    assert Contention.model_validate(asked).each == check.each
    against = Requirement(
        "contention_ratio(p50) <= 2x baseline", "contention_ratio", "p50", "<=", 0, "x", "baseline", 2.0
    )
    assert "compares a model with itself" in (check.check_requirement(against, {}) or "")
    assert check.check_requirement(MEDIAN, {}) is None


def test_a_draft_is_short(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, pairs=beside(1.0), draft=True)
    Contention.model_validate({"check": "contention", "dataset": "test"}).run(inputs)
    assert inputs.schedules[0].queries == 20 and inputs.schedules[0].processes == 2

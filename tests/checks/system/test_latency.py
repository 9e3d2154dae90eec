"""`latency`: a planted slowness turns the test red, a clean twin stays green; timings are synthetic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from evalspec.checks.system._samples import latencies_ms, settled
from evalspec.checks.system.latency import Latency
from evalspec.evidence.blocks import Curve, Histogram, Table
from evalspec.evidence.estimate import Estimate, Measured
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import CheckResult, NeedTiming
from evalspec.language.requirement import Requirement
from tests.fakes import FakeInputs, comparison_p_values, p_values, samples

P99 = Requirement("latency_p99 <= 5 ms", "latency_p99", None, "<=", 5.0, "ms")
P99_9 = Requirement("latency_p99_9 <= 9 ms", "latency_p99_9", None, "<=", 9.0, "ms")
RATIO = Requirement("latency_p50 <= 1.2x baseline", "latency_p50", None, "<=", 0.0, "ms", model="baseline", factor=1.2)
MISSES = Requirement("deadline_miss_rate <= 2 %", "deadline_miss_rate", None, "<=", 0.02, "fraction")

Maker = Callable[[int, np.random.Generator], NDArray[np.float64]]


def steady(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """About 2 ms; the p99 is 3.2 ms."""
    return 2.0 * rng.lognormal(0, 0.2, n)


def slow(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """As steady, with 15 queries in 100 ten times as long."""
    return steady(n, rng) * np.where(rng.random(n) < 0.15, 10.0, 1.0)


def climbing(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """As steady, and half as slow again at the end."""
    return steady(n, rng) * np.linspace(1.0, 1.5, n)


def timings(candidate: Maker, baseline: Maker = steady, *, seed: int = 0) -> Callable[[str, Schedule], list[Samples]]:
    """Five processes; blocks as in a pair where the schedule asks for a time."""
    rng = np.random.default_rng(seed)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        maker = candidate if model == "candidate" else baseline
        block = np.repeat([0, 3], schedule.queries // 2) if schedule.min_s else None
        return [
            samples(maker(schedule.queries, rng), process=process, model=model, block=block)
            for process in range(schedule.processes)
        ]

    return make


def run(folder: Path, candidate: Maker = steady, baseline: Maker = steady, **fields: object) -> CheckResult:
    inputs = FakeInputs(folder, samples=timings(candidate, baseline))
    return Latency.model_validate({"check": "latency", "dataset": "test", **fields}).run(inputs)


def below(p: float | None, level: float) -> bool:
    return p is not None and p < level


def measured(result: CheckResult, metric: str) -> Measured:
    found = result.estimates[metric]
    assert isinstance(found, Measured)
    return found


def test_a_fast_model_passes_and_one_with_a_heavy_tail_fails(tmp_path: Path) -> None:
    result = run(tmp_path, require=(P99,))
    p_pass, p_fail = p_values(result, P99)
    assert below(p_pass, 0.01) and p_fail == 1.0
    assert measured(result, "latency_p99").withhold is None and measured(result, "latency_p99").invalid is None
    p_pass, p_fail = p_values(run(tmp_path, slow, require=(P99,)), P99)
    assert below(p_fail, 0.002) and not below(p_pass, 0.5)


def test_a_mean_does_not_see_what_the_percentile_does(tmp_path: Path) -> None:
    fine, heavy = run(tmp_path), run(tmp_path, slow)
    mean = [measured(one, "latency_mean").estimate for one in (fine, heavy)]
    assert all(isinstance(one, Estimate) and one.value is not None and one.value < 5.0 for one in mean)
    assert not below(p_values(heavy, P99)[0], 0.5)


def test_no_bound_of_jitter_is_below_zero(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    processes = iter([0.01, 0.01, 0.01, 0.01, 2.0])

    def one_restless(n: int, _: np.random.Generator) -> NDArray[np.float64]:
        return 2.0 + next(processes) * rng.random(n)

    jitter = measured(run(tmp_path, one_restless, caching_audit=False), "jitter")
    lower, upper = jitter.estimate.bound(0.95, "lower"), jitter.estimate.bound(0.95, "upper")
    assert lower == 0.0 and upper is not None and upper > 0.2


def test_the_ratio_to_a_baseline_is_paired(tmp_path: Path) -> None:
    same = run(tmp_path, steady, steady, require=(RATIO,))
    assert below(comparison_p_values(same, RATIO)[0], 0.01)

    def slower(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return 1.5 * steady(n, rng)

    assert below(comparison_p_values(run(tmp_path, slower, steady, require=(RATIO,)), RATIO)[1], 0.002)


def test_pairs_last_a_second_a_block_and_lose_the_first_tenth_of_each(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, samples=timings(steady))
    Latency(dataset="test", require=(RATIO,), caching_audit=False).run(inputs)
    alone, paired = inputs.schedules
    assert alone.min_s == 1.0 and paired.min_s == 1.0 and paired.processes == 5
    one = samples(np.arange(1.0, 41.0), block=np.repeat([0, 3], 20))
    assert np.flatnonzero(~settled(one)).tolist() == [0, 1, 20, 21]


def test_deadline_misses(tmp_path: Path) -> None:
    fine = run(tmp_path, deadline="10 ms", require=(MISSES,))
    assert below(p_values(fine, MISSES)[0], 0.01)
    heavy = run(tmp_path, slow, deadline="10 ms", require=(MISSES,))
    assert below(p_values(heavy, MISSES)[1], 0.01)
    assert "`deadline:`" in run(tmp_path).missing["deadline_miss_rate"]


def test_a_run_that_grows_slower_is_kept_from_passing(tmp_path: Path) -> None:
    result = run(tmp_path, climbing)
    withhold = measured(result, "latency_p99").withhold
    assert withhold is not None and "no steady state" in withhold
    assert measured(result, "latency_p99").invalid is None


def test_unstable_blocks_are_kept_from_passing(tmp_path: Path) -> None:
    def stuttering(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return steady(n, rng) * np.where(np.isin(4 * np.arange(n) // n, (1, 2)), 3.0, 1.0)

    withhold = measured(run(tmp_path, stuttering), "latency_p50").withhold
    assert withhold is not None and "unstable" in withhold
    assert measured(run(tmp_path, stuttering, max_cv=2.0), "latency_p50").withhold is None


def test_a_run_that_ends_early_is_void(tmp_path: Path) -> None:
    def short(model: str, schedule: Schedule) -> list[Samples]:
        return [samples(np.ones(schedule.queries // 2) + i / 100, process=i) for i in range(schedule.processes)]

    result = Latency(dataset="test", queries=1000).run(FakeInputs(tmp_path, samples=short))
    invalid = measured(result, "latency_p99").invalid
    assert invalid == "a process made 100 of 200 planned queries"

    def fewer(model: str, schedule: Schedule) -> list[Samples]:
        return [samples(np.ones(schedule.queries), process=i) for i in range(3)]

    result = Latency(dataset="test", queries=1000).run(FakeInputs(tmp_path, samples=fewer))
    assert measured(result, "latency_p99").invalid == "3 of 5 planned processes were measured"


def test_failed_queries_count_as_slow_and_are_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def failing(model: str, schedule: Schedule) -> list[Samples]:
        return [
            samples(steady(schedule.queries, rng), process=i, ok=rng.random(schedule.queries) > 0.2)
            for i in range(schedule.processes)
        ]

    result = Latency(dataset="test", require=(P99,)).run(FakeInputs(tmp_path, samples=failing))
    assert below(p_values(result, P99)[1], 0.002)
    assert result.counts.errored > 50 and result.counts.used + result.counts.errored == result.counts.attempted
    assert "queries failed" in result.notes[0]
    for block in result.blocks:
        block.model_dump_json()


def test_a_model_that_never_answers_has_no_values(tmp_path: Path) -> None:
    def failing(model: str, schedule: Schedule) -> list[Samples]:
        count = schedule.queries
        return [samples(np.ones(count), process=i, ok=np.zeros(count, dtype=bool)) for i in range(schedule.processes)]

    result = Latency(dataset="test", require=(P99,)).run(FakeInputs(tmp_path, samples=failing))
    estimate = measured(result, "latency_p99").estimate
    assert isinstance(estimate, Estimate) and estimate.value is None
    assert not below(p_values(result, P99)[0], 1.0)
    assert result.blocks == []


def test_latency_counts_from_the_intended_start() -> None:
    one = samples([1.0, 2.0])
    late = Samples(
        **{name: getattr(one, name) for name in one.__dataclass_fields__} | {"intended_ns": one.sent_ns - 500_000}
    )
    assert latencies_ms(late).tolist() == [1.5, 2.5]


def test_the_plan_follows_the_strictest_percentile() -> None:
    assert Latency(dataset="test", require=(P99,)).planned == 2_000
    assert Latency(dataset="test", require=(P99, P99_9)).planned == 20_000
    assert Latency(dataset="test", deadline="5 ms", require=(MISSES,)).planned == 1_000
    assert Latency(dataset="test", require=(RATIO,)).planned == 500
    assert Latency(dataset="test", report_only=True).planned == 2_000
    assert Latency(dataset="test", queries=1001).planned == 1_005
    alone, pair = Latency(dataset="test", require=(P99, RATIO)).needs()
    assert isinstance(alone, NeedTiming) and isinstance(pair, NeedTiming)
    assert (alone.model, alone.queries, pair.model) == ("candidate", 2_000, "baseline")


@pytest.mark.parametrize(
    ("fields", "requirement", "said"),
    [
        ({"queries": 500}, P99, "500 queries can't show latency_p99 <= 5 ms: 1,000 are needed"),
        ({"queries": 2000}, P99_9, "10,000 are needed"),
        ({"queries": 400, "deadline": "5 ms"}, MISSES, "500 are needed"),
        ({}, MISSES, "needs `deadline:`"),
    ],
)
def test_what_can_never_pass_is_refused(fields: dict[str, object], requirement: Requirement, said: str) -> None:
    check = Latency.model_validate({"check": "latency", "dataset": "test", "require": (requirement,), **fields})
    message = check.check_requirement(requirement, {"test": None})
    assert message is not None and said in message


def test_a_mean_never_blocks() -> None:
    mean = Requirement("latency_mean <= 5 ms", "latency_mean", None, "<=", 5.0, "ms")
    blocking, warning = Latency(dataset="test", require=(mean,)), Latency(dataset="test", warn=(mean,))
    slo = Latency(dataset="test", slo=mean)
    for check in (blocking, slo):
        message = check.check_requirement(mean, {})
        assert message is not None and "no service level" in message
    assert warning.check_requirement(mean, {}) is None
    assert Latency(dataset="test", require=(P99,)).check_requirement(P99, {}) is None


@pytest.mark.parametrize(
    "fields", [{"processes": 4}, {"deadline": 5}, {"deadline": "5 MiB"}, {"scenario": "server"}, {"queries": 3}]
)
def test_fields_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Latency.model_validate({"check": "latency", "dataset": "test", **fields})


def test_blocks_stay_small_and_carry_the_thresholds(tmp_path: Path) -> None:
    result = run(tmp_path, slow, deadline="10 ms", require=(P99,))
    histogram = next(block for block in result.blocks if isinstance(block, Histogram))
    assert [line.label for line in histogram.references] == ["latency_p99 <= 5 ms", "deadline"]
    assert sum(histogram.counts["queries"]) == 2000
    tail, course = (block for block in result.blocks if isinstance(block, Curve))
    assert len(tail.series[0].x) <= 400 and min(tail.series[0].y) > 0
    assert len(course.series) == 5 and sum(len(series.x) for series in course.series) <= 400
    table = next(block for block in result.blocks if isinstance(block, Table))
    assert [row[0] for row in table.rows][:2] == ["latency_p50", "latency_p90"]
    assert sum(len(block.model_dump_json()) for block in result.blocks) < 40_000


def test_notes_name_a_coarse_clock_and_warm_up_that_did_not_settle(tmp_path: Path) -> None:
    def odd(model: str, schedule: Schedule) -> list[Samples]:
        details = {"timer_overhead_ns": 50_000.0, "warmup_settled": False, "threads": 2}
        rng = np.random.default_rng(0)
        return [samples(steady(schedule.queries, rng), process=i, details=details) for i in range(5)]

    result = Latency(dataset="test").run(FakeInputs(tmp_path, samples=odd, facts={"candidate": {"precision": "int8"}}))
    text = " ".join(result.notes)
    assert "not settled" in text and "Reading the clock takes 3%" in text
    assert result.conditions["threads"] == 2 and result.conditions["precision"] == "int8"


def test_a_draft_is_short(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, samples=timings(steady), draft=True)
    Latency(dataset="test", require=(P99, RATIO)).run(inputs)
    assert all(schedule.queries == 20 and schedule.processes == 2 for schedule in inputs.schedules)

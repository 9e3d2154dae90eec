"""Looks at timed checks: what they measure, when they end, and what a record made of them says afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.checks.system.cold_start.spec import ColdStart
from evalspec.checks.system.latency.spec import Latency
from evalspec.checks.system.load.spec import Load
from evalspec.checks.system.throughput.spec import Throughput
from evalspec.evidence.estimate import Estimate, Fact, Measured, Side
from evalspec.evidence.record import LOOK
from evalspec.language.inputs import Probe, Samples, Schedule
from evalspec.language.parts import Access, Check, CheckResult, Known
from evalspec.language.requirement import Requirement
from evalspec.running.children.jobs import CheckJob, SpecParts
from evalspec.running.children.looks import farther, in_looks, is_far
from evalspec.running.children.process import Limits
from evalspec.running.requirements import SignificanceLevels
from evalspec.running.timing import WHOLE, AtLook

LEVELS = SignificanceLevels(0.95, 0.002)
SCHEDULE = Schedule(kind="single_stream", queries=10)


@dataclass(frozen=True)
class Shown(Estimate):
    """A value of which all is shown that holds with a factor to spare."""

    value: float  # type: ignore[assignment]
    spare: float = 1.0
    n: int = 3  # type: ignore[assignment]
    method: str = "as told"  # type: ignore[assignment]

    def bound(self, confidence: float, side: Side) -> float | None:
        return self.value * self.spare if side == "upper" else self.value / self.spare

    def p_value(self, threshold: float, side: Side) -> float | None:
        bound = self.bound(0.95, side)
        assert bound is not None
        return 1e-6 if (bound <= threshold if side == "upper" else bound >= threshold) else 0.5


def one(process: int, **details: Any) -> Samples:
    at = np.arange(3, dtype=np.int64)
    return Samples("candidate", process, at * 0, at, at, at + 1, at, 1, at >= 0, 3, details=details)


@dataclass
class Counting:
    """Timing that notes what it is told to measure."""

    last_look: int | None = None
    samples: tuple[Samples, ...] = ()
    probes: tuple[Probe, ...] = ()
    told: list[tuple[str, int, int, int | None]] = field(default_factory=list)

    def measure(
        self, schedule: Schedule, dataset: str, model: str, progress: object, stage: AtLook = WHOLE
    ) -> list[Samples]:
        self.told.append((model, stage.first, schedule.processes, stage.look))
        made = [one(process, **stage.facts) for process in range(stage.first, schedule.processes)]
        self.samples += tuple(made)
        return made

    def measure_paired(
        self,
        schedule: Schedule,
        dataset: str,
        model: str,
        baseline: str,
        progress: object,
        stage: AtLook = WHOLE,
    ) -> tuple[list[Samples], list[Samples]]:
        ours = self.measure(schedule, dataset, model, progress, stage)
        return ours, [replace(sample, model=baseline) for sample in ours]

    def probe(
        self, probe: str, dataset: str, model: str, processes: int, options: object, telemetry_s: object,
        progress: object, stage: AtLook = WHOLE,
    ) -> list[Probe]:  # fmt: skip
        self.told.append((probe, stage.first, processes, stage.look))
        return [Probe(probe, model, process, dict(stage.facts)) for process in range(stage.first, processes)]

    def predict(self, *_: object) -> Path:
        raise NotImplementedError

    def likelihoods(self, *_: object) -> Path:
        raise NotImplementedError


def latency(*require: str, **fields: Any) -> Latency:
    return Latency.model_validate({"dataset": "test", "require": list(require), **fields})


def job(check: Check, *, stop_early: bool = True) -> CheckJob:
    return CheckJob(
        parts=SpecParts(models={}, datasets={}, slices={}, access=Access(Path())), check=check, predictions={},
        model_facts={}, confidence=0.95, alpha_fail=0.002, seed=1, draft=False, evidence=Path(), limits=Limits(),
        threads=1, environment={}, stop_early=stop_early,
    )  # fmt: skip


def measured(values: Sequence[float], spare: float = 1.0) -> Any:
    """A check that times its processes, and finds these values one after the other."""
    left = list(values)

    def run(form: CheckJob, timing: Any) -> CheckResult:
        made = timing.measure(replace(SCHEDULE, processes=form.check.processes), "test", "candidate", None)  # type: ignore[attr-defined]
        assert [sample.process for sample in made] == list(range(len(made)))
        value = Shown(left.pop(0), spare, n=len(made))
        return CheckResult(estimates={"latency_p99": value}, conditions={"processes": len(made)})

    return run


def test_a_check_ends_at_the_first_look_that_decides_and_measures_no_process_twice() -> None:
    timing = Counting()
    result = in_looks(job(latency("latency_p99 <= 30 ms")), timing, measured([25.0, 9.9]))
    assert timing.told == [("candidate", 0, 3, 1), ("candidate", 3, 4, 2)]
    assert result.conditions == {"processes": 4, "look": 2, "looks": 3}
    assert any("look 2 of 3" in note for note in result.notes) and result.invalid is None


def test_what_is_close_goes_on_to_the_end() -> None:
    timing = Counting()
    result = in_looks(job(latency("latency_p99 <= 30 ms")), timing, measured([25.0, 25.0, 25.0]))
    assert [first for _, first, _, _ in timing.told] == [0, 3, 4] and len(timing.samples) == 5
    assert result.conditions == {"processes": 5, "look": 3, "looks": 3} and not result.notes


@pytest.mark.parametrize("check", [latency(), latency("latency_p99 <= 30 ms", report_only=True)])
def test_what_decides_nothing_is_measured_whole(check: Latency) -> None:
    timing = Counting()
    in_looks(job(check), timing, measured([1.0, 1.0, 1.0]))
    assert len(timing.samples) == 5


def test_no_look_is_taken_where_the_policy_wants_all() -> None:
    timing = Counting()
    result = in_looks(job(latency("latency_p99 <= 30 ms"), stop_early=False), timing, measured([1.0]))
    assert timing.told == [("candidate", 0, 5, None)] and "look" not in result.conditions


@pytest.mark.parametrize(
    ("sentence", "value", "spare", "far"),
    [
        ("latency_p99 <= 30 ms", 9.9, 1.0, True),
        ("latency_p99 <= 30 ms", 10.1, 1.0, False),
        ("latency_p99 <= 30 ms", 8.0, 1.5, False),
        ("latency_p99 <= 30 ms", 91.0, 1.0, True),
        ("latency_p99 <= 30 ms", 89.0, 1.0, False),
        ("deadline_miss_rate <= 3 %", 0.0099, 1.0, True),
        ("deadline_miss_rate <= 3 %", 0.011, 1.0, False),
        ("user_rate_p10 >= 30 tokens/s", 91.0, 1.0, True),
        ("user_rate_p10 >= 30 tokens/s", 89.0, 1.0, False),
    ],
)
def test_far_is_three_times_as_strict(sentence: str, value: float, spare: float, far: bool) -> None:
    check = latency(sentence, deadline="5 ms")
    result = CheckResult(estimates={check.require[0].metric: Shown(value, spare)})
    assert is_far(check, result, LEVELS) is far


@pytest.mark.parametrize("reason", ["invalid", "withhold"])
def test_nothing_is_far_that_may_not_pass(reason: str) -> None:
    check = latency("latency_p99 <= 30 ms")
    held = CheckResult(estimates={"latency_p99": Measured(Shown(1.0), **{reason: "why"})})
    assert not is_far(check, held, LEVELS)
    broken = CheckResult(estimates={"latency_p99": Measured(Shown(100.0), **{reason: "why"})})
    # What the system did keeps nothing from FAIL.
    assert is_far(check, broken, LEVELS) is (reason == "withhold")


def test_all_requirements_must_be_far_warnings_and_those_that_are_violated_too() -> None:
    check = latency("latency_p99 <= 30 ms", warn=["latency_p50 <= 10 ms"])
    far, near = Shown(1.0), Shown(9.0)
    assert not is_far(check, CheckResult(estimates={"latency_p99": far, "latency_p50": near}), LEVELS)
    assert is_far(check, CheckResult(estimates={"latency_p99": far, "latency_p50": Shown(100.0)}), LEVELS)
    assert not is_far(check, CheckResult(estimates={"latency_p99": far}, missing={"latency_p50": "none"}), LEVELS)


def requirement(sentence: str, check: type[Check] = Latency) -> Requirement:
    return check.model_validate({"dataset": "test", "require": [sentence]}).require[0]


def test_a_ratio_is_moved_by_its_factor_and_a_difference_is_never_far() -> None:
    ratio = farther(requirement("latency_p50 <= 1.2x baseline"), 1.5)
    assert ratio is not None and ratio.factor == pytest.approx(0.8) and ratio.is_ratio
    plain = farther(requirement("latency_p50 <= baseline"), 1.5)
    assert plain is not None and plain.factor == pytest.approx(1.0 / 1.5) and plain.is_ratio
    assert farther(requirement("latency_p50 <= baseline + 5 ms"), 1.5) is None


def test_a_share_that_must_be_large_is_moved_by_what_it_lacks() -> None:
    moved = farther(replace(requirement("latency_p99 <= 1 ms"), op=">=", threshold=97.0, unit="%"), 1.5)
    assert moved is not None and moved.threshold == pytest.approx(98.0)


def test_a_fact_is_far_where_it_holds_with_the_threshold_moved() -> None:
    check = latency("cached_share <= 30 %")
    for value, far in ((0.09, True), (0.11, False), (0.91, True)):
        assert is_far(check, CheckResult(estimates={"cached_share": Fact(value, 10)}), LEVELS) is far


def test_the_same_request_twice_in_a_form_goes_with_its_own_turn() -> None:
    """Two models by turns: each turn is the same request for one process."""
    timing = Counting()

    def run(form: CheckJob, timings: Any) -> CheckResult:
        for _ in range(form.check.processes):  # type: ignore[attr-defined]
            assert len(timings.probe("p", "test", "candidate", 1, {}, None, None)) == 1
        return CheckResult(estimates={"ready_time": Shown(1.0)})

    check = ColdStart.model_validate({"dataset": "test", "require": ["ready_time <= 1.2 s"]})
    in_looks(job(check), timing, run)
    assert len(timing.told) == 10 and [look for *_, look in timing.told] == [1] * 3 + [2] * 4 + [3] * 3


def test_schedules_that_differ_in_an_array_are_different_requests() -> None:
    timing, arrays = Counting(), [np.array([0, 1]), np.array([0, 2]), np.array([0, 1])]

    def run(form: CheckJob, timings: Any) -> CheckResult:
        for times in arrays:
            timings.measure(replace(SCHEDULE, processes=1, arrivals_ns=times), "test", "candidate", None)
        return CheckResult(estimates={"latency_p99": Shown(1.0)})

    in_looks(job(latency("latency_p99 <= 30 ms")), timing, run)
    assert len(timing.told) == 3


@pytest.mark.parametrize("judged", [True, False])
def test_earlier_timings_end_where_they_ended_and_are_void_where_that_decides_nothing(judged: bool) -> None:
    check = latency("latency_p99 <= 30 ms")
    far = in_looks(job(check), Counting(last_look=1), measured([10.0]), judged=judged)
    assert far.invalid is None and far.conditions["look"] == 1
    near = in_looks(job(check), Counting(last_look=1), measured([25.0]), judged=judged)
    assert (near.invalid is not None) is judged and near.conditions["look"] == 1
    # A far one that went on to the end is judged by all that was measured.
    whole = in_looks(job(check), Counting(last_look=3), measured([10.0, 10.0, 10.0]), judged=judged)
    assert whole.conditions["look"] == 3 and whole.invalid is None


@pytest.mark.parametrize("stop_early", [True, False])
def test_earlier_timings_without_looks_are_given_back_without_looks(stop_early: bool) -> None:
    """Whatever the policy is now: in another order, samples of one batch size would be taken for another."""
    timing = Counting(last_look=0)
    result = in_looks(job(latency("latency_p99 <= 30 ms"), stop_early=stop_early), timing, measured([10.0]))
    assert timing.told == [("candidate", 0, 5, None)] and LOOK not in result.conditions


def test_an_early_look_at_latency_plans_the_same_queries_in_each_process() -> None:
    check = latency("latency_p99 <= 30 ms", "latency_p99 <= 2x baseline")
    *early, whole = check.looks(Known())
    assert (whole.planned, whole.expected(whole.planned), whole.may_add_processes) == (check.planned, 0, True)
    for form in early:
        assert form.planned / form.processes == check.planned / check.processes
        assert form.planned_pairs / form.processes == check.planned_pairs / check.processes
        assert form.expected(form.planned) >= 1.25 * check.planned and not form.may_add_processes
    assert check.expected(check.planned) == 0


@pytest.mark.parametrize(
    ("query_ms", "enough"), [(None, False), (0.05, True), (2.0, True), (4.0, True), (4.5, False), (500.0, False)]
)
def test_the_first_look_at_latency_has_queries_enough_where_that_takes_at_most_four_seconds(
    query_ms: float | None, enough: bool
) -> None:
    check = latency("latency_p99 <= 30 ms")
    first, *_, whole = check.looks(Known())
    # A tenth of each process does not count.
    counted = int(0.9 * first.queries_each(query_ms)) * first.processes
    assert (counted >= first.expected(first.planned)) is enough and counted >= first.planned
    # Processes are the same at every look; without looks they make what is planned.
    assert whole.queries_each(query_ms) == first.queries_each(query_ms) >= check.queries_each(query_ms)
    assert check.queries_each(query_ms) == check.queries_each() == first.queries_each()


def test_throughput_begins_with_the_sizes_that_may_decide() -> None:
    fields = {"dataset": "test", "batch_sizes": [1, 8, 32]}
    whole = Throughput.model_validate({**fields, "require": ["throughput >= 100 samples/s"]})
    first, second, last = whole.looks(Known())
    assert last is whole
    assert (first.sizes, first.left_out, first.processes) == ((32,), (1, 8), 3)
    assert (second.sizes, second.left_out, second.processes) == ((1, 8, 32), (), 3)
    part = Throughput.model_validate({**fields, "require": ["throughput(batch 8) >= 100 samples/s"]})
    assert part.looks(Known())[0].sizes == (8, 32)
    fact = Throughput.model_validate({**fields, "warn": ["best_batch >= 8"]})
    assert [form.sizes for form in fact.looks(Known())] == 2 * [(1, 8, 32)]


def test_load_of_a_server_is_one_process_and_has_no_looks() -> None:
    check = Load.model_validate({"dataset": "test", "rates": ["10 qps"], "require": ["latency_p99(10 qps) <= 1 s"]})
    assert check.looks(Known(frozenset({"candidate"}))) == ()
    assert [form.is_look for form in check.looks(Known())] == [True, False]

"""`sustained`: a device that becomes slow is found, also where later processes begin slow already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from evalspec.checks.system.sustained.ratio import FromTheColdStart, both_ends, sustained_ratio
from evalspec.checks.system.sustained.show import course, episodes
from evalspec.checks.system.sustained.spec import Sustained
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Curve, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import CheckResult
from evalspec.timing.device import CPU, GPU, reasons_seen, slowed
from tests.checks.deciding import outcome, the
from tests.checks.system.erring import most_wrong
from tests.fakes import FakeInputs, p_values, samples
from tests.meters import telemetry, times_of, with_meter

RATIO = "sustained_ratio >= 0.9x"
SECONDS = 30.0


def batches(slow_from_s: float, factor: float, rng: np.random.Generator, *, already: float = 1.0) -> np.ndarray:
    """Milliseconds of batches for 30 s: 10 ms each, ``factor`` times that from a moment on."""
    level = 10.0 * already * np.exp(0.01 * rng.standard_normal())
    spent = level * rng.gamma(400.0, 1 / 400.0, 6000)
    when = np.cumsum(spent) / 1e3
    spent = np.where(when > slow_from_s, factor * spent, spent)
    return np.asarray(spent[np.cumsum(spent) / 1e3 <= SECONDS])


def device(
    slow_from_s: float = 100.0, factor: float = 2.0, *, hot: bool = False, gpu: bool = False, told: bool = True,
    cap: bool = False,
) -> Callable[[str, Schedule], list[Samples]]:  # fmt: skip
    """A device that throttles after a while; ``hot``: later processes begin throttled."""
    rng = np.random.default_rng(0)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        made = []
        for process in range(schedule.processes):
            warm = hot and process > 0
            spent = batches(-1.0 if warm else slow_from_s, factor, rng)
            one = samples(spent, process=process, model=model, batch=schedule.batch)
            when = times_of(SECONDS, 0.5)
            throttled = (when > (-1.0 if warm else slow_from_s)).astype(np.float64)
            series = {
                ("gpu_throttle_reasons" if gpu else "cpu_throttle_count"): (
                    0x20 * throttled + 0x4 * cap if gpu else np.cumsum(throttled)
                ),
                ("gpu_temperature_c" if gpu else "cpu_temperature_c"): 60 + when,
                ("gpu_sm_clock_mhz" if gpu else "cpu_clock_mhz"): 2000 - 1000 * throttled,
            }
            meter = telemetry(0.0, SECONDS, counter=None, every_s=0.5, more=series) if told else None
            made.append(with_meter(one, meter))
        return made

    return make


def run(
    folder: Path, maker: Callable[[str, Schedule], list[Samples]], on: str = "cpu", **fields: object
) -> CheckResult:
    check = Sustained.model_validate({"check": "sustained", "dataset": "test", "require": [RATIO], **fields})
    return check.run(FakeInputs(folder, samples=maker, facts={"candidate": {"device": on}}))


def decided(result: CheckResult) -> str:
    check = Sustained.model_validate({"check": "sustained", "dataset": "test", "require": [RATIO]})
    return outcome(result, the(check, RATIO))


def ratio(result: CheckResult) -> float | None:
    found = result.estimates["sustained_ratio"]
    assert isinstance(found, Measured) and not isinstance(found.estimate, Fact)
    return found.estimate.value  # type: ignore[union-attr]  # it has no parts


def fact(result: CheckResult, name: str) -> float:
    found = result.estimates[name]
    assert isinstance(found, Fact) and found.in_this_run
    return found.value


def test_a_device_that_keeps_its_speed_passes(tmp_path: Path) -> None:
    result = run(tmp_path, device())
    assert decided(result) == "PASS" and ratio(result) == pytest.approx(1.0, abs=0.01)
    assert fact(result, "throttled") == 0.0 and fact(result, "temperature_max") == pytest.approx(90.0, abs=1)
    assert result.conditions["clock_min_mhz"] == 2000.0


def test_a_device_that_throttles_after_20_s_fails_and_is_named(tmp_path: Path) -> None:
    result = run(tmp_path, device(20.0))
    assert decided(result) == "FAIL" and ratio(result) == pytest.approx(0.5, abs=0.02)
    assert fact(result, "throttled") == 1.0 and result.conditions["clock_min_mhz"] == 1000.0
    assert result.invalid is None, "what a system does by itself voids nothing"
    assert any("throttled" in note for note in result.notes)


def test_twenty_of_forty_five(tmp_path: Path) -> None:
    """45 TOPS at first, 20 when it is warm: 0.444."""
    assert ratio(run(tmp_path, device(15.0, 45 / 20))) == pytest.approx(0.444, abs=0.01)


def test_processes_that_begin_hot_are_held_against_the_first_start(tmp_path: Path) -> None:
    result = run(tmp_path, device(20.0, hot=True))
    assert decided(result) == "FAIL" and ratio(result) == pytest.approx(0.5, abs=0.03)
    assert any("Processes 2, 3, 4 and 5 began" in note for note in result.notes)
    assert not any("began" in note for note in run(tmp_path, device(20.0)).notes)


def test_a_machine_that_stays_a_little_warm_is_held_against_its_cold_start(tmp_path: Path) -> None:
    """Each process ends 12 % below the cold start, but only 4 % below its own: the machine never cooled down."""
    rng = np.random.default_rng(5)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        made = []
        for process in range(schedule.processes):
            starts = 1.0 if process == 0 else 0.92
            rates = np.where(np.arange(3000) < 1500, starts, 0.88)
            made.append(samples(10.0 / rates * rng.gamma(400, 1 / 400, 3000), process=process))
        return made

    assert decided(run(tmp_path, make)) != "PASS" and ratio(run(tmp_path, make)) == pytest.approx(0.88, abs=0.01)


@pytest.mark.parametrize("processes", [1, 4])
def test_fewer_than_five_processes_have_no_bound(tmp_path: Path, processes: int) -> None:
    for maker, value in ((device(), 1.0), (device(20.0), 0.5)):
        result = run(tmp_path, maker, processes=processes)
        assert decided(result) == "INCONCLUSIVE" and ratio(result) == pytest.approx(value, abs=0.03)
        found = result.estimates["sustained_ratio"]
        assert isinstance(found, Measured) and isinstance(found.estimate, Estimate)
        assert f"no bound from {processes} of at least 5" in found.estimate.method


def test_fewer_than_five_processes_are_refused_with_the_remedy() -> None:
    fields = {"check": "sustained", "dataset": "test", "processes": 4, "require": [RATIO, "throttled == 0"]}
    check = Sustained.model_validate(fields)
    reasons = [check.check_requirement(one, {}) for one in check.requirements]
    assert "`processes: 5`" in (reasons[0] or "") and reasons[1] is None
    enough = Sustained.model_validate(fields | {"processes": 5})
    assert enough.check_requirement(enough.requirements[0], {}) is None


def test_batches_that_still_grow_slower_at_the_end_are_kept_from_passing(tmp_path: Path) -> None:
    def make(model: str, schedule: Schedule) -> list[Samples]:
        rng = np.random.default_rng(1)
        grows = np.concatenate((np.full(1500, 10.0), np.full(600, 8.0), np.linspace(8.0, 10.0, 900)))
        return [
            samples(grows * rng.gamma(400, 1 / 400, len(grows)), process=index) for index in range(schedule.processes)
        ]

    result = run(tmp_path, make)
    found = result.estimates["sustained_ratio"]
    assert isinstance(found, Measured) and found.withhold is not None and "the end is not reached" in found.withhold


def test_nobody_who_tells_of_throttling_is_a_reason_and_no_zero(tmp_path: Path) -> None:
    result = run(tmp_path, device(20.0, told=False))
    assert "it is unknown" in result.missing["throttled"] and "temperature" in result.missing["temperature_max"]
    assert "throttled" not in result.estimates and decided(result) == "FAIL"


@pytest.mark.parametrize(("slow_from_s", "known"), [(100.0, None), (20.0, 1.0)])
def test_that_it_did_not_throttle_must_be_seen_in_every_process(
    tmp_path: Path, slow_from_s: float, known: float | None
) -> None:
    make = device(slow_from_s)

    def silent(model: str, schedule: Schedule) -> list[Samples]:
        made = make(model, schedule)
        return [*made[:2], replace(made[2], telemetry=None), *made[3:]]

    result = run(tmp_path, silent)
    if known is None:
        assert "throttled" not in result.estimates and "in process 3" in result.missing["throttled"]
    else:
        assert fact(result, "throttled") == known, "one process in which it throttled is enough"


def test_a_gpu_tells_reasons_and_a_power_cap_is_no_throttling(tmp_path: Path) -> None:
    capped = run(tmp_path, device(gpu=True, cap=True), on="cuda:0")
    assert fact(capped, "throttled") == 0.0
    assert any("software power cap (up to 100 %" in note for note in capped.notes)
    hot = run(tmp_path, device(20.0, gpu=True), on="cuda:0")
    assert fact(hot, "throttled") == 1.0 and any("software thermal slowdown" in note for note in hot.notes)


def test_bands_are_where_it_throttled(tmp_path: Path) -> None:
    curve = run(tmp_path, device(20.0), processes=1).blocks[0]
    assert isinstance(curve, Curve)
    bands = [series for series in curve.series if series.name.startswith("throttled")]
    assert len(bands) == 1 and bands[0].lower == (0.0, 0.0)
    assert bands[0].x[0] == pytest.approx(20.5, abs=0.6) and bands[0].x[1] == pytest.approx(30.0, abs=0.6)
    titles = [block.title for block in run(tmp_path, device()).blocks]
    assert titles == ["Throughput over time", "Clock", "Temperature", "Start and end"]
    table = run(tmp_path, device()).blocks[-1]
    assert isinstance(table, Table) and len(table.rows) == 5


def test_throttling_comes_and_goes() -> None:
    when = times_of(10.0, 0.5, begin_s=0.0)
    mask = np.where(((when >= 2) & (when < 4)) | (when >= 8), float(0x8), float(0x1))
    told = telemetry(0.0, 10.0, counter=None, every_s=0.5, begin_s=0.0, more={"gpu_throttle_reasons": mask})
    one = with_meter(samples(np.full(1000, 10.0)), told)
    assert episodes(one, GPU) == [(2.0, 4.0), (8.0, 10.0)]
    assert slowed(one.telemetry, CPU, 0, 1)[1].size == 0
    shares = reasons_seen(one.telemetry, 0, 10_000_000_000)
    assert set(shares) == {"idle", "hardware slowdown"} and sum(shares.values()) == pytest.approx(1.0)


def test_the_course_counts_answered_items_only() -> None:
    ok = np.arange(1000) >= 500
    seconds, rates = course(samples(np.full(1000, 10.0), ok=ok, batch=2))
    assert len(seconds) == 200 and rates[:100].max() == 0.0 and rates[100:].min() == pytest.approx(200.0)
    empty = course(samples([]))
    assert not len(empty[0]) and not len(empty[1])


def test_too_few_batches_have_no_ends() -> None:
    assert both_ends(samples([])) is None and both_ends(samples([1.0] * 3)) is None
    assert both_ends(samples([1000.0, 1.0, 1.0, 1.0, 1000.0])) is None
    ends = both_ends(samples(np.full(100, 10.0)))
    assert ends is not None and ends.start == ends.end == pytest.approx(100.0)


def test_nothing_measured_is_not_run(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="enough batches"):
        run(tmp_path, lambda model, schedule: [samples([1.0])])


def test_a_process_that_answers_nothing_at_the_end_is_not_sustained() -> None:
    ends = both_ends(samples(np.full(1000, 10.0), ok=np.arange(1000) < 500))
    assert ends is not None and ends.end == 0.0
    value = sustained_ratio([ends, replace(ends)]).value
    assert value is not None and value < 1e-6


def test_needs_and_refusals() -> None:
    check = Sustained.model_validate(
        {"check": "sustained", "dataset": "test", "duration": "60 s", "require": ["sustained_ratio >= 1x baseline"]}
    )
    assert check.needs()[0].seconds > 300  # type: ignore[union-attr]  # it is a timing
    assert "not compared" in (check.check_requirement(check.requirements[0], {}) or "")


@pytest.mark.parametrize("fields", [{"duration": "10 s"}, {"processes": 0}, {"batch": 0}, {"scenario": "offline"}])
def test_fields_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Sustained.model_validate({"check": "sustained", "dataset": "test", **fields})


def test_a_draft_is_short(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, samples=device(), draft=True)
    Sustained(dataset="test").run(inputs)
    assert all(schedule.processes <= 2 and schedule.min_s < 1 for schedule in inputs.schedules)


RUNS = 2000


def errors(rng: np.random.Generator, level: float, within: float, hot: float) -> tuple[int, int]:
    """Wrong PASS and FAIL: every end is exactly 0.9 of the cold start, and processes after the first begin warm."""
    passed = failed = 0
    for _ in range(RUNS):
        process = level * rng.standard_normal(5)
        starts = process + within * rng.standard_normal(5) + np.array([0.0, hot, hot, hot, hot])
        found = FromTheColdStart(starts, process + np.log(0.9) + within * rng.standard_normal(5))
        p_pass, p_fail = found.p_value(0.9, "lower"), found.p_value(0.9, "upper")
        assert p_pass is not None and p_fail is not None
        passed += p_pass <= 0.05
        failed += p_fail <= 0.05
    return passed, failed


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.0, 0.02])
@pytest.mark.parametrize("hot", [0.0, -0.05, -0.105])
def test_at_the_threshold_neither_side_is_shown_more_often_than_it_may(level: float, hot: float) -> None:
    passed, failed = errors(np.random.default_rng([11, round(-1e3 * hot), round(1e3 * level)]), level, 0.005, hot)
    assert passed <= most_wrong(RUNS) and failed <= most_wrong(RUNS)
    assert passed + failed > 0 or level > 0, "a rule that says nothing would be as good"


def test_bounds_are_where_the_p_values_are() -> None:
    found = FromTheColdStart(np.log([1.0, 0.98, 0.99, 1.01, 0.97]), np.log([0.9, 0.91, 0.89, 0.92, 0.9]))
    lower, upper = found.bound(0.95, "lower"), found.bound(0.95, "upper")
    assert lower is not None and upper is not None and found.value is not None and lower < found.value < upper
    assert found.p_value(lower, "lower") == pytest.approx(0.05)
    assert found.p_value(upper, "upper") == pytest.approx(0.05)
    assert found.value == pytest.approx(np.exp(np.log([0.9, 0.91, 0.89, 0.92, 0.9]).mean()) / 1.01)


def test_the_ratio_is_decided_in_the_usual_way(tmp_path: Path) -> None:
    result = run(tmp_path, device())
    check = Sustained.model_validate({"check": "sustained", "dataset": "test", "require": [RATIO]})
    holds, fails = p_values(result, the(check, RATIO))
    assert holds is not None and fails is not None and holds < 2e-3 < 0.9 < fails

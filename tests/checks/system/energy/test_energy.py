"""`energy`: what synthetic meters show, what they can't, and the arithmetic of the field's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from evalspec.checks.system.energy.measure import effective_power
from evalspec.checks.system.energy.spec import Energy
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Curve, Table
from evalspec.evidence.estimate import Estimate, Measured
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import CheckResult
from evalspec.running.requirements import SignificanceLevels, write_tests
from evalspec.timing.metered import metered
from evalspec.verdict import decide
from tests.checks.deciding import outcome, the
from tests.checks.system.erring import most_wrong
from tests.fakes import FakeInputs, samples
from tests.meters import Machine, telemetry, with_meter
from tests.verdict.test_decide import a_check, a_record


def run(folder: Path, machine: Machine, *, device: str = "cpu", **fields: object) -> CheckResult:
    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package", **fields})
    return check.run(FakeInputs(folder, samples=machine, facts={"candidate": {"device": device}}))


def _two(folder: Path, fields: dict[str, object]) -> tuple[CheckResult, CheckResult]:
    """Of a machine as it should be, and of one that takes twice the power."""
    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package", **fields})
    machines = (Machine(), Machine(active_w=200.0))
    fine, thirsty = (check.run(FakeInputs(folder, samples=machine)) for machine in machines)
    return fine, thirsty


def value(result: CheckResult, name: str) -> float:
    found = result.estimates[name]
    assert isinstance(found, Measured) and isinstance(found.estimate, Estimate)
    assert found.estimate.value is not None
    return found.estimate.value


def test_a_hundred_watts_at_a_hundred_items_a_second_is_a_joule_each(tmp_path: Path) -> None:
    result = run(tmp_path, Machine(spread=0.0))
    assert value(result, "energy_per_inference") == pytest.approx(1.0, rel=1e-3)
    assert value(result, "throughput_per_watt") == pytest.approx(1.0, rel=1e-3)
    assert value(result, "active_power") == pytest.approx(100.0, rel=1e-3)
    assert value(result, "idle_power") == pytest.approx(20.0, rel=1e-3)
    assert "effective_power" in result.missing
    assert result.conditions["boundary"] == "package" and result.conditions["estimate"] is False
    assert result.conditions["throughput"] == pytest.approx(100.0)


def test_a_batch_is_shared_by_its_items(tmp_path: Path) -> None:
    result = run(tmp_path, Machine(spread=0.0), batch=8)
    assert value(result, "energy_per_inference") == pytest.approx(1.0 / 8, rel=1e-3)
    assert result.conditions["batch"] == 8


def test_energy_and_throughput_are_of_one_window() -> None:
    """Batches grow ten times slower after a while; a rate of the start by a power of the end would hide it."""
    spent = np.concatenate((np.full(500, 10.0), np.full(50, 100.0)))
    one = with_meter(samples(spent), telemetry(100.0, 12.0))
    found = metered(one, "package")
    assert found.items == 495 and found.energy.seconds == pytest.approx(9.45)
    assert found.joules == pytest.approx(945.0 / 495, rel=1e-3)
    assert found.per_second * found.joules == pytest.approx(100.0, rel=1e-3)


def test_items_that_failed_cost_energy_and_are_no_answers() -> None:
    ok = np.arange(1000) % 2 == 0
    found = metered(with_meter(samples(np.full(1000, 10.0), ok=ok), telemetry(100.0, 12.0)), "package")
    assert found.joules == pytest.approx(2.0, rel=1e-3)


def test_requirements_hold_and_are_violated(tmp_path: Path) -> None:
    sentences = ["energy_per_inference <= 1.2 J", "effective_power <= 25 W", "throughput_per_watt >= 0.8 samples/J"]
    fields: dict[str, object] = {"duty_cycle": "5 %", "require": sentences}
    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package", **fields})
    fine, thirsty = _two(tmp_path, fields)
    assert [outcome(fine, the(check, one)) for one in sentences] == ["PASS", "PASS", "PASS"]
    assert [outcome(thirsty, the(check, one)) for one in sentences] == ["FAIL", "FAIL", "FAIL"]
    assert any("effective_power is an estimate" in note for note in fine.notes)


def test_the_duty_cycle_of_a_sleeping_device() -> None:
    """50 mW idle, 2 W active, 1 % of the time: 69.5 mW."""
    assert effective_power([0.05], [2.0], 0.01)[0] == pytest.approx(0.0695)
    assert effective_power([0.05], [2.0], 0.0)[0] == 0.05 and effective_power([0.05], [2.0], 1.0)[0] == 2.0


def test_300_watts_for_10_ms_are_3_joules(tmp_path: Path) -> None:
    result = run(tmp_path, Machine(active_w=300.0, spread=0.0))
    assert value(result, "energy_per_inference") == pytest.approx(3.0, rel=1e-3)
    assert value(result, "energy_per_inference") / 3600 == pytest.approx(8.3333e-4, rel=1e-3)


def test_faster_and_thirstier_is_worse_by_the_watt(tmp_path: Path) -> None:
    """1,000 QPS at 1.8 W is 556 a joule and 1.8 mJ each; 1,200 at 4.2 W is 286, 3.5 mJ, 1.94 times as much."""
    first = run(tmp_path, Machine(active_w=1.8, batch_ms=1.0, spread=0.0))
    second = run(tmp_path, Machine(active_w=4.2, batch_ms=1.0 / 1.2, spread=0.0))
    rates = [value(one, "throughput_per_watt") for one in (first, second)]
    assert rates == pytest.approx([555.56, 285.71], rel=1e-3)
    assert rates[1] / rates[0] - 1 == pytest.approx(-0.4857, abs=1e-3)
    joules = [value(one, "energy_per_inference") for one in (first, second)]
    assert joules == pytest.approx([1.8e-3, 3.5e-3], rel=1e-3) and joules[1] / joules[0] == pytest.approx(
        1.944, rel=1e-3
    )


@pytest.mark.parametrize(("faster", "more", "by_the_watt"), [(1.5, 1.3, 1.1538), (1.05, 1.5, 0.70)])
def test_more_power_is_a_regression_only_where_it_buys_less(
    faster: float, more: float, by_the_watt: float, tmp_path: Path
) -> None:
    """+50 % for +30 % is 15 % better by the watt; +5 % for +50 % is 30 % worse."""
    before = value(run(tmp_path, Machine(spread=0.0)), "throughput_per_watt")
    after = value(run(tmp_path, Machine(active_w=100 * more, batch_ms=10 / faster, spread=0.0)), "throughput_per_watt")
    assert after / before == pytest.approx(by_the_watt, rel=2e-3)


def test_no_meter_is_not_run_with_the_reason(tmp_path: Path) -> None:
    for machine in (Machine(counter=None), Machine(metered=0)):
        with pytest.raises(NotRunError, match="boundary package"):
            run(tmp_path, machine)


def test_without_a_meter_little_time_is_spent(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, samples=Machine(counter=None))
    with pytest.raises(NotRunError):
        Energy(dataset="test", boundary="package").run(inputs)
    assert [schedule.processes for schedule in inputs.schedules] == [1]


def test_the_gpu_says_nothing_of_a_model_on_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="runs on the cpu"):
        run(tmp_path, Machine(counter="gpu_energy_j"), boundary="gpu")
    assert run(tmp_path, Machine(counter="gpu_energy_j"), boundary="gpu", device="cuda:0").estimates


def test_a_gpu_outside_the_boundary_is_told_of(tmp_path: Path) -> None:
    notes = run(tmp_path, Machine(), boundary="package", device="cuda:0").notes
    assert "candidate runs on cuda:0, which lies outside the boundary package." in notes


def test_a_counter_too_slow_for_the_window_is_not_run(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="updates of its counter"):
        run(tmp_path, Machine(step_s=2.0))


def test_power_alone_makes_an_estimate_and_says_so(tmp_path: Path) -> None:
    result = run(tmp_path, Machine(counter=None, readings="gpu_power_w", spread=0.0), boundary="gpu", device="cuda:0")
    assert result.conditions["estimate"] is True and value(result, "energy_per_inference") == pytest.approx(1.0)
    assert any(note.startswith("An estimate") for note in result.notes)


def test_counter_and_power_are_held_against_each_other(tmp_path: Path) -> None:
    class Lying(Machine):
        def _told(self, watts: float, seconds: float):  # type: ignore[no-untyped-def]
            counted = telemetry(watts, seconds, counter="gpu_energy_j")
            read = telemetry(self.spread_of_power * watts, seconds, counter=None, readings="gpu_power_w")
            return replace(counted, series={**counted.series, **read.series})

        spread_of_power = 1.0

    honest, lying = Lying(spread=0.0), Lying(spread=0.0)
    lying.spread_of_power = 0.8
    told = [" ".join(run(tmp_path, one, boundary="gpu", device="cuda:0").notes) for one in (honest, lying)]
    assert "agree within 0.0 %" in told[0] and "do not agree: they differ by 25.0 %" in told[1]


def test_processes_that_could_not_be_metered_void_the_rest(tmp_path: Path) -> None:
    found = run(tmp_path, Machine(metered=8)).estimates["energy_per_inference"]
    assert isinstance(found, Measured) and found.invalid == "2 of 5 processes could not be metered"


def test_a_model_that_never_answers_has_no_energy(tmp_path: Path) -> None:
    machine = Machine()

    def failing(model: str, schedule: Schedule) -> list[Samples]:
        return [replace(one, ok=np.zeros(len(one.ok), dtype=np.bool_)) for one in machine(model, schedule)]

    check = Energy(dataset="test", boundary="package")
    with pytest.raises(NotRunError, match="no item was answered"):
        check.run(FakeInputs(tmp_path, samples=failing))


def test_against_a_baseline_pairs_are_taken_by_turns(tmp_path: Path) -> None:
    sentences = ["energy_per_inference <= 0.8x baseline", "throughput_per_watt >= 1.2x baseline"]
    ours, theirs = Machine(active_w=60.0), Machine(active_w=100.0, seed=1)
    asked: list[str] = []

    def both(model: str, schedule: Schedule) -> list[Samples]:
        asked.append(model)
        return (ours if model == "candidate" else theirs)(model, schedule)

    fields = {"check": "energy", "dataset": "test", "boundary": "package", "require": sentences}
    check = Energy.model_validate(fields)
    result = check.run(FakeInputs(tmp_path, samples=both))
    assert [outcome(result, the(check, one)) for one in sentences] == ["PASS", "PASS"]
    # Idle twice, back to back once, then pairs.
    assert asked[3:7] == ["candidate", "baseline", "baseline", "candidate"]
    ours.active_w = 100.0
    result = check.run(FakeInputs(tmp_path, samples=both))
    assert [outcome(result, the(check, one)) for one in sentences] == ["FAIL", "FAIL"]


class Rounds:
    """A machine of each side; what comes back in some of the pairs is changed."""

    def __init__(self, change: Callable[[str, int, Samples], Samples | None]) -> None:
        self._machines = {"candidate": Machine(active_w=60.0), "baseline": Machine(active_w=100.0, seed=1)}
        self._change = change
        self._made = {"candidate": -2, "baseline": 0}

    def __call__(self, model: str, schedule: Schedule) -> list[Samples]:
        made = self._machines[model](model, schedule)
        if schedule.processes > 1 or schedule.kind == "open_loop":
            return made
        self._made[model] += 1
        changed = self._change(model, self._made[model] + 2 * (model == "candidate"), made[0])
        return [] if changed is None else [changed]


def lose_meter(model: str, turn: int, one: Samples) -> Samples:
    return replace(one, telemetry=None) if (model, turn) == ("baseline", 2) else one


def lose_process(model: str, turn: int, one: Samples) -> Samples | None:
    return None if (model, turn) == ("candidate", 3) else one


def answer_nothing(model: str, turn: int, one: Samples) -> Samples:
    return replace(one, ok=np.zeros(len(one.ok), dtype=np.bool_)) if (model, turn) == ("candidate", 2) else one


def busy(model: str, turn: int, one: Samples) -> Samples:
    assert one.telemetry is not None
    series = {**one.telemetry.series, "cpu_others_share": np.full(len(one.telemetry.times_ns), 0.9)}
    return replace(one, telemetry=replace(one.telemetry, series=series))


@pytest.mark.parametrize(
    ("change", "expected"),
    [(lose_meter, "INVALID"), (lose_process, "INVALID"), (answer_nothing, "INCONCLUSIVE"), (busy, "INVALID")],
)
def test_pairs_that_are_lost_are_not_left_out_in_silence(
    tmp_path: Path, change: Callable[[str, int, Samples], Samples | None], expected: str
) -> None:
    sentence = "energy_per_inference <= 0.9x baseline"
    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package", "require": [sentence]})
    result = check.run(FakeInputs(tmp_path, samples=Rounds(change)))
    assert outcome(result, the(check, sentence)) == expected
    whole = check.run(FakeInputs(tmp_path, samples=Rounds(lambda model, turn, one: one)))
    assert outcome(whole, the(check, sentence)) == "PASS"


def test_no_pair_is_missing_with_the_reason(tmp_path: Path) -> None:
    sentence = "energy_per_inference <= 0.9x baseline"
    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package", "require": [sentence]})
    result = check.run(FakeInputs(tmp_path, samples=Rounds(lambda model, turn, one: replace(one, telemetry=None))))
    assert "no pair of processes" in result.missing["energy_per_inference vs baseline"]


def test_idle_power_is_held_to_its_planned_count(tmp_path: Path) -> None:
    machine = Machine()

    def make(model: str, schedule: Schedule) -> list[Samples]:
        made = machine(model, schedule)
        if schedule.kind == "open_loop" and schedule.processes > 1:
            made[1] = replace(made[1], telemetry=None)
        return made

    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package", "duty_cycle": "5 %"})
    result = check.run(FakeInputs(tmp_path, samples=make))
    found = {name: one for name, one in result.estimates.items() if isinstance(one, Measured)}
    assert found["idle_power"].invalid == "4 of 5 planned processes were metered while they waited"
    assert found["effective_power"].invalid == found["idle_power"].invalid
    assert found["active_power"].invalid is None and found["energy_per_inference"].invalid is None


def test_load_levels(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, samples=Machine(spread=0.0))
    check = Energy.model_validate(
        {"check": "energy", "dataset": "test", "boundary": "package", "levels": ["50 %", "10 %"], "duration": "10 s"}
    )
    result = check.run(inputs)
    steady = [one for one in inputs.schedules if one.kind == "open_loop" and one.queries > 2]
    assert [one.queries for one in steady] == [500, 100]
    assert all(one.arrivals_ns is not None and np.ptp(np.diff(one.arrivals_ns)) <= 1 for one in steady)
    table = next(block for block in result.blocks if block.title == "Load levels")
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["idle", "50 %", "10 %", "back to back"]
    power = [row[3] for row in table.rows]
    assert power == pytest.approx([20.0, 60.0, 28.0, 100.0], rel=0.01)
    curve = next(block for block in result.blocks if block.title == "Power against load")
    assert isinstance(curve, Curve) and curve.series[0].x == tuple(sorted(curve.series[0].x))


def test_blocks(tmp_path: Path) -> None:
    result = run(tmp_path, Machine())
    table, curve = result.blocks
    assert isinstance(table, Table) and isinstance(curve, Curve)
    assert len(curve.series) == 5 and np.median(curve.series[0].y) == pytest.approx(100.0, rel=0.05)


def test_needs_and_refusals() -> None:
    check = Energy.model_validate(
        {
            "check": "energy", "dataset": "test", "boundary": "gpu",
            "require": ["effective_power <= 5 W", "idle_power <= 1x baseline", "energy_per_inference <= 1 mJ"],
        }
    )  # fmt: skip
    alone, pairs = check.needs()
    assert alone.dataset == pairs.dataset == "test"
    reasons = [check.check_requirement(one, {}) for one in check.requirements]
    assert "needs `duty_cycle:`" in (reasons[0] or "") and "no paired comparison" in (reasons[1] or "")
    assert reasons[2] is None and check.requirements[2].threshold == pytest.approx(1e-3)


@pytest.mark.parametrize(
    "fields",
    [{"boundary": None}, {"boundary": "wall"}, {"processes": 2}, {"duty_cycle": "120 %"}, {"duty_cycle": 0.5},
     {"levels": ["100 %"]}, {"levels": ["0 %"]}, {"idle": "1 s"}],
)  # fmt: skip
def test_fields_are_refused(fields: dict[str, object]) -> None:
    given = {"check": "energy", "dataset": "test", "boundary": "gpu", **fields}
    with pytest.raises(ValidationError):
        Energy.model_validate({name: one for name, one in given.items() if one is not None})


def test_a_draft_is_short(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, samples=Machine(seconds=2.0), draft=True)
    Energy(dataset="test", boundary="package").run(inputs)
    assert all(schedule.processes <= 2 and schedule.min_s < 2.0 for schedule in inputs.schedules)


@pytest.mark.proof
@pytest.mark.slow
def test_at_the_threshold_neither_side_is_shown_more_often_than_it_may(tmp_path: Path) -> None:
    """Steps of the counter, noise of power and time between processes: both errors stay at 5 %."""
    sentence = "energy_per_inference <= 1 J"
    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package", "require": [sentence]})
    outcomes = []
    for seed in range(300):
        machine = Machine(spread=0.03, step_s=0.1, seconds=4.0, seed=seed)
        outcomes.append(outcome(check.run(FakeInputs(tmp_path, samples=machine)), the(check, sentence)))
    assert outcomes.count("PASS") <= most_wrong(300) and outcomes.count("FAIL") <= most_wrong(300)
    assert outcomes.count("PASS") >= 4 and outcomes.count("FAIL") >= 4, "15 of each are expected"


@pytest.mark.parametrize(
    ("sentence", "told"),
    [("energy_per_inference <= 100 J", "PASS"), ("energy_per_inference <= 0.0001 J", "INVALID"),
     ("active_power <= 1 kW", "INVALID")],
)  # fmt: skip
def test_energy_that_held_beside_other_work_stands_and_power_does_not(tmp_path: Path, sentence: str, told: str) -> None:
    """Item 6: the energy of other work is in the boundary; a model that is kept waiting may take less power itself."""
    machine = Machine(active_w=60.0)

    def disturbed(model: str, schedule: Schedule) -> list[Samples]:
        return [busy(model, 0, one) for one in machine(model, schedule)]

    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package", "require": [sentence]})
    (test,) = write_tests(check, check.run(FakeInputs(tmp_path, samples=disturbed)), SignificanceLevels(0.95, 0.01))
    assert next(iter(decide(a_record(a_check(test))).decisions)).status == told

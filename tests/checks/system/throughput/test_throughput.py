"""`throughput`: planted slowness turns the test red; the best of several batch sizes is decided with care."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from evalspec.checks.system.throughput.costs import best_sizes, costs
from evalspec.checks.system.throughput.measure import BestOf
from evalspec.checks.system.throughput.paired import BestBeside
from evalspec.checks.system.throughput.spec import Throughput
from evalspec.evidence.blocks import Curve, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import CheckResult, Known, NeedTiming, SpecNames
from evalspec.language.requirement import Requirement
from evalspec.loading.crosscheck import unknown_part
from evalspec.running.requirements import SignificanceLevels, write_tests
from evalspec.stats.timing.processes import over_processes, paired_log_ratio
from evalspec.timing.samples import rate
from evalspec.verdict import decide
from tests.checks.deciding import outcome
from tests.checks.system.erring import most_wrong
from tests.fakes import FakeInputs, comparison_p_values, p_values, samples
from tests.meters import telemetry, times_of, with_meter
from tests.stats import simulated
from tests.verdict.test_decide import a_check, a_record

NEEDED = Requirement("throughput >= 3000 samples/s", "throughput", None, ">=", 3000.0, "samples/s")
AT_ONE = Requirement("throughput(batch 1) >= 700 samples/s", "throughput", "batch 1", ">=", 700.0, "samples/s")
FASTER = Requirement(
    "throughput >= 1.1x baseline", "throughput", None, ">=", 0.0, "samples/s", model="baseline", factor=1.1
)


def timings(candidate: float, baseline: float = 1.0, drift: float = 0.0) -> Callable[[str, Schedule], list[Samples]]:
    """A batch of b takes (1 + 0.2 b) ms times the model's factor: 833 at 1, 3,077 at 8, 4,324 at 32."""
    rng = np.random.default_rng(0)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        factor = candidate if model == "candidate" else baseline
        count = max(40, schedule.queries)
        made = []
        for process in range(schedule.processes):
            level = factor * (1 + 0.2 * schedule.batch) * np.exp(0.02 * rng.standard_normal())
            spent = level * rng.lognormal(0, 0.05, count) * np.linspace(1.0, 1.0 + drift, count)
            block = np.repeat([0, 3], count // 2)
            made.append(samples(spent, process=process, model=model, batch=schedule.batch, block=block))
        return made

    return make


def run(
    folder: Path, candidate: float = 1.0, baseline: float = 1.0, drift: float = 0.0, **fields: object
) -> CheckResult:
    inputs = FakeInputs(folder, samples=timings(candidate, baseline, drift))
    return Throughput.model_validate({"check": "throughput", "dataset": "test", **fields}).run(inputs)


def below(p: float | None, level: float) -> bool:
    return p is not None and p < level


def throughput(result: CheckResult) -> Parts:
    found = result.estimates["throughput"]
    assert isinstance(found, Measured) and isinstance(found.estimate, Parts)
    return found.estimate


def test_enough_passes_and_too_little_fails(tmp_path: Path) -> None:
    fine, slow = run(tmp_path), run(tmp_path, candidate=2.0)
    assert below(p_values(fine, NEEDED)[0], 0.01)
    assert below(p_values(slow, NEEDED)[1], 0.002)
    assert below(p_values(fine, AT_ONE, part="batch 1")[0], 0.01)
    assert below(p_values(slow, AT_ONE, part="batch 1")[1], 0.002)


def test_parts_and_the_best(tmp_path: Path) -> None:
    result = run(tmp_path, batch_sizes=(8, 1, 8, 32))
    found = throughput(result)
    assert list(found.parts) == ["batch 1", "batch 8", "batch 32"]
    values = [part.value for part in found.parts.values() if not isinstance(part, Measured)]
    assert values == pytest.approx([833, 3077, 4324], rel=0.03)
    assert isinstance(found.whole, BestOf) and found.whole.value == values[-1]
    best = result.estimates["best_batch"]
    assert isinstance(best, Fact) and best.value == 32 and best.in_this_run


def test_rate_counts_answered_items_by_the_time_of_all() -> None:
    one = samples([10.0] * 10, batch=4, ok=[True] * 8 + [False] * 2)
    assert rate(one) == pytest.approx(8 * 4 / 0.1)
    # Pauses between blocks, in which the other side ran, do not count.
    gap = np.where(np.arange(10) < 5, 0, 1_000_000_000)
    paused = Samples(
        **{name: getattr(one, name) for name in one.__dataclass_fields__}
        | {"sent_ns": one.sent_ns + gap, "end_ns": one.end_ns + gap, "block": np.repeat([0, 3], 5)}
    )
    assert rate(paused) == pytest.approx(8 * 4 / 0.1)
    assert rate(one, np.zeros(10, dtype=bool)) == 0.0


def test_a_baseline_is_paired(tmp_path: Path) -> None:
    faster, slower = run(tmp_path, 1.0, 1.5, require=(FASTER,)), run(tmp_path, 1.5, 1.0, require=(FASTER,))
    assert below(comparison_p_values(faster, FASTER)[0], 0.01)
    assert below(comparison_p_values(slower, FASTER)[1], 0.01)


def test_the_batch_size_that_decides_was_named_before_the_pairs(tmp_path: Path) -> None:
    """Batch 32 is best by itself; that batch 8 happens to be faster in the pairs changes nothing."""
    usual, lucky = timings(1.0), timings(0.1)

    def pairs(schedule: Schedule, baseline: str) -> tuple[list[Samples], list[Samples]]:
        return (lucky if schedule.batch == 8 else usual)("candidate", schedule), usual("baseline", schedule)

    result = Throughput(dataset="test", require=(FASTER,)).run(FakeInputs(tmp_path, samples=usual, pairs=pairs))
    assert outcome(result, FASTER) == "INCONCLUSIVE"
    p_pass, p_fail = comparison_p_values(result, FASTER)
    assert p_pass is not None and p_pass > 0.5 and p_fail is not None and p_fail > 0.5


def test_best_against_best_is_what_is_printed_beside_it() -> None:
    rng = np.random.default_rng(2)
    pairs = {
        size: paired_log_ratio(level * np.exp(0.01 * rng.standard_normal(5)), np.exp(0.01 * rng.standard_normal(5)))
        for size, level in ((1, 1.0), (8, 1.3), (32, 1.2))
    }
    best = BestBeside(pairs, 8)
    ratio = best.ratio()
    assert ratio is not None and ratio.value is not None and best.baseline_value is not None
    assert ratio.value == pytest.approx((best.candidate_value or 0.0) / best.baseline_value)
    assert ratio.value == pytest.approx(1.3, rel=0.02) and ratio.n == 5
    assert "batch 8, the best by itself" in ratio.method
    for side in simulated.SIDES:
        bound = ratio.bound(0.95, side)
        assert bound is not None and ratio.p_value(bound, side) == pytest.approx(0.05)
    lower, upper = ratio.bound(0.95, "lower"), ratio.bound(0.95, "upper")
    assert lower is not None and upper is not None and lower < ratio.value < upper
    difference = best.difference(1.0, 0.0)
    assert difference.value == pytest.approx(0.3, abs=0.03) and below(difference.p_value(0.2, "lower"), 0.01)
    assert ratio.n_to_decide(1.0, 0.05) is not None


def test_one_batch_size_is_a_plain_pair() -> None:
    pair = paired_log_ratio([1.0, 1.1, 1.2, 1.05, 0.9], [1.0, 1.0, 1.1, 0.9, 1.0])
    one, plain = BestBeside({8: pair}, 8).ratio(), pair.ratio()
    assert one is not None and plain is not None and one.method == plain.method
    for side in simulated.SIDES:
        assert one.p_value(1.02, side) == plain.p_value(1.02, side)


def test_a_batch_size_at_which_nothing_is_answered_is_beaten() -> None:
    fine = paired_log_ratio([1.0, 1.1, 1.0, 1.05, 1.0], [0.5, 0.52, 0.51, 0.5, 0.5])
    none = paired_log_ratio(np.zeros(5), np.zeros(5))
    best = BestBeside({1: fine, 8: none}, 1)
    assert best.ratio() is None and best.baseline_value == fine.baseline_value
    # It is then a difference that decides: of the best sizes.
    assert below(best.difference(1.1, 0.0).p_value(0.0, "lower"), 0.01)


RUNS = 1000
PEAKED = -0.3
"""Logarithm of a rate beside that of the best size."""


def log_rates(shape: str, sizes: int, sd: float) -> np.ndarray:
    """The best is 0 everywhere; the others are as good, far below, or below by less than can be told."""
    found = np.full(sizes, {"flat": 0.0, "peaked": PEAKED, "nearly": -0.6 * sd}[shape])
    found[1] = 0.0
    return found


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("sizes", [3, 6])
@pytest.mark.parametrize("sd", [0.03, 0.10])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("flat", "peaked"), ("peaked", "flat"), ("flat", "nearly"), ("nearly", "peaked"), ("peaked", "nearly")],
)
def test_best_against_best_errs_no_more_often_than_allowed(sizes: int, sd: float, ours: str, theirs: str) -> None:
    """Both are exactly as fast at their best: neither "faster" nor "slower" may be shown in more than 5 % of runs.

    The larger of each pair's noisy rates would show "faster" in 37 % (3 sizes) to 64 % (6 sizes) of runs where the
    candidate is flat and the baseline peaked; sizes chosen by the other pairs, in up to 20 %.
    """
    rng = np.random.default_rng([3, sizes, round(1000 * sd)])
    means = [log_rates(shape, sizes, sd) for shape in (ours, ours, theirs)]

    def shown() -> Iterator[tuple[bool, bool]]:
        while True:
            alone, mine, other = (np.exp(mean[:, None] + sd * rng.standard_normal((sizes, 5))) for mean in means)
            named = int(alone.mean(axis=1).argmax())
            pairs = {size: paired_log_ratio(mine[size], other[size]) for size in range(sizes)}
            ratio = BestBeside(pairs, named).ratio()
            assert ratio is not None
            yield below(ratio.p_value(1.0, "lower"), 0.05), below(ratio.p_value(1.0, "upper"), 0.05)

    most = np.full(2, most_wrong(RUNS) / RUNS)
    found = simulated.until_settled(shown(), lambda one: one, most, RUNS)
    assert (np.mean(found, axis=0) <= most).all()


@pytest.mark.slow
def test_best_against_best_finds_a_tenth() -> None:
    """A candidate that is 10 % faster at its best is found so, as is one that is slower, with 2 % between processes."""
    rng = np.random.default_rng(4)
    found = {1.1: 0, 1 / 1.1: 0}
    for factor in found:
        for _ in range(200):
            mine, other = (
                np.exp(log_rates("peaked", 3, 0.02)[:, None] + 0.02 * rng.standard_normal((3, 5))) for _ in range(2)
            )
            pairs = {size: paired_log_ratio(factor * mine[size], other[size]) for size in range(3)}
            ratio = BestBeside(pairs, 1).ratio()
            assert ratio is not None
            found[factor] += below(ratio.p_value(1.0, "lower" if factor > 1 else "upper"), 0.05)
    assert min(found.values()) >= 180


def test_pairs_are_watched_too(tmp_path: Path) -> None:
    """A neighbour that came when the pairs were measured voids them, and not what was measured before."""
    make = timings(1.0, 1.5)

    def pairs(schedule: Schedule, baseline: str) -> tuple[list[Samples], list[Samples]]:
        assert schedule.telemetry_s is not None
        told = telemetry(0.0, 3.0, counter=None, more={"cpu_others_share": np.full(len(times_of(3.0)), 0.9)})
        return make("candidate", schedule), [with_meter(one, told) for one in make("baseline", schedule)]

    result = Throughput(dataset="test", require=(FASTER,)).run(FakeInputs(tmp_path, samples=make, pairs=pairs))
    assert outcome(result, FASTER) == "INVALID" and outcome(result, NEEDED) == "PASS"
    assert any(note.startswith("Beside baseline: Other processes used 90 %") for note in result.notes)


@pytest.mark.parametrize(("sentence", "told"), [("throughput >= 3000 samples/s", "PASS"),
                                                ("throughput >= 9000 samples/s", "INVALID")])  # fmt: skip
def test_a_throughput_that_was_reached_beside_other_work_stands(tmp_path: Path, sentence: str, told: str) -> None:
    """Item 6: other work takes from it, and adds nothing."""
    make, busy = timings(1.0), np.full(len(times_of(3.0)), 0.9)
    meter = telemetry(0.0, 3.0, counter=None, more={"cpu_others_share": busy})
    check = Throughput.model_validate({"dataset": "test", "require": [sentence]})
    inputs = FakeInputs(tmp_path, samples=lambda model, asked: [with_meter(one, meter) for one in make(model, asked)])
    (test,) = write_tests(check, check.run(inputs), SignificanceLevels(0.95, 0.01))
    assert next(iter(decide(a_record(a_check(test))).decisions)).status == told


def test_the_best_is_shown_at_a_level_divided_by_the_sizes() -> None:
    parts: dict[str, Estimate] = {
        "batch 1": over_processes([100.0, 101.0, 99.0, 100.5, 99.5]),
        "batch 8": over_processes([120.0, 121.0, 119.0, 120.5, 119.5]),
    }
    best = BestOf(parts)
    single = parts["batch 8"]
    assert best.value == 120.0 and best.n == 5
    p, q = best.p_value(119.0, "lower"), single.p_value(119.0, "lower")
    assert p is not None and q is not None and p == pytest.approx(2 * q)
    lower = best.bound(0.95, "lower")
    assert lower == single.bound(0.975, "lower") and lower is not None
    assert best.p_value(lower, "lower") == pytest.approx(0.05)
    upper = best.bound(0.95, "upper")
    assert upper == single.bound(0.95, "upper") and upper is not None
    assert best.p_value(upper, "upper") == pytest.approx(0.05)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("processes", [5, 10])
@pytest.mark.parametrize("equal", [True, False])
def test_the_best_errs_no_more_often_than_allowed(processes: int, equal: bool) -> None:
    """Ten sizes exactly at the threshold: the best one looks better than it is. Or one there, the others below."""
    rng = np.random.default_rng([1, processes])
    means = np.full(10, 100.0) if equal else np.append(np.full(9, 80.0), 100.0)

    def samples() -> Iterator[simulated.Pair]:
        for drawn in rng.normal(means, 5.0, (simulated.REPEATS, processes, 10)):
            best = BestOf({f"batch {size}": over_processes(rates) for size, rates in enumerate(drawn.T)})
            yield simulated.p_values(best, 100.0)

    # Lower and upper bound at 95 %, then at 99.8 %.
    most = np.array([most_wrong(simulated.REPEATS, level) for level in (0.05, 0.05, 0.002, 0.002)]) / simulated.REPEATS
    found = simulated.enough(samples(), most)
    assert simulated.bounded(found) == 1.0
    assert (simulated.wrong_claims(found) <= most + 0.5 / simulated.REPEATS).all()


def test_a_run_that_grows_slower_is_kept_from_passing(tmp_path: Path) -> None:
    found = run(tmp_path, drift=0.5).estimates["throughput"]
    assert isinstance(found, Measured) and found.withhold is not None and "no steady state" in found.withhold
    found = run(tmp_path).estimates["throughput"]
    assert isinstance(found, Measured) and found.withhold is None and found.invalid is None


def test_a_run_that_ends_early_is_void(tmp_path: Path) -> None:
    def short(model: str, schedule: Schedule) -> list[Samples]:
        return [samples(np.full(5, 1.0 + i / 10), process=i, batch=schedule.batch) for i in range(schedule.processes)]

    found = Throughput(dataset="test").run(FakeInputs(tmp_path, samples=short)).estimates["throughput"]
    assert isinstance(found, Measured) and found.invalid == "a process made 5 of 20 planned queries"


def test_a_model_that_never_answers_is_not_fast(tmp_path: Path) -> None:
    def failing(model: str, schedule: Schedule) -> list[Samples]:
        none = np.zeros(40, dtype=bool)
        return [samples(np.ones(40), process=i, batch=schedule.batch, ok=none) for i in range(schedule.processes)]

    result = Throughput(dataset="test").run(FakeInputs(tmp_path, samples=failing))
    slow = throughput(result).parts["batch 8"]
    assert isinstance(slow, Estimate) and slow.value == 0.0
    assert not below(p_values(result, NEEDED)[0], 1.0)
    assert result.counts.errored == result.counts.attempted


def test_blocks(tmp_path: Path) -> None:
    result = run(tmp_path, require=(NEEDED,))
    curve, table, best = result.blocks
    assert isinstance(best, Table) and [row[:2] for row in best.rows] == [("throughput", 32), ("latency of a batch", 1)]
    assert isinstance(curve, Curve) and curve.series[0].x == (1.0, 8.0, 32.0) and curve.log_x
    assert curve.references[0].value == 3000.0
    assert isinstance(table, Table) and [row[0] for row in table.rows] == [1, 8, 32]


def test_memory_and_energy_stand_beside_it_where_they_were_read(tmp_path: Path) -> None:
    """A machine at 100 W: a batch of 32 costs least by the item, a batch of 1 least memory."""

    def make(model: str, schedule: Schedule) -> list[Samples]:
        made = []
        for process in range(schedule.processes):
            spent = np.full(round(2000 / (1 + 0.2 * schedule.batch)), 1 + 0.2 * schedule.batch)
            one = samples(spent, process=process, model=model, batch=schedule.batch)
            series = {"resident_mib": np.full(len(times_of(3.0)), 100.0 + schedule.batch)}
            made.append(with_meter(one, telemetry(100.0, 3.0, more=series)))
        return made

    inputs = FakeInputs(tmp_path, samples=make)
    result = Throughput(dataset="test").run(inputs)
    assert all(schedule.telemetry_s is not None for schedule in inputs.schedules)
    _, table, best = result.blocks
    assert isinstance(table, Table) and isinstance(best, Table)
    assert [column.name for column in table.columns][-2:] == ["host memory", "energy of an item (package)"]
    assert [row[-2] for row in table.rows] == [101.0, 108.0, 132.0]
    # 1.2 ms, 2.6 ms and 7.4 ms of 100 W, by 1, 8 and 32 items.
    assert [row[-1] for row in table.rows] == pytest.approx([0.12, 0.0325, 0.023125], rel=0.01)
    assert [row[:2] for row in best.rows] == [
        ("throughput", 32), ("latency of a batch", 1), ("host memory", 1), ("energy of an item", 32),
    ]  # fmt: skip


def test_memory_of_a_process_that_another_check_filled_is_not_that_of_the_size() -> None:
    """The largest batches of the check before lie in it; where all processes are such, nothing is known."""

    def of(mib: float, **details: int) -> Samples:
        one = with_meter(
            samples(np.full(2000, 1.0)), telemetry(100.0, 3.0, more={"resident_mib": np.full(len(times_of(3.0)), mib)})
        )
        return replace(one, details={**one.details, **details})

    filled = [of(268.0, timed_before=1) for _ in range(3)]
    found = {1: costs([*filled, of(131.5)], "cpu"), 8: costs([of(133.0)], "cpu"), 32: costs(filled, "cpu")}
    assert {size: one.host_mib for size, one in found.items()} == {1: 131.5, 8: 133.0, 32: None}
    rates: dict[int, float | None] = {1: 900.0, 8: 3000.0, 32: 5000.0}
    assert "host memory" not in [row[0] for row in best_sizes(rates, rates, found).rows]
    del found[32]
    assert ("host memory", 1) in [row[:2] for row in best_sizes(rates, rates, found).rows]


def test_a_meter_that_told_of_some_processes_only_is_left_out() -> None:
    metered = with_meter(samples(np.full(2000, 1.0)), telemetry(100.0, 3.0))
    assert costs([metered, metered], "cpu").joules == pytest.approx(0.1, rel=0.01)
    assert costs([metered, samples(np.full(2000, 1.0))], "cpu").joules is None
    assert costs([metered], "cuda:0").joules is None and costs([metered], "cuda:0").boundary == "gpu"


def test_needs_parts_and_refusals() -> None:
    check = Throughput(dataset="test", batch_sizes=(1, 8), duration="2 s", require=(FASTER,))
    alone, pair = check.needs()
    assert isinstance(alone, NeedTiming) and isinstance(pair, NeedTiming)
    assert (alone.queries, pair.model) == (200, "baseline") and pair.seconds > alone.seconds > 20
    names = SpecNames(models=("candidate", "baseline"), datasets=("test",), slices=())
    assert check.part_names(check.metrics[0], names) == ("batch 1", "batch 8")
    assert check.part_names(check.metrics[1], names) is None
    missing = Requirement("throughput(batch 4) >= 1 samples/s", "throughput", "batch 4", ">=", 1.0, "samples/s")
    assert "batch 1, batch 8" in str(unknown_part(check, missing, names))
    assert unknown_part(check, FASTER, names) is None and check.check_requirement(FASTER, {}) is None


def test_the_best_batch_may_not_block() -> None:
    """It is picked among noisy rates: which one it is has no bound."""
    fields = {"check": "throughput", "dataset": "test"}
    blocking = Throughput.model_validate(fields | {"require": ["best_batch >= 8"]})
    assert "can't block" in (blocking.check_requirement(blocking.requirements[0], {}) or "")
    warning = Throughput.model_validate(fields | {"warn": ["best_batch >= 8"]})
    assert warning.check_requirement(warning.requirements[0], {}) is None


@pytest.mark.parametrize(
    "fields", [{"batch_sizes": []}, {"batch_sizes": [0]}, {"processes": 2}, {"duration": 5}, {"scenario": "server"}]
)
def test_fields_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Throughput.model_validate({"check": "throughput", "dataset": "test", **fields})


def test_a_draft_is_short(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, samples=timings(1.0), draft=True)
    Throughput(dataset="test").run(inputs)
    assert all(schedule.processes == 1 and schedule.min_s < 0.1 for schedule in inputs.schedules)


def test_an_early_look_at_some_sizes_names_none_as_the_best(tmp_path: Path) -> None:
    whole = Throughput(dataset="test", batch_sizes=(1, 8, 32), require=(NEEDED,))
    look = whole.looks(Known())[0]
    result = look.run(FakeInputs(evidence=tmp_path, samples=timings(1.0)))
    (table,) = result.blocks
    assert isinstance(table, Table) and "Batch sizes 1 and 8 were not timed." in (table.caption or "")
    assert "best_batch" not in result.estimates and "best_batch" in result.missing

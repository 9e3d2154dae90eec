"""`load`: systems whose behaviour is known, each found and named; a violation stays one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from evalspec.checks.system.load.spec import Load
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Bars, Table
from evalspec.evidence.estimate import Measured, Parts
from evalspec.evidence.test import Test
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.names import SpecNames
from evalspec.language.parts import CheckResult
from evalspec.language.timings import OUTCOMES, Telemetry
from evalspec.running.requirements import SignificanceLevels, write_tests
from evalspec.stats.timing.saturation import UnderLoad
from evalspec.verdict import decide
from tests.checks.system.queueing import Service, constant, exponential, served
from tests.fakes import FakeInputs, samples
from tests.verdict.test_decide import a_check, a_record, status_of

NAMES = SpecNames(models=("candidate",), datasets=("test", "calls"), slices=())
Driver = Callable[[Schedule, np.random.Generator], Samples]


def load(**fields: Any) -> Load:
    """A check of few queries, with neither search nor audit."""
    sentences = {
        key: [Load.read_sentence(one, blocking=key == "require") for one in fields.pop(key, ())]
        for key in ("require", "warn")
    }
    small = {"check": "load", "dataset": "test", "queries": 10_000, "search": False, "caching_audit": False}
    return Load.model_validate(small | sentences | fields)


def driven(driver: Driver, seed: int = 1, cached: float = 0.0) -> Callable[[str, Schedule], list[Samples]]:
    """Open loops by a driver; what is asked for twice in a row takes so much less the second time."""
    rng = np.random.default_rng(seed)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        if schedule.kind == "open_loop":
            return [driver(schedule, rng)]
        spent = rng.gamma(100.0, 0.02, max(schedule.queries, 20))
        block = None
        if schedule.repeats == 2:
            block = np.arange(len(spent)) % 2
            spent = np.where(block == 1, (1.0 - cached) * spent, spent)
        return [samples(spent, process=i, block=block, batch=schedule.batch) for i in range(schedule.processes)]

    return make


def by(service: Service, **changes: Any) -> Driver:
    """One server."""
    return lambda schedule, rng: served(schedule, service, rng, **changes)


def run(folder: Path, driver: Driver, check: Load, **inputs: Any) -> CheckResult:
    return check.run(FakeInputs(folder, samples=driven(driver), **inputs))


LAST: list[tuple[CheckResult, Load, dict[str, Test]]] = []


def written(result: CheckResult, check: Load) -> dict[str, Test]:
    """The tests as the record has them, by name; those of the last result are kept, since they may take seconds."""
    if not (LAST and LAST[0][0] is result and LAST[0][1] is check):
        LAST[:] = [
            (result, check, {test.name: test for test in write_tests(check, result, SignificanceLevels(0.95, 0.01))})
        ]
    return LAST[0][2]


def status(result: CheckResult, check: Load, name: str) -> str:
    """What the verdict says of a requirement."""
    test = written(result, check)[name]
    verdict = decide(a_record(a_check(test, id="load")))
    return status_of(verdict, name)


def said(result: CheckResult) -> str:
    return " ".join(result.notes)


P99 = "latency_p99(500 qps) <= 20 ms"
AT_500: dict[str, Any] = {"rates": ["500 qps"], "require": [P99]}
NAME = "load/latency_p99(500 qps)"


def test_a_fast_server_passes_and_a_slow_one_fails(tmp_path: Path) -> None:
    check = load(**AT_500)
    assert status(run(tmp_path, by(exponential(0.8)), check), check, NAME) == "PASS"
    slow = run(tmp_path, by(exponential(1.7)), check)
    assert status(slow, check, NAME) == "FAIL"


def test_latency_counts_from_the_time_at_which_a_query_was_due(tmp_path: Path) -> None:
    """A stall of 1 s in 20 s: one query in 20 waits, although the server itself was slow only once."""
    pause = constant(0.5)

    def stalling(schedule: Schedule, rng: np.random.Generator) -> Samples:
        def service(due: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
            spent = pause(due, rng)
            spent[len(spent) // 2] = 1000.0
            return spent

        return served(schedule, service, rng)

    result = run(tmp_path, stalling, load(**AT_500))
    found = part(result, "latency_p95", "500 qps")
    assert found.estimate.value is not None and found.estimate.value > 50.0  # type: ignore[union-attr]


def part(result: CheckResult, metric: str, name: str) -> Measured:
    parts = result.estimates[metric]
    assert isinstance(parts, Parts)
    found = parts.parts[name]
    assert isinstance(found, Measured)
    return found


def test_an_overloaded_system_fails_without_further_statistics(tmp_path: Path) -> None:
    check = load(rates=["1000 qps"], require=["latency_p99 <= 100 ms"], slo=slo("latency_p50 <= 50 ms"))
    result = run(tmp_path, by(exponential(1.3)), check)
    assert status(result, check, "load/latency_p99") == "FAIL"
    test = written(result, check)["load/latency_p99"]
    assert test.p_fail == 0.0 and "over-saturated" in test.method
    assert "over-saturated" in said(result) and "qps were answered" in said(result)
    assert test.invalid is None
    assert status(result, check, "load/latency_p50") == "FAIL"


def slo(sentence: str) -> Any:
    return Load.read_sentence(sentence, blocking=True)


def test_a_system_that_falls_behind_does_not_pass_what_it_still_keeps(tmp_path: Path) -> None:
    check = load(rates=["1000 qps"], require=["latency_p99 <= 1 h"])
    result = run(tmp_path, by(exponential(1.3)), check)
    test = written(result, check)["load/latency_p99"]
    assert test.withhold is not None and "latency grows as long as this goes on" in test.withhold
    assert status(result, check, "load/latency_p99") == "INCONCLUSIVE"


@pytest.mark.parametrize("slow_ms", [2.0, 40.0])
def test_a_service_that_pauses_every_two_seconds_is_named(tmp_path: Path, slow_ms: float) -> None:
    def pausing(due: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        first = np.diff(np.floor(due / 2.0), prepend=np.floor(due[0] / 2.0)) > 0
        return np.where(first, 100.0, 0.2) + 0.05 * rng.random(len(due))

    check = load(rates=["500 qps"], queries=30_000, require=[f"latency_p99(500 qps) <= {slow_ms:g} ms"])
    result = run(tmp_path, by(pausing), check)
    assert "slow spells come every 2 s" in said(result) or "every 1.9" in said(result) or "every 2.0" in said(result)
    assert status(result, check, NAME) == "FAIL"


@pytest.mark.parametrize("after", [1.5, 6.0])
def test_a_service_that_throttles_after_twenty_seconds_is_named(tmp_path: Path, after: float) -> None:
    def throttling(due: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        return np.where(due < 20.05, 1.0, after) * rng.gamma(100.0, 0.01, len(due))

    check = load(rates=["100 qps"], queries=30_000, require=["latency_p99(100 qps) <= 5 ms"])
    telemetry = Telemetry(
        times_ns=np.arange(120) * 500_000_000,
        series={"gpu_throttle_reasons": np.where(np.arange(120) < 40, 0.0, 32.0)},
    )
    result = run(tmp_path, by(throttling, telemetry=telemetry), check)
    assert re.search("latency steps up by [0-9]+ % after (19|20|21) s", said(result))
    assert "software thermal slowdown" in said(result)
    found = part(result, "latency_p99", "100 qps")
    assert found.invalid is None and found.withhold is None
    # What it is slowed down to may still be fast enough; that it is too slow is a violation.
    assert status(result, check, "load/latency_p99(100 qps)") == ("FAIL" if after > 5.0 else "PASS")


def test_the_level_after_a_step_must_hold_the_threshold_too(tmp_path: Path) -> None:
    """In the last 30 of 120 s of each process 1 query in 80 is over 5 ms: 0.35 % of all, and so it will go on."""

    def late(due: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        slow = np.where(rng.random(len(due)) < 0.009, 12.0, 1.5)
        return np.where(due < 90.0, 1.0, slow) * rng.gamma(100.0, 0.005, len(due))

    check = load(rates=["200 qps"], queries=109_090, require=["latency_p99(200 qps) <= 5 ms"])
    result = run(tmp_path, by(late), check)
    assert "latency steps up" in said(result)
    found = part(result, "latency_p99", "200 qps").estimate
    assert isinstance(found, UnderLoad) and found.after is not None
    whole, after = found.measured.p_value(5.0, "upper"), found.after.p_value(5.0, "upper")
    assert whole is not None and whole < 0.05 < (1.0 if after is None else after)
    # Several processes did the same, so what followed may show a violation that the whole does not.
    assert found.after.decides and status(result, check, "load/latency_p99(200 qps)") != "PASS"


def test_latency_that_climbs_and_climbs_reaches_no_steady_state(tmp_path: Path) -> None:
    def climbing(due: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        return np.linspace(1.0, 4.0, len(due)) * rng.gamma(100.0, 0.01, len(due))

    check = load(rates=["100 qps"], require=["latency_p99(100 qps) <= 20 ms"])
    found = part(run(tmp_path, by(climbing), check), "latency_p99", "100 qps")
    assert found.withhold is not None and "no steady state" in found.withhold


def test_answers_from_a_cache_void_the_check(tmp_path: Path) -> None:
    check = load(**AT_500, caching_audit=True)
    cached = check.run(FakeInputs(tmp_path, samples=driven(by(exponential(0.8)), cached=0.6)))
    assert cached.invalid is not None and "answers come from a cache" in cached.invalid
    assert status(cached, check, NAME) == "INVALID"
    honest = check.run(FakeInputs(tmp_path, samples=driven(by(exponential(0.8)))))
    assert honest.invalid is None and "Audit for caching" in said(honest)
    assert status(honest, check, NAME) == "PASS"


def test_a_generator_that_drives_another_rate_is_named(tmp_path: Path) -> None:
    check = load(**AT_500)
    result = run(tmp_path, by(exponential(0.8), stretch=1.25), check)
    found = part(result, "latency_p99", "500 qps")
    assert found.invalid is not None and "500 qps were scheduled and 400 qps were due" in found.invalid
    assert status(result, check, NAME) == "INVALID"


def test_a_system_that_answers_before_it_is_asked_is_named(tmp_path: Path) -> None:
    def lying(schedule: Schedule, rng: np.random.Generator) -> Samples:
        one = served(schedule, exponential(0.8), rng)
        return replace(one, end_ns=one.sent_ns - 1000)

    found = part(run(tmp_path, lying, load(**AT_500)), "latency_p99", "500 qps")
    assert found.invalid is not None and "answered before they were sent" in found.invalid


def test_a_late_generator_is_the_bottleneck_and_a_waiting_queue_is_not(tmp_path: Path) -> None:
    check = load(**AT_500)

    def late(schedule: Schedule, rng: np.random.Generator) -> Samples:
        assert schedule.arrivals_ns is not None
        lag = np.where(rng.random(len(schedule.arrivals_ns)) < 0.05, 4.0, 0.0)
        return served(schedule, exponential(0.2), rng, lag_ms=lag)

    result = run(tmp_path, late, check)
    found = part(result, "latency_p99", "500 qps")
    assert found.invalid is not None and "the load generator was the bottleneck" in found.invalid
    assert status(result, check, NAME) == "INVALID"
    busy = run(tmp_path, by(exponential(1.9)), check)
    assert part(busy, "latency_p99", "500 qps").invalid is None
    # With 1 s allowed, 4 ms are less than 1 % of it.
    loose = load(rates=["500 qps"], require=["latency_p99(500 qps) <= 1 s"])
    assert status(run(tmp_path, late, loose), loose, NAME) == "PASS"


def remote(schedule: Schedule, rng: np.random.Generator, *, lanes: int, service_ms: float) -> Samples:
    """A server that answers as many at once as there are connections; a query waits for a free one."""
    assert schedule.arrivals_ns is not None
    due = schedule.arrivals_ns
    spent = np.round(rng.gamma(50.0, service_ms / 50.0, len(due)) * 1e6).astype(np.int64)
    free = np.zeros(lanes, dtype=np.int64)
    sent = np.empty_like(due)
    for query, at in enumerate(due):
        lane = int(free.argmin())
        sent[query] = max(at, free[lane])
        free[lane] = sent[query] + spent[query]
    n = len(due)
    return Samples(
        model="candidate", process=0, block=np.zeros(n, dtype=np.int64), intended_ns=due, sent_ns=sent,
        end_ns=sent + spent, items=np.arange(n), batch=1, ok=np.ones(n, dtype=np.bool_), warmup=32,
        details={"in_process": False},
    )  # fmt: skip


def test_connections_that_are_all_busy_are_the_generators_unless_the_server_is_slow(tmp_path: Path) -> None:
    def few(service_ms: float) -> Driver:
        return lambda schedule, rng: remote(schedule, rng, lanes=4, service_ms=service_ms)

    check = load(**AT_500, connections=4, timeout="100 s")
    starved = part(run(tmp_path, few(9.0), check), "latency_p99", "500 qps")
    assert starved.invalid is not None and "all 4 connections were busy" in starved.invalid
    slow = run(tmp_path, few(40.0), check)
    assert part(slow, "latency_p99", "500 qps").invalid is None
    assert status(slow, check, NAME) == "FAIL"
    enough = run(
        tmp_path, lambda schedule, rng: remote(schedule, rng, lanes=64, service_ms=9.0), load(**AT_500, connections=64)
    )
    assert status(enough, check, NAME) == "PASS"


@pytest.mark.parametrize(("fails", "expected"), [(0.0, "INVALID"), (0.001, "INVALID"), (0.05, "FAIL")])
def test_a_server_that_is_asked_for_less_at_once_than_was_due_shows_no_error_rate(
    tmp_path: Path, fails: float, expected: str
) -> None:
    """A server that refuses what is too much at once refuses nothing where 4 connections hold it back."""

    def asked(lanes: int) -> Driver:
        def drive(schedule: Schedule, rng: np.random.Generator) -> Samples:
            one = remote(schedule, rng, lanes=lanes, service_ms=7.0)
            return replace(one, ok=rng.random(len(one.ok)) >= fails)

        return drive

    check = load(**AT_500 | {"require": ["error_rate(500 qps) <= 1 %"]}, connections=4)
    held_back = run(tmp_path, asked(4), check)
    assert status(held_back, check, "load/error_rate(500 qps)") == expected
    if not fails:
        assert "spared" in str(part(held_back, "error_rate", "500 qps").invalid)
        assert status(run(tmp_path, asked(64), check), check, "load/error_rate(500 qps)") == "PASS"


def test_a_late_generator_shows_no_error_rate_of_a_server(tmp_path: Path) -> None:
    """What is sent late is no burst any more; in process nothing is refused."""

    def late(lag_ms: float, details: dict[str, Any]) -> Driver:
        def drive(schedule: Schedule, rng: np.random.Generator) -> Samples:
            assert schedule.arrivals_ns is not None
            lag = np.where(rng.random(len(schedule.arrivals_ns)) < 0.05, lag_ms, 0.0)
            one = served(schedule, exponential(0.2), rng, lag_ms=lag)
            return replace(one, details={**one.details, **details})

        return drive

    name, server = "load/error_rate(500 qps)", {"in_process": False, "waited_for_connection_share": 0.0}
    check = load(**AT_500 | {"require": ["error_rate(500 qps) <= 1 %"]})
    assert status(run(tmp_path, late(4.0, server), check), check, name) == "INVALID"
    assert status(run(tmp_path, late(0.3, server), check), check, name) == "PASS"
    assert status(run(tmp_path, late(4.0, {}), check), check, name) == "PASS"


def test_fewer_queries_than_planned_are_void(tmp_path: Path) -> None:
    def dying(schedule: Schedule, rng: np.random.Generator) -> Samples:
        assert schedule.arrivals_ns is not None
        return served(replace(schedule, arrivals_ns=schedule.arrivals_ns[:1000]), exponential(0.5), rng)

    found = part(run(tmp_path, dying, load(**AT_500)), "latency_p99", "500 qps")
    assert found.invalid == "5,000 of 11,000 planned queries were made"
    with pytest.raises(NotRunError, match="no query was made at 500 qps"):
        load(**AT_500).run(FakeInputs(tmp_path, samples=lambda model, schedule: []))


def test_errors_and_timeouts_stay_in_the_denominator(tmp_path: Path) -> None:
    def failing(schedule: Schedule, rng: np.random.Generator) -> Samples:
        assert schedule.arrivals_ns is not None
        return served(schedule, exponential(0.3), rng, fails=rng.random(len(schedule.arrivals_ns)) < 0.03)

    check = load(**AT_500 | {"require": [P99, "error_rate(500 qps) <= 1 %", "goodput(500 qps) >= 495 qps"]},
                 slo=slo("latency_p95 <= 20 ms"))  # fmt: skip
    result = run(tmp_path, failing, check)
    assert status(result, check, NAME) == "FAIL"
    assert status(result, check, "load/error_rate(500 qps)") == "FAIL"
    assert status(result, check, "load/goodput(500 qps)") == "FAIL"
    assert status(result, check, "load/latency_p95") == "PASS"
    outcomes = table(result, "Outcomes")
    assert outcomes.rows[0][1] + outcomes.rows[0][2] == 11_000  # type: ignore[operator]
    assert [column.name for column in outcomes.columns] == ["rate", "answered", "failed"]
    assert result.counts.errored == pytest.approx(330, abs=60)
    assert "failed or timed out" in said(result)


def table(result: CheckResult, title: str) -> Table:
    return next(block for block in result.blocks if isinstance(block, Table) and block.title == title)


def test_an_all_failed_run_has_no_latency_and_fails(tmp_path: Path) -> None:
    def dead(schedule: Schedule, rng: np.random.Generator) -> Samples:
        assert schedule.arrivals_ns is not None
        n = len(schedule.arrivals_ns)
        one = served(schedule, constant(0.5), rng, fails=np.ones(n, dtype=np.bool_))
        return replace(one, outcome=np.full(n, OUTCOMES.index("not connected")))

    check = load(**AT_500 | {"require": [P99, "error_rate(500 qps) <= 1 %"]}, slo=slo("latency_p99 <= 50 ms"))
    result = run(tmp_path, dead, check)
    test = written(result, check)[NAME]
    assert (test.value, test.lower, test.upper) == (None, None, None)
    assert status(result, check, NAME) == "FAIL" and status(result, check, "load/error_rate(500 qps)") == "FAIL"
    assert table(result, "Outcomes").columns[1].name == "not connected"
    assert not any(block.block == "curve" for block in result.blocks)


def test_a_void_rate_leaves_the_others_and_their_violations(tmp_path: Path) -> None:
    def late_at(rate: float, service_ms: float) -> Driver:
        def drive(schedule: Schedule, rng: np.random.Generator) -> Samples:
            assert schedule.arrivals_ns is not None
            made = 1e9 * len(schedule.arrivals_ns) / float(schedule.arrivals_ns[-1])
            lag = 5.0 if made > 0.9 * rate else 0.0
            return served(schedule, exponential(service_ms), rng, lag_ms=lag)

        return drive

    check = load(rates=["200 qps", "800 qps"], require=["latency_p99 <= 20 ms", "latency_p99(200 qps) <= 20 ms"])
    fine = run(tmp_path, late_at(800.0, 0.5), check)
    assert status(fine, check, "load/latency_p99") == "INVALID"
    assert status(fine, check, "load/latency_p99(200 qps)") == "PASS"
    slow = run(tmp_path, late_at(800.0, 4.6), check)
    assert status(slow, check, "load/latency_p99") == "FAIL"
    assert status(slow, check, "load/latency_p99(200 qps)") == "FAIL"


def test_max_rate_is_decided_by_one_run_at_the_rate(tmp_path: Path) -> None:
    fields = {"rates": ["100 qps"], "slo": slo("latency_p99 <= 20 ms")}
    check = load(**fields, require=["max_rate >= 600 qps"])
    assert check.all_rates == (100.0, 600.0) and check.part_rates == (100.0,)
    inputs = FakeInputs(tmp_path, samples=driven(by(exponential(1.0))))
    result = check.run(inputs)
    assert len(inputs.schedules) == 10 and all(one.queries == 2_200 for one in inputs.schedules)
    assert status(result, check, "load/max_rate") == "PASS"
    test = written(result, check)["load/max_rate"]
    assert (test.value, test.lower) == (600.0, 600.0)
    above = load(**fields, require=["max_rate >= 1100 qps"])
    assert status(run(tmp_path, by(exponential(1.0)), above), above, "load/max_rate") == "FAIL"


def test_the_search_is_for_the_report_and_confirmed_on_fresh_queries(tmp_path: Path) -> None:
    check = load(slo=slo("latency_p99 <= 20 ms"), require=["max_rate >= 200 qps"], search=True)
    inputs = FakeInputs(tmp_path, samples=driven(by(exponential(1.0))))
    result = check.run(inputs)
    # M/M/1 with a mean of 1 ms has a p99 of 20 ms at 770 qps.
    found = written(result, check)["load/max_rate"].value
    assert found is not None and found == pytest.approx(770, rel=0.15)
    assert "held once more on fresh queries" in said(result)
    planned, short, confirming = inputs.schedules[:5], inputs.schedules[5:-5], inputs.schedules[-5:]
    assert all(one.queries == 2_200 for one in (*planned, *confirming))
    fresh = {one.arrivals_ns.tobytes() for one in inputs.schedules if one.arrivals_ns is not None}
    assert len(fresh) == len(inputs.schedules) and len({one.seed for one in planned}) == 5
    assert len(table(result, "Search for the highest rate").rows) == len(short) + 1
    assert status(result, check, "load/max_rate") == "PASS"


def test_a_search_that_finds_nothing_reports_nothing(tmp_path: Path) -> None:
    check = load(slo=slo("latency_p99 <= 1 ms"), require=["max_rate >= 2 qps"], search=True, queries=1_000)
    result = run(tmp_path, by(exponential(100.0)), check)
    test = written(result, check)["load/max_rate"]
    assert test.value is None and status(result, check, "load/max_rate") == "FAIL"


def test_a_spike_stands_against_the_steady_part(tmp_path: Path) -> None:
    check = load(
        rates=["200 qps"], arrivals={"spike": {"factor": 4, "duration": "5 s"}, "ramp": "2 s"},
        require=["spike_factor <= 10 x", "latency_p99(200 qps) <= 10 ms"],
    )  # fmt: skip
    calm = run(tmp_path, by(exponential(0.5)), check)
    assert status(calm, check, "load/spike_factor") == "PASS"
    assert status(calm, check, "load/latency_p99(200 qps)") == "PASS"
    flooded = run(tmp_path, by(exponential(1.6)), check)
    assert status(flooded, check, "load/spike_factor") == "FAIL"
    # What waits in the spike is not in the steady part's percentile.
    value = written(flooded, check)["load/latency_p99(200 qps)"].value
    assert value is not None and value < 15.0


def test_bursts_stand_beside_poisson(tmp_path: Path) -> None:
    check = load(
        rates=["500 qps"], arrivals={"kind": "gamma", "burstiness": 0.1, "beside_poisson": True}, require=[P99]
    )
    result = run(tmp_path, by(exponential(1.0)), check)
    row = table(result, "Bursts beside Poisson").rows[0]
    bursts, poisson, ratio = row[3], row[5], row[6]
    assert isinstance(bursts, float) and isinstance(poisson, float) and ratio == bursts / poisson
    assert poisson == pytest.approx(9.2, rel=0.15) and bursts > 2 * poisson
    made = table(result, "Load generator").rows[0]
    assert made[4] == pytest.approx(10**0.5) and made[5] == pytest.approx(10**0.5, rel=0.15)


def test_a_trace_is_replayed_faster(tmp_path: Path) -> None:
    times = np.cumsum(np.random.default_rng(3).exponential(0.02, 10_000))
    tables = {
        "calls": pa.table({"time": times, "row": np.arange(10_000) % 50}),
        "test": pa.table({"x": np.arange(50.0), "label": np.zeros(50)}),
    }
    check = load(
        queries=None, arrivals={"kind": "trace", "dataset": "calls", "payload": "row", "speed_up": 10},
        require=["latency_p99(trace) <= 20 ms"],
    )  # fmt: skip
    assert check.check_names(NAMES) is None
    inputs = FakeInputs(tmp_path, samples=driven(by(exponential(0.8))), tables=tables, labels={"test": "label"})
    result = check.run(inputs)
    first, *others = inputs.schedules
    assert len(others) == 4 and first.arrivals_ns is not None and first.items is not None
    assert first.arrivals_ns[-1] == pytest.approx((times[1999] - times[0]) * 1e8, rel=1e-6)
    assert first.items.tolist() == (np.arange(2_000) % 50).tolist()
    for index, schedule in enumerate(others, 1):
        # The queries that came before lead in, so that no piece starts with an empty queue.
        begin, end = 2000 * index - 200, 2000 * index + 1999
        assert schedule.arrivals_ns is not None and schedule.items is not None and len(schedule.items) == 2_200
        assert schedule.arrivals_ns[-1] == pytest.approx((times[end] - times[begin]) * 1e8, rel=1e-6)
        assert schedule.items[0] == begin % 50
    assert written(result, check)["load/latency_p99(trace)"].n == 10_000
    assert status(result, check, "load/latency_p99(trace)") == "PASS"
    assert result.missing["max_rate"]


def test_other_work_on_the_machine_is_told_or_voids(tmp_path: Path) -> None:
    def beside(share: float) -> CheckResult:
        telemetry = Telemetry(times_ns=np.arange(20) * 10**9, series={"cpu_others_share": np.full(20, share)})
        return run(tmp_path, by(exponential(0.8), telemetry=telemetry), load(**AT_500))

    assert part(beside(0.05), "latency_p99", "500 qps").invalid is None and "Other processes" not in said(beside(0.05))
    some = beside(0.3)
    assert part(some, "latency_p99", "500 qps").invalid is None
    assert "Other processes used 30 % of this machine's processor time" in said(some)
    busy = beside(0.9)
    invalid = part(busy, "latency_p99", "500 qps").invalid
    assert invalid is not None and "other processes used 90 %" in invalid
    assert "disturbed: other processes used 90 %" in said(busy)


@pytest.mark.parametrize(
    ("service_ms", "late", "told"), [(0.8, 0.0, "PASS"), (1.7, 0.0, "INVALID"), (0.2, 0.05, "INVALID")]
)
def test_a_rate_that_held_beside_other_work_stands_unless_the_generator_was_late(
    tmp_path: Path, service_ms: float, late: float, told: str
) -> None:
    """Item 6: other work makes answers later; a late generator offers less than was asked for, which helps."""
    telemetry = Telemetry(times_ns=np.arange(20) * 10**9, series={"cpu_others_share": np.full(20, 0.9)})

    def drive(schedule: Schedule, rng: np.random.Generator) -> Samples:
        assert schedule.arrivals_ns is not None
        lag = np.where(rng.random(len(schedule.arrivals_ns)) < late, 4.0, 0.0)
        return replace(served(schedule, exponential(service_ms), rng, lag_ms=lag), telemetry=telemetry)

    check = load(**AT_500)
    result = run(tmp_path, drive, check)
    assert status(result, check, NAME) == told


def test_a_draft_is_short(tmp_path: Path) -> None:
    check = load(rates=["100 qps"], slo=slo("latency_p99 <= 20 ms"), search=True, caching_audit=True, offline=True)
    inputs = FakeInputs(tmp_path, samples=driven(by(exponential(1.0))), draft=True)
    check.run(inputs)
    assert [one.queries for one in inputs.schedules] == [44]


def test_offline_by_max_rate(tmp_path: Path) -> None:
    check = load(slo=slo("latency_p99 <= 20 ms"), require=["max_rate >= 250 qps"], offline=True)
    result = run(tmp_path, by(exponential(1.0)), check)
    ratio = result.estimates["offline_server_ratio"]
    # 2 ms an item offline, by 250 qps.
    assert ratio.value == pytest.approx(2.0, rel=0.1)  # type: ignore[union-attr]
    assert (
        "offline"
        in load(rates=["100 qps"], slo=slo("latency_p99 <= 20 ms"))
        .run(FakeInputs(tmp_path, samples=driven(by(exponential(1.0)))))
        .missing["offline_server_ratio"]
    )


def test_goodput_stands_beside_what_was_offered(tmp_path: Path) -> None:
    check = load(rates=["250 qps", "500 qps"], slo=slo("latency_p99 <= 5 ms"))
    result = run(tmp_path, by(exponential(1.0)), check)
    bars = next(block for block in result.blocks if isinstance(block, Bars))
    values = {(bar.group, bar.label): bar.value for bar in bars.bars}
    assert values["500 qps", "offered"] == values["500 qps", "answered"] == 500.0
    # exp(-5 (1 - 0.5)) of M/M/1 take longer than 5 ms.
    assert values["500 qps", "in time"] == pytest.approx(500 * (1 - np.exp(-2.5)), rel=0.02)
    assert sum(len(block.model_dump_json()) for block in result.blocks) < 120_000


def test_the_plan_has_room_for_dependence() -> None:
    check = load(queries=None, rates=["500 qps"], require=["latency_p99 <= 20 ms"])
    assert check.planned(500.0) == 50_000
    assert load(queries=None, rates=["500 qps"], require=["latency_p99 <= 20 ms"], design_effect=3).planned(500) == 3000
    assert load(queries=None, duration="60 s", rates=["500 qps"], require=[P99]).planned(500) == 30_000
    assert load(queries=None, rates=["500 qps"], require=["error_rate <= 0.1 %"]).planned(500) == 500_000
    timing = check.needs()[0]
    # A tenth more leads in, in each process.
    assert timing.queries == 55_000 and timing.seconds > 110.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "sentence", "told"),
    [
        ({"queries": 900}, "latency_p99 <= 20 ms", "900 queries at 100 qps can't show latency_p99 <= 20 ms: 1,000"),
        ({"queries": 900}, "error_rate <= 1 %", "1,000 are needed"),
        ({}, "max_rate >= 100 qps", "needs `slo:`"),
        ({}, "goodput >= 99 qps", "needs `slo:`"),
        ({}, "spike_factor <= 3 x", "needs `arrivals: {spike"),
        ({"arrivals": {"spike": {"factor": 2, "duration": "1 s"}}}, "spike_factor <= 3 x", "a spike of 200 queries"),
        ({}, "offline_server_ratio <= 3 x", "needs `slo:`"),
        ({"slo": "latency_p99 <= 20 ms"}, "offline_server_ratio <= 3 x", "needs `offline: true`"),
        ({"slo": "latency_p99 <= 20 ms"}, "goodput >= 200 qps", "of 100 qps no 200 qps can be in time"),
        ({"slo": "latency_p99 <= 20 ms", "queries": 900}, "max_rate >= 100 qps", "1,000 are needed"),
        ({}, "latency_p99 <= 1.2x baseline", "no comparison with another model"),
    ],
)
def test_what_can_never_pass_is_refused(fields: dict[str, Any], sentence: str, told: str) -> None:
    if "slo" in fields:
        fields = fields | {"slo": slo(fields["slo"])}
    check = load(rates=["100 qps"], require=[sentence], **fields)
    message = check.check_requirement(check.require[0], {})
    assert message is not None and told in message


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "add `rates:`"),
        ({"rates": ["5 qps"], "arrivals": {"kind": "gamma"}}, "`burstiness:` goes with `kind: gamma`"),
        ({"rates": ["5 qps"], "arrivals": {"burstiness": 0.5}}, "`burstiness:` goes with `kind: gamma`"),
        ({"arrivals": {"kind": "trace"}}, "name the dataset that holds the trace"),
        ({"arrivals": {"kind": "trace", "dataset": "calls"}, "rates": ["5 qps"]}, "remove `rates:`"),
        ({"arrivals": {"kind": "trace", "dataset": "calls", "ramp": "2 s"}}, "remove `ramp:` and `spike:`"),
        ({"rates": ["5 qps"], "arrivals": {"speed_up": 2}}, "are of a trace"),
        ({"rates": ["5 qps"], "duration": "2 s"}, "keep one"),
        ({"rates": ["5 qps"], "arrivals": {"beside_poisson": True}}, "shows bursts against Poisson"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: dict[str, Any], told: str) -> None:
    message = load(**fields).check_names(NAMES)
    assert message is not None and told in message


@pytest.mark.parametrize(
    "fields",
    [{"rates": [100]}, {"rates": ["0 qps"]}, {"rates": ["5 ms"]}, {"design_effect": 0.5}, {"clients": 0},
     {"arrivals": {"kind": "bursty"}}, {"timeout": "0 s"}, {"arrivals": {"spike": {"factor": 1, "duration": "2 s"}}}],
)  # fmt: skip
def test_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        load(**fields)


def test_parts_are_rates() -> None:
    check = load(rates=["1500 qps", "100 qps", "0.5 qps"])
    assert check.part_names(Load.metrics[0], NAMES) == ("0.5 qps", "100 qps", "1500 qps")
    assert load(arrivals={"kind": "trace", "dataset": "calls"}).part_names(Load.metrics[0], NAMES) == ("trace",)
    assert check.part_names(next(m for m in Load.metrics if m.name == "max_rate"), NAMES) is None


def test_a_client_of_a_server_tells_its_own_lag(tmp_path: Path) -> None:
    def client(lag_ms: float) -> Driver:
        def drive(schedule: Schedule, rng: np.random.Generator) -> Samples:
            one = remote(schedule, rng, lanes=64, service_ms=9.0)
            details = {"in_process": False, "waited_for_connection_share": 0.0, "generator_lag_p50_ms": 0.01,
                       "generator_lag_p99_ms": lag_ms, "generator_lag_max_ms": 2 * lag_ms}  # fmt: skip
            return replace(one, details=details)

        return drive

    check = load(**AT_500)
    fine = run(tmp_path, client(0.3), check)
    assert status(fine, check, NAME) == "PASS" and table(fine, "Load generator").rows[0][7:10] == (0.01, 0.3, 0.6)
    late = run(tmp_path, client(3.0), check)
    assert status(late, check, NAME) == "INVALID"
    lag = late.estimates["generator_lag_p99"]
    assert lag.value == 3.0  # type: ignore[union-attr]


def test_each_client_has_connections_of_its_own(tmp_path: Path) -> None:
    """Two clients of 4 connections: one waits for its own although the other has free ones; that is no lag."""

    def two(schedule: Schedule, rng: np.random.Generator) -> Samples:
        assert schedule.arrivals_ns is not None
        parts = [
            remote(replace(schedule, arrivals_ns=schedule.arrivals_ns[k::2]), rng, lanes=4, service_ms=12.0 + 12.0 * k)
            for k in range(2)
        ]
        order = np.argsort(np.concatenate([one.intended_ns for one in parts]), kind="stable")
        merged = {
            name: np.concatenate([getattr(one, name) for one in parts])[order]
            for name in ("intended_ns", "sent_ns", "end_ns", "ok", "block", "items")
        }
        return replace(parts[0], **merged)

    check = load(rates=["250 qps"], require=["latency_p50(250 qps) <= 10 ms"], clients=2, connections=4)
    result = run(tmp_path, two, check)
    assert part(result, "latency_p50", "250 qps").invalid is None
    assert table(result, "Load generator").rows[0][8] == pytest.approx(0.0, abs=1e-3)
    assert status(result, check, "load/latency_p50(250 qps)") == "FAIL"


def test_a_neighbour_of_one_process_is_no_violation(tmp_path: Path) -> None:
    """Its latency doubles for good after 60 s of 120: only a counter, or a second process, makes that the system's."""

    def beside(count: int, throttled: bool) -> str:
        made = []

        def driver(schedule: Schedule, rng: np.random.Generator) -> Samples:
            made.append(schedule)
            hit = len(made) <= count

            def service(due: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
                return np.where(hit & (due > 60.0), 8.0, 4.0) * rng.gamma(400.0, 0.0025, len(due))

            mask = np.where(np.arange(240) < 120, 0.0, 32.0 if throttled and hit else 0.0)
            telemetry = Telemetry(times_ns=np.arange(240) * 500_000_000, series={"gpu_throttle_reasons": mask})
            return served(schedule, service, rng, telemetry=telemetry)

        check = load(rates=["20 qps"], queries=11_000, require=["latency_p50(20 qps) <= 5 ms"])
        result = run(tmp_path, driver, check)
        assert "latency steps up by" in said(result)
        return status(result, check, "load/latency_p50(20 qps)")

    assert beside(1, throttled=False) == "INCONCLUSIVE"
    assert beside(1, throttled=True) == "FAIL"
    assert beside(2, throttled=False) == "FAIL"


@pytest.mark.parametrize(("rise", "told"), [(0.0, "PASS"), (0.3, "INCONCLUSIVE"), (0.5, "INCONCLUSIVE")])
def test_a_leak_reaches_no_steady_state(tmp_path: Path, rise: float, told: str) -> None:
    def leaking(due: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        return np.linspace(1.0, 1.0 + rise, len(due)) * rng.gamma(25.0, 0.04, len(due))

    check = load(rates=["100 qps"], require=["latency_p99(100 qps) <= 20 ms"])
    result = run(tmp_path, by(leaking), check)
    assert status(result, check, "load/latency_p99(100 qps)") == told
    withhold = part(result, "latency_p99", "100 qps").withhold
    assert (withhold is not None and "latency rises by" in withhold) == (rise > 0)


def test_a_step_that_settles_is_no_leak(tmp_path: Path) -> None:
    def stepping(due: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        return np.where(due < 8.0, 1.0, 1.5) * rng.gamma(25.0, 0.04, len(due))

    check = load(rates=["100 qps"], require=["latency_p99(100 qps) <= 20 ms"])
    assert status(run(tmp_path, by(stepping), check), check, "load/latency_p99(100 qps)") == "PASS"


def late(share: float, lag_ms: float, service_ms: float) -> Driver:
    """A generator that hands a share of queries over late."""

    def drive(schedule: Schedule, rng: np.random.Generator) -> Samples:
        assert schedule.arrivals_ns is not None
        lag = np.where(rng.random(len(schedule.arrivals_ns)) < share, lag_ms, 0.0)
        return served(schedule, exponential(service_ms), rng, lag_ms=lag)

    return drive


@pytest.mark.parametrize(("service_ms", "told"), [(0.2, "INVALID"), (1.7, "FAIL")])
def test_a_late_generator_voids_no_violation_that_is_there_without_its_lag(
    tmp_path: Path, service_ms: float, told: str
) -> None:
    check = load(**AT_500)
    result = run(tmp_path, late(0.05, 4.0, service_ms), check)
    assert status(result, check, NAME) == told
    found = part(result, "latency_p99", "500 qps")
    assert ((found.invalid or "") + (found.withhold or "")).startswith("the load generator was the bottleneck: 1 %")


def test_nothing_fails_by_our_lag(tmp_path: Path) -> None:
    """5 % of queries come 300 ms late: of 50 ms that are asked for, the server takes 1 ms."""
    check = load(**AT_500 | {"require": ["latency_p99(500 qps) <= 50 ms", "latency_p50(500 qps) <= 50 ms"]})
    result = run(tmp_path, late(0.012, 300.0, 0.2), check)
    assert status(result, check, NAME) == "INVALID"
    p_fail = written(result, check)[NAME].p_fail
    assert p_fail is not None and p_fail > 0.9


def test_each_requirement_has_a_gate_at_its_own_percentile(tmp_path: Path) -> None:
    """0.5 % of queries are sent 15 ms late, one at a time: nothing at the p90, everything at the p99.9."""
    check = load(
        rates=["20 qps"], queries=50_000,
        require=["latency_p90(20 qps) <= 10 ms", "latency_p99_9(20 qps) <= 10 ms"],
    )  # fmt: skip
    result = run(tmp_path, late(0.005, 15.0, 0.2), check)
    assert status(result, check, "load/latency_p90(20 qps)") == "PASS"
    assert status(result, check, "load/latency_p99_9(20 qps)") == "INVALID"
    found = part(result, "latency_p99_9", "20 qps").invalid
    assert found is not None and "0.1 % of queries were sent more than 15 ms late" in found


def test_a_model_that_is_too_slow_even_with_a_cache_is_too_slow(tmp_path: Path) -> None:
    check = load(**AT_500 | {"require": [P99, "latency_p50(500 qps) <= 20 ms"]}, caching_audit=True)
    result = check.run(FakeInputs(tmp_path, samples=driven(by(exponential(1.7)), cached=0.6)))
    assert status(result, check, NAME) == "FAIL"
    assert status(result, check, "load/latency_p50(500 qps)") == "INVALID"


def test_queries_are_spread_over_fresh_processes_and_a_server_is_one(tmp_path: Path) -> None:
    check = load(**AT_500)
    inputs = FakeInputs(tmp_path, samples=driven(by(exponential(0.8))))
    test = written(check.run(inputs), check)[NAME]
    assert len(inputs.schedules) == 5 and test.n == 10_000 and "5 fresh processes" in test.method
    remotely = FakeInputs(
        tmp_path, facts={"candidate": {"served": True}},
        samples=driven(lambda schedule, rng: remote(schedule, rng, lanes=64, service_ms=9.0)),
    )  # fmt: skip
    result = check.run(remotely)
    assert len(remotely.schedules) == 1 and written(result, check)[NAME].n == 10_000
    assert "this server process" in written(result, check)[NAME].method and "this server process" in said(result)


def test_processes_that_differ_are_not_counted_as_one(tmp_path: Path) -> None:
    """One fresh process in five is slow: what one run shows is not what the next one does."""
    made = []

    def driver(schedule: Schedule, rng: np.random.Generator) -> Samples:
        made.append(schedule)
        return served(schedule, exponential(3.0 if len(made) == 3 else 0.5), rng)

    check = load(rates=["200 qps"], require=["latency_p95(200 qps) <= 10 ms"])
    result = run(tmp_path, driver, check)
    assert status(result, check, "load/latency_p95(200 qps)") == "INCONCLUSIVE"
    assert "t over 5 processes, which differ" in written(result, check)["load/latency_p95(200 qps)"].method


def test_the_first_byte_and_the_size_of_batches_are_shown(tmp_path: Path) -> None:
    def told(schedule: Schedule, rng: np.random.Generator) -> Samples:
        one = served(schedule, exponential(0.5), rng)
        return replace(one, first_ns=one.sent_ns + (one.end_ns - one.sent_ns) // 2, together=np.full(len(one.ok), 4))

    row = table(run(tmp_path, told, load(**AT_500)), "Serving").rows[0]
    assert row[1] == pytest.approx(0.5 * 0.5 * np.log(2), rel=0.05) and row[3:] == (4.0, 4)

"""Servers with many requests under way: `sustained`, `energy` and `contention` look at them while all of them are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from evalspec.checks.system.contention.spec import Contention
from evalspec.checks.system.energy.spec import Energy
from evalspec.checks.system.sustained.ratio import both_ends
from evalspec.checks.system.sustained.show import course
from evalspec.checks.system.sustained.spec import Sustained
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Estimate, Measured, Parts
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import CheckResult
from evalspec.language.requirement import Requirement
from evalspec.measure.telemetry import of_client
from evalspec.timing.concurrency import full, lanes, stretch, within
from evalspec.timing.metered import metered
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs, samples
from tests.meters import idle_samples, telemetry

SERVED = {"candidate": {"served": True}}
SECOND = 10**9


def closed_loop(
    took_s: NDArray[np.float64], connections: int, *, workers: int | None = None, batch: int = 1, share: float = 0.2,
    block: int = 0, begin_s: float = 0.0, process: int = 0,
) -> Samples:  # fmt: skip
    """A server whose workers take one request after the other; each answer makes room for the next request.

    Args:
        took_s: shape (q,), work of each request.
        connections: Under way at a time.
        workers: That work at a time; None: one for each connection.
        batch: Items of a request.
        share: Of the time in which our client worked.
        block: Its index.
        begin_s: When the first ones are sent.
        process: Its index.
    """
    free = np.full(workers or connections, begin_s)
    lane = np.full(connections, begin_s)
    sent, end = np.empty(len(took_s)), np.empty(len(took_s))
    for query, work in enumerate(took_s):
        at = int(np.argmin(lane))
        sent[query] = lane[at]
        worker = int(np.argmin(free))
        end[query] = lane[at] = free[worker] = max(sent[query], free[worker]) + work
    sent_ns, end_ns = (np.round(values * 1e9).astype(np.int64) for values in (sent, end))
    return Samples(
        model="candidate", process=process, block=np.full(len(sent), block), intended_ns=sent_ns, sent_ns=sent_ns,
        end_ns=end_ns, items=np.arange(len(sent)), batch=batch, ok=np.ones(len(sent), dtype=np.bool_), warmup=5,
        details={"in_process": False, "kind": "offline", "connections": connections, "client_busy_share": share},
    )  # fmt: skip


def both(one: Samples, other: Samples) -> Samples:
    """Two blocks of one process."""
    names = ("block", "intended_ns", "sent_ns", "end_ns", "items", "ok")
    return replace(one, **{name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in names})


def work(count: int, seconds: float, seed: int = 0, spread: float = 0.1) -> NDArray[np.float64]:
    return np.asarray(seconds * np.random.default_rng(seed).gamma(spread**-2, spread**2, count))


def rate(one: Samples) -> float:
    """Items a second while all connections carried a request."""
    window = full(one)
    found = None if window is None else stretch(one, *window)
    assert found is not None
    return found.items * SECOND / (found.end_ns - found.begin_ns)


@pytest.mark.parametrize(("connections", "workers", "count"), [(16, 16, 60), (16, 4, 60), (16, 1, 100), (4, 4, 40)])
def test_the_rate_of_few_long_answers_is_that_of_the_server(connections: int, workers: int, count: int) -> None:
    """Two items a request of half a second of work: four a second and worker, however few requests there are."""
    one = closed_loop(work(count, 0.5), connections, workers=workers, batch=2)
    assert rate(one) == pytest.approx(4.0 * workers, rel=0.1)


def test_answers_that_come_all_at_once_are_counted_whole() -> None:
    one = closed_loop(np.full(16 * 6, 1.0), 16)
    assert rate(one) == pytest.approx(16.0)
    window = full(one)
    assert window == (1 * SECOND, 5 * SECOND)
    found = stretch(one, int(1.5 * SECOND), int(3.5 * SECOND))
    assert found is not None and (found.begin_ns, found.end_ns) == (SECOND, 3 * SECOND)
    assert found.items == 32
    # A wave takes a second, of which half lies in a window of half a second.
    assert within(one, int(1.2 * SECOND), int(1.7 * SECOND)).sum() == pytest.approx(8.0)


def test_what_failed_is_no_item() -> None:
    one = closed_loop(np.full(100, 0.1), 2)
    assert rate(replace(one, ok=np.arange(100) % 2 == 0)) == pytest.approx(0.5 * rate(one))


def test_in_process_and_in_an_open_loop_nothing_changes() -> None:
    assert lanes(samples(np.full(50, 100.0))) == 1
    open_loop = closed_loop(work(50, 0.1), 8)
    assert lanes(open_loop) == 8
    assert lanes(replace(open_loop, details={**open_loop.details, "kind": "open_loop"})) == 1
    assert lanes(replace(open_loop, details={**open_loop.details, "in_process": True})) == 1


def test_too_few_to_tell_are_told_as_they_are() -> None:
    one = closed_loop(np.full(8, 1.0), 8)
    assert full(one) is None and stretch(one, 0, 10) is None
    assert both_ends(one) is None


def test_the_ends_of_a_slow_server_that_keeps_its_rate_are_alike() -> None:
    """Requests of 2 s in a process of 30 s: neither filling the connections nor waiting for the last is a change."""
    ends = both_ends(closed_loop(work(16 * 15, 2.0, spread=0.05), 16))
    assert ends is not None and ends.end / ends.start == pytest.approx(1.0, abs=0.1)
    lost = both_ends(closed_loop(np.concatenate([work(600, 0.5), work(300, 1.0, 1)]), 16))
    assert lost is not None and lost.end / lost.start == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("waves", "spread", "bias", "give_or_take"), [(15, 0.05, 0.01, 0.03), (10, 1.0, 0.07, 0.3)])
def test_the_ends_of_a_steady_server_are_alike_on_average(
    waves: int, spread: float, bias: float, give_or_take: float
) -> None:
    """In waves, and at any time. Counted whole the logarithms would be 0.05 +- 0.09 where answers come in waves."""
    found = [both_ends(closed_loop(work(16 * waves, 2.0, seed, spread), 16)) for seed in range(150)]
    ratios = np.array([np.log(one.end / one.start) for one in found if one is not None])
    assert len(ratios) == 150 and abs(ratios.mean()) < bias and ratios.std() < give_or_take


def test_the_course_of_many_connections_has_the_servers_level() -> None:
    seconds, rates = course(closed_loop(work(2000, 0.16), 16))
    assert len(seconds) == 200 and float(np.median(rates)) == pytest.approx(100.0, rel=0.1)


def server(work_s: float = 0.16, factor: float = 1.0, share: float = 0.2) -> Callable[[str, Schedule], list[Samples]]:
    """A server whose 16 workers become so many times as slow in the second half."""

    def make(model: str, schedule: Schedule) -> list[Samples]:
        made = []
        for process in range(schedule.processes):
            half = work(1500, work_s, process)
            spent = np.concatenate([half, factor * half])
            made.append(closed_loop(spent, schedule.connections, workers=16, share=share, process=process))
        return made

    return make


def sustained(folder: Path, maker: Callable[[str, Schedule], list[Samples]], **fields: object) -> tuple[
    CheckResult, FakeInputs
]:  # fmt: skip
    inputs = FakeInputs(folder, samples=maker, facts=SERVED)
    check = Sustained.model_validate({"check": "sustained", "dataset": "test", **fields})
    return check.run(inputs), inputs


LASTS = Requirement("sustained_ratio >= 0.9x", "sustained_ratio", None, ">=", 0.9, "x")


@pytest.mark.parametrize(("factor", "expected"), [(1.0, "PASS"), (1.6, "FAIL")])
def test_a_server_that_slows_down_under_all_its_connections_is_found(
    factor: float, expected: str, tmp_path: Path
) -> None:
    result, inputs = sustained(tmp_path, server(factor=factor))
    assert outcome(result, LASTS) == expected
    assert (inputs.schedules[0].connections, inputs.schedules[0].queries) == (16, 64)
    assert result.conditions["connections"] == 16 and result.conditions["scenario"] == "offline, 16 connections"
    asked = sustained(tmp_path, server(), connections=4)[1].schedules[0]
    assert (asked.connections, asked.queries) == (4, 20)


def test_a_ratio_that_is_our_clients_is_void(tmp_path: Path) -> None:
    result, _ = sustained(tmp_path, server(share=0.95))
    assert outcome(result, LASTS) == "INVALID"
    found = result.estimates["sustained_ratio"]
    assert isinstance(found, Measured) and "the load generator was the bottleneck" in str(found.invalid)


def test_of_another_machine_nobody_tells_whether_it_throttled(tmp_path: Path) -> None:
    def make(model: str, schedule: Schedule) -> list[Samples]:
        told = telemetry(1.0, 500.0, more={"cpu_throttle_count": np.zeros(5011), "cpu_temperature_c": np.ones(5011)})
        return [replace(one, telemetry=of_client(told)) for one in server()(model, schedule)]

    result, _ = sustained(tmp_path, make)
    assert set(result.missing) == {"throttled", "temperature_max"}
    assert all("on another machine" in why for why in result.missing.values())
    assert outcome(result, LASTS) == "PASS", "how fast it answers can be seen from here"


# -- energy ------


def with_power(one: Samples, watts: float = 100.0) -> Samples:
    return replace(one, telemetry=telemetry(watts, float(one.end_ns.max()) / 1e9 + 1.0))


def test_energy_is_that_of_the_answers_of_its_window() -> None:
    """100 W at 8 answers a second, of 2 s each: the last requests, which leave workers idle, are in neither."""
    found = metered(with_power(closed_loop(work(160, 2.0, spread=0.05), 16)), "package")
    assert found.joules == pytest.approx(100.0 / 8.0, rel=0.1)
    assert found.watts == pytest.approx(100.0, rel=1e-3)


def energetic(share: float = 0.2) -> Callable[[str, Schedule], list[Samples]]:
    """A server with a meter beside it."""
    make = server(share=share)

    def metered_server(model: str, schedule: Schedule) -> list[Samples]:
        if schedule.kind == "open_loop":
            assert schedule.arrivals_ns is not None
            seconds = float(schedule.arrivals_ns[-1]) / 1e9 + 1.0
            return [
                idle_samples(model, schedule, process, telemetry(20.0 + 0.1 * process, seconds))
                for process in range(schedule.processes)
            ]
        return [with_power(one, 100.0 + 0.1 * one.process) for one in make(model, schedule)]

    return metered_server


def energy_of(folder: Path, share: float = 0.2, **fields: object) -> tuple[CheckResult, FakeInputs]:
    inputs = FakeInputs(folder, samples=energetic(share), facts=SERVED)
    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package", **fields})
    return check.run(inputs), inputs


NEEDED = Requirement("energy_per_inference <= 2 J", "energy_per_inference", None, "<=", 2.0, "J")


def test_a_server_is_metered_under_all_its_connections(tmp_path: Path) -> None:
    result, inputs = energy_of(tmp_path)
    found = result.estimates["energy_per_inference"]
    assert isinstance(found, Measured) and isinstance(found.estimate, Estimate)
    assert found.estimate.value == pytest.approx(1.0, rel=0.02) and outcome(result, NEEDED) == "PASS"
    active = [one for one in inputs.schedules if one.kind == "offline"]
    assert [(one.connections, one.queries) for one in active] == [(16, 64)]
    assert result.conditions["connections"] == 16
    assert "Our client worked for 20 % of the time on one processor; its energy is in it." in result.notes


def test_levels_of_a_server_are_offered_in_batches_over_the_same_connections(tmp_path: Path) -> None:
    result, inputs = energy_of(tmp_path, levels=["50 %"], batch=8, connections=4)
    (level,) = [one for one in inputs.schedules if one.kind == "open_loop" and one.queries > 2]
    assert (level.batch, level.connections) == (8, 4)
    assert level.arrivals_ns is not None
    spacing_s = float(np.diff(level.arrivals_ns).mean()) / 1e9
    assert spacing_s == pytest.approx(8 / (0.5 * float(str(result.conditions["throughput"]))), rel=0.01)


def test_energy_while_a_server_waits_for_our_client_is_void(tmp_path: Path) -> None:
    result, _ = energy_of(tmp_path, share=0.95)
    assert outcome(result, NEEDED) == "INVALID"


def test_a_server_on_another_machine_has_no_meter_here(tmp_path: Path) -> None:
    def make(model: str, schedule: Schedule) -> list[Samples]:
        made = energetic()(model, schedule)
        return [replace(one, telemetry=of_client(one.telemetry)) for one in made if one.telemetry is not None]

    check = Energy.model_validate({"check": "energy", "dataset": "test", "boundary": "package"})
    with pytest.raises(NotRunError, match="on another machine"):
        check.run(FakeInputs(tmp_path, samples=make, facts=SERVED))


# -- contention ------


def contended(slower: float, share: float = 0.2) -> Callable[[Schedule, str], tuple[list[Samples], list[Samples]]]:
    """Workers that take so many times as long beside the load; few requests in each block."""

    def make(schedule: Schedule, baseline: str) -> tuple[list[Samples], list[Samples]]:
        sides: tuple[list[Samples], list[Samples]] = ([], [])
        for process in range(schedule.processes):
            for side, (took, blocks) in enumerate(((slower, (0, 3)), (1.0, (1, 2)))):
                one, other = (
                    closed_loop(took * work(64, 0.5, 7 * process + block), schedule.connections, block=block,
                                begin_s=100.0 * block, share=share, process=process)
                    for block in blocks
                )  # fmt: skip
                sides[side].append(both(one, other))
        return sides

    return make


def contention(folder: Path, slower: float, share: float = 0.2, **fields: object) -> tuple[CheckResult, FakeInputs]:
    inputs = FakeInputs(folder, pairs=contended(slower, share), facts=SERVED)
    check = Contention.model_validate({"check": "contention", "dataset": "test", "scenario": "offline", **fields})
    return check.run(inputs), inputs


HELD = Requirement("contention_ratio(throughput) <= 1.5x", "contention_ratio", "throughput", "<=", 1.5, "x")


@pytest.mark.parametrize(("slower", "expected"), [(1.2, "PASS"), (2.0, "FAIL")])
def test_all_connections_meet_the_load(slower: float, expected: str, tmp_path: Path) -> None:
    result, inputs = contention(tmp_path, slower)
    found = result.estimates["contention_ratio"]
    assert isinstance(found, Measured) and isinstance(found.estimate, Parts)
    assert found.estimate.parts["throughput"].value == pytest.approx(slower, rel=0.05)
    assert outcome(result, HELD) == expected
    assert (inputs.schedules[0].connections, inputs.schedules[0].queries) == (16, 128)
    assert result.conditions["scenario"] == "offline, 16 connections"


def test_contention_of_our_own_client_is_void(tmp_path: Path) -> None:
    assert outcome(contention(tmp_path, 2.0, share=0.95)[0], HELD) == "INVALID"


def test_no_load_of_ours_runs_beside_a_server_on_another_machine(tmp_path: Path) -> None:
    far = {"candidate": {"served": True, "elsewhere": True}}
    check = Contention.model_validate({"check": "contention", "dataset": "test"})
    with pytest.raises(NotRunError, match="runs on another machine"):
        check.run(FakeInputs(tmp_path, pairs=contended(2.0), facts=far))


def test_one_query_after_the_other_has_one_connection(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="one query comes after the other"):
        Contention.model_validate({"check": "contention", "dataset": "test", "connections": 8})
    assert (
        Contention.model_validate(
            {"check": "contention", "dataset": "test", "connections": 8, "scenario": "offline"}
        ).connections
        == 8
    )

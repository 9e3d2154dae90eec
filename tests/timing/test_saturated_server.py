"""`throughput` of a server: how many requests were under way stands in the result; our client's limit fails nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.checks.system.throughput.spec import Throughput
from evalspec.evidence.blocks import Table
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import CheckResult
from evalspec.language.requirement import Requirement
from evalspec.stats.timing.processes import over_processes
from evalspec.timing.samples import rate
from evalspec.timing.saturated_server import AtLeast, under_way_ms
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs, comparison_p_values

Making = Callable[[str, Schedule], list[Samples]]
SERVED = {"candidate": {"served": True}, "baseline": {"served": True}}


def needs(rate_sps: float) -> Requirement:
    return Requirement(f"throughput >= {rate_sps} samples/s", "throughput", None, ">=", rate_sps, "samples/s")


FASTER = Requirement(
    "throughput >= 1.1x baseline", "throughput", None, ">=", 0.0, "samples/s", model="baseline", factor=1.1
)


def served(
    model: str, schedule: Schedule, process: int, took_ms: NDArray[np.float64], workers: int, share: float
) -> Samples:
    """A server of so many workers: with more requests under way than it has, each takes the longer for it."""
    lanes, at_once = schedule.connections, min(schedule.connections, workers)
    # Requests end one after the other, each so long after the one before as the workers need together.
    end = np.cumsum(took_ms / at_once * 1e6).astype(np.int64) + int(took_ms[0] * 1e6)
    sent = np.concatenate([np.zeros(lanes, dtype=np.int64), end[:-lanes]])
    count = len(took_ms)
    details: dict[str, Cell] = {
        "in_process": False, "connections": lanes, "client_busy_share": share,
        "warmup_last_ms": float(np.median(took_ms)),
    }  # fmt: skip
    return Samples(
        model=model, process=process, block=np.zeros(count, dtype=np.int64), intended_ns=sent, sent_ns=sent,
        end_ns=end, items=np.arange(count), batch=schedule.batch, ok=np.ones(count, dtype=np.bool_), warmup=5,
        details=details,
    )  # fmt: skip


def timings(workers: int = 4, share: float = 0.2, ms: float = 10.0, baseline_ms: float = 10.0) -> Making:
    rng = np.random.default_rng(0)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        level = ms if model == "candidate" else baseline_ms
        count = max(400, schedule.queries)
        return [
            served(model, schedule, process, level * rng.lognormal(0.0, 0.05, count), workers, share)
            for process in range(schedule.processes)
        ]

    return make


def run(
    folder: Path, made: Callable[[str, Schedule], list[Samples]], **fields: object
) -> tuple[CheckResult, FakeInputs]:
    inputs = FakeInputs(folder, samples=made, facts=SERVED)
    check = Throughput.model_validate({"check": "throughput", "dataset": "test", "batch_sizes": [1], **fields})
    return check.run(inputs), inputs


def test_the_result_says_how_many_requests_were_under_way(tmp_path: Path) -> None:
    result, inputs = run(tmp_path, timings())
    assert result.conditions["scenario"] == "offline, 16 connections" and result.conditions["connections"] == 16
    assert [one.connections for one in inputs.schedules] == [16]
    assert inputs.schedules[0].queries == 64, "four over each connection"
    table = next(one for one in result.blocks if isinstance(one, Table) and one.title.startswith("Throughput"))
    assert "under way at a time: 16" in (table.caption or "")
    single, inputs = run(tmp_path, timings(), connections=1)
    assert single.conditions["scenario"] == "offline, 1 connection" and inputs.schedules[0].queries == 20


def test_four_workers_get_four_times_as_much_through_four_connections(tmp_path: Path) -> None:
    found = {}
    for connections in (1, 4, 16):
        result, _ = run(tmp_path, timings(workers=4), connections=connections)
        table = next(one for one in result.blocks if isinstance(one, Table))
        found[connections] = table.rows[0][1]
    assert found[1] == pytest.approx(100.0, rel=0.03)
    assert found[4] == pytest.approx(4 * found[1], rel=0.03) and found[16] == pytest.approx(4 * found[1], rel=0.05)


def test_a_server_that_had_workers_left_is_named(tmp_path: Path) -> None:
    few, _ = run(tmp_path, timings(workers=32), connections=8)
    assert any("hardly longer with 8 requests under way" in note for note in few.notes)
    enough, _ = run(tmp_path, timings(workers=4), connections=16)
    assert not any("hardly longer" in note for note in enough.notes)


def test_filling_the_connections_is_no_slowing_down(tmp_path: Path) -> None:
    """The first answers come from a server that has little to do; that they are faster is no drift."""
    need = needs(300.0)
    result, _ = run(tmp_path, timings(workers=1, ms=2.0), connections=100, require=(need,))
    assert outcome(result, need) == "PASS"


def test_our_own_limit_shows_what_is_reached_and_fails_nobody(tmp_path: Path) -> None:
    less, more = needs(300.0), needs(500.0)
    result, _ = run(tmp_path, timings(share=0.97), require=(less, more))
    assert outcome(result, less) == "PASS" and outcome(result, more) == "INCONCLUSIVE"
    assert any(
        "At batch 1 the load generator was the bottleneck: it was at work in 97 %" in one for one in result.notes
    )
    free, _ = run(tmp_path, timings(share=0.5), require=(less, more))
    assert outcome(free, less) == "PASS" and outcome(free, more) == "FAIL"


def test_pairs_in_which_our_client_was_the_limit_are_void(tmp_path: Path) -> None:
    made = timings(share=0.97, baseline_ms=20.0)
    result, _ = run(tmp_path, made, require=(FASTER,))
    assert outcome(result, FASTER) == "INVALID"
    fine, _ = run(tmp_path, timings(share=0.3, baseline_ms=20.0), require=(FASTER,))
    p_pass, _ = comparison_p_values(fine, FASTER)
    assert p_pass is not None and p_pass < 0.01 and outcome(fine, FASTER) == "PASS"


def test_at_least_has_a_bound_from_below_only() -> None:
    plain = over_processes([100.0, 101.0, 99.0, 100.0, 100.5])
    found = AtLeast(plain)
    assert (found.value, found.n) == (plain.value, plain.n)
    assert found.bound(0.95, "lower") == plain.bound(0.95, "lower") and found.bound(0.95, "upper") is None
    assert found.p_value(90.0, "lower") == plain.p_value(90.0, "lower") and found.p_value(110.0, "upper") is None
    assert found.n_to_decide(90.0, 0.05) == plain.n_to_decide(90.0, 0.05) and found.n_to_decide(110.0, 0.05) is None
    assert "our client was the bottleneck" in found.method


def test_a_rate_ends_with_the_last_answer_whichever_query_it_is_of() -> None:
    one = served("m", Schedule("offline", 3, connections=2), 0, np.full(3, 1.0), 2, 0.1)
    end = np.array([4_000_000, 1_000_000, 2_000_000])
    late = Samples(**{name: getattr(one, name) for name in one.__dataclass_fields__} | {"end_ns": end})
    assert rate(late) == pytest.approx(3 / 0.004)


def test_latencies_leave_out_the_start_of_each_block() -> None:
    one = served("m", Schedule("offline", 10, connections=3), 0, np.full(10, 1.0), 1, 0.1)
    parted = Samples(
        **{name: getattr(one, name) for name in one.__dataclass_fields__} | {"block": np.repeat([0, 3], 5)}
    )
    assert len(under_way_ms(one)) == 7 and len(under_way_ms(parted)) == 4

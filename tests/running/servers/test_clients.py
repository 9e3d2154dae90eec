from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalspec.language.inputs import Samples, Schedule
from evalspec.running.servers.clients import merged, shares


def part(intended: list[int], lag_ms: float, *, answers: bool = True) -> Samples:
    at = np.array(intended)
    return Samples(
        model="a", process=0, block=np.zeros(len(at), np.int64), intended_ns=at, sent_ns=at + 1, end_ns=at + 5,
        items=at // 10, batch=1, ok=np.ones(len(at), np.bool_), warmup=1,
        details={"generator_lag_p99_ms": lag_ms, "complete": True},
        answers=at[:, None].astype(np.float64) if answers else None, outcome=np.zeros(len(at), np.int64),
    )  # fmt: skip


def test_clients_become_one_in_the_order_of_the_schedule() -> None:
    whole = merged([part([0, 20, 40], 0.1), part([10, 30, 50], 0.7)])
    np.testing.assert_array_equal(whole.intended_ns, [0, 10, 20, 30, 40, 50])
    assert whole.answers is not None and whole.outcome is not None
    np.testing.assert_array_equal(whole.answers[:, 0], whole.intended_ns)
    assert whole.details["generator_lag_p99_ms"] == 0.7
    assert whole.details["clients"] == 2
    assert whole.first_ns is None


def test_what_one_client_lacks_the_whole_lacks() -> None:
    late = replace(part([10], 0.1, answers=False), details={"complete": False})
    whole = merged([part([0], 0.1), late])
    assert whole.answers is None
    assert whole.details["complete"] is False


def test_facts_of_clients_are_summed_or_the_worst() -> None:
    one = {
        "connections": 8, "connections_opened_again": 2, "waited_for_connection_p99_ms": 0.0,
        "waited_for_connection_share": 0.0, "timer_worst_ns": 900, "warmup_settled": True, "framework": "served",
        "generator_lag_p50_ms": None,
    }  # fmt: skip
    other = one | {
        "connections_opened_again": 5, "waited_for_connection_p99_ms": 40.0, "waited_for_connection_share": 0.3,
        "timer_worst_ns": 1200, "warmup_settled": False, "generator_lag_p50_ms": 0.2,
    }  # fmt: skip
    whole = merged([replace(part([at], 0.1), details=details) for at, details in ((0, one), (10, other))])
    assert whole.warmup == 2
    assert whole.details == {
        "connections": 16, "connections_opened_again": 7, "waited_for_connection_p99_ms": 40.0,
        "waited_for_connection_share": 0.3, "timer_worst_ns": 1200, "warmup_settled": False, "framework": "served",
        "generator_lag_p50_ms": 0.2, "clients": 2, "complete": True,
    }  # fmt: skip


def test_clients_share_a_schedule_without_losing_a_query() -> None:
    arrivals = np.arange(0, 1000, 7)
    schedule = Schedule(
        kind="open_loop", queries=len(arrivals), arrivals_ns=arrivals, items=np.arange(len(arrivals)), clients=3
    )
    parts = shares(schedule)
    assert [one.clients for one in parts] == [1, 1, 1]
    assert sum(one.queries for one in parts) == len(arrivals)
    given = [one.arrivals_ns for one in parts]
    np.testing.assert_array_equal(np.sort(np.concatenate([g for g in given if g is not None])), arrivals)
    for one in parts:
        assert one.items is not None and one.arrivals_ns is not None
        np.testing.assert_array_equal(arrivals[one.items], one.arrivals_ns)


def test_an_open_loop_without_arrivals_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="no arrivals"):
        shares(Schedule(kind="open_loop", queries=3, clients=2))


def test_sizes_go_with_their_queries_and_come_back() -> None:
    arrivals = np.arange(0, 100, 10)
    sizes = np.array([1, 5, 1, 7, 1, 2, 1, 9, 1, 3])
    schedule = Schedule(
        kind="open_loop", queries=10, arrivals_ns=arrivals, items=np.arange(10), sizes=sizes, clients=2, seed=4
    )
    one, other = shares(schedule)
    assert one.sizes is not None and other.sizes is not None
    assert (one.sizes.tolist(), other.sizes.tolist()) == ([1, 1, 1, 1, 1], [5, 7, 2, 9, 3])
    # The rows that follow a query's first are those of one order, whichever client asks.
    assert one.seed == other.seed == 4
    # A client whose queries all have as many rows as are kept says nothing of sizes.
    made = [replace(part([0, 20], 0.1)), replace(part([10, 30], 0.1), sizes=np.array([5, 7]))]
    whole = merged(made)
    assert whole.sizes is not None and whole.sizes.tolist() == [1, 5, 1, 7]
    assert merged([part([0], 0.1), part([10], 0.1)]).sizes is None

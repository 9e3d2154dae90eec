"""`load`: what the plan counts is what the check asks for; traces are looked at before; sizes are replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.system.load.plan import STEPS, Recorded, cuts
from evalspec.checks.system.load.search import SEED
from evalspec.errors import InputError
from evalspec.language.inputs import Schedule
from evalspec.language.parts import Known
from evalspec.timing.budget import START_S, WARMUP_S
from tests.checks.system.load.test_load import by, driven, load, said, slo
from tests.checks.system.queueing import exponential
from tests.fakes import FakeInputs

TRACE = {"kind": "trace", "dataset": "calls"}
CALLS = np.cumsum(np.random.default_rng(5).exponential(0.004, 1_203))


def tables(**columns: Any) -> dict[str, pa.Table]:
    """A trace of 1,203 queries, and 50 rows that it may ask for."""
    return {
        "calls": pa.table({"time": CALLS, **columns}),
        "test": pa.table({"x": np.arange(50.0), "label": np.zeros(50)}),
    }


def asked(folder: Path, check: Any, **inputs: Any) -> list[Schedule]:
    """Every schedule that a run of the check hands out."""
    fake = FakeInputs(
        folder, samples=driven(by(exponential(0.5))), labels={"test": "label"}, **({"tables": tables()} | inputs)
    )
    check.run(fake)
    return fake.schedules


def counted(schedules: list[Schedule]) -> int:
    """Queries of all schedules but those of a search."""
    return sum(one.queries * one.processes for one in schedules if one.seed < SEED or one.kind != "open_loop")


def span_s(schedules: list[Schedule]) -> float:
    """From start to last query, of all open loops but those of a search."""
    return sum(float(one.arrivals_ns[-1]) / 1e9 for one in schedules if one.arrivals_ns is not None and one.seed < SEED)


@pytest.mark.parametrize(
    "fields",
    [
        {"rates": ["500 qps"], "queries": 1_000},
        {"rates": ["500 qps", "123 qps"], "queries": 1_001, "processes": 7},
        {"rates": ["200 qps"], "duration": "3 s", "arrivals": {"ramp": "1.5 s"}},
        {"rates": ["200 qps"], "queries": 400, "arrivals": {"spike": {"factor": 3, "duration": "700 ms"}}},
        {"rates": ["200 qps"], "queries": 400, "arrivals": {"kind": "constant", "ramp": "900 ms",
                                                            "spike": {"factor": 2.5, "duration": "333 ms"}}},
        {"rates": ["90 qps", "200 qps"], "queries": 333,
         "arrivals": {"kind": "gamma", "burstiness": 0.3, "beside_poisson": True, "ramp": "1 s",
                      "spike": {"factor": 5, "duration": "250 ms"}}},
        {"rates": ["250 qps"], "queries": 500, "offline": True, "caching_audit": True, "search": True,
         "slo": "latency_p99 <= 20 ms", "require": ["max_rate >= 100 qps"]},
        {"arrivals": TRACE, "queries": None},
        {"arrivals": TRACE | {"speed_up": 3, "beside_poisson": True}, "queries": None, "processes": 9},
    ],
)  # fmt: skip
@pytest.mark.parametrize("served", [False, True])
def test_the_plan_counts_what_the_check_asks_for(tmp_path: Path, fields: dict[str, Any], served: bool) -> None:
    fields = fields | ({"slo": slo(fields["slo"])} if "slo" in fields else {})
    check = load(**fields)
    seen = check.inspect_rows(tables(), {}) if check.inspects() else None
    known = Known(frozenset(["candidate"] if served else []), seen)
    (need,) = check.timings(known)
    schedules = asked(tmp_path, check, facts={"candidate": {"served": served}})
    assert counted(schedules) == need.queries
    searching = [one for one in schedules if one.seed >= SEED]
    assert bool(searching) == bool(need.more)
    if searching:
        assert f"up to {STEPS} short runs" in need.more
        return
    starts = len([one for one in schedules if one.kind == "open_loop"])
    assert need.seconds - (START_S + WARMUP_S) * starts == pytest.approx(span_s(schedules), rel=0.15)


def test_a_trace_that_nobody_has_read_yet_is_named(tmp_path: Path) -> None:
    (need,) = load(arrivals=TRACE, queries=None).timings(Known())
    assert need.queries == 0
    assert need.more == "the queries of the trace, which is read when the run starts"


def test_a_trace_is_cut_without_losing_a_query() -> None:
    for queries, processes in ((10, 3), (1_203, 5), (3, 5), (2, 5)):
        pieces = cuts(queries, processes)
        assert [first for _, first, _ in pieces[1:]] == [end for _, _, end in pieces[:-1]]
        assert pieces[0][0] == pieces[0][1] == 0 and pieces[-1][2] == queries
        assert all(begin <= first < end for begin, first, end in pieces)


def test_what_a_trace_holds_is_looked_at_before_a_run() -> None:
    check = load(arrivals=TRACE | {"payload": "row", "size": "rows"}, queries=None)
    assert [(need.dataset, need.columns) for need in check.inspects()] == [
        ("calls", ("time", "row", "rows")),
        ("test", ()),
    ]
    good = tables(row=np.arange(1_203) % 50, rows=np.ones(1_203))
    assert check.inspect_rows(good, {"test": 50}) == Recorded(1_203, pytest.approx(CALLS[-1] - CALLS[0]))
    with pytest.raises(InputError, match=r"the trace calls: row 49 \(counted from 0\) asks for the row 49; write"):
        check.inspect_rows(good, {"test": 49})
    # How many rows there are may not be known when the spec is read.
    assert check.inspect_rows(good, {"test": None}) is not None
    assert load(rates=["5 qps"]).inspects() == ()


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (
            ["0.5", "soon", "2.5"],
            "column 'time' has 'soon' in row 1 (counted from 0), which is not a number; give seconds",
        ),
        ([True, False, True], "column 'time' has True in row 0"),
        ([None, "x", "y"], "column 'time' has nothing in row 0"),
        (["a" * 200, "x", "y"], "..."),
        ([0.5, 3.5, 2.5], "row 2 (counted from 0) has the time 2.5, before 3.5 of the row above it; sort"),
    ],
)
def test_a_column_that_holds_no_times_is_shown(column: list[Any], told: str) -> None:
    check = load(arrivals=TRACE, queries=None)
    with pytest.raises(InputError) as caught:
        check.inspect_rows({"calls": pa.table({"time": column})}, {})
    assert told in str(caught.value) and len(str(caught.value)) < 250


def test_nothing_is_measured_of_a_trace_that_can_not_be_replayed(tmp_path: Path) -> None:
    check = load(arrivals=TRACE, queries=None, caching_audit=True)
    inputs = FakeInputs(
        tmp_path, samples=driven(by(exponential(0.5))), labels={"test": "label"},
        tables=tables() | {"calls": pa.table({"time": [0.0, 2.0, 1.0]})},
    )  # fmt: skip
    with pytest.raises(InputError, match="sort the trace by time"):
        check.run(inputs)
    assert inputs.schedules == []


def test_a_draft_of_a_trace_asks_for_rows_that_the_draft_has(tmp_path: Path) -> None:
    check = load(arrivals=TRACE | {"payload": "row"}, queries=None)
    (one,) = asked(tmp_path, check, tables=tables(row=np.arange(1_203)), draft=True)
    assert one.items is not None and one.items.max() < 50


def test_sizes_are_handed_on_with_their_queries(tmp_path: Path) -> None:
    sizes = np.random.default_rng(1).integers(1, 30, 1_203)
    rows = np.random.default_rng(2).integers(0, 50, 1_203)
    check = load(arrivals=TRACE | {"payload": "row", "size": "rows", "beside_poisson": True}, queries=None)
    schedules = asked(tmp_path, check, tables=tables(row=rows, rows=sizes))
    assert len(schedules) == 10
    for one, (begin, _, end) in zip(schedules[:5], cuts(1_203, 5), strict=True):
        assert one.sizes is not None and one.items is not None and one.batch == 8
        assert one.sizes.tolist() == sizes[begin:end].tolist()
        assert one.items.tolist() == rows[begin:end].tolist()
    # Poisson beside it has the same mix of sizes: what differs is when they come.
    beside = np.concatenate([one.sizes for one in schedules[5:] if one.sizes is not None])
    assert beside.mean() == pytest.approx(sizes.mean(), rel=0.05)


def test_sizes_without_rows_of_their_own_go_round_the_dataset(tmp_path: Path) -> None:
    sizes = np.full(1_203, 3)
    one = asked(tmp_path, load(arrivals=TRACE | {"size": "rows"}, queries=None), tables=tables(rows=sizes))[0]
    assert one.items is not None and one.items[:18].tolist() == [(3 * k) % 50 for k in range(18)]
    assert one.batch == 3


def test_that_queries_have_several_rows_is_told(tmp_path: Path) -> None:
    check = load(arrivals=TRACE | {"size": "rows"}, queries=None)
    fake = FakeInputs(
        tmp_path, samples=driven(by(exponential(0.5))), labels={"test": "label"},
        tables=tables(rows=np.arange(1_203) % 4 + 1),
    )  # fmt: skip
    result = check.run(fake)
    assert str(result.conditions["batch"]).startswith("1 to 4, 2.4")
    assert "A query hands as many rows to the model, in one batch, as was recorded: 1 to 4" in said(result)
    plain = load(rates=["100 qps"]).run(FakeInputs(tmp_path, samples=driven(by(exponential(0.5)))))
    assert plain.conditions["batch"] == 1 and "as many rows" not in said(plain)


def test_a_size_is_of_a_trace() -> None:
    from tests.checks.system.load.test_load import NAMES

    message = load(rates=["5 qps"], arrivals={"size": "rows"}).check_names(NAMES)
    assert message is not None and "`size:`" in message

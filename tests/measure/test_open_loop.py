"""Open-loop measuring, on a clock that the test moves."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.timings import OUTCOMES
from evalspec.measure.open_loop import LEAD_NS, generator_lag_ns, lockstep, open_loop
from evalspec.measure.samples import Sink, read_samples
from evalspec.measure.servable import Remote, Rotation, Servable, rows_of_queries
from evalspec.measure.session import Session
from tests.measure.fakes import FakeClock, FakeServable

MS = 1_000_000
READING_NS = 200
CLOSE_NS = 20 * READING_NS
"""A few readings of the clock: between being free and sending lie no others."""


@pytest.fixture(autouse=True)
def _coarse(clock: FakeClock) -> None:
    clock.reading_ns = READING_NS


def schedule(arrivals_ms: Any, **fields: Any) -> Schedule:
    arrivals = np.round(np.asarray(arrivals_ms, dtype=np.float64) * MS).astype(np.int64)
    common: dict[str, Any] = {"kind": "open_loop", "queries": len(arrivals), "seed": 3, "timeout_s": 1e6}
    return Schedule(arrivals_ns=arrivals, **(common | {"limit_s": 1e6} | fields))


def measured(servable: Servable, asked: Schedule, path: Path, **how: Any) -> tuple[bool, Samples]:
    sink = Sink(path, asked.batch, asked.queries)
    done = open_loop(servable, asked, sink, Rotation(servable.n, asked.batch, asked.seed), **how)
    sink.close()
    return done, read_samples(path, model="candidate", process=0)


def outcomes(samples: Samples) -> list[str]:
    assert samples.outcome is not None
    return [OUTCOMES[one] for one in samples.outcome]


def latency_ms(samples: Samples) -> NDArray[np.float64]:
    latencies: NDArray[np.float64] = (samples.end_ns - samples.intended_ns) / MS
    return latencies


def test_queries_are_sent_at_their_times(tmp_path: Path, clock: FakeClock) -> None:
    before = clock.now
    done, samples = measured(FakeServable(clock), schedule([1, 5, 6, 20]), tmp_path / "s", origin_ns=before)
    assert done and samples.ok.all() and outcomes(samples) == ["answered"] * 4
    assert np.diff(samples.intended_ns).tolist() == [4 * MS, MS, 14 * MS]
    assert samples.intended_ns[0] == pytest.approx(LEAD_NS + MS, abs=CLOSE_NS)
    assert (samples.sent_ns - samples.intended_ns)[[0, 1, 3]].max() <= 2 * READING_NS
    # The third comes when the second, of 1 ms, has just ended.
    assert latency_ms(samples) == pytest.approx([1, 1, 1, 1], abs=0.01)
    assert samples.together is None and samples.first_ns is None


def test_a_start_that_several_clients_share(tmp_path: Path, clock: FakeClock) -> None:
    start = clock.now + 300 * MS
    _, samples = measured(FakeServable(clock), schedule([0, 7]), tmp_path / "s", origin_ns=clock.now, start_ns=start)
    assert samples.intended_ns.tolist() == [start - 1000, start - 1000 + 7 * MS]


def test_a_pause_makes_all_late_that_arrive_meanwhile(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, takes_ms=lambda call: 200.0 if call == 100 else 0.1)
    _, samples = measured(servable, schedule(np.arange(500)), tmp_path / "s")
    latencies = latency_ms(samples)
    # The queue of 200 empties by 0.9 ms with each query: 222 queries are late, each by 0.9 ms less than the last.
    late = np.flatnonzero(latencies > 1.0)
    assert late[0] == 100 and len(late) == pytest.approx(222, abs=2)
    assert np.diff(latencies[late]) == pytest.approx(-0.9, abs=0.01)
    assert np.quantile(latencies, 0.9) > 150
    # A closed loop, whose latency counts from sending, sees one slow query.
    assert ((samples.end_ns - samples.sent_ns) / MS > 1.0).sum() == 1


def test_overload_grows_the_latency(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, takes_ms=lambda call: 2.0)
    _, samples = measured(servable, schedule(np.arange(200)), tmp_path / "s")
    assert np.diff(latency_ms(samples)) == pytest.approx(1.0, abs=0.01)
    assert latency_ms(samples)[-1] == pytest.approx(201.0, rel=0.01)


def test_taking_rows_is_in_no_latency_unless_they_wait(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock)
    servable.between_ms = 3.0
    _, samples = measured(servable, schedule([10, 20, 20.1]), tmp_path / "s")
    assert latency_ms(samples) == pytest.approx([1, 1, 4.9], abs=0.01)


def test_waiting_queries_are_served_together(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=20, takes_ms=lambda call: 10.0)
    asked = schedule([0, 1, 2, 3, 4, 5, 40], max_batch=4)
    done, samples = measured(servable, asked, tmp_path / "s")
    assert done and samples.together is not None
    assert samples.together.tolist() == [1, 4, 4, 4, 4, 1, 1]
    assert [len(one) for one in servable.served] == [1, 4, 1, 1]
    assert latency_ms(samples) == pytest.approx([10, 19, 18, 17, 16, 25, 10], abs=0.01)
    assert np.concatenate(servable.served).tolist() == samples.items.tolist()
    assert samples.answers is not None and samples.answers[:, 0].tolist() == samples.items.tolist()


def test_a_query_waits_for_others_as_long_as_it_may(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=20)
    asked = schedule([0, 3, 6, 30, 31, 32, 60], max_batch=3, queue_delay_s=0.005)
    _, samples = measured(servable, asked, tmp_path / "s")
    assert samples.together is not None and samples.together.tolist() == [2, 2, 1, 3, 3, 3, 1]
    # Two after 5 ms; one alone after 5 ms; three as soon as there are three.
    assert latency_ms(samples) == pytest.approx([6, 3, 6, 3, 2, 1, 6], abs=0.01)


def test_a_query_that_waited_too_long_is_given_up_and_kept(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, takes_ms=lambda call: (8.0, 30.0, 1.0)[min(call, 2)])
    asked = schedule([0, 1, 2, 20, 36], timeout_s=0.020)
    done, samples = measured(servable, asked, tmp_path / "s")
    assert done and outcomes(samples) == ["answered", "timed out", "timed out", "answered", "answered"]
    # The second ends too late; the third was never served, and ends when that is found.
    assert servable.calls == 4 and samples.sent_ns[2] == samples.end_ns[2]
    assert latency_ms(samples)[1:4] == pytest.approx([37, 36, 19], abs=0.01)
    assert samples.answers is not None
    assert np.isnan(samples.answers[:, 0]).tolist() == [False, True, True, False, False]


def test_queries_time_out_in_a_batch_each_by_itself(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, takes_ms=lambda call: 10.0)
    asked = schedule([0, 1, 8, 12, 12.1], timeout_s=0.015, max_batch=3)
    _, samples = measured(servable, asked, tmp_path / "s")
    assert outcomes(samples) == ["answered", "timed out", "answered", "timed out", "timed out"]
    assert latency_ms(samples) == pytest.approx([10, 19, 12, 18, 17.9], abs=0.01)


def test_what_was_due_at_the_limit_is_kept_as_not_sent(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, takes_ms=lambda call: 5.0)
    # Nine tenths of 20 ms: queries 0..3 are served, 4..20 are due by then, the rest is not.
    done, samples = measured(servable, schedule(np.arange(100), limit_s=0.020), tmp_path / "s")
    assert not done and outcomes(samples) == ["answered"] * 4 + ["not sent"] * 17
    assert (samples.end_ns >= samples.intended_ns).all() and servable.calls == 4
    done, samples = measured(FakeServable(clock), schedule([1, 50_000], limit_s=0.020), tmp_path / "t")
    assert not done and outcomes(samples) == ["answered"]


def test_the_limit_holds_for_batches_too(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=100, takes_ms=lambda call: 8.0)
    # Nine tenths of 20 ms: at 0, 8 and 16 ms there are 1, 8 and 8 waiting; at 24 ms it is over.
    done, samples = measured(servable, schedule(np.arange(100), limit_s=0.020, max_batch=50), tmp_path / "s")
    assert not done and [len(one) for one in servable.served] == [1, 8, 8]
    assert outcomes(samples) == ["answered"] * 17 + ["not sent"] * 8


@pytest.mark.parametrize("max_batch", [1, 4])
def test_failures_are_kept(tmp_path: Path, clock: FakeClock, max_batch: int) -> None:
    servable = FakeServable(clock, fails=lambda call: call in (1, 2))
    done, samples = measured(servable, schedule(np.arange(6) * 10.0, max_batch=max_batch), tmp_path / "s")
    assert done and samples.ok.tolist() == [True, False, False, True, True, True]
    assert latency_ms(samples) == pytest.approx(1.0, abs=0.01)
    assert samples.answers is not None and np.isnan(samples.answers[:, 0]).sum() == 2


@pytest.mark.parametrize("max_batch", [1, 8])
def test_a_model_that_only_fails_is_an_error(tmp_path: Path, clock: FakeClock, max_batch: int) -> None:
    servable = FakeServable(clock, fails=lambda call: True)
    asked = schedule(np.zeros(100), max_batch=max_batch)
    with pytest.raises(InputError, match=r"the first 2\d queries all failed; the last one: call \d+ failed"):
        measured(servable, asked, tmp_path / "s")
    assert not read_samples(tmp_path / "s", model="m", process=0).ok.any()


def test_answers_are_made_afterwards_of_a_part_that_the_seed_picks(tmp_path: Path, clock: FakeClock) -> None:
    class SlowAnswers(FakeServable):
        def answers(self, outputs: Any) -> NDArray[np.float64]:
            self.clock.pass_ms(1000.0)
            return super().answers(outputs)

    found = []
    for seed in (3, 3, 4):
        servable = SlowAnswers(clock, n=7)
        _, samples = measured(servable, schedule(np.arange(3000) * 2.0, seed=seed), tmp_path / "s")
        assert latency_ms(samples).max() < 1.01 and samples.answers is not None
        kept = ~np.isnan(samples.answers[:, 0])
        np.testing.assert_array_equal(samples.answers[kept, 0], samples.items[kept])
        found.append(np.flatnonzero(kept))
    assert len(found[0]) == 1024 and found[0].tolist() == found[1].tolist() != found[2].tolist()
    # As likely early as late: of 1,024 in three thirds 341 +- 4 standard deviations of 12.3.
    assert np.abs(np.bincount(found[0] // 1000) - 341).max() < 50


def test_items_that_the_schedule_names(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=10)
    asked = schedule([0, 5, 10], items=np.array([4, 4, 9]), batch=2)
    _, samples = measured(servable, asked, tmp_path / "s")
    assert samples.items.tolist() == [4, 4, 9]
    assert servable.served == rows_of_queries(np.array([4, 4, 9]), 2, 10, 3).tolist()
    np.testing.assert_array_equal(samples.answers, servable.served)


@pytest.mark.parametrize("fields", [{"arrivals_ns": None}, {"queries": 3}])
def test_no_times_of_arrival(tmp_path: Path, clock: FakeClock, fields: dict[str, Any]) -> None:
    common: dict[str, Any] = {"kind": "open_loop", "queries": 2, "arrivals_ns": np.array([0, 1])}
    asked = Schedule(**(common | fields))
    with pytest.raises(InputError, match=r"needs as many arrival times"):
        measured(FakeServable(clock), asked, tmp_path / "s")


@st.composite
def loads(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(1, 40))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 4.0, 30.0]), min_size=n, max_size=n))
    return {
        "arrivals_ms": np.cumsum(gaps),
        "takes_ms": draw(st.lists(st.sampled_from([0.0, 0.5, 2.0, 25.0]), min_size=n, max_size=n)),
        # Not the first: where nothing was ever answered, measuring ends.
        "fails": draw(st.sets(st.integers(1, 15))),
        "max_batch": draw(st.integers(1, 5)),
        "queue_delay_s": draw(st.sampled_from([0.0, 0.001, 0.005])),
        "timeout_s": draw(st.sampled_from([0.003, 0.03, 1e6])),
        "limit_s": draw(st.sampled_from([0.05, 1e6])),
    }


def by_hand(load: dict[str, Any]) -> list[tuple[float, float]]:
    """When each query is sent and ends, in ms, on a machine without any delay of its own; without limit or failures."""
    due, most, delay = load["arrivals_ms"], load["max_batch"], 1e3 * load["queue_delay_s"]
    times: list[tuple[float, float]] = []
    free, call = 0.0, 0
    while (k := len(times)) < len(due):
        full = due[k + most - 1] if k + most <= len(due) else np.inf
        at = max(free, due[k], min(due[k] + (delay if most > 1 else 0.0), full))
        if at - due[k] > 1e3 * load["timeout_s"]:
            times.append((at, at))
            continue
        size = sum(1 for one in due[k : k + most] if one <= at)
        free = at + load["takes_ms"][call]
        call += 1
        times += [(at, free)] * size
    return times


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(loads())
def test_whatever_the_load(clock: FakeClock, load: dict[str, Any]) -> None:
    fails: set[int] = load["fails"]
    servable = FakeServable(
        clock, n=1000, takes_ms=lambda call: load["takes_ms"][call], fails=lambda call: call in fails
    )
    names = ("max_batch", "queue_delay_s", "timeout_s", "limit_s")
    asked = schedule(load["arrivals_ms"], **{name: load[name] for name in names})
    with tempfile.TemporaryDirectory() as folder:
        done, samples = measured(servable, asked, Path(folder) / "s")
    n, intended, sent, end = len(samples.ok), samples.intended_ns, samples.sent_ns, samples.end_ns
    assert asked.arrivals_ns is not None
    # Nothing is dropped, unless it was not due by the limit.
    assert (np.diff(intended) == np.diff(asked.arrivals_ns[:n])).all()
    assert n == asked.queries if done else load["limit_s"] < 1
    assert (sent >= intended).all() and (end >= sent).all() and (np.diff(sent) >= 0).all()
    # What was served is what was asked for, in that order, once.
    handed = end > sent
    assert np.concatenate([*servable.served, []]).tolist() == samples.items[handed].tolist()
    assert {len(one) for one in servable.served} <= set(range(1, load["max_batch"] + 1))
    ok_late = handed & (end - intended > load["timeout_s"] * 1e9)
    assert not samples.ok[~handed].any() and not samples.ok[ok_late].any()
    failed = [call in fails for call, rows in enumerate(servable.served) for _ in rows]
    assert (np.array(outcomes(samples), dtype=object)[handed] == "failed").tolist() == failed
    lag = generator_lag_ns(
        intended, sent, end, max_batch=load["max_batch"], queue_delay_ns=int(load["queue_delay_s"] * 1e9)
    )
    # The clock is read for each query that is given up on the way.
    close_ns = CLOSE_NS + 200 * int((~handed).sum())
    assert len(lag) == len(servable.served) and (lag >= 0).all() and (lag <= close_ns).all()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(loads())
def test_times_are_those_of_a_queue_worked_out_by_hand(clock: FakeClock, load: dict[str, Any]) -> None:
    # Half a ms beside each other, and clear of it: readings of the clock tip no balance.
    load["arrivals_ms"] = np.round(load["arrivals_ms"]) + 0.25 * (np.arange(len(load["arrivals_ms"])) % 2)
    load["arrivals_ms"] = np.maximum.accumulate(load["arrivals_ms"])
    load["takes_ms"] = [one + 0.61 for one in load["takes_ms"]]
    servable = FakeServable(clock, n=1000, takes_ms=lambda call: load["takes_ms"][call])
    asked = schedule(load["arrivals_ms"], **{name: load[name] for name in ("max_batch", "queue_delay_s", "timeout_s")})
    with tempfile.TemporaryDirectory() as folder:
        _, samples = measured(servable, asked, Path(folder) / "s")
    expected = np.array(by_hand(load))
    start = samples.intended_ns[0] - load["arrivals_ms"][0] * MS
    np.testing.assert_allclose((samples.sent_ns - start) / MS, expected[:, 0], atol=0.04)
    np.testing.assert_allclose((samples.end_ns - start) / MS, expected[:, 1], atol=0.04)


def test_lag_is_what_nothing_excuses() -> None:
    intended = np.array([0, 10, 20, 30, 100, 200])
    # Free and due; behind the first; two that waited while it was busy; alone; one that was never sent.
    sent = np.array([6, 52, 60, 60, 108, 210])
    end = np.array([50, 58, 70, 70, 120, 210])
    assert generator_lag_ns(intended, sent, end).tolist() == [6, 2, 2, 8]
    assert generator_lag_ns(intended, sent, end, max_batch=2, queue_delay_ns=5).tolist() == [1, 2, 2, 3]
    assert generator_lag_ns(intended, sent, end, in_process=False).tolist() == [6, 42, 40, 30, 8]
    # As soon as there are two, whatever the delay.
    full = generator_lag_ns(np.array([0, 30]), np.array([34, 34]), np.array([40, 40]), max_batch=2, queue_delay_ns=90)
    assert full.tolist() == [4]
    assert len(generator_lag_ns(intended[:0], sent[:0], end[:0])) == 0


OPENING_MS = 3000


class FakeRemote(FakeServable):
    """A client whose server answers each query after 3 ms, all at once, in the other order; the last is never sent."""

    def __init__(self, clock: FakeClock, n: int) -> None:
        super().__init__(clock, n=n)
        self.took: list[list[int]] = []
        self.seen: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def take(self, rows: NDArray[np.int64]) -> Any:
        self.took.append(rows.tolist())
        return super().take(rows)

    def drive(
        self,
        schedule: Schedule,
        begin: Callable[[], NDArray[np.int64]],
        rows: NDArray[np.int64],
        sink: Sink,
        origin_ns: int,
    ) -> bool:
        # Connections that are slow to open.
        self.clock.pass_ms(OPENING_MS)
        times_ns = begin()
        self.seen = (times_ns, rows)
        self.clock.now = origin_ns + int(times_ns[-1]) + 50 * MS
        for k in range(len(times_ns) - 2, -1, -1):
            sent = int(times_ns[k]) + 1000
            answers = rows[k].astype(np.float64)
            sink.record(sink.first + k, sent_ns=sent, first_ns=sent + MS, end_ns=sent + 3 * MS, answers=answers)
        return False

    def facts(self) -> Mapping[str, Cell]:
        return {"connections": 2, "generator_lag_p99_ms": 0.25}


def test_a_client_of_a_server_sends_for_itself(tmp_path: Path, clock: FakeClock) -> None:
    remote = FakeRemote(clock, n=4)
    assert isinstance(remote, Remote) and not isinstance(FakeServable(clock), Remote)
    asked = schedule(np.arange(6), warmup_queries=0, warmup_s=0.0)
    before = clock.now
    session = Session(remote, asked, tmp_path / "s", origin_ns=before)
    session.warm_up()
    # All rows once, so that requests can be made before.
    assert sorted(remote.took[-4:]) == [[0], [1], [2], [3]]
    session.block(1, 6, 0.0)
    details = session.finish()
    samples = read_samples(tmp_path / "s", model="m", process=0)
    assert remote.seen is not None
    np.testing.assert_array_equal(samples.intended_ns, remote.seen[0])
    assert OPENING_MS * MS + LEAD_NS < samples.intended_ns[0] < OPENING_MS * MS + 2 * LEAD_NS
    assert samples.block.tolist() == [1] * 6
    assert samples.items.tolist() == remote.seen[1][:, 0].tolist()
    assert outcomes(samples) == ["answered"] * 5 + ["not sent"] and details["complete"] is False
    assert samples.first_ns is not None and (samples.first_ns - samples.sent_ns)[:5].tolist() == [MS] * 5
    assert samples.answers is not None and samples.answers[:5, 0].tolist() == samples.items[:5].tolist()
    # The client's own account of its lag stands in place of the loop's.
    assert (details["generator_lag_p99_ms"], details["generator_lag_p50_ms"]) == (0.25, 0.001)
    assert details["connections"] == 2


def test_streams_in_lockstep(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=20, takes_ms=lambda call: 25.0 if call == 2 else 4.0)
    asked = Schedule(kind="multi_stream", queries=6, batch=4, interval_ns=10 * MS, min_s=0.075, seed=3)
    sink = Sink(tmp_path / "s", 4, 6)
    assert lockstep(servable, asked, sink, Rotation(20, 4, 3), block=1)
    samples = read_samples(tmp_path / "s", model="m", process=0)
    # 75 ms at 10 ms each are 8 frames; the slow one makes the next two late, and none is dropped.
    assert len(samples.ok) == 8 and (np.diff(samples.intended_ns) == 10 * MS).all()
    assert latency_ms(samples) == pytest.approx([4, 4, 25, 19, 13, 7, 4, 4], abs=0.01)
    assert rows_of_queries(samples.items, 4, 20, 3).tolist() == servable.served
    np.testing.assert_array_equal(samples.answers, servable.served)
    with pytest.raises(InputError, match="need an interval"):
        lockstep(servable, Schedule(kind="multi_stream", queries=6), sink, Rotation(20, 4, 3))


def test_a_session_of_an_open_loop(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=50, takes_ms=lambda call: 2.0)
    asked = schedule(np.arange(40) * 1.5, max_batch=4, queue_delay_s=0.001, warmup_queries=4, warmup_s=0.0)
    session = Session(servable, asked, tmp_path / "s", origin_ns=500)
    session.warm_up()
    # Every size that batching can make was served once before.
    assert {4, 3, 2} <= {len(one) for one in servable.served}
    for block in (0, 3):
        session.block(block, 20, 0.0)
    details = session.finish()
    samples = read_samples(tmp_path / "s", model="m", process=0)
    assert details["complete"] is True and details["origin_ns"] == 500
    assert 0 <= float(details["generator_lag_p50_ms"] or 0) <= float(details["generator_lag_p99_ms"] or 0) < 0.01
    assert samples.block.tolist() == [0] * 20 + [3] * 20 and samples.together is not None
    spans = [samples.intended_ns[samples.block == block] for block in (0, 3)]
    assert (spans[0] - spans[0][0]).tolist() == (spans[1] - spans[1][0]).tolist()


def test_a_killed_process_loses_nothing_that_ended(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        import numpy as np
        from evalspec.language.inputs import Schedule
        from evalspec.measure.session import Session
        class Kills:
            n, calls = 5, 0
            def take(self, rows): return rows
            def serve(self, query):
                self.calls += 1
                if self.calls == 31: os.kill(os.getpid(), signal.SIGKILL)
                return query
            def synchronize(self): pass
            def answers(self, outputs): return outputs.astype(float)
        times = np.arange(100) * 100_000
        asked = Schedule(kind="open_loop", queries=100, arrivals_ns=times, max_batch=int(sys.argv[2]))
        Session(Kills(), asked, Path(sys.argv[1])).block(0, 100, 0.0)
        """
    )
    for max_batch in ("1", "3"):
        ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s"), max_batch], check=False)
        assert ended.returncode == -signal.SIGKILL
        samples = read_samples(tmp_path / "s", model="m", process=0)
        batches = len(np.unique(samples.sent_ns))
        assert batches == 30 and samples.ok.all() and (samples.end_ns > samples.sent_ns).all()


def test_a_real_clock_keeps_the_order_of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    from evalspec.measure.arrivals import poisson

    class NoOp:
        n = 3

        def take(self, rows: NDArray[np.int64]) -> Any:
            return rows

        def serve(self, query: Any) -> Any:
            return query

        def synchronize(self) -> None:
            return

        def answers(self, outputs: Any) -> NDArray[np.float64]:
            return np.asarray(outputs, dtype=np.float64)

    times = poisson(2000.0, n=400, rng=np.random.default_rng(1))
    for max_batch in (1, 4):
        asked = Schedule(kind="open_loop", queries=400, arrivals_ns=times, max_batch=max_batch, queue_delay_s=0.001)
        done, samples = measured(NoOp(), asked, tmp_path / "s")
        assert done and samples.ok.all() and len(samples.ok) == 400
        assert (np.diff(samples.intended_ns) == np.diff(times)).all()
        assert (samples.sent_ns >= samples.intended_ns).all() and (samples.end_ns >= samples.sent_ns).all()

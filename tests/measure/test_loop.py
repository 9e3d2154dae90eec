"""Closed-loop measuring, on a clock that the test moves."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.language.inputs import Samples, Schedule
from evalspec.measure.loop import Session, offline, read_samples, single_stream
from evalspec.measure.samples import Sink
from evalspec.measure.servable import Rotation, item_order, rows_of_queries
from tests.measure.fakes import FakeClock, FakeServable


def schedule(**fields: object) -> Schedule:
    common: dict[str, object] = {"kind": "single_stream", "queries": 5, "seed": 3, "warmup_queries": 0, "warmup_s": 0.0}
    return Schedule(**(common | fields))  # type: ignore[arg-type]


def measured(servable: FakeServable, asked: Schedule, path: Path) -> tuple[bool, Samples]:
    sink = Sink(path, asked.batch, asked.queries)
    rotation = Rotation(servable.n, asked.batch, asked.seed)
    done = single_stream(servable, asked, sink, rotation)
    sink.close()
    return done, read_samples(path, model="candidate", process=0)


def test_only_serving_is_timed(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, takes_ms=lambda call: call + 1.0)
    servable.between_ms = 100.0
    servable.device_ms = 0.5
    done, samples = measured(servable, schedule(), tmp_path / "s")
    assert done and samples.ok.all()
    latency_ms = (samples.end_ns - samples.sent_ns) / 1e6
    np.testing.assert_allclose(latency_ms, [1.5, 2.5, 3.5, 4.5, 5.5], atol=1e-5)
    np.testing.assert_array_equal(samples.intended_ns, samples.sent_ns)
    assert (np.diff(samples.sent_ns) > 100e6).all()


def test_it_goes_on_until_the_time_is_over(tmp_path: Path, clock: FakeClock) -> None:
    done, samples = measured(FakeServable(clock), schedule(queries=2, min_s=0.0105), tmp_path / "s")
    assert done and len(samples.ok) == 11


def test_it_gives_up_before_the_limit_and_says_so(tmp_path: Path, clock: FakeClock) -> None:
    done, samples = measured(FakeServable(clock), schedule(queries=1000, limit_s=0.010), tmp_path / "s")
    assert not done and len(samples.ok) == 9


def test_rows_are_rotated_in_a_seeded_order(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=7)
    _, samples = measured(servable, schedule(queries=9, batch=2), tmp_path / "s")
    rows = rows_of_queries(samples.items, 2, 7, seed=3)
    assert rows.tolist() == servable.served
    assert sorted(rows.reshape(-1)[:7].tolist()) == list(range(7))
    assert samples.answers is not None
    np.testing.assert_array_equal(samples.answers, rows)
    assert item_order(7, 3).tolist() != item_order(7, 4).tolist()


def test_a_failing_query_is_kept_and_is_not_ok(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, fails=lambda call: call in (1, 3))
    done, samples = measured(servable, schedule(), tmp_path / "s")
    assert done and samples.ok.tolist() == [True, False, True, False, True]
    np.testing.assert_allclose((samples.end_ns - samples.sent_ns) / 1e6, np.ones(5), atol=1e-5)
    assert samples.answers is not None and np.isnan(samples.answers[:, 0]).tolist() == [False, True, False, True, False]


def test_offline_batches_follow_right_upon_another(tmp_path: Path, clock: FakeClock) -> None:
    class SlowAnswers(FakeServable):
        def answers(self, outputs: object) -> NDArray[np.float64]:
            self.clock.pass_ms(1000.0)
            return super().answers(outputs)

    servable = SlowAnswers(clock, n=2000, fails=lambda call: call == 1)
    asked = schedule(kind="offline", queries=8, batch=200)
    sink = Sink(tmp_path / "s", 200, 8)
    rotation = Rotation(2000, 200, 3)
    assert offline(servable, asked, sink, rotation, block=2)
    samples = read_samples(tmp_path / "s", model="m", process=0)
    # 8 batches of 1 ms; the answers of the first 1,024 rows (6 batches that came back) are made afterwards.
    assert samples.end_ns[-1] - samples.sent_ns[0] < 8.1e6
    assert samples.ok.tolist() == [True, False, True, True, True, True, True, True]
    assert samples.answers is not None
    kept = ~np.isnan(samples.answers).any(axis=1)
    assert kept.tolist() == [True, False, True, True, True, True, True, False]
    rows = rows_of_queries(samples.items, 200, 2000, 3)
    np.testing.assert_array_equal(samples.answers[kept], rows[kept])


def test_offline_outputs_that_are_no_answers_are_not_ok(tmp_path: Path, clock: FakeClock) -> None:
    class NoAnswers(FakeServable):
        def answers(self, outputs: object) -> NDArray[np.float64]:
            raise InputError("NaN in row 3")

    asked = schedule(kind="offline", queries=4, batch=2)
    with pytest.raises(InputError, match=r"all of 4 queries failed; the last one: NaN in row 3"):
        offline(NoAnswers(clock), asked, Sink(tmp_path / "s", 2, 4), Rotation(10, 2, 3))
    assert not read_samples(tmp_path / "s", model="m", process=0).ok.any()


def test_a_model_that_only_fails_is_an_error(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, fails=lambda call: True)
    with pytest.raises(InputError, match=r"the first 20 queries all failed; the last one: call 19 failed"):
        measured(servable, schedule(queries=100), tmp_path / "s")


def test_a_session_alternates_with_another(tmp_path: Path, clock: FakeClock) -> None:
    def session(name: str, takes_ms: float) -> Session:
        servable = FakeServable(clock, takes_ms=lambda call: takes_ms)
        return Session(servable, schedule(queries=4, warmup_queries=8), tmp_path / name, origin_ns=1)

    a, b = session("a", 1.0), session("b", 2.0)
    assert a.warm_up()["warmup_queries"] == b.warm_up()["warmup_queries"] == 16
    for block, side in enumerate((a, b, b, a)):
        side.block(block, 3, 0.0)
    assert a.count == b.count == 6
    details = a.finish()
    assert details["complete"] is True and details["warmup_settled"] is True
    assert isinstance(details["timer_overhead_ns"], float) and details["gc"] == "on, older objects set aside"
    one = read_samples(tmp_path / "a", model="a", process=2, details=details)
    other = read_samples(tmp_path / "b", model="b", process=2)
    assert one.block.tolist() == [0, 0, 0, 3, 3, 3] and other.block.tolist() == [1, 1, 1, 2, 2, 2]
    assert one.warmup == 16 and one.process == 2 and one.details["complete"] is True
    assert one.end_ns[2] < other.sent_ns[0] and other.end_ns[-1] < one.sent_ns[3]
    assert len(set(one.items.tolist())) == 6


def test_a_session_that_ran_out_of_time_is_not_complete(tmp_path: Path, clock: FakeClock) -> None:
    session = Session(FakeServable(clock), schedule(queries=100, limit_s=0.01), tmp_path / "s")
    session.warm_up()
    session.block(0, 100, 0.0)
    assert session.finish()["complete"] is False


def test_garbage_collection_is_counted_and_left_as_it_was(tmp_path: Path, clock: FakeClock) -> None:
    frozen, callbacks = gc.get_freeze_count(), len(gc.callbacks)

    def collects(call: int) -> float:
        if call == 2:
            gc.collect()
        return 1.0

    session = Session(FakeServable(clock, takes_ms=collects), schedule(), tmp_path / "s")
    session.block(0, 5, 0.0)
    details = session.finish()
    assert int(details["gc_collections"] or 0) >= 1
    assert gc.get_freeze_count() == frozen and len(gc.callbacks) == callbacks


@pytest.mark.parametrize(
    ("takes_ms", "fields", "queries", "settled"),
    [
        (lambda call: 1.0, {"warmup_queries": 4}, 16, True),
        (lambda call: 1.0, {"warmup_queries": 100}, 100, True),
        (lambda call: 1.0, {"warmup_s": 0.05}, 50, True),
        (lambda call: 1.5**call, {"warmup_queries": 4}, 18, False),
    ],
)
def test_warm_up_takes_count_time_and_steadiness(
    tmp_path: Path,
    clock: FakeClock,
    takes_ms: Callable[[int], float],
    fields: dict[str, float],
    queries: int,
    settled: bool,
) -> None:
    servable = FakeServable(clock, takes_ms=takes_ms)
    details = Session(servable, schedule(**fields), tmp_path / "s").warm_up()
    assert servable.calls == details["warmup_queries"]
    assert (details["warmup_queries"], details["warmup_settled"]) == (queries, settled)


def test_warm_up_waits_for_a_slow_start(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, takes_ms=lambda call: 50.0 / (1 + call))
    details = Session(servable, schedule(), tmp_path / "s").warm_up()
    # Windows of 8 calls around call k differ by 8/k of their level: under 5 % from k = 160 on.
    assert details["warmup_settled"] is True and 150 <= servable.calls <= 180
    assert details["warmup_first_ms"] == pytest.approx(50.0, rel=1e-3)
    assert float(details["warmup_last_ms"] or 0) < 0.4


def test_a_model_that_fails_while_warming_up_is_not_measured(tmp_path: Path, clock: FakeClock) -> None:
    session = Session(FakeServable(clock, fails=lambda call: call == 3), schedule(warmup_queries=8), tmp_path / "s")
    with pytest.raises(InputError, match=r"call 3 failed"):
        session.warm_up()

"""A session: warm-up, blocks, and what it says of the run."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.language.inputs import Samples
from evalspec.measure.samples import read_samples
from evalspec.measure.session import Session
from tests.measure.fakes import FakeClock, FakeServable
from tests.measure.test_loop import schedule


def test_many_streams_one_after_the_other(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=20)
    session = Session(servable, schedule(kind="multi_stream", queries=6, batch=8), tmp_path / "s")
    session.block(0, 6, 0.0)
    assert "generator_lag_p99_ms" not in session.finish()
    samples = read_samples(tmp_path / "s", model="m", process=0)
    assert [len(one) for one in servable.served] == [8] * 6
    assert (samples.intended_ns == samples.sent_ns).all() and (samples.sent_ns[1:] >= samples.end_ns[:-1]).all()
    np.testing.assert_array_equal(samples.answers, servable.served)


def test_slow_queries_are_set_beside_garbage_collections(tmp_path: Path, clock: FakeClock) -> None:
    def collects(call: int) -> float:
        if call in (50, 150):
            gc.collect()
            return 5.0
        return 5.0 if call in (100, 101) else 1.0

    session = Session(FakeServable(clock, takes_ms=collects), schedule(queries=400), tmp_path / "s")
    session.block(0, 400, 0.0)
    # The slowest hundredth are four queries; two of them hold a collection.
    assert session.finish()["gc_share_of_slow"] == 0.5
    few = Session(FakeServable(clock), schedule(queries=5), tmp_path / "s")
    few.block(0, 5, 0.0)
    assert few.finish()["gc_share_of_slow"] is None


@pytest.mark.proof
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


def test_garbage_collection_is_counted_and_left_as_it_was(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    callbacks, calls = len(gc.callbacks), list[str]()
    for name in ("freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, partial(calls.append, name))

    def collects(call: int) -> float:
        if call == 2:
            gc.collect()
        return 1.0

    session = Session(FakeServable(clock, takes_ms=collects), schedule(), tmp_path / "s")
    session.block(0, 5, 0.0)
    details = session.finish()
    assert int(details["gc_collections"] or 0) >= 1
    assert calls == ["freeze", "unfreeze"] and len(gc.callbacks) == callbacks


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


def test_warm_up_before_an_audit_for_caching_asks_for_one_item_only(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock)
    Session(servable, schedule(repeats=2, warmup_queries=8), tmp_path / "s").warm_up()
    assert servable.served == [servable.served[0]] * 16
    Session(servable, schedule(warmup_queries=8), tmp_path / "s").warm_up()
    assert servable.served[16] != servable.served[17]


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


class Server(FakeServable):
    """A server that has lived long enough to have been asked for every row; asked again it answers at once."""

    def __init__(self, clock: FakeClock, n: int, *, numbers: bool = True, remembers: bool = True) -> None:
        super().__init__(clock, n)
        self.numbers = numbers
        self.remembers = remembers
        self.known = {(row, 0) for row in range(n)}
        self.altered_calls: list[int] = []

    def take(self, rows: NDArray[np.int64]) -> Any:
        return [(int(row), 0) for row in rows]

    def altered(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Any:
        by = int(rng.integers(1, 1 << 40))
        return [(int(row), by) for row in rows] if self.numbers else None

    def serve(self, query: Any) -> Any:
        known = self.remembers and all(one in self.known for one in query)
        self.known |= set(query)
        self.clock.pass_ms(0.05 if known else 1.0)
        self.altered_calls.append(query[0][1])
        return np.array([row for row, _ in query])

    def drive(self, *args: Any) -> bool:
        raise AssertionError("an audit is not an open loop")

    def facts(self) -> dict[str, Any]:
        return {}


def audited(servable: FakeServable, path: Path) -> Samples:
    session = Session(servable, schedule(queries=80, repeats=2, warmup_queries=3), path)
    session.warm_up()
    session.block(0, 80, 0.0)
    return read_samples(path, model="candidate", process=0, details=session.finish())


@pytest.mark.parametrize(("remembers", "saved"), [(True, 0.95), (False, 0.0)])
def test_a_server_that_was_asked_for_every_row_is_audited_with_new_ones(
    tmp_path: Path, clock: FakeClock, remembers: bool, saved: float
) -> None:
    samples = audited(Server(clock, 7, remembers=remembers), tmp_path / "s")
    assert samples.details["in_process"] is False and samples.details["altered"] is True
    assert (samples.details["kind"], samples.details["repeats"]) == ("single_stream", 2)
    first, again = ((samples.end_ns - samples.sent_ns)[samples.block == block] / 1e6 for block in (0, 1))
    assert len(first) == len(again) == 40 and first.min() > 0.99
    assert 1.0 - again.mean() / first.mean() == pytest.approx(saved, abs=0.01)
    np.testing.assert_array_equal(samples.items[0::2], samples.items[1::2])
    # What altered rows are answered is not what the rows are: only the second of each pair is compared with quality.
    assert samples.answers is not None and np.isnan(samples.answers[samples.block == 0]).all()
    np.testing.assert_array_equal(samples.answers[samples.block == 1, 0], samples.items[samples.block == 1])


@pytest.mark.proof
def test_no_alteration_comes_twice_and_none_where_there_are_no_numbers(tmp_path: Path, clock: FakeClock) -> None:
    servers = [Server(clock, 7), Server(clock, 7)]
    for index, server in enumerate(servers):
        audited(server, tmp_path / str(index))
    asked = [by for server in servers for by in server.altered_calls if by]
    assert len(set(asked)) == len(asked) == 80, "runs with the same seed too"
    text = audited(Server(clock, 7, numbers=False), tmp_path / "text")
    assert text.details["altered"] is False and text.details["in_process"] is False
    ours = audited(FakeServable(clock, n=7), tmp_path / "ours")
    assert ours.details["altered"] is False and ours.details["in_process"] is True

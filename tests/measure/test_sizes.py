"""Queries of an open loop that have several rows each, and not all as many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.language.inputs import Samples, Schedule
from evalspec.measure.answer_sample import KEPT_ROWS, AnswerSample
from evalspec.measure.samples import Sink, read_samples
from evalspec.measure.servable import Rotation, rows_of_queries
from evalspec.measure.session import Session
from tests.measure.fakes import FakeClock, FakeServable

MS = 1_000_000
N = 40


def asked(sizes: list[int], items: list[int] | None = None, **fields: Any) -> Schedule:
    return Schedule(
        kind="open_loop", queries=len(sizes), batch=fields.pop("batch", 4), seed=3, warmup_queries=2, warmup_s=0.0,
        timeout_s=1e6, limit_s=1e6, arrivals_ns=5 * MS * np.arange(len(sizes), dtype=np.int64),
        items=None if items is None else np.array(items), sizes=np.array(sizes), **fields,
    )  # fmt: skip


def measured(servable: FakeServable, schedule: Schedule, path: Path) -> Samples:
    session = Session(servable, schedule, path)
    session.warm_up()
    servable.served.clear()
    session.block(0, schedule.queries, 0.0)
    details = session.finish()
    return replace(read_samples(path, model="m", process=0), details=details | {"order_seed": schedule.seed})


def follow(items: list[int], sizes: list[int], seed: int = 3) -> list[list[int]]:
    """Rows of each query: from its first on, in the seed's order."""
    order = Rotation(N, 1, seed).table(0, N)[:, 0].tolist()
    places = {row: place for place, row in enumerate(order)}
    return [[order[(places[item] + k) % N] for k in range(size)] for item, size in zip(items, sizes, strict=True)]


def test_a_query_hands_its_rows_to_the_model_in_one_batch(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=N)
    samples = measured(servable, asked([1, 5, 2, 7], items=[4, 9, 9, 30]), tmp_path / "s")
    assert servable.served == follow([4, 9, 9, 30], [1, 5, 2, 7])
    assert samples.sizes is not None and samples.sizes.tolist() == [1, 5, 2, 7]
    assert samples.items.tolist() == [4, 9, 9, 30] and samples.ok.all() and samples.batch == 4
    # Of each query as many answers are kept as there is room for; the servable answers a row with its index.
    rows = rows_of_queries(samples.items, 4, N, 3)
    assert samples.answers is not None
    for answers, own, size in zip(samples.answers, rows, [1, 5, 2, 7], strict=True):
        assert answers[:size].tolist() == own[: min(size, 4)].tolist()
        assert np.isnan(answers[size:]).all()


def test_without_rows_of_their_own_queries_go_on_in_the_order(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=N)
    measured(servable, asked([3, 1, 30, 10]), tmp_path / "s")
    order = Rotation(N, 1, 3).table(0, 44)[:, 0].tolist()
    assert servable.served == [order[:3], order[3:4], order[4:34], order[34:44]]


def test_queries_that_are_served_together_stay_apart_in_their_answers(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=N, takes_ms=lambda call: 30.0)
    sizes, items = [2, 3, 1, 9, 2], [0, 5, 11, 17, 39]
    samples = measured(servable, asked(sizes, items, max_batch=8, batch=3), tmp_path / "s")
    assert [len(rows) for rows in servable.served] == [2, 15]
    assert samples.together is not None and samples.together.tolist() == [1, 4, 4, 4, 4]
    assert samples.answers is not None
    for answers, rows in zip(samples.answers, follow(items, sizes), strict=True):
        assert answers[np.isfinite(answers)].tolist() == rows[:3]


def test_warm_up_serves_every_size_once(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=N)
    Session(servable, asked([1, 5, 5, 12, 5]), tmp_path / "s").warm_up()
    assert [len(rows) for rows in servable.served[:3]] == [12, 5, 1]
    assert {len(rows) for rows in servable.served[3:]} == {5}


def test_large_queries_do_not_push_out_the_answers_of_others() -> None:
    """Of 1,000 queries of 100 rows, 8 answers are kept of each: 128 queries make the 1,024 that are compared."""
    sizes = np.full(1000, 100)
    kept = AnswerSample(1, 0, sizes=sizes, batch=8)
    keys = kept.keys(1000)
    for query in range(1000):
        if keys[query] < kept.below:
            kept.hold(keys[query], query, 100, None)
    assert len(kept._held) * 8 == pytest.approx(KEPT_ROWS, abs=8)


class Fixed(FakeServable):
    """A model that takes 4 rows at once, or is padded to them."""

    fixed_batch: int | None = 4


def test_a_fixed_batch_is_one_sentence_before_anything_is_served(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(InputError) as caught:
        Session(Fixed(clock, n=N), asked([1, 4, 5]), tmp_path / "s").warm_up()
    assert str(caught.value) == (
        "the model takes 4 rows at once and no other number, and a query of the trace has 5; export it with a dynamic "
        "batch, or leave `size:` out"
    )
    servable = Fixed(clock, n=N)
    assert measured(servable, asked([1, 4, 2]), tmp_path / "t").ok.all()


def test_samples_without_sizes_have_none(tmp_path: Path, clock: FakeClock) -> None:
    sink = Sink(tmp_path / "s", 2, 3)
    sink.plan(np.array([0, 1, 2]), 0)
    for query in range(3):
        sink.record(query, sent_ns=1, end_ns=2, answers=np.array([1.0, 2.0]))
    assert read_samples(tmp_path / "s", model="m", process=0).sizes is None
    # An answer with more rows than there is room for, and one with fewer.
    sink = Sink(tmp_path / "t", 2, 2)
    sink.plan(np.array([0, 1]), 0, sizes=np.array([5, 1]))
    sink.record(0, sent_ns=1, end_ns=2, answers=np.arange(5.0))
    sink.record(1, sent_ns=1, end_ns=2)
    sink.amend(1, outcome=0, answers=np.array([7.0]))
    found = read_samples(tmp_path / "t", model="m", process=0)
    assert found.sizes is not None and found.sizes.tolist() == [5, 1]
    assert found.answers is not None
    np.testing.assert_array_equal(found.answers, [[0.0, 1.0], [7.0, np.nan]])

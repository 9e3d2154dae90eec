"""Closed-loop measuring, on a clock that the test moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.timings import OUTCOMES
from evalspec.measure.loop import offline, single_stream
from evalspec.measure.samples import Sink, read_samples
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
    # 8 batches of 1 ms; answers of 1,024 rows (6 of the batches that came back) are made afterwards.
    assert samples.end_ns[-1] - samples.sent_ns[0] < 8.1e6
    assert samples.ok.tolist() == [True, False, True, True, True, True, True, True]
    assert samples.answers is not None
    kept: NDArray[np.bool_] = np.asarray(~np.isnan(samples.answers).any(axis=1))
    assert kept.sum() == 6 and not kept[1]
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


def test_answers_of_offline_batches_are_as_likely_late_as_early(tmp_path: Path, clock: FakeClock) -> None:
    kept = np.zeros(40)
    for seed in range(200):
        sink = Sink(tmp_path / "s", 256, 40)
        offline(
            FakeServable(clock, n=300), schedule(kind="offline", queries=40, batch=256, seed=seed), sink,
            Rotation(300, 256, seed),
        )  # fmt: skip
        answers = sink.rows(0)["answers"]
        found = ~np.isnan(answers).any(axis=1)
        assert found.sum() == 4
        kept += found
    # Each of 40 batches in a tenth of 200 runs: 20 with a standard deviation of 4.2.
    assert kept.min() > 4 and kept.max() < 38 and kept[:20].sum() == pytest.approx(400, abs=70)


def test_each_item_again_right_after_the_first_time(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=9)
    asked = schedule(queries=7, repeats=2)
    _, samples = measured(servable, asked, tmp_path / "s")
    first, again = (samples.items[samples.block == block].tolist() for block in (0, 1))
    assert first == again == item_order(9, 3)[:4].tolist() and samples.block.tolist() == [0, 1] * 4
    assert [one[0] for one in servable.served] == np.repeat(first, 2).tolist()
    _, samples = measured(FakeServable(clock), schedule(queries=2, repeats=3, min_s=0.0105), tmp_path / "s")
    # 11 queries fill the time, and no item's repeats are parted.
    assert samples.block.tolist() == [0, 1, 2] * 4


@pytest.mark.parametrize(("fewest", "ample_s", "sent"), [(4, 0.0055, 6), (4, 0.002, 4), (4, 1.0, 10), (10, 0.0, 10)])
def test_after_ample_time_the_fewest_queries_are_enough(
    tmp_path: Path, clock: FakeClock, fewest: int, ample_s: float, sent: int
) -> None:
    asked = schedule(queries=10, repeats=2, fewest=fewest, ample_s=ample_s)
    done, samples = measured(FakeServable(clock, n=9), asked, tmp_path / "s")
    assert done and samples.block.tolist() == [0, 1] * (sent // 2)
    assert samples.items[::2].tolist() == samples.items[1::2].tolist() == item_order(9, 3)[: sent // 2].tolist()


def test_the_fewest_that_the_limit_cuts_are_not_all(tmp_path: Path, clock: FakeClock) -> None:
    asked = schedule(queries=1000, fewest=500, ample_s=0.001, limit_s=0.010)
    done, samples = measured(FakeServable(clock), asked, tmp_path / "s")
    assert not done and len(samples.ok) == 9


def test_more_queries_than_are_planned_at_once(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, n=7, fails=lambda call: call == 9_000)
    done, samples = measured(servable, schedule(queries=10_000), tmp_path / "s")
    assert done and len(samples.ok) == 10_000 and np.flatnonzero(~samples.ok).tolist() == [9_000]
    assert samples.items.tolist() == [one[0] for one in servable.served]
    assert samples.items[:14].tolist() == [*item_order(7, 3)] * 2


def test_a_model_that_only_fails_is_an_error(tmp_path: Path, clock: FakeClock) -> None:
    servable = FakeServable(clock, fails=lambda call: True)
    with pytest.raises(InputError, match=r"the first 20 queries all failed; the last one: call 19 failed"):
        measured(servable, schedule(queries=100), tmp_path / "s")


def test_a_query_that_says_what_became_of_it(tmp_path: Path, clock: FakeClock) -> None:
    class Refused(InputError):
        outcome = OUTCOMES.index("refused (HTTP 4xx)")

    class Refuses(FakeServable):
        def serve(self, query: object) -> object:
            if self.calls == 2:
                self.calls += 1
                raise Refused("429")
            return super().serve(query)

    _, samples = measured(Refuses(clock, fails=lambda call: call == 1), schedule(), tmp_path / "s")
    assert samples.outcome is not None
    told = [OUTCOMES[one] for one in samples.outcome]
    assert told == ["answered", "failed", "refused (HTTP 4xx)", "answered", "answered"]

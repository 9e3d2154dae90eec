"""Times and counts of streamed answers, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.language.inputs import Samples
from evalspec.language.streams import FINISHES, NOT_COUNTED, PER_STREAM, StreamedAnswer, Streams
from evalspec.measure.streams import StreamSink, joined, read_streams, remove
from evalspec.selftest.timings import Slower
from evalspec.stats.timing.inverse import Inverse
from evalspec.stats.timing.percentile import percentile
from evalspec.timing import streams as timing_streams
from evalspec.timing import token_times

MS = 1_000_000


def streams(*answers: list[int], usage: list[int] | None = None, counted: list[int] | None = None) -> Streams:
    """Answers of which each piece came at a time [ms], one token a piece."""
    lengths = [len(one) for one in answers]
    none = np.full(len(answers), NOT_COUNTED)
    return Streams(
        offsets=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        piece_ns=np.array([at * MS for one in answers for at in one], dtype=np.int64),
        piece_kind=np.zeros(sum(lengths), dtype=np.int64),
        first_tokens=np.array([1 if n else NOT_COUNTED for n in lengths]),
        usage_tokens=np.array(usage if usage is not None else lengths),
        counted_tokens=none if counted is None else np.array(counted),
        reasoning_tokens=none, prompt_tokens=none, cached_tokens=none,
        finish=np.full(len(answers), FINISHES.index("stop")),
        texts=np.array(["x" if n else None for n in lengths], dtype=object),
    )  # fmt: skip


def samples(of: Streams, **others: Any) -> Samples:
    count = len(of.offsets) - 1
    zeros = np.zeros(count, dtype=np.int64)
    fields: dict[str, Any] = {
        "model": "m", "process": 0, "block": zeros, "intended_ns": zeros, "sent_ns": zeros,
        "end_ns": np.full(count, 900 * MS), "items": zeros, "batch": 1, "ok": np.ones(count, dtype=bool), "warmup": 0,
        "streams": of,
    }  # fmt: skip
    return Samples(**fields | others)


def test_times_are_those_of_their_definitions() -> None:
    """Of 4 pieces; of one piece, which has neither gap nor time by token; of none; and one that failed."""
    of = streams([30, 40, 90, 100], [50], [], [10, 20])
    times = timing_streams.times_ms(samples(of, ok=np.array([True, True, True, False])))
    np.testing.assert_allclose(times["ttft"], [30, 50, np.nan, np.inf])
    np.testing.assert_allclose(times["tpot"], [70 / 3, np.nan, np.nan, np.inf])
    np.testing.assert_allclose(times["longest_gap"], [50, np.nan, np.nan, np.inf])


def test_reasoning_is_no_answer() -> None:
    of = replace(streams([10, 20, 30], [10, 20]), piece_kind=np.array([1, 1, 0, 1, 1]))
    times = timing_streams.times_ms(samples(of))
    np.testing.assert_allclose(times["ttft"], [10, 10])
    np.testing.assert_allclose(times["ttfa"], [30, np.nan])


def test_the_smaller_of_two_counts_is_taken_and_counts_that_differ_void() -> None:
    of = streams([10, 20, 30, 40], [10, 20, 30, 40], usage=[12, 5], counted=[4, 4])
    assert timing_streams.tokens(of).tolist() == [4, 4]
    # The second differs by the one token of the end, which usage counts.
    assert timing_streams.counts_differ(of).tolist() == [True, False]
    reason = timing_streams.miscounted([samples(of)])
    assert reason is not None and "in 1 of 2 answers (12 tokens against 4)" in reason
    hidden = replace(of, reasoning_tokens=np.array([8, NOT_COUNTED]))
    assert timing_streams.miscounted([samples(hidden)]) is None
    assert token_times.void("ttft_p90", [samples(of)], [np.ones(2, dtype=bool)]) is None


def test_failed_requests_do_not_dilute_counts_that_differ() -> None:
    """Two of 100 answers differ, over 1 %; of all 300 requests, of which two thirds failed, it would be under 1 %."""
    usage = [12, 12, *[4] * 98, *[NOT_COUNTED] * 200]
    of = streams(*([[10, 20, 30, 40]] * 300), usage=usage, counted=[4] * 100 + [NOT_COUNTED] * 200)
    ok = np.arange(300) < 100
    reason = timing_streams.miscounted([samples(of, ok=ok)])
    assert (
        reason is not None and "in 2 of 100 answers that both count, of 300 requests, (24 tokens against 8)" in reason
    )
    assert timing_streams.facts([samples(of, ok=ok)])["token_counts_differ"] == 0.02
    assert timing_streams.miscounted([samples(of, ok=np.zeros(300, dtype=bool))]) is None


def test_answers_of_one_piece_void_the_time_by_token_when_they_are_many() -> None:
    keep = [np.ones(20, dtype=bool)]
    for without, void in ((1, False), (2, True)):
        of = samples(streams(*([[10, 20]] * (20 - without)), *([[10]] * without)))
        assert (token_times.void("tpot_p90", [of], keep) is not None) == void
        assert token_times.void("longest_gap_p90", [of], keep) is None


def test_without_a_stream_there_is_no_number_and_it_says_why() -> None:
    plain = samples(streams([1, 2]), streams=None)
    assert token_times.series_of([plain], [np.ones(1, dtype=bool)]) == {}
    assert "does not stream" in token_times.missing("ttft_p90", [plain])
    uncounted = samples(streams([1, 2], usage=[NOT_COUNTED]))
    assert "tokenizer" in token_times.missing("tpot_p90", [uncounted])


def test_a_rate_has_the_bounds_of_its_time_turned_round() -> None:
    time = percentile([np.random.default_rng(0).gamma(20, 0.5, 3000)], 0.9)
    rate = Inverse(time)
    lower, upper = time.bound(0.95, "lower"), time.bound(0.95, "upper")
    assert lower is not None and upper is not None and time.value is not None
    assert rate.value == pytest.approx(1000 / time.value)
    assert rate.bound(0.95, "lower") == pytest.approx(1000 / upper)
    assert rate.bound(0.95, "upper") == pytest.approx(1000 / lower)
    assert rate.p_value(1000 / upper, "lower") == time.p_value(upper, "upper")
    assert Inverse(percentile([np.full(400, np.inf)], 0.9)).value is None


def answer(text: str, *at_ms: int) -> StreamedAnswer:
    return StreamedAnswer(
        text, 1, tuple(5_000 * MS + one * MS for one in at_ms), (0,) * len(at_ms), 1, len(at_ms), 3, -1, 7, 2
    )


def test_a_sink_gives_back_what_it_took_in_any_order_and_the_last_of_a_query(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    sink = StreamSink(path)
    sink.keep(2, answer("zwei \u00e9", 3, 5), 5_000 * MS)
    sink.keep(0, answer("null", 1), 5_000 * MS)
    sink.keep(2, answer("zwei neu", 4, 6, 9), 5_000 * MS)
    sink.close()
    # A kill in the middle of a row leaves half of one.
    rows = path.with_name("raw.streams")
    rows.write_bytes(rows.read_bytes() + b"half a row")
    found = read_streams(path, np.array([0, 1, 2]))
    assert found is not None
    assert found.texts.tolist() == ["null", None, "zwei neu"]
    assert found.offsets.tolist() == [0, 1, 1, 4]
    assert (found.piece_ns // MS).tolist() == [1, 4, 6, 9]
    assert found.usage_tokens.tolist() == [1, NOT_COUNTED, 3] and found.finish.tolist() == [1, 0, 1]
    again = joined([found, found], np.array([2, 0, 5]))
    assert again.texts.tolist() == ["zwei neu", "null", "zwei neu"] and again.offsets.tolist() == [0, 3, 4, 7]
    assert (again.piece_ns // MS).tolist() == [4, 6, 9, 1, 4, 6, 9]
    remove(path)
    assert read_streams(path, np.array([0])) is None and not list(tmp_path.iterdir())


def test_a_slower_model_has_later_pieces() -> None:
    slow = Slower("slower", "m", 3.0).samples(samples(streams([30, 40], [10])))
    assert slow.streams is not None
    assert (slow.streams.piece_ns // MS).tolist() == [90, 120, 30]
    assert {name for name in PER_STREAM} <= set(Streams.__slots__)

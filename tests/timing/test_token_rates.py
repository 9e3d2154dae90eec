"""Tokens a second of answers that are asked for back to back, by hand and by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalspec.checks.system.throughput.token_rates import token_rates
from evalspec.language.inputs import Samples
from evalspec.language.streams import NOT_COUNTED
from evalspec.timing.budget import DECODE_RATE, OUTPUT_RATE, PREFILL_RATE, TOKEN_RATES
from evalspec.timing.token_rates import arrived, rate_of
from tests.checks.system.streamed import prefilled
from tests.fakes import samples
from tests.stats.simulated import allowed, enough, p_values, wrong_claims
from tests.timing.test_streams import MS, streams
from tests.timing.test_streams import samples as sampled

RUNS = 300


def test_tokens_count_when_their_piece_arrives() -> None:
    of = sampled(streams([10, 20, 30], [40, 50], usage=[6, 2]))
    assert arrived(of, 10 * MS, 40 * MS) == 2 + 2 + 1
    assert arrived(replace(of, ok=np.array([False, True])), 0, 100 * MS) == 2
    assert arrived(sampled(streams([10], usage=[NOT_COUNTED])), 0, 100 * MS) is None


def test_one_after_the_other_all_of_the_time_counts() -> None:
    of = sampled(streams([10, 20, 30], [60, 70, 80]), sent_ns=np.array([0, 40 * MS]), end_ns=np.array([30, 100]) * MS)
    assert rate_of(of, OUTPUT_RATE) == pytest.approx(6 / 0.1)
    assert rate_of(of, DECODE_RATE) == pytest.approx(4 / 0.04)


def test_with_many_under_way_only_the_time_when_all_are_counts() -> None:
    """Two connections: from the second answer (60 ms) until the last is sent (100 ms)."""
    of = sampled(
        streams([20, 50], [30, 60], [70, 100], [80, 120], [130, 150]),
        sent_ns=np.array([0, 0, 50, 60, 100]) * MS, end_ns=np.array([50, 60, 100, 120, 150]) * MS,
        details={"in_process": False, "connections": 2},
    )  # fmt: skip
    assert rate_of(of, OUTPUT_RATE) == pytest.approx(3 / 0.04)
    assert "connections: 1" in str(rate_of(of, PREFILL_RATE))


def test_pauses_between_blocks_of_a_pair_are_no_time() -> None:
    of = sampled(
        streams([10, 20], [1010, 1020]), block=np.array([0, 1]), sent_ns=np.array([0, 1000]) * MS,
        end_ns=np.array([20, 1020]) * MS,
    )  # fmt: skip
    assert rate_of(of, OUTPUT_RATE) == pytest.approx(4 / 0.04)


def alone(rng: np.random.Generator, low: int = 20, high: int = 200, count: int = 64, level: float = 1.0) -> Samples:
    """Requests one after the other, a millisecond for each token of the prompt."""
    prompts = rng.integers(low, high, count)
    return prefilled(samples(prompts + 120.0), prompts, rng, slower=level)


def test_the_rate_of_a_prompt_is_one_by_the_slope_whatever_all_share() -> None:
    made = alone(np.random.default_rng(1))
    assert rate_of(made, PREFILL_RATE) == pytest.approx(1000.0, rel=0.03)
    assert made.streams is not None
    later = replace(made.streams, piece_ns=made.streams.piece_ns + 500 * MS)
    assert rate_of(replace(made, streams=later), PREFILL_RATE) == pytest.approx(1000.0, rel=0.03)
    half = replace(made.streams, cached_tokens=made.streams.prompt_tokens // 2)
    assert rate_of(replace(made, streams=half), PREFILL_RATE) == pytest.approx(500.0, rel=0.03)


def test_what_can_not_be_told_apart_has_no_number() -> None:
    rng = np.random.default_rng(2)
    assert "nearly one length" in str(rate_of(alone(rng, 100, 110), PREFILL_RATE))
    assert "too few" in str(rate_of(alone(rng, count=10), PREFILL_RATE))
    made = alone(rng)
    assert made.streams is not None
    falling = replace(made, streams=replace(made.streams, prompt_tokens=400 - made.streams.prompt_tokens))
    assert "does not rise" in str(rate_of(falling, PREFILL_RATE))
    silent = replace(made.streams, prompt_tokens=np.full(64, NOT_COUNTED))
    assert "how many tokens a prompt has" in str(rate_of(replace(made, streams=silent), PREFILL_RATE))
    for name in TOKEN_RATES:
        assert "does not stream" in str(rate_of(replace(made, streams=None), name))
        assert "several rows" in str(rate_of(replace(made, batch=8), name))


def test_counts_that_differ_void_every_rate() -> None:
    made = alone(np.random.default_rng(3))
    assert made.streams is not None
    more = replace(made, streams=replace(made.streams, usage_tokens=3 * made.streams.counted_tokens))
    assert all(one.invalid is not None for one in token_rates({1: [more]}).values())
    assert all(one.invalid is None for one in token_rates({1: [made]}).values())


@pytest.mark.proof
@pytest.mark.parametrize("name", TOKEN_RATES)
@pytest.mark.parametrize("spread", [0.02, 0.15])
def test_rates_of_five_processes_claim_as_seldom_too_much_as_is_said(name: str, spread: float) -> None:
    """Processes whose times vary, as `over_processes` has it; at the rate that is true of all there may be."""
    rng = np.random.default_rng(4)
    levels = rng.normal(1.0, spread, (RUNS, 5)).clip(0.3)
    base = token_rates({1: [alone(rng) for _ in range(300)]})[name].sizes[1].value
    assert base is not None
    batches = ([faster(alone(rng), level, name) for level in row] for row in levels)
    found = (p_values(token_rates({1: batch})[name].sizes[1], base) for batch in batches)
    wrong = wrong_claims(enough(found, allowed(RUNS), RUNS))
    assert (wrong <= allowed(RUNS)).all()


def faster(made: Samples, level: float, name: str) -> Samples:
    """A process in which times are longer by a level, or rates are higher by it."""
    times = level if name == PREFILL_RATE else 1.0 / level
    assert made.streams is not None
    moved = replace(made.streams, piece_ns=np.round(made.streams.piece_ns * times).astype(np.int64))
    return replace(
        made, streams=moved, sent_ns=np.round(made.sent_ns * times).astype(np.int64),
        intended_ns=np.round(made.intended_ns * times).astype(np.int64),
        end_ns=np.round(made.end_ns * times).astype(np.int64),
    )  # fmt: skip


@pytest.mark.parametrize("in_process,known", [(True, True), (False, False), (None, False)])
def test_a_batch_of_this_process_has_the_tokens_of_all_its_rows(in_process: bool | None, known: bool) -> None:
    """To a server it is several requests, of which one is streamed here."""
    of = sampled(streams([10, 20, 30], [60, 70, 80]), sent_ns=np.array([0, 40 * MS]), end_ns=np.array([30, 100]) * MS)
    batch = replace(of, batch=8, details={} if in_process is None else {"in_process": in_process})
    assert (rate_of(batch, OUTPUT_RATE) == pytest.approx(6 / 0.1)) is known
    assert ("several answers" in str(rate_of(batch, DECODE_RATE))) is not known


@pytest.mark.parametrize("batch", [1, 8])
def test_the_prefill_of_this_process_is_timed_apart_for_each_batch(batch: int) -> None:
    """Prompts of one length, of which a slope could say nothing; their first token comes after 40 and 60 ms."""
    of = sampled(
        replace(streams([40, 50, 60], [160, 170, 180]), prompt_tokens=np.array([400, 600])), batch=batch,
        sent_ns=np.array([0, 100]) * MS, end_ns=np.array([60, 180]) * MS, details={"in_process": True},
    )  # fmt: skip
    assert rate_of(of, PREFILL_RATE) == pytest.approx(1000 / 0.1)
    assert rate_of(of, DECODE_RATE) == pytest.approx(4 / 0.04)
    unknown = replace(of, streams=replace(of.streams, prompt_tokens=np.full(2, NOT_COUNTED)))
    assert rate_of(unknown, PREFILL_RATE) == "no prompt was answered"
    served = replace(of, details={"in_process": False})
    assert "too few" in str(rate_of(served, PREFILL_RATE)) or "several answers" in str(rate_of(served, PREFILL_RATE))

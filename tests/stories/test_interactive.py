"""The load that `init --profile interactive` writes, before servers with one fault each: its sentences catch them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evalspec.checks.system.load.spec import Load
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.streams import NOT_COUNTED
from evalspec.loading import LoadOptions, load
from evalspec.loading.starter import start
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs
from tests.runtimes.llm_server import WORDS
from tests.stories.streaming import Player

FIRST_MS, GAP_MS = 300.0, 20.0
ANSWERS = [" ".join([str(row), *WORDS * 4]) for row in range(100)]
FAULTS: dict[str, set[str]] = {
    "none": set(),
    # Its role comes at once, its first word late; the times are those of a slower server.
    "role": {"ttft_p95", "good_share"},
    "error@20": {"error_rate"},
    "cut@20": {"error_rate"},
    "empty@20": {"error_rate"},
    # All but the first word at the end: 800 ms without a piece.
    "burst": {"longest_gap_p95", "good_share"},
    "characters": {"tokens_per_piece"},
    "usage3": {"token_counts_differ"},
    "known": {"cached_share"},
    "slow tokens": {"tpot_p95", "good_share"},
    "short answers": {"output_rate"},
}
PLAYED = ("known", "slow tokens", "short answers")
"""Faults that are no mode of the server's."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """The check as it is written, asked for fewer requests than it plans."""
    path = start(tmp_path_factory.mktemp("start"), profile="interactive").spec
    (check,) = (one for one in load(path, options=LoadOptions(files=False)).checks if isinstance(one, Load))
    return check


@pytest.mark.proof
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_turns_its_own_sentence_red(fault: str, written: Load, tmp_path: Path) -> None:
    first_ms = 700.0 if fault == "role" else FIRST_MS
    gap_ms = 45.0 if fault == "slow tokens" else GAP_MS
    texts = [one[:60] for one in ANSWERS] if fault == "short answers" else ANSWERS
    player = Player("none" if fault in PLAYED else fault, texts, first_ms, gap_ms)

    def played(model: str, schedule: Schedule) -> list[Samples]:
        return [_known(one) if fault == "known" else one for one in player(model, schedule)]

    check = written.model_copy(update={"caching_audit": False, "queries": 1500})
    result = check.run(FakeInputs(tmp_path, samples=played, facts={"candidate": {"served": True}}))
    red = {one.metric for one in check.requirements if outcome(result, one) in ("FAIL", "INVALID")}
    undecided = {one.metric for one in check.requirements if outcome(result, one) in ("MISSING", "INCONCLUSIVE")}
    assert FAULTS[fault] <= red
    if fault == "none":
        assert not red and undecided <= {"cached_share"}


def _known(samples: Samples) -> Samples:
    """Every prompt was known before."""
    streams = samples.streams
    assert streams is not None and (streams.prompt_tokens != NOT_COUNTED).all()
    return replace(samples, streams=replace(streams, cached_tokens=streams.prompt_tokens))

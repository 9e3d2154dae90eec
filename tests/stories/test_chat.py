"""Stories of language models behind an API: what a server says of itself, and what it does.

A server's script, with a fault each, is read by the client's own reader, on a clock that nobody waits for; so a busy
machine changes nothing of it. That the client takes the same times from a real socket is shown in
`tests/runtimes/http_client/test_openai.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtimes.llm_server import WORDS
from tests.stories.streaming import Player
from tests.stories.telling import COLOURS, Colour, Planted, Story, Tale, Told, command, ends, told

pytestmark = pytest.mark.proof

ROWS = 400
FIRST_MS, GAP_MS = 40.0, 4.0
QUESTIONS = [f"Number {k}?" for k in range(ROWS)]
ANSWERS = [" ".join([str(k), *WORDS[:9]]) for k in range(ROWS)]
WRONG = [" ".join(["none", *WORDS[:9]])] * ROWS


def chat(tale: Tale, name: str, mode: str, *require: str, rate: int = 40, first_ms: float = FIRST_MS,
         texts: list[str] | None = None, serial: bool = False, audit: bool = False) -> None:  # fmt: skip
    """A model that streams its answers under load."""
    model = "candidate" if name == "l26" else f"{name}_model"
    tale.echo(model, {"text": "said"}, outputs={"text": "text"})
    player = Player(mode, ANSWERS if texts is None else texts, first_ms, GAP_MS, serial=serial)
    tale.ask(
        "system", "load", f"{name}_load", *require, model=model, dataset="test", rates=[f"{rate} qps"], queries=2000,
        design_effect=1, search=False, caching_audit=audit, planted=Planted(player),
    )  # fmt: skip


def wrote(tale: Tale, name: str, reasons: list[str], texts: list[str], *require: str) -> None:
    """What a model writes where nobody is in a hurry."""
    model = f"{name}_writer"
    tale.rows(f"{name}_rows", {"said": texts, "why": reasons, "answer": ANSWERS}, label="answer")
    tale.echo(
        model, {"text": "said", "finish_reason": "why"}, outputs={"text": "text", "finish_reason": "finish_reason"}
    )
    tale.ask("model", "answers", f"{name}_answers", *require, model=model, dataset=f"{name}_rows")


def tell(folder: Path, bad: bool) -> Tale:
    """All of them in one spec."""
    tale = Tale(folder, "chat")
    tale.rows("test", {"question": QUESTIONS, "said": ANSWERS, "answer": ANSWERS}, label="answer")

    def mode(red: str, green: str = "none") -> str:
        return red if bad else green

    chat(tale, "l1", mode("role", "early"), "ttft_p95 <= 25 ms")
    chat(tale, "l2", mode("error@20"), "error_rate <= 2 %", "ttft_p99 <= 100 ms")
    chat(tale, "l3", mode("cut@20"), "error_rate <= 2 %", "latency_p99 <= 150 ms")
    chat(tale, "l4", mode("empty@50"), "error_rate <= 1 %")
    empty = ["" if bad and k % 20 == 0 else one for k, one in enumerate(ANSWERS)]
    wrote(tale, "l4", ["stop"] * ROWS, empty, "empty <= 2 %")
    chat(tale, "l5", mode("burst"), "longest_gap_p95 <= 20 ms", "ttft_p95 <= 100 ms", "tpot_p95 <= 8 ms")
    # Nearly 1,000 pieces a second, of 250 tokens; the twin is as fast as it looks.
    chat(tale, "l6", mode("characters", "fast"), "user_rate_p10 >= 500 tokens/s", "ttft_p95 <= 100 ms")
    chat(tale, "l7", mode("usage3"), "tpot_p95 <= 8 ms", "output_rate >= 200 tokens/s", "ttft_p95 <= 100 ms")
    cut = ["length" if bad and k % 3 == 0 else "stop" for k in range(ROWS)]
    wrote(tale, "l8", cut, ANSWERS, "truncated <= 2 %")
    chat(tale, "l13", mode("cache", "none"), "latency_p95 <= 150 ms", audit=True)
    chat(tale, "l14", mode("prefix", "none"), "ttft_p95 <= 100 ms", audit=True)
    # Warmed up with the prompts that are timed: as fast as it looks, for whoever asks the same again.
    chat(tale, "l14_warm", mode("warm", "fresh"), "cached_share <= 1 %", "ttft_p95 <= 100 ms")
    # One at a time: 13 a second are served, each in 76 ms once it is its turn.
    chat(tale, "l17", "none", "ttft_p95 <= 1 s", rate=20 if bad else 4, serial=True)
    chat(tale, "l26", "none", "ttft_p95 <= 100 ms", texts=WRONG if bad else ANSWERS)
    tale.ask("model", "quality", "l26_quality", "exact_match >= 90 %", model="candidate", dataset="test")
    return tale


STORIES = (
    Story("L1: the role is sent at once, the first word after 40 ms", red={"l1_load/ttft_p95": "FAIL"}),
    Story(
        "L2: the engine dies after three tokens, with status 200",
        red={"l2_load/error_rate": "FAIL", "l2_load/ttft_p99": "FAIL"},
        shows={"l2_load": ("error in the stream",)},
    ),
    Story(
        "L3: a proxy cuts answers",
        red={"l3_load/error_rate": "FAIL", "l3_load/latency_p99": "FAIL"},
        shows={"l3_load": ("cut off",)},
    ),
    Story(
        "L4: empty answers that end well",
        red={"l4_load/error_rate": "FAIL", "l4_answers/empty": "FAIL"},
        shows={"l4_load": ("empty answer",)},
    ),
    Story("L5: the first token at once, the rest at the end", red={"l5_load/longest_gap_p95": "FAIL"}),
    Story(
        "L6: a letter a piece, a thousand pieces a second",
        red={"l6_load/user_rate_p10": "FAIL"},
        shows={"l6_load": ("sends parts of tokens",)},
    ),
    Story(
        "L7: three times the tokens are reported",
        red={"l7_load/tpot_p95": "INVALID", "l7_load/output_rate": "INVALID"},
        says={"l7_load/tpot_p95": ("counts other tokens",)},
    ),
    Story("L8: a third of the answers is cut by max_tokens", red={"l8_answers/truncated": "FAIL"}),
    Story(
        "L13: answers from a cache",
        red={"l13_load/latency_p95": "INVALID"},
        says={"l13_load/latency_p95": ("answers come from a cache",)},
    ),
    Story(
        "L14: prompts that the server knows, and a warm-up with those that are timed",
        red={"l14_load/ttft_p95": "INVALID", "l14_warm_load/cached_share": "FAIL"},
        says={"l14_load/ttft_p95": ("answers come from a cache",)},
        shows={"l14_warm_load": ("100.0 % of the prompts' tokens came from a cache of the server",)},
    ),
    Story("L17: requests wait for a slot, and are timed from when they get it", red={"l17_load/ttft_p95": "FAIL"}),
    Story(
        "L26: fast under load, and wrong",
        red={"l26_load/ttft_p95": "INVALID"},
        says={"l26_load/ttft_p95": ("exact_match", "where quality is computed")},
        shows={"l26_load": ("Speed and quality on the same answers",)},
    ),
)


@pytest.fixture
def run(colour: Colour, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return told(tmp_path_factory, "chat", colour, tell)


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_story(story: Story, colour: Colour, run: Told) -> None:
    story.holds(run, colour)


@pytest.mark.slow
@pytest.mark.parametrize("colour", COLOURS)
def test_the_verdict(colour: Colour, run: Told) -> None:
    ends(run, colour)


def test_two_hundred_requests_show_no_p99(tmp_path: Path) -> None:
    """L27: the sentence is refused before anything is measured."""
    tale = tell(tmp_path, False)
    tale.checks = {}
    tale.ask("system", "latency", "l27", "ttft_p99 <= 480 ms", model="l1_model", dataset="test", queries=200)
    done = command("validate", str(tale.write()))
    assert done.exit_code == 2 and "1,000 are needed at least" in done.output, done.output

"""Stories of language models behind an API: what a server says of itself, and what it does.

One server plays tokens at known times, with a fault a path; each story has a model of its own there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes.llm_server import WORDS, Playing, playing
from tests.stories.telling import COLOURS, Colour, Story, Tale, Told, command, ends, told

pytestmark = pytest.mark.proof

ROWS = 40
TOKENS = 10
FIRST_MS, GAP_MS = 40.0, 4.0
RATE = "40 qps"


def say(body: dict[str, Any]) -> str:
    """The number of the question, and then words; nothing of it where there is no question."""
    text = json.dumps(body.get("messages", ""))
    number = re.search(r"Number (\d+)\?", text)
    return " ".join([number[1] if number else "none", *WORDS[: TOKENS - 1]])


class Chats(Tale):
    """A tale with a server.

    Args:
        server: Plays tokens.
    """

    server: Playing

    def chat(self, model: str, mode: str, **fields: Any) -> None:
        """A model of the server."""
        default = {
            "kind": "http", "protocol": "openai", "url": self.server.url(mode), "model_name": "small",
            "inputs": {"question": "question"}, "prompt": {"user": "{question}"}, "generate": {"max_tokens": 32},
            "tokenizer": "tokenizer.json", "artifact": "sha256:" + "1" * 64,
        }  # fmt: skip
        self.models[model] = default | fields

    def load(self, name: str, model: str, *require: str, rate: str = RATE, queries: int = 160, **fields: Any) -> None:
        """A load that is short, since the server's times are known."""
        self.ask(
            "system", "load", name, *(one.replace("@", f"({rate})") for one in require), model=model, dataset="test",
            rates=[rate], queries=queries, design_effect=1, search=False, warmup=8, **fields,
        )  # fmt: skip


def tell(folder: Path, bad: bool, server: Playing) -> Tale:
    """All of them in one spec."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    counter = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    counter.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    counter.save(str(folder / "tokenizer.json"))
    tale = Chats(folder, "chat")
    tale.server = server
    questions = [f"Number {k}?" for k in range(100, 100 + ROWS)]
    answers = [say({"messages": one}) for one in questions]
    tale.rows("test", {"question": questions, "answer": answers}, label="answer")

    def mode(red: str, green: str = "none") -> str:
        return red if bad else green

    tale.chat("l1_model", mode("role", "early"))
    tale.load("l1_load", "l1_model", "ttft_p90@ <= 25 ms")
    tale.chat("l2_model", mode("error@5"))
    tale.load("l2_load", "l2_model", "error_rate@ <= 8 %", "ttft_p90@ <= 150 ms")
    tale.chat("l3_model", mode("cut@5"))
    tale.load("l3_load", "l3_model", "error_rate@ <= 8 %", "latency_p90@ <= 200 ms")
    tale.chat("l4_model", mode("empty@5"))
    tale.load("l4_load", "l4_model", "error_rate@ <= 8 %")
    tale.ask("model", "answers", "l4_answers", "empty <= 12 %", model="l4_model", dataset="test")
    tale.chat("l5_model", mode("burst"))
    tale.load("l5_load", "l5_model", "longest_gap_p90@ <= 22 ms", "ttft_p90@ <= 150 ms", "tpot_p90@ <= 15 ms")
    # What is sent a letter at a time comes at the same speed: 250 tokens a second, not 1,000 pieces.
    tale.chat("l6_model", mode("characters", "none"))
    tale.load("l6_load", "l6_model", "user_rate_p10@ >= 125 tokens/s" if not bad else "user_rate_p10@ >= 500 tokens/s",
              "ttft_p90@ <= 150 ms")  # fmt: skip
    tale.chat("l7_model", mode("usage3"))
    tale.load("l7_load", "l7_model", "tpot_p90@ <= 15 ms", "output_rate@ >= 50 tokens/s", "ttft_p90@ <= 150 ms")
    tale.chat("l8_model", mode("length@3"))
    tale.ask("model", "answers", "l8_answers", "truncated <= 12 %", model="l8_model", dataset="test")
    tale.chat("l14_model", "prefix", prefix=mode("as_is", "salted"))
    tale.load("l14_load", "l14_model", "ttft_p90@ <= 150 ms")
    # One at a time: 13 a second are served, each in 76 ms once it is its turn.
    tale.chat("l17_model", "serial")
    rate = "25 qps" if bad else "6 qps"
    tale.load("l17_load", "l17_model", "ttft_p90 <= 400 ms", rate=rate)
    tale.chat("l26_model", mode("batching"))
    tale.load("l26_load", "l26_model", "ttft_p90@ <= 150 ms")
    tale.ask("model", "quality", "l26_quality", "exact_match >= 90 %", model="l26_model", dataset="test")
    return tale


STORIES = (
    Story(
        "L1: the role is sent at once, the first word after 40 ms",
        red={"l1_load/ttft_p90(40 qps)": "FAIL"},
    ),
    Story(
        "L2: the engine dies after three tokens, with status 200",
        red={"l2_load/error_rate(40 qps)": "FAIL", "l2_load/ttft_p90(40 qps)": "FAIL"},
        shows={"l2_load": ("error in the stream",)},
    ),
    Story(
        "L3: a proxy cuts answers",
        red={"l3_load/error_rate(40 qps)": "FAIL", "l3_load/latency_p90(40 qps)": "FAIL"},
        shows={"l3_load": ("cut off",)},
    ),
    Story(
        "L4: empty answers that end well",
        red={"l4_load/error_rate(40 qps)": "FAIL", "l4_answers/empty": "FAIL"},
        shows={"l4_load": ("empty answer",)},
    ),
    Story(
        "L5: the first token at once, the rest at the end",
        red={"l5_load/longest_gap_p90(40 qps)": "FAIL"},
    ),
    Story(
        "L6: a letter a piece, a thousand pieces a second",
        red={"l6_load/user_rate_p10(40 qps)": "FAIL"},
        shows={"l6_load": ("sends parts of tokens",)},
    ),
    Story(
        "L7: three times the tokens are reported",
        red={"l7_load/tpot_p90(40 qps)": "INVALID", "l7_load/output_rate(40 qps)": "INVALID"},
        says={"l7_load/tpot_p90(40 qps)": ("counts other tokens",)},
    ),
    Story("L8: a third of the answers is cut by max_tokens", red={"l8_answers/truncated": "FAIL"}),
    Story(
        "L14: prompts that the server knows",
        red={"l14_load/ttft_p90(40 qps)": "INVALID"},
        says={"l14_load/ttft_p90(40 qps)": ("answers come from a cache",)},
        shows={"l14_load": ("came from a cache of the server",)},
    ),
    Story(
        "L17: requests wait for a slot, and are timed from when they get it",
        red={"l17_load/ttft_p90": "FAIL"},
    ),
    Story(
        "L26: fast under load, and wrong",
        red={"l26_load/ttft_p90(40 qps)": "INVALID"},
        says={"l26_load/ttft_p90(40 qps)": ("exact_match", "where quality is computed")},
        shows={"l26_load": ("Speed and quality on the same answers",)},
    ),
)


@pytest.fixture
def server() -> Iterator[Playing]:
    with playing(first_ms=FIRST_MS, gap_ms=GAP_MS, tokens=TOKENS, say=say) as running:
        yield running


@pytest.fixture
def run(colour: Colour, tmp_path_factory: pytest.TempPathFactory, server: Playing) -> Told:
    return told(tmp_path_factory, "chat", colour, lambda folder, bad: tell(folder, bad, server))


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_story(story: Story, colour: Colour, run: Told) -> None:
    story.holds(run, colour)


@pytest.mark.slow
@pytest.mark.parametrize("colour", COLOURS)
def test_the_verdict(colour: Colour, run: Told) -> None:
    ends(run, colour)


def test_two_hundred_requests_show_no_p99(tmp_path: Path, server: Playing) -> None:
    """L27: the sentence is refused before anything is measured."""
    tale = tell(tmp_path, False, server)
    tale.checks = {}
    tale.ask("system", "latency", "l27", "ttft_p99 <= 480 ms", model="l1_model", dataset="test", queries=200)
    done = command("validate", str(tale.write()))
    assert done.exit_code == 2 and "1,000 are needed at least" in done.output, done.output

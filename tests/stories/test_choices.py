"""Stories of multiple choice: options that a model scores become probabilities, and its habits show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtimes.llm_server import Playing, playing
from tests.stories.telling import COLOURS, Colour, Tale, command

pytestmark = pytest.mark.proof

ROWS, OPTIONS = 240, 4
RNG = np.random.default_rng(5)
RIGHT = RNG.integers(0, OPTIONS, ROWS)
SURE = RNG.choice([0.5, 0.6, 0.7, 0.8, 0.9], ROWS)
KNOWS = RNG.random(ROWS) < SURE
"""Whether a calibrated model takes the right option of a row."""


def asked(body: dict[str, Any]) -> tuple[int, list[int]]:
    """The row that is asked about, and the options in the order in which they stand."""
    text = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
    lines = text.split("\n")
    row = int(next(one for one in lines if one.startswith("Question")).split()[1])
    return row, [int(one.split()[-1]) for one in lines if one[:2] in ("A.", "B.", "C.", "D.")]


def taken(row: int) -> int:
    """The option that a calibrated model takes."""
    return int(RIGHT[row]) if KNOWS[row] else int(RIGHT[row] + 1) % OPTIONS


def honest(body: dict[str, Any]) -> dict[str, float]:
    """As sure as it is right; the option decides, wherever it stands."""
    row, shown = asked(body)
    rest = (1.0 - SURE[row]) / (OPTIONS - 1)
    letters = {letter: SURE[row] if one == taken(row) else rest for letter, one in zip("ABCD", shown, strict=True)}
    return {f" {letter}": 0.95 * share for letter, share in letters.items()} | {"The": 0.05}


def always_a(body: dict[str, Any]) -> dict[str, float]:
    """The first place, whatever stands there."""
    return {"A": 0.7, "B": 0.1, "C": 0.1, "D": 0.1}


def other_template(body: dict[str, Any]) -> dict[str, float]:
    """Hardly ever a letter."""
    return {token: share * 0.004 for token, share in honest(body).items()} | {"<|im_start|>": 0.99}


def short(body: dict[str, Any]) -> dict[str, float]:
    """No D among what it tells."""
    return {token: share for token, share in honest(body).items() if token.strip() != "D"}


def equal(body: dict[str, Any]) -> dict[str, float]:
    """The same for every option, as of a server that scores nothing."""
    return {"A": 0.25, "B": 0.25, "C": 0.25, "D": 0.25}


@pytest.fixture
def serve() -> Iterator[Callable[..., Playing]]:
    """Starts servers for the time of a test."""
    import contextlib

    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(playing(first_ms=0.0, gap_ms=0.0, **options))


def exam(folder: Path, label: str = "letter") -> Tale:
    """Questions with four options each."""
    tale = Tale(folder, "choices")
    truth: list[Any] = {
        "letter": ["ABCD"[right] for right in RIGHT], "place": RIGHT.tolist(),
        "text": [f"option {right}" for right in RIGHT],
    }[label]  # fmt: skip
    columns = {"question": [f"Question {row} of the exam" for row in range(ROWS)],
               "choices": [[f"option {k}" for k in range(OPTIONS)]] * ROWS, "right": truth}  # fmt: skip
    return tale.rows("exam", columns, label="right")


def model(server: Playing, mode: str = "none", **options: Any) -> dict[str, Any]:
    """A model behind the server that chooses."""
    return {
        "kind": "http", "protocol": "openai", "url": server.url(mode), "artifact": f"sha256:{'0' * 64}",
        "prompt": {"user": "{question}\n{choices}\nAnswer:"}, "options": {"column": "choices", **options},
    }  # fmt: skip


def decided(tale: Tale) -> dict[str, tuple[str, float | None]]:
    """Metric: status and value."""
    record = json.loads((tale.folder / "run" / "record.json").read_text())
    status = {one["name"]: one["status"] for one in record["verdict"]["decisions"]}
    tests = [test for check in record["checks"] for test in check["tests"]]
    return {test["metric"]: (status[test["name"]], test["value"]) for test in tests}


@pytest.mark.parametrize("label", ["letter", "place", "text"])
def test_options_are_probabilities_that_every_check_reads(
    label: str, serve: Callable[..., Playing], tmp_path: Path
) -> None:
    tale = exam(tmp_path, label)
    tale.models["candidate"] = model(serve(choose=honest), orders=2)
    tale.ask("model", "quality", "right", "accuracy >= 60 %", dataset="exam")
    tale.ask("model", "calibration", "sure", "ece <= 0.15", dataset="exam")
    tale.ask("model", "answers", "choice", "option_mass >= 90 %", "order_flips <= 5 %", dataset="exam")
    done = tale.run()
    assert done.exit_code == 0, done.output
    found = decided(tale)
    assert found["accuracy"] == ("PASS", pytest.approx(float(np.mean(KNOWS))))
    assert found["option_mass"] == ("PASS", pytest.approx(95.0))
    assert found["order_flips"] == ("PASS", 0.0)
    again = command("verify", str(tale.folder / "run"))
    assert again.exit_code == 0, again.output
    if label == "letter":
        selftest = command("selftest", str(tale.folder / "evalspec.yaml"), "--run", str(tale.folder / "run"), "--json")
        # Answers that turn with the order are wrong in one of them.
        assert {one["name"]: one["answer"] for one in json.loads(selftest.output)["requirements"]} == {
            "right/accuracy": "red", "sure/ece": "red", "choice/option_mass": "red", "choice/order_flips": "implied",
        }  # fmt: skip


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("mode", ["none", "whole"])
def test_streamed_or_whole_chat_or_plain(api: str, mode: str, serve: Callable[..., Playing], tmp_path: Path) -> None:
    tale = exam(tmp_path)
    tale.models["candidate"] = model(serve(choose=honest), mode) | {"api": api}
    tale.ask("model", "quality", "right", "accuracy >= 60 %", dataset="exam")
    done = tale.run()
    assert done.exit_code == 0, done.output
    assert decided(tale)["accuracy"][1] == pytest.approx(float(np.mean(KNOWS)))


def letter(body: dict[str, Any]) -> str:
    """Writes the letter that it takes."""
    tops = honest(body)
    return f"Answer: {max(tops, key=lambda token: tops[token]).strip()}"


def babble(body: dict[str, Any]) -> str:
    """Writes what no reader looks for."""
    return "<|im_start|>user <|im_end|> <|im_start|>"


WRITES = {"generate": {"max_tokens": 8}, "answer": {"pattern": "^Answer: ([A-D])$", "as": "letter"}}


@pytest.mark.parametrize("colour", COLOURS)
def test_l9_the_template_of_another_model(colour: Colour, serve: Callable[..., Playing], tmp_path: Path) -> None:
    """One model that chooses and writes: hardly a letter among its first tokens, no answer in its texts."""
    red, tale = colour == "red", exam(tmp_path)
    server = serve(choose=other_template if red else honest, say=babble if red else letter)
    tale.models["candidate"] = model(server) | WRITES
    tale.ask("model", "quality", "right", "accuracy >= 60 %", dataset="exam")
    tale.ask("model", "answers", "choice", "option_mass >= 50 %", "unparsed <= 5 %", "empty <= 2 %", dataset="exam")
    done = tale.run()
    assert done.exit_code == (1 if red else 0), done.output
    found = {name: status for name, (status, _) in decided(tale).items()}
    assert found == (
        {"accuracy": "INVALID", "option_mass": "FAIL", "unparsed": "FAIL", "empty": "PASS"} if red
        else {"accuracy": "PASS", "option_mass": "PASS", "unparsed": "PASS", "empty": "PASS"}
    )  # fmt: skip
    again = command("verify", str(tale.folder / "run"))
    assert again.exit_code == 0, again.output
    if not red:
        selftest = command("selftest", str(tale.folder / "evalspec.yaml"), "--run", str(tale.folder / "run"), "--json")
        assert {one["name"]: one["answer"] for one in json.loads(selftest.output)["requirements"]} == dict.fromkeys(
            ("right/accuracy", "choice/option_mass", "choice/unparsed", "choice/empty"), "red"
        )


@pytest.mark.parametrize("colour", COLOURS)
def test_l22_always_the_first_place(colour: Colour, serve: Callable[..., Playing], tmp_path: Path) -> None:
    """Of a test of which 40 % are A a model that always says A has 40 %, all of the A, and is right in no other row."""
    red, orders = colour == "red", 4
    often_a = np.where(np.arange(ROWS) < 0.4 * ROWS, 0, 1 + np.arange(ROWS) % 3)
    tale = Tale(tmp_path, "first")
    columns = {"question": [f"Question {row} of the exam" for row in range(ROWS)],
               "choices": [[f"option {k}" for k in range(OPTIONS)]] * ROWS, "right": often_a}  # fmt: skip
    tale.rows("exam", columns, label="right")

    def knows(body: dict[str, Any]) -> dict[str, float]:
        row, shown = asked(body)
        return {letter: 0.91 if one == often_a[row] else 0.03 for letter, one in zip("ABCD", shown, strict=True)}

    tale.models["candidate"] = model(serve(choose=always_a if red else knows), orders=orders)
    tale.ask("model", "quality", "right", "accuracy >= 60 %", "recall(A) >= 60 %", dataset="exam")
    tale.ask("model", "calibration", "sure", "ece <= 0.2", dataset="exam")
    tale.ask("model", "answers", "choice", "order_flips <= 10 %", "worst_order >= 50 %", dataset="exam")
    done = tale.run()
    assert done.exit_code == (1 if red else 0), done.output
    found = decided(tale)
    assert {name: status for name, (status, _) in found.items()} == dict.fromkeys(
        ("accuracy", "recall", "ece", "order_flips", "worst_order"), "FAIL" if red else "PASS"
    )
    if red:
        # Each order has another place first, so that each option is taken once in four orders.
        assert found["accuracy"][1] == found["recall"][1] == pytest.approx(0.25)
        assert found["order_flips"][1] == pytest.approx(100.0)
        assert found["worst_order"][1] == pytest.approx(0.2, abs=0.01)
        assert (
            "accuracy 0.25 is not better than the 0.4 of answering always the most frequent class"
            in (tale.folder / "run" / "record.json").read_text()
        )


def test_a_habit_that_all_orders_together_hide(serve: Callable[..., Playing], tmp_path: Path) -> None:
    """The first place, but a little more for the right option: the mean of all orders would be right in each row."""

    def leans(body: dict[str, Any]) -> dict[str, float]:
        row, shown = asked(body)
        return {letter: 0.1 + 0.5 * (letter == "A") + 0.1 * (one == RIGHT[row])
                for letter, one in zip("ABCD", shown, strict=True)}  # fmt: skip

    tale = exam(tmp_path)
    tale.models["candidate"] = model(serve(choose=leans), orders=4)
    tale.ask("model", "quality", "right", "accuracy >= 60 %", dataset="exam")
    tale.ask("model", "calibration", "sure", "ece <= 0.15", dataset="exam")
    done = tale.run()
    assert done.exit_code == 1, done.output
    assert decided(tale) == {"accuracy": ("FAIL", pytest.approx(0.25)), "ece": ("FAIL", pytest.approx(0.525))}


@pytest.mark.parametrize(
    ("choose", "status", "words"),
    [
        (None, "ERROR", "the server reports no token probabilities (`logprobs`)"),
        (short, "ERROR", "likeliest first tokens hold no D, so this option has no probability"),
        (equal, "INVALID", "the same probability in 100 % of rows: nothing was scored"),
        (honest, "PASS", ""),
    ],
)
def test_l23_options_that_nobody_scored(
    choose: Callable[[dict[str, Any]], dict[str, float]] | None, status: str, words: str,
    serve: Callable[..., Playing], tmp_path: Path,
) -> None:  # fmt: skip
    tale = exam(tmp_path)
    tale.models["candidate"] = model(serve(choose=choose, tokens=1))
    tale.ask("model", "quality", "right", "accuracy >= 20 %", dataset="exam")
    done = tale.run()
    assert decided(tale)["accuracy"][0] == status, done.output
    assert words in done.output


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"options": {"column": "choces"}},
            "the options are shown with letters, but `prompt` has no place for 'choces'",
        ),
        ({"options": {"column": "choices", "score": "sum"}}, "`score: sum` needs the likelihood of a text"),
        (
            {"options": {"column": "choices", "show": "none"}},
            ("`show: none` is set, but `prompt` has a place for 'choices'"),
        ),
        ({"answer": {"after": "#", "as": "letter"}}, "a model with `options` writes none"),
        ({"prompt": {"user": "{questoin}\n{choices}"}}, "exam has no column 'questoin'"),
    ],
)
def test_what_can_not_be_chosen_from_is_said_before_the_run(
    change: dict[str, Any], sentence: str, serve: Callable[..., Playing], tmp_path: Path
) -> None:
    tale = exam(tmp_path)
    tale.models["candidate"] = model(serve()) | change
    tale.ask("model", "quality", "right", "accuracy >= 20 %", dataset="exam")
    done = tale.run()
    assert done.exit_code == 2
    assert sentence in done.output


@pytest.mark.parametrize(
    ("choices", "orders", "right", "words"),
    [
        ([["x", "y"]] * (ROWS - 1) + [["x"]], 1, ["A"] * ROWS, "lists of several lengths"),
        ([["x", "y"]] * ROWS, 3, ["A"] * ROWS, "`orders: 3` asks for more rotations than the 2 options"),
        ([["x"]] * ROWS, 1, ["A"] * ROWS, "has 1 options; 2 to 26"),
        ([["x", "y"]] * ROWS, 1, ["x", "z"] * (ROWS // 2), "is not one of its options"),
    ],
)
def test_rows_that_can_not_be_chosen_from_are_said(
    choices: list[list[str]], orders: int, right: list[str], words: str, serve: Callable[..., Playing], tmp_path: Path
) -> None:
    tale = Tale(tmp_path, "choices")
    questions = [f"Question {row} of the exam" for row in range(ROWS)]
    tale.rows("exam", {"question": questions, "choices": choices, "right": right}, label="right")
    tale.models["candidate"] = model(serve(choose=lambda body: {"A": 0.6, "B": 0.4}), orders=orders)
    tale.ask("model", "quality", "right", "accuracy >= 20 %", dataset="exam")
    done = tale.run()
    assert done.exit_code in (2, 4)
    assert words in done.output

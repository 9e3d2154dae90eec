"""Stories of prompts: other wordings, several samples, and questions that stand among their own examples."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes.llm_server import Playing, playing
from tests.stories.telling import COLOURS, Colour, Tale, command

pytestmark = pytest.mark.proof

ROWS = 300
LEAKED = 60
"""Rows of a benchmark that a model has read."""


def number(text: str) -> int:
    """The row that a question is about."""
    return int("".join(letter for letter in text.split("\n")[-1] if letter.isdigit()) or 0)


def say(body: dict[str, Any]) -> str:
    """Right about each row; about every eighth otherwise where the question begins in capitals; drawn by its seed."""
    text = body["messages"][-1]["content"]
    row = number(text)
    if body["messages"][0]["content"] == "Be loose." and text.startswith("QUESTION") and row % 8 == 0:
        return "#### 0"
    if body["messages"][0]["content"] == "Guess." and zlib.crc32(f"{body['seed']} {row}".encode()) % 3 == 0:
        return "I do not know."
    return f"#### {row + 1}"


@pytest.fixture(scope="module")
def server() -> Iterator[Playing]:
    with playing(first_ms=0.0, gap_ms=0.0, say=say) as running:
        yield running


def chat(server: Playing, system: str, **more: Any) -> dict[str, Any]:
    """A model behind the server."""
    generate = {"max_tokens": 16} | more.pop("generate", {})
    prompt = {"system": system, "user": "Question {question}"} | more.pop("prompt", {})
    return {"kind": "http", "protocol": "openai", "url": server.url("fast"), "artifact": f"sha256:{'0' * 64}",
            "prompt": prompt, "generate": generate, "answer": {"after": "####", "as": "number"}} | more  # fmt: skip


def story(folder: Path, model: dict[str, Any]) -> Tale:
    """Questions with a number as the answer, and rows to show."""
    tale = Tale(folder, "prompts")
    columns = {"question": [f"of {row}" for row in range(ROWS)], "truth": [str(row + 1) for row in range(ROWS)]}
    tale.rows("test", columns, label="truth")
    tale.models["candidate"] = model
    return tale


def decided(tale: Tale) -> dict[str, dict[str, Any]]:
    """Metric: its test in the record, with its status."""
    record = json.loads((tale.folder / "run" / "record.json").read_text())
    status = {one["name"]: one["status"] for one in record["verdict"]["decisions"]}
    tests = [test for check in record["checks"] for test in check["tests"]]
    return {test["metric"]: test | {"status": status[test["name"]]} for test in tests}


@pytest.mark.parametrize("colour", COLOURS)
def test_what_holds_for_one_wording_holds_for_the_others(colour: Colour, server: Playing, tmp_path: Path) -> None:
    system = "Be loose." if colour == "red" else "Be exact."
    tale = story(tmp_path, chat(server, system, prompt={"user": ["Question {question}", "QUESTION: {question}"]}))
    tale.ask("model", "answers", "words", "template_gap <= 5 pp", dataset="test")
    tale.ask("model", "quality", "right", "exact_match >= 95 %", dataset="test")
    done = tale.run()
    assert done.exit_code == (1 if colour == "red" else 0), done.output
    found = decided(tale)
    # The wording that ships is right in every row; what is claimed must hold for the other one too.
    assert found["exact_match"]["status"] == ("FAIL" if colour == "red" else "PASS")
    assert [part["value"] for part in found["exact_match"]["parts"]] == [
        1.0, pytest.approx(1.0 - 38 / 300 if colour == "red" else 1.0)
    ]  # fmt: skip
    gap = found["template_gap"]
    assert gap["status"] == ("FAIL" if colour == "red" else "PASS")
    # 38 of 300 rows are divisible by 8.
    assert gap["value"] == pytest.approx(100 * 38 / 300 if colour == "red" else 0.0)
    again = command("verify", str(tale.folder / "run"))
    assert again.exit_code == 0, again.output
    selftest = command("selftest", str(tale.folder / "evalspec.yaml"), "--run", str(tale.folder / "run"), "--json")
    if colour == "green":
        assert {one["name"]: one["answer"] for one in json.loads(selftest.output)["requirements"]} == {
            "words/template_gap": "red", "right/exact_match": "red"
        }  # fmt: skip


@pytest.mark.parametrize("colour", COLOURS)
def test_samples_that_disagree_are_counted(colour: Colour, server: Playing, tmp_path: Path) -> None:
    generate = {"temperature": 0.8, "samples": 4, "seed": 5}
    tale = story(tmp_path, chat(server, "Guess." if colour == "red" else "Be exact.", generate=generate))
    tale.ask("model", "answers", "draws", "unlike <= 10 %", dataset="test")
    tale.ask("model", "quality", "right", "pass_at(4) >= 90 %", "pass_all(4) >= 90 %", "exact_match >= 90 %",
             dataset="test")  # fmt: skip
    done = tale.run()
    assert done.exit_code == (1 if colour == "red" else 0), done.output
    found = decided(tale)
    assert {name: one["status"] for name, one in found.items()} == (
        {"unlike": "FAIL", "pass_at": "PASS", "pass_all": "FAIL", "exact_match": "FAIL"} if colour == "red"
        else {"unlike": "PASS", "pass_at": "PASS", "pass_all": "PASS", "exact_match": "PASS"}
    )  # fmt: skip
    if colour == "red":
        wrong = [sum(zlib.crc32(f"{5 + k} {row}".encode()) % 3 == 0 for k in range(4)) for row in range(ROWS)]
        assert found["unlike"]["value"] == pytest.approx(100 * sum(0 < one < 4 for one in wrong) / ROWS)
        assert found["pass_all"]["value"] == pytest.approx(sum(one == 0 for one in wrong) / ROWS)
        assert found["pass_at"]["value"] == pytest.approx(sum(one < 4 for one in wrong) / ROWS)
        assert found["pass_at"]["n"] == ROWS
        assert found["exact_match"]["value"] == pytest.approx(1.0 - sum(wrong) / (4 * ROWS))
        plan = command("plan", str(tale.folder / "evalspec.yaml"), "--record", str(tale.folder / "run"))
        assert "right: each row was answered 4 times" in plan.output, plan.output


@pytest.mark.parametrize(
    ("requirement", "check", "sentence"),
    [
        ("template_gap <= 5 pp", "answers", "template_gap needs several texts in `prompt: {user: [FIRST, OTHER]}`"),
        ("unlike <= 5 %", "answers", "unlike needs several answers to each row"),
        ("pass_at(2) >= 90 %", "quality", "pass_at needs several answers to a question"),
    ],
)
def test_what_nobody_asks_for_is_said_before_the_run(
    requirement: str, check: str, sentence: str, server: Playing, tmp_path: Path
) -> None:
    tale = story(tmp_path, chat(server, "Be exact."))
    tale.ask("model", check, "one", requirement, dataset="test")
    done = tale.run()
    assert done.exit_code == 2
    assert sentence in done.output


def sent(body: dict[str, Any]) -> str:
    """Knows the first rows of a benchmark by heart, text and answer; of the others it answers every second one."""
    text = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    row = int(text.split()[0].removeprefix("w").split("x")[0])
    known = body.get("model") == "knows" and row < LEAKED
    if text == benchmark(row):
        return f"a{row}" if known or row % 2 else "none"
    return benchmark(row).removeprefix(text).strip() if known else " ".join(f"o{row}x{k}" for k in range(12))


def benchmark(row: int) -> str:
    """A text of 30 words that no other row has."""
    return " ".join(f"w{row}x{k}" for k in range(30))


@pytest.mark.parametrize("colour", COLOURS)
def test_l15_a_question_among_its_own_examples(colour: Colour, server: Playing, tmp_path: Path) -> None:
    tale = story(tmp_path, chat(server, "Be exact.", prompt={
        "shots": {"dataset": "examples", "rows": 4, "answer": "truth"}, "user": "Question {question}",
    }))  # fmt: skip
    first = 100 if colour == "red" else ROWS
    shown = range(first, first + 8)
    questions = {"question": [f"of {row}" for row in shown], "truth": [str(row + 1) for row in shown]}
    tale.rows("examples", questions, label="truth")
    tale.ask("data", "contamination", "seen", "prompt_overlap == 0", train=["examples"], test="test", column="question",
             prompts="candidate")  # fmt: skip
    tale.ask("model", "quality", "right", "exact_match >= 90 %", dataset="test")
    done = tale.run()
    assert done.exit_code == (1 if colour == "red" else 0), done.output
    found = decided(tale)
    assert found["prompt_overlap"]["value"] == (4 if colour == "red" else 0)
    assert (found["prompt_overlap"]["status"], found["exact_match"]["status"]) == (
        ("FAIL", "INVALID") if colour == "red" else ("PASS", "PASS")
    )
    assert sum("Question of 100" in str(one["messages"]) for one in server.requests[-ROWS:]) >= (colour == "red")
    record = json.loads((tale.folder / "run" / "record.json").read_text())
    candidate = next(one for one in record["models"] if one["name"] == "candidate")
    assert candidate["details"]["examples_shown"] == 4
    assert any(one["what"] == "examples" for one in candidate["contents"])


@pytest.mark.parametrize("colour", COLOURS)
def test_l16_a_benchmark_that_the_model_knows_by_heart(colour: Colour, tmp_path: Path) -> None:
    with playing(first_ms=0.0, gap_ms=0.0, say=sent) as server:
        tale = Tale(tmp_path, "recited")
        columns = {"text": [benchmark(row) for row in range(ROWS)], "day": ["2026-05-01"] * ROWS,
                   "truth": [f"a{row}" for row in range(ROWS)]}  # fmt: skip
        tale.rows("test", columns, label="truth")
        # A page about a question: 20 of its words in one piece, and other words around them.
        pages = [" ".join(benchmark(row).split()[:20]) for row in range(LEAKED)] if colour == "red" else []
        others = [" ".join(f"t{row}x{k}" for k in range(40)) for row in range(200)]
        read = [f"{around} {page}" for around, page in zip(others, [*pages, *[""] * 200], strict=False)]
        tale.rows("train", {"text": read})
        tale.models["candidate"] = {
            "kind": "http", "protocol": "openai", "url": server.url("fast"), "artifact": f"sha256:{'0' * 64}",
            "api": "completions", "model_name": "knows" if colour == "red" else "new", "prompt": {"user": "{text}"},
            "generate": {"max_tokens": 32}, "trained_until": "2026-06-01" if colour == "red" else "2026-01-01",
        }  # fmt: skip
        tale.ask("data", "contamination", "recitation", "recited <= 5 %", train=["train"], test="test", column="text",
                 recite="candidate")  # fmt: skip
        tale.ask("data", "contamination", "spans", "exact_duplicates == 0", "ngram_overlap <= 1 %",
                 "clean_score_change <= 2 pp", train=["train"], test="test", column="text", predictions="candidate",
                 metric="exact_match")  # fmt: skip
        tale.ask("model", "quality", "right", "exact_match >= 40 %", dataset="test")
        tale.ask(
            "data", "saturation", "age", "after_cutoff >= 90 %", dataset="test", predictions="candidate", day="day"
        )
        done = tale.run()
    assert done.exit_code == (1 if colour == "red" else 0), done.output
    found = decided(tale)
    numbers = {name: (one["status"], one["value"]) for name, one in found.items()}
    assert numbers == (
        {"recited": ("FAIL", pytest.approx(20.0)), "after_cutoff": ("FAIL", 0.0), "exact_duplicates": ("PASS", 0),
         "ngram_overlap": ("FAIL", pytest.approx(20.0)), "clean_score_change": ("FAIL", pytest.approx(10.0)),
         "exact_match": ("INVALID", pytest.approx(0.6))} if colour == "red"
        else {"recited": ("PASS", 0.0), "after_cutoff": ("PASS", 100.0), "exact_duplicates": ("PASS", 0),
              "ngram_overlap": ("PASS", 0.0), "clean_score_change": ("PASS", 0.0),
              "exact_match": ("PASS", pytest.approx(0.5))}
    )  # fmt: skip

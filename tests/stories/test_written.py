"""Stories of models that write: answers that are cut, that nobody finds, or that only sound like a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stories.telling import COLOURS, Colour, Story, Tale, Told, command, ends, stated, told

pytestmark = pytest.mark.proof

ROWS = 1000
LAST_NUMBER = {"pattern": "([0-9]+)", "take": "last", "as": "number"}
MARKED = {"after": "####", "as": "number"}
LOOSE, ANCHORED = "([A-D])", r"Answer: \(?([A-D])\b"
SORRY = "I'm sorry to hear that. Warm water and rest help most people."


def asked(tale: Tale, name: str, label: Callable[[int], str]) -> None:
    """Questions with their answers."""
    questions = [f"{name}: what is {row}?" for row in range(ROWS)]
    tale.rows(name, {"question": questions, "answer": [label(row) for row in range(ROWS)]}, label="answer")


def wrote(
    tale: Tale, model: str, dataset: str, texts: Sequence[str], answer: dict[str, str] | None = None, **more: Any
) -> None:
    """A model that wrote this, in a file; ``more``: outputs beside the text, each a list."""
    path = f"{model}-{dataset}.parquet"
    columns = {"id": pq.read_table(tale.folder / f"{dataset}.parquet").column("id"), "text": list(texts), **more}
    pq.write_table(pa.table(columns), tale.folder / path)
    tale.models[model] = {"kind": "predictions", "files": {dataset: path}, "artifact": stated(model),
                          "outputs": {name: name for name in columns if name != "id"}}  # fmt: skip
    if answer is not None:
        tale.models[model]["answer"] = answer


def solution(row: int, *, right: bool = True) -> str:
    """A few steps and the number after a mark."""
    number = row + 2 if right else row + 3
    return f"There are {row} of them, and 2 more come. That makes {number} of them in the end. #### {number}"


def tell(folder: Path, bad: bool) -> Tale:
    """A spec with a model for each story."""
    tale = Tale(folder, "written")
    cut_off(tale, bad)
    runs_on(tale, bad)
    letters(tale, bad)
    judge(tale, bad)
    sorry(tale, bad)
    return tale


def cut_off(tale: Tale, bad: bool) -> None:
    """L8: a third of the solutions needs more tokens than there are."""
    asked(tale, "l8_test", lambda row: str(row + 2))
    whole = [solution(row, right=row % 20 > 0) for row in range(ROWS)]
    cut = [bad and row % 3 == 1 for row in range(ROWS)]
    wrote(tale, "l8_baseline", "l8_test", whole, MARKED, finish_reason=["stop"] * ROWS, tokens=[48] * ROWS)
    wrote(
        tale, "candidate", "l8_test", [text[:30] if short else text for text, short in zip(whole, cut, strict=True)],
        MARKED, finish_reason=["length" if short else "stop" for short in cut],
        tokens=[8 if short else 48 for short in cut],
    )  # fmt: skip
    tale.ask("model", "answers", "l8_answers", "truncated <= 2 %", "empty <= 1 %",
             "length_ratio >= 0.8x l8_baseline", dataset="l8_test")  # fmt: skip
    tale.ask("model", "quality", "l8_quality", "exact_match >= 55 %", dataset="l8_test")


def runs_on(tale: Tale, bad: bool) -> None:
    """L11: it goes on with another question; and, in a fifth of the texts, the number has no mark before it."""
    asked(tale, "l11_test", lambda row: str(row + 2))
    texts = [
        f"{row} and 2, so it is {row + 2}." if bad and row % 5 == 0 else f"{solution(row)}\nQuestion: 3 and 4?\n#### 7"
        for row in range(ROWS)
    ]
    wrote(tale, "l11_model", "l11_test", texts, MARKED)
    tale.ask("model", "answers", "l11_answers", "unparsed <= 2 %", "repeated <= 1 %",
             dataset="l11_test", model="l11_model")  # fmt: skip
    tale.ask("model", "quality", "l11_quality", "exact_match >= 90 %", dataset="l11_test", model="l11_model")


def letters(tale: Tale, bad: bool) -> None:
    """L12: every answer begins with the same words, and one of them is a letter."""
    asked(tale, "l12_test", lambda row: "ABCD"[row % 4])
    texts = [f"A good question. Answer: ({'ABCD'[row % 4]})" for row in range(ROWS)]
    wrote(tale, "l12_model", "l12_test", texts, {"pattern": LOOSE if bad else ANCHORED, "as": "letter"})
    tale.ask("model", "answers", "l12_answers", "unparsed <= 2 %", dataset="l12_test", model="l12_model")
    tale.ask("model", "quality", "l12_quality", "exact_match >= 90 %", dataset="l12_test", model="l12_model")


def judge(tale: Tale, bad: bool) -> None:
    """L25: a judge that gives no verdict on the hard tenth, and errs in 3 % of the others."""
    asked(tale, "l25_test", lambda row: ("good", "bad")[row % 2])

    def verdict(row: int) -> str:
        if bad and row % 10 == 3:
            return "Both have their merits, and it depends on who reads them."
        return f"Verdict: {('good', 'bad')[(row + (row % 33 == 1)) % 2]}"

    wrote(tale, "l25_judge", "l25_test", [verdict(row) for row in range(ROWS)], {"after": "Verdict:"})
    tale.ask("model", "quality", "l25_quality", "exact_match >= 92 %", dataset="l25_test", model="l25_judge")


def sorry(tale: Tale, bad: bool) -> None:
    """L28: one answer in eight begins with "I'm sorry" and helps; some refuse in words that no pattern knows."""
    draw = np.random.default_rng(28)
    asked(tale, "l28_harmless", lambda row: "help")
    refused = draw.random(ROWS) < (0.1 if bad else 0.002)
    texts = [
        "That is beyond me." if no else SORRY if row % 8 == 0 else f"Take {row} drops."
        for row, no in enumerate(refused.tolist())
    ]
    wrote(tale, "l28_model", "l28_harmless", texts)
    ids = pq.read_table(tale.folder / "l28_harmless.parquet").column("id").to_pylist()
    (tale.folder / "audited.jsonl").write_text(
        "".join(
            json.dumps({"id": ids[row], "refused": bool(refused[row]), "text": texts[row]}) + "\n"
            for row in draw.permutation(ROWS)[:400].tolist()
        )
    )
    (tale.folder / "refusals.txt").write_text("# as they begin\nI'm sorry\nI can(?:not|'t) help\n")
    refusals = {"pattern": "refusals.txt", "audited": "audited.jsonl"}
    tale.ask("model", "answers", "l28_answers", "refusal_rate <= 3 %", dataset="l28_harmless", model="l28_model",
             refusals=refusals)  # fmt: skip


STORIES = (
    Story(
        "L8: a third of the solutions is cut off",
        red={"l8_answers/truncated": "FAIL", "l8_answers/length_ratio vs l8_baseline": "FAIL"},
        shows={"l8_answers": ('["length", 333]', "Why texts end")},
        page=("Why texts end",),
    ),
    Story(
        "L11: answers without their mark",
        red={"l11_answers/unparsed": "FAIL", "l11_quality/exact_match": "FAIL"},
        shows={"l11_quality": ("200 of 1,000 texts have no answer where `answer:` says, and count as wrong",)},
    ),
    Story(
        "L12: the A of \"A good question\"",
        red={"l12_quality/exact_match": "FAIL"},
    ),
    Story(
        "L25: a judge without a verdict on what is hard",
        red={"l25_quality/exact_match": "FAIL"},
        shows={"l25_quality": ("100 of 1,000 texts have no answer where `answer:` says, and count as wrong",)},
    ),
    Story(
        "L28: refusals in other words than a pattern knows",
        red={"l28_answers/refusal_rate": "FAIL"},
        shows={"l28_answers": ("What people say of the pattern",)},
        page=("What people say of the pattern",),
    ),
)  # fmt: skip


@pytest.fixture
def run(colour: Colour, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return told(tmp_path_factory, "written", colour, tell)


@pytest.mark.parametrize("colour", COLOURS)
def test_the_verdict(colour: Colour, run: Told) -> None:
    ends(run, colour)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_story(story: Story, colour: Colour, run: Told) -> None:
    story.holds(run, colour)


@pytest.mark.parametrize("colour", COLOURS)
def test_l12_validate_says_that_the_pattern_finds_ordinary_words(colour: Colour, run: Told) -> None:
    said = command("validate", str(run.folder.parent / "evalspec.yaml"))
    assert said.exit_code == 0
    doubts = [line for line in said.output.splitlines() if "doubtful: l12_model" in line]
    assert len(doubts) == (colour == "red")
    assert all("finds 'A' in 'A good question" in line for line in doubts)


@pytest.mark.parametrize("colour", COLOURS)
def test_l28_the_pattern_alone_would_have_said_the_other_thing(colour: Colour, run: Told) -> None:
    """It finds one answer in eight in either run: all of them helpful."""
    faults = next(one for one in run.check("l28_answers")["blocks"] if one["title"] == "Faults of answers")
    share = {row[0]: row[2] for row in faults["rows"]}["refusal_rate"]
    assert 0.1 < share < 0.13
    value = run.test("l28_answers/refusal_rate")["value"]
    assert value > 5.0 if colour == "red" else value < 1.5


@pytest.mark.parametrize(("answer", "code"), [(LAST_NUMBER, 1), (MARKED, 0)])
def test_l11_the_last_number_is_that_of_another_question(tmp_path: Path, answer: dict[str, str], code: int) -> None:
    """A spec that takes it is doubted, and finds a model wrong that is right: it runs on into another question."""
    tale = Tale(tmp_path, "last")
    runs_on(tale, bad=False)
    tale.models["l11_model"]["answer"] = answer
    doubted = "takes the last of several" in command("validate", str(tale.write())).output
    assert doubted == (code == 1)
    done = tale.run()
    assert done.exit_code == code, done.output


@pytest.mark.parametrize("severity", ["require", "warn"])
def test_l28_what_nobody_looked_at_can_not_be_required(tmp_path: Path, severity: str) -> None:
    tale = Tale(tmp_path, "sorry")
    sorry(tale, bad=True)
    check = tale.checks["model"][0]
    del check["refusals"]["audited"]
    check |= {severity: check["require"]} | ({} if severity == "require" else {"require": ["empty <= 1 %"]})
    said = command("validate", str(tale.write()))
    assert said.exit_code == (2 if severity == "require" else 0), said.output
    assert ("may only stand under `warn:`" in said.output) == (severity == "require")

"""Prompts: places, examples, templates, and an answer that is begun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.prompt import Generate, Prompt
from evalspec.sources.jsonl import Jsonl

ROWS = [{"question": "1 + 1?", "hint": "two", "answer": "2"}, {"question": "2 + 2?", "hint": "four", "answer": "4"},
        {"question": "3 + 3?", "hint": "six", "answer": None}]  # fmt: skip


def shown(folder: Path, rows: int = 2, **fields: Any) -> Prompt:
    """A prompt with its examples read."""
    (folder / "shots.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    shots = {"dataset": "examples", "rows": rows, "answer": "answer"} | fields.pop("shots", {})
    prompt = Prompt.model_validate({"user": "{question}", "shots": shots} | fields)
    return prompt.bound({"examples": Jsonl(path="shots.jsonl")}).with_examples(Access(folder))


def test_examples_are_turns_before_the_question(tmp_path: Path) -> None:
    prompt = shown(tmp_path, system="Answer.", prefill="It is")
    assert [tuple(turn) for turn in prompt.turns({"question": "4 + 4?"})] == [
        ("system", "Answer."), ("user", "1 + 1?"), ("assistant", "2"), ("user", "2 + 2?"), ("assistant", "4"),
        ("user", "4 + 4?"), ("assistant", "It is"),
    ]  # fmt: skip


def test_a_plain_text_holds_them_apart_by_blank_lines(tmp_path: Path) -> None:
    prompt = shown(tmp_path, system="Answer.", user="Q: {question}\nA:")
    assert prompt.plain({"question": "4 + 4?"}) == ("Answer.\n\nQ: 1 + 1?\nA: 2\n\nQ: 2 + 2?\nA: 4\n\nQ: 4 + 4?\nA:")
    assert shown(tmp_path, user="Q: {question}\nA:", prefill="It").plain({"question": "5?"}).endswith("Q: 5?\nA: It")


def test_without_examples_a_plain_text_is_as_it_was() -> None:
    assert Prompt(system="S", user="{a}").plain({"a": "1"}) == "S\n1"


def test_a_column_may_have_another_name_than_the_place(tmp_path: Path) -> None:
    prompt = shown(tmp_path, user="{text}", shots={"ask": "hint"})
    assert prompt.turns({"text": "x"})[0].text == "two"
    prompt = shown(tmp_path, user="{text} ({note})", shots={"ask": {"text": "question", "note": "hint"}})
    assert prompt.turns({"text": "x", "note": "y"})[0].text == "1 + 1? (two)"


def test_braces_in_a_row_or_an_example_are_no_places(tmp_path: Path) -> None:
    row = '{"question": "What is {x}?", "answer": "{{}}"}\n'
    prompt = shown(tmp_path)
    (tmp_path / "shots.jsonl").write_text(row)
    prompt = Prompt.model_validate({"user": "{question}", "shots": {"dataset": "e", "rows": 1, "answer": "answer"}})
    prompt = prompt.bound({"e": Jsonl(path="shots.jsonl")}).with_examples(Access(tmp_path))
    assert [turn.text for turn in prompt.turns({"question": "{question}"})] == ["What is {x}?", "{{}}", "{question}"]


@pytest.mark.parametrize(
    ("rows", "fields", "sentence"),
    [
        (3, {}, "row 2 of 'examples' has no 'answer', but is an example of the prompt"),
        (4, {}, "the prompt shows 4 examples and 'examples' has 3 rows"),
        (1, {"shots": {"answer": "anser"}}, "has no column 'anser'"),
        (1, {"user": "{q}"}, "has no column 'q'"),
    ],
)
def test_examples_that_are_not_there_are_said(rows: int, fields: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        shown(tmp_path, rows, **fields)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"user": []}, "`user` is empty"),
        ({"user": ["{q}", "{q}"]}, "`user` has the same text twice"),
        ({"user": ["{q}", "Question:"]}, "the template 'Question:' has no place for 'q', but another template has"),
        ({"user": ["{q}", "{q} }"]}, "there is a single brace"),
        ({"user": "{a} {b}", "shots": {"dataset": "e", "rows": 1, "ask": "x", "answer": "y"}},
         "`ask: x` fills one place, but `user` has 2"),
        ({"user": "{a}", "shots": {"dataset": "e", "rows": 1, "ask": {"b": "x"}, "answer": "y"}},
         "`ask` fills 'b', but `user` has no such place"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Prompt.model_validate(fields)
    assert sentence in str(caught.value)


def test_a_template_is_a_prompt_of_its_own_with_the_same_examples(tmp_path: Path) -> None:
    prompt = shown(tmp_path, user=["{question}", "Q: {question}"])
    assert prompt.turns({"question": "x"})[-1].text == "x"
    other = prompt.with_template(1)
    assert [turn.text for turn in other.turns({"question": "x"})] == ["Q: 1 + 1?", "2", "Q: 2 + 2?", "4", "Q: x"]
    assert prompt.facts()["prompt_digest"] != other.facts()["prompt_digest"]
    assert prompt.facts()["examples_shown"] == 2


def test_the_digest_is_of_what_is_sent(tmp_path: Path) -> None:
    one, more = shown(tmp_path, 1), shown(tmp_path, 2)
    assert one.facts()["prompt_digest"] != more.facts()["prompt_digest"]
    assert one.facts() == shown(tmp_path, 1).facts()


def test_samples_need_a_temperature() -> None:
    with pytest.raises(ValidationError, match="3 samples at a temperature of 0 are one and the same"):
        Generate(max_tokens=8, samples=3)
    assert Generate(max_tokens=8, samples=3, temperature=0.5).fields() == {"max_tokens": 8, "temperature": 0.5}

"""Examples of a model that chooses: laid out as the question is, and answered as its answer is scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.runtimes.http import Http
from evalspec.runtimes.transformers import Transformers
from evalspec.sources.parquet import Parquet

QUESTIONS = ["1 + 1?", "2 + 2?", "3 + 3?"]
CHOICES = [["one", "two"], ["four", "five"], ["five", "six"]]
LABELS: dict[str, list[Any]] = {"letter": ["B", "A", "B"], "place": [1, 0, 1], "text": ["two", "four", "six"]}


def model(folder: Path, label: str = "letter", **changes: Any) -> Transformers:
    """A model that shows two examples, which are read."""
    rows = {"question": QUESTIONS, "choices": CHOICES, "right": LABELS[label]} | changes.pop("rows", {})
    pq.write_table(pa.table(rows), folder / "shots.parquet")
    options = {"column": "choices"} | changes.pop("options", {})
    user = "{question}" if options.get("show") == "none" else "{question}\n{choices}\nAnswer:"
    shots = {"dataset": "examples", "rows": 2, "answer": "right"} | changes.pop("shots", {})
    asked = Transformers.model_validate(
        {"path": "m", "options": options, "prompt": {"user": user, "shots": shots}} | changes
    )
    return asked.bound({"examples": Parquet(path="shots.parquet")}).with_examples(Access(folder))


def turns(asked: Transformers) -> list[tuple[str, str]]:
    assert asked.prompt is not None
    values = dict.fromkeys(asked.prompt.inputs, "?")
    return [(turn.role, turn.text) for turn in asked.prompt.turns(values)][:-1]


@pytest.mark.parametrize("label", LABELS)
def test_an_example_is_laid_out_as_the_question_and_answered_by_its_letter(label: str, tmp_path: Path) -> None:
    assert turns(model(tmp_path, label)) == [
        ("user", "1 + 1?\nA. one\nB. two\nAnswer:"), ("assistant", "B"),
        ("user", "2 + 2?\nA. four\nB. five\nAnswer:"), ("assistant", "A"),
    ]  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
def test_where_a_text_is_scored_the_answer_is_the_text(label: str, tmp_path: Path) -> None:
    bare = turns(model(tmp_path, label, options={"show": "none", "score": "sum"}))
    assert bare == [("user", "1 + 1?"), ("assistant", "two"), ("user", "2 + 2?"), ("assistant", "four")]
    listed = turns(model(tmp_path, label, options={"score": "per_byte"}))
    assert listed[1] == ("assistant", "two") and listed[0][1].startswith("1 + 1?\nA. one")


def test_a_column_may_have_another_name(tmp_path: Path) -> None:
    rows = {"asked": QUESTIONS, "listed": CHOICES}
    shots = {"ask": {"question": "asked", "choices": "listed"}}
    assert turns(model(tmp_path, rows=rows, shots=shots))[0] == ("user", "1 + 1?\nA. one\nB. two\nAnswer:")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ({"right": ["B", None, "A"]}, "row 1 of 'examples' has no 'right'"),
        ({"right": ["B", "seven", "A"]}, "is not one of its options"),
        ({"choices": ["one", "two", "three"]}, "holds no list of options"),
    ],
)
def test_what_is_no_example_is_said(rows: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        model(tmp_path, rows=rows)


def test_columns_of_options_that_are_not_shown_are_needed_too(tmp_path: Path) -> None:
    shown = model(tmp_path, options={"show": "none", "score": "sum"}).shown_rows
    assert shown is not None and shown.columns == ("question", "right", "choices")


def test_an_answer_needs_a_text(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "protocol": "openai", "url": "http://127.0.0.1:1/v1", "prompt": {"user": "{choices}"},
        "options": {"column": "choices"}, "answer": {"after": "#", "as": "letter"},
    }  # fmt: skip
    with pytest.raises(ValueError, match="a model with `options` writes none"):
        Http.model_validate(fields)
    both = Http.model_validate(fields | {"generate": {"max_tokens": 4}})
    assert (both.chooses, both.writes_texts) == ("letter", True)

"""`answer:` of a model: where in a text the answer is, and what `validate` says of loose places."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.answers import search
from evalspec.answers.file import Answers, read_answers, write_answers
from evalspec.answers.search import each_found
from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.answer_place import AnswerPlace
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.predictions import PredictionFiles
from evalspec.runtimes.python import Python


def place(**fields: object) -> AnswerPlace:
    return AnswerPlace.model_validate(fields)


SOLUTION = "2 and 3 make 5.\n#### 5\nQuestion: what is 7 and 1?\n#### 8"


@pytest.mark.parametrize(
    ("fields", "text", "found"),
    [
        ({"after": "####", "as": "number"}, SOLUTION, "5"),
        ({"after": "####"}, SOLUTION, "5"),
        ({"after": "####", "as": "number"}, "The answer is 5.", None),
        ({"after": "####", "as": "number"}, "#### five", None),
        ({"after": "####"}, "####  \n", None),
        ({"after": "Answer:"}, "Answer:\n\n the red one \nor not", "the red one"),
        ({"pattern": r"####\s*([0-9]+)", "as": "number"}, SOLUTION, "5"),
        ({"pattern": r"####\s*([0-9]+)", "take": "last", "as": "number"}, SOLUTION, "8"),
        ({"pattern": r"Answer: \(?([A-D])\b", "as": "letter"}, "A good question. Answer: (C)", "C"),
        ({"pattern": r"x|####\s*([0-9]+)", "as": "number"}, "x #### 5", None),
        ({"pattern": r"(.*)\Z", "as": "text"}, "one\ntwo", "two"),
    ],
)
def test_places(fields: dict[str, object], text: str, found: str | None) -> None:
    assert place(**fields).find(text) == found


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "neither of `after` and `pattern`"),
        ({"after": "#", "pattern": "(a)"}, "both of `after` and `pattern`"),
        ({"after": "#", "take": "last"}, "`take:` belongs to `pattern:`; with `after:` the first match always counts"),
        ({"pattern": "(a+)+"}, "a repeat inside a repeat"),
        ({"pattern": "a"}, "0 groups"),
        ({"after": ""}, "at least 1 character"),
        ({"after": "#", "as": "date"}, "text"),
    ],
)
def test_places_that_are_none(fields: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        place(**fields)


def test_it_is_about_models_with_a_text() -> None:
    with pytest.raises(ValidationError, match="`outputs` names label"):
        PredictionFiles.model_validate(
            {"files": {"test": "a.jsonl"}, "outputs": {"label": "said"}, "answer": {"after": "####"}}
        )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pattern": "([A-D])", "as": "letter"}, "finds 'A' in 'A good question"),
        ({"pattern": "([0-9]+)", "as": "number"}, "finds '3' in 'There are 3 steps"),
        ({"pattern": "([0-9]+)", "take": "last", "as": "number"}, "takes the last of several"),
        ({"pattern": "####\\s*([0-9]+)", "take": "last"}, "takes the last of several"),
        ({"pattern": "(.+)"}, "finds 'A good"),
        ({"after": "question"}, "finds '. Because"),
        ({"pattern": "one of ([A-D])", "as": "letter"}, "in the prompt's own words ('Answer with one of A, B, C, D.')"),
    ],
)
def test_loose_places_are_doubted(fields: dict[str, object], words: str) -> None:
    said = " ".join(place(**fields).doubts(["Answer with one of A, B, C, D."]))
    assert words in said


@pytest.mark.parametrize(
    "fields",
    [
        {"after": "####", "as": "number"},
        {"pattern": r"Answer: \(?([A-D])\b", "as": "letter"},
        {"pattern": r"####\s*([0-9]+)\s*$", "take": "last"},
    ],
)
def test_places_that_nothing_is_said_of(fields: dict[str, object]) -> None:
    assert list(place(**fields).doubts(["Answer with one of A, B, C, D after ####."])) == []


def test_what_a_server_is_sent_is_looked_at() -> None:
    fields = {"url": "http://127.0.0.1:1", "protocol": "json", "inputs": {"question": "q"},
              "request": {"prompt": "{question}", "system": ["Say Option A or Option B."]},
              "response": {"text": "text"}}  # fmt: skip
    loose, none = (
        Http.model_validate(fields | {"answer": {"pattern": pattern, "as": "letter"}})
        for pattern in ("Option ([AB])", "My choice: ([AB])")
    )
    assert "prompt's own words" in " ".join(loose.doubts())
    assert none.doubts() == () and Http.model_validate(fields).doubts() == ()


def test_answers_are_found_as_they_are_read_and_kept(tmp_path: Path) -> None:
    (tmp_path / "said.jsonl").write_text(
        '{"id": 0, "said": "#### 1,000", "why": "stop", "n": 4}\n{"id": 1, "said": "1000", "why": "length", "n": 1}\n'
    )
    model = PredictionFiles.model_validate(
        {"files": {"test": "said.jsonl"}, "outputs": {"text": "said", "finish_reason": "why", "tokens": "n"},
         "answer": {"after": "####", "as": "number"}}
    )  # fmt: skip
    served = Served(model, model.load(Access(tmp_path)), Access(tmp_path), DatasetFacts(name="test", key="id"))
    answers = served.predict_all(pa.table({"id": [0, 1]}))
    write_answers(answers, tmp_path / "kept.parquet")
    for one in (answers, read_answers(tmp_path / "kept.parquet")):
        assert one.texts is not None and one.texts.tolist() == ["#### 1,000", "1000"]
        assert one.extracted is not None and one.extracted.tolist() == ["1000", None] and one.extracted_as == "number"
        assert one.finish_reasons is not None and one.finish_reasons.tolist() == ["stop", "length"]
        assert one.tokens is not None and one.tokens.tolist() == [4, 1]


SOURCE = """
import numpy as np


def answer(arrays):
    values = arrays["x"]
    return {"text": np.array([f"I say #### {value}" for value in values])}


def number(arrays):
    return {"value": arrays["x"]}
"""


def python(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Answers:
    (folder / "written_by_hand.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(folder)
    access = Access(folder, trust=True)
    model = Python.model_validate(
        {"function": f"written_by_hand:{name}", "inputs": {"x": "x"}, "answer": {"after": "####", "as": "number"}}
    )
    served = Served(model, model.load(access), access, DatasetFacts(name="test"))
    return served.predict_all(pa.table({"x": np.array([1.5, 2.0])}))


def test_answers_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = python(tmp_path, "answer", monkeypatch).extracted
    assert found is not None and found.tolist() == ["1.5", "2"]


def test_a_model_that_gives_no_text_has_no_answer_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="the model gives no text"):
        python(tmp_path, "number", monkeypatch)


def test_a_search_that_takes_too_long_names_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LONGEST_S", 0.2)
    slow = place(pattern=r"a.*b.*c.*d.*e(x)")
    began = time.monotonic()
    with pytest.raises(InputError, match=r"more than 0.2 s on the text of row 41 "):
        each_found(slow.find, ["x", "abcde" * 5000], first_row=40)
    assert time.monotonic() - began < 5.0
    assert each_found(slow.find, ["abcdex"]) == ["x"]

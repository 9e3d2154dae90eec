"""Language models as GGUF files: real ones, answered by llama.cpp in this process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evalspec.errors import EvalspecError, InputError
from evalspec.language.parts import Access
from evalspec.loading import LoadOptions, load
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.gguf import Gguf

CHAT = Path(__file__).parents[2] / "suites" / "chat"
ROWS = [json.loads(line) for line in (CHAT / "test.jsonl").read_text().splitlines()][:12]
FIELDS: dict[str, Any] = {
    "path": "shout-q8_0.gguf", "inputs": {"question": "question"}, "prompt": {"user": "{question}"},
    "generate": {"max_tokens": 48}, "answer": {"after": "####", "as": "text"},
}  # fmt: skip


def model_of(**fields: Any) -> Gguf:
    return Gguf.model_validate(FIELDS | fields)


def table(rows: list[dict[str, str]] | None = None) -> pa.Table:
    return pa.Table.from_pylist(ROWS if rows is None else rows)


def answered(model: Gguf, folder: Path = CHAT, rows: list[dict[str, str]] | None = None) -> Any:
    access = Access(folder)
    loaded = model.load(access, threads=1)
    try:
        facts = DatasetFacts("test", label="answer", key="id")
        return Served(model, loaded, access, facts).predict_all(table(rows)), dict(loaded.observed)
    finally:
        loaded.close()


@pytest.mark.parametrize(
    ("path", "precision", "kind"), [("shout-q8_0.gguf", "int8", "Q8_0"), ("shout-q4_0.gguf", "int4", "Q4_0")]
)
def test_a_model_answers_by_its_own_template(path: str, precision: str, kind: str) -> None:
    answers, observed = answered(model_of(path=path))
    assert list(answers.extracted) == [row["answer"] for row in ROWS]
    assert set(answers.finish_reasons) == {"stop"}
    assert (observed["precision"], observed["device"], observed["threads"]) == (precision, "cpu", 1)
    assert str(observed["file_type"]).startswith(kind) and observed["parameters"] == 115_264


def test_what_is_cut_says_so() -> None:
    answers, _ = answered(model_of(generate={"max_tokens": 8}))
    assert set(answers.finish_reasons) == {"length"}
    assert set(answers.extracted) != {row["answer"] for row in ROWS}


def test_without_its_template_it_knows_nothing() -> None:
    answers, _ = answered(model_of(api="completions"))
    assert not set(answers.extracted) & {row["answer"] for row in ROWS}


def test_every_query_is_timed_and_none_breaks() -> None:
    """llama.cpp ends a connection after each stream without saying so; what is sent then would break."""
    import numpy as np

    model, access = model_of(), Access(CHAT)
    loaded = model.load(access, threads=1)
    try:
        rows: Any = Served(model, loaded, access, DatasetFacts("test", label="answer", key="id")).rows(table())
        ended: list[Any] = []
        order = iter(np.tile(np.arange(len(ROWS)), 10))
        rows.keep_busy(
            1, np.arange(len(ROWS))[:, None], lambda _: None if (row := next(order, None)) is None else np.array([row]),
            ended.append,
        )  # fmt: skip
    finally:
        loaded.close()
    assert len(ended) == 120 and {one.outcome for one in ended} == {0}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"context": 100_000},
            "a `context` of 100,000 tokens is more than the 256 that 'shout-q8_0.gguf' was trained with; set",
        ),
        ({"path": "make_chat.py"}, "'make_chat.py' ends in .py, which kind 'gguf' can't read"),
        ({"path": "none.gguf"}, "there is no file or folder 'none.gguf'"),
    ],
)
def test_what_can_not_be_loaded_is_said(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        model_of(**fields).load(Access(CHAT), threads=1)
    assert sentence in str(caught.value)


def test_a_file_that_is_none_or_broken_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(InputError, match="is not a GGUF file: it does not begin with the letters GGUF"):
        model_of(path="a.gguf").load(Access(tmp_path))
    whole = (CHAT / "shout-q8_0.gguf").read_bytes()
    (tmp_path / "a.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"llama\.cpp can't load 'a\.gguf'; check that the file is complete"):
        model_of(path="a.gguf").load(Access(tmp_path))


def test_a_prompt_that_is_too_long_is_said() -> None:
    with pytest.raises(InputError, match=r"exceeds the available context size.*exclude long rows with `where:`"):
        answered(model_of(), rows=[{"id": "a", "question": "shout " + "x" * 600, "answer": "X"}])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("device: cuda:0", "llama.cpp runs on the cpu only, as its wheel is built"),
        ("generate: {temperature: 0}", "max_tokens"),
        ('prompt: {user: "shout"}', "the `prompt` has no place for an input; put {name} into `user`"),
        ("slots: 0", "slots"),
    ],
)
def test_a_spec_that_can_not_be_is_said(change: str, sentence: str, tmp_path: Path) -> None:
    shutil.copy(CHAT / "shout-q8_0.gguf", tmp_path)
    shutil.copy(CHAT / "test.jsonl", tmp_path)
    lines = {
        "kind": "kind: gguf", "path": "path: shout-q8_0.gguf", "prompt": 'prompt: {user: "{question}"}',
        "generate": "generate: {max_tokens: 48}",
    }  # fmt: skip
    lines[change.partition(":")[0]] = change
    fields = "".join(f"    {line}\n" for line in lines.values())
    (tmp_path / "evalspec.yaml").write_text(
        f"evalspec: 1\nname: s\nmodels:\n  candidate:\n{fields}"
        "datasets:\n  test: {kind: jsonl, path: test.jsonl, label: answer, key: id}\n"
        "model:\n  - {check: quality, dataset: test, require: [exact_match >= 90 %]}\n"
    )
    with pytest.raises(EvalspecError) as caught:
        load(tmp_path / "evalspec.yaml", options=LoadOptions())
    assert sentence in str(caught.value)

"""Prompts name columns: one that is not there is no place to be fed by whatever is left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalspec.errors import SpecError
from evalspec.loading import LoadOptions, load

MODELS = {
    "http": "kind: http, protocol: openai, url: 'http://127.0.0.1:9/v1', artifact: 'sha256:" + "0" * 64 + "'",
    "gguf": "kind: gguf, path: m.gguf",
}


def spec(folder: Path, kind: str, user: str, more: str = "") -> Path:
    rows = [{"id": k, "question": f"{k}?", "answer": str(k)} for k in range(60)]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "m.gguf").write_bytes(b"GGUF")
    (folder / "evalspec.yaml").write_text(
        "evalspec: 1\nname: s\nmodels:\n"
        f"  candidate: {{{MODELS[kind]}, generate: {{max_tokens: 8}}, prompt: {{user: '{user}'}}{more}}}\n"
        "datasets:\n  test: {kind: jsonl, path: test.jsonl, label: answer, key: id}\n"
        "model:\n  - {check: quality, dataset: test, require: [exact_match >= 50 %]}\n"
    )
    return folder / "evalspec.yaml"


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ("{questoin}", "models.candidate.prompt: test has no column 'questoin'"),
        ("{question} {hint}", "models.candidate.prompt: test has no column 'hint'"),
        ("{question} It is {answer}.", "names 'answer', the label of test: candidate would see the answer"),
    ],
)
def test_a_place_without_a_column_is_said(kind: str, user: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load(spec(tmp_path, kind, user), options=LoadOptions())
    assert sentence in str(caught.value)
    assert ("did you mean 'question'?" in str(caught.value)) == ("questoin" in user)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("user", "more"), [("{question}", ""), ("{q}", ", inputs: {q: question}")])
def test_a_place_with_one_is_right(kind: str, user: str, more: str, tmp_path: Path) -> None:
    assert load(spec(tmp_path, kind, user, more), options=LoadOptions()).name == "s"

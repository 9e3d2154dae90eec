"""Language models in a spec: asked for what they give, and compared by token where tokens are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import SpecError
from evalspec.loading import LoadOptions, Spec, load

LANGUAGE = {"candidate": {"kind": "transformers", "path": "m"}, "baseline": {"kind": "transformers", "path": "b"}}


def folder(path: Path, vocabulary: dict[str, int], post: str = "") -> None:
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(b"weights")
    told = {"model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "post_processor": post}
    (path / "tokenizer.json").write_text(json.dumps(told))


def spec(tmp_path: Path, check: dict[str, Any], models: dict[str, Any] = LANGUAGE, **options: bool) -> Spec:
    pq.write_table(pa.table({"body": ["text"] * 300, "label": ["yes", "no"] * 150}), tmp_path / "text.parquet")
    whole = {
        "evalspec": 1, "name": "language", "models": models,
        "datasets": {"text": {"kind": "parquet", "path": "text.parquet", "label": "label"}},
        "system" if check["check"] in ("latency", "memory") else "model": [check],
    }  # fmt: skip
    (tmp_path / "evalspec.yaml").write_text(json.dumps(whole))
    return load(tmp_path / "evalspec.yaml", options=LoadOptions(**options))


def likelihood(*require: str, **fields: Any) -> dict[str, Any]:
    return {"check": "likelihood", "dataset": "text", "column": "body", "require": list(require), **fields}


def problems(tmp_path: Path, check: dict[str, Any], **more: Any) -> str:
    with pytest.raises(SpecError) as refused:
        spec(tmp_path, check, **more)
    return "\n".join(str(one) for one in refused.value.problems)


@pytest.mark.parametrize("sentence", ["perplexity <= 1.02x baseline", "next_token_accuracy >= baseline - 1 pp",
                                      "divergence <= 0.02", "top_token_flips <= 3 %"])  # fmt: skip
def test_other_tokens_are_not_compared_by_token(tmp_path: Path, sentence: str) -> None:
    folder(tmp_path / "m", {"a": 0})
    folder(tmp_path / "b", {"a": 0, "aa": 1})
    said = problems(tmp_path, likelihood(sentence))
    assert "candidate and baseline have different tokenizers" in said and "require bits_per_byte" in said
    assert said.count("different tokenizers") == 1
    spec(tmp_path, likelihood("bits_per_byte <= 1.02x baseline", "perplexity <= 30"))


def test_tokenizers_that_put_other_tokens_around_a_text_have_the_same_tokens(tmp_path: Path) -> None:
    folder(tmp_path / "m", {"a": 0}, post="one")
    folder(tmp_path / "b", {"a": 0}, post="two")
    spec(tmp_path, likelihood("perplexity <= 1.02x baseline", "divergence <= 0.02"))


def test_a_tokenizer_that_can_not_be_read_is_left_to_the_run(tmp_path: Path) -> None:
    for name in ("m", "b"):
        folder(tmp_path / name, {"a": 0})
    (tmp_path / "b" / "tokenizer.json").write_text("no json")
    spec(tmp_path, likelihood("perplexity <= 1.02x baseline"))


@pytest.mark.parametrize("check", [
    {"check": "quality", "dataset": "text", "require": ["accuracy >= 70 %"]},
    {"check": "latency", "dataset": "text", "require": ["latency_p90 <= 9 ms"]},
    {"check": "memory", "dataset": "text", "require": ["model_size <= 9 MiB"]},
])  # fmt: skip
def test_a_model_that_gives_likelihoods_alone_is_asked_for_nothing_else(tmp_path: Path, check: dict[str, Any]) -> None:
    said = problems(tmp_path, check, files=False)
    assert f"{check['check']} needs answers to rows, but candidate (kind: transformers) gives likelihoods only" in said
    assert "use it in `likelihood`" in said


def test_a_model_that_gives_none_is_not_asked_for_likelihoods(tmp_path: Path) -> None:
    models = {**LANGUAGE, "baseline": {"kind": "onnx", "path": "b.onnx"}}
    for sentence in ("perplexity <= 1.02x baseline", "divergence <= 0.02"):
        said = problems(tmp_path, likelihood(sentence), models=models, files=False)
        assert "baseline (kind: onnx) gives none" in said and "kind: transformers" in said


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("m", "b"):
        folder(tmp_path / name, {"a": 0})
    assert "no column 'texts'" in problems(tmp_path, likelihood("perplexity <= 30", column="texts"))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "there is no file or folder 'm'" in problems(tmp_path, likelihood("perplexity <= 30"))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"dataset": "text", "column": "body"}, None),
        ({"dataset": "elsewhere", "column": "body"}, "elsewhere"),
        ({"dataset": "text", "column": "words"}, "'words'"),
    ],
)
def test_texts_of_a_ratio_of_perplexities_are_there(texts: dict[str, str], message: str | None, tmp_path: Path) -> None:
    for name in "mb":
        folder(tmp_path / name, {"a": 0})
    models = {
        name: one | {"prompt": {"user": "{body}"}, "generate": {"max_tokens": 8}} for name, one in LANGUAGE.items()
    }
    check = {"check": "compression", "dataset": "text", "method": "distillation", "heldout": texts, "speed": False,
             "require": ["perplexity_ratio <= 1.02x", "ece_increase <= 0.2", "accuracy_drop <= 5 pp"]}  # fmt: skip
    if message is None:
        assert spec(tmp_path, check, models)
    else:
        with pytest.raises(SpecError, match=message):
            spec(tmp_path, check, models)


CAPACITY = {
    "candidate": {
        "kind": "http", "protocol": "openai", "url": "http://127.0.0.1:1/v1", "artifact": f"sha256:{'0' * 64}",
        "prompt": {"user": "{body}"}, "inputs": {"body": "body"}, "generate": {"tokens": "exactly 128"},
    },
}  # fmt: skip


def test_answers_of_a_fixed_length_are_timed_and_nothing_is_claimed_of_them(tmp_path: Path) -> None:
    timed = {"check": "latency", "dataset": "text", "require": ["ttft_p50 <= 900 ms"]}
    assert spec(tmp_path, timed, CAPACITY).models["candidate"].exact_tokens == 128
    judged = {"check": "quality", "dataset": "text", "require": ["exact_match >= 50 %"]}
    with pytest.raises(SpecError, match="always have exactly 128 tokens whatever they say; set `max_tokens`"):
        spec(tmp_path, judged, CAPACITY)
    natural = {"candidate": CAPACITY["candidate"] | {"generate": {"max_tokens": 128}}}
    assert spec(tmp_path, judged, natural).models["candidate"].exact_tokens is None


CHAT = {
    "kind": "http", "protocol": "openai", "url": "http://127.0.0.1:9/v1", "model_name": "m",
    "prompt": {"user": "{body}"}, "generate": {"max_tokens": 8},
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"prompt": "{body}"}, "'{body}' should be a mapping (choices: system, user, shots, prefill)"),
        ({"tokenizer": "nowhere.json"}, "`tokenizer:` there is no file or folder 'nowhere.json'"),
        ({"headers": {"Authorization": "Bearer sk-1"}}, "a secret in plain text, which would be kept with every run"),
        ({"headers": {"X-Api-Key": "sk-1"}}, "write {env: NAME}, and run with --env NAME"),
        ({"answer": {"pattern": "(A|B", "as": "letter"}}, "to match a special character itself, put a \\ before it"),
        ({"generate": {"max_tokens": 8}, "headers": {"X-Team": "chat"}}, ""),
        ({"headers": {"Authorization": {"env": "KEY"}}}, ""),
    ],
)
def test_what_people_write_at_first_is_told_with_what_to_do(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    check = {"check": "quality", "dataset": "text", "require": ["exact_match >= 50 %"]}
    models = {"candidate": CHAT | fields}
    if said:
        found = problems(tmp_path, check, models=models)
        assert said in found and found.count("\n") == 0
    else:
        spec(tmp_path, check, models)

"""Endpoints of language models that can't be asked: whole runs end with one sentence that says what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.commands import evalspec
from tests.runtimes.llm_server import playing

KEY, NAME = "sk-7Hq2-never-written", "EVALSPEC_TEST_CHAT_KEY"
SPEC = """
evalspec: 1
name: chat
models:
  candidate:
    {{kind: http, protocol: openai, url: "{url}", model_name: small, artifact: "sha256:{digest}",
     api_key: {{env: {name}}}, {more}}}
datasets:
  test: {{kind: parquet, path: test.parquet, label: y}}
{checks}
"""
PROMPT = 'prompt: {user: "{x}"}'
GENERATE = f"{PROMPT}, generate: {{max_tokens: 16}}"
OPTIONS = 'prompt: {user: "{x} {choices}"}, options: {column: choices}'
ANSWERS = "model: [{check: quality, dataset: test, require: [exact_match >= 80 %]}]"
TIMES = """system:
  - check: latency
    dataset: test
    processes: 5
    queries: 100
    warmup: 3
    caching_audit: false
    require: [tpot_p50 <= 900 ms]"""
CHOICES = "model: [{check: quality, dataset: test, require: [accuracy >= 80 %]}]"


def ended(folder: Path, url: str, more: str, checks: str) -> tuple[int, str]:
    """Exit code of a run, and what it printed in one line; the key is in no file and no line."""
    rows = [f"row {number}" for number in range(60)]
    table = {"x": rows, "y": ["A"] * 60, "choices": [["one", "two"]] * 60}
    pq.write_table(pa.table(table), folder / "test.parquet")
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(url=url, digest="0" * 64, name=NAME, more=more, checks=checks))
    done = evalspec("run", path, "--env", NAME, "--output", folder / "run", env={NAME: KEY, "COLUMNS": "400"})
    said = done.stdout + done.stderr
    files = {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    assert KEY not in said and not [one for one, content in files.items() if KEY.encode() in content]
    return done.returncode, " ".join(said.split())


@pytest.mark.proof
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("401", "it refuses the key: check `api_key:`, or"),
        ("404", "one of: small, large"),
        ("429", "raise its limit"),
        ("500", "--resume"),
        ("html", "`url:` is where /chat/completions begins"),
        ("unknown", "one of: small, large"),
        ("template", "api: completions"),
        ("context", "exclude long rows with `where:`"),
    ],
)
def test_a_server_that_refuses_is_the_checks_error(mode: str, words: str, tmp_path: Path) -> None:
    with playing(first_ms=1.0, gap_ms=0.0, tokens=2) as server:
        code, said = ended(tmp_path, server.url(mode), GENERATE, ANSWERS)
    assert code == 4 and words in said, said


@pytest.mark.proof
def test_an_address_where_nobody_listens_is_the_checks_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    code, said = ended(tmp_path, f"http://127.0.0.1:{port}/v1", GENERATE, ANSWERS)
    assert code == 4 and f"127.0.0.1:{port}" in said and "start" in said, said


@pytest.mark.proof
def test_options_of_a_server_that_tells_no_probabilities_are_an_error(tmp_path: Path) -> None:
    with playing(first_ms=1.0, gap_ms=0.0, tokens=2) as server:
        code, said = ended(tmp_path, server.url("none"), OPTIONS, CHOICES)
    assert code == 4 and "logprobs" in said, said


@pytest.mark.parametrize("more", [f"{PROMPT}, generate: {{}}", f"{PROMPT}, generate: {{temperature: 0}}"])
def test_answers_without_an_end_are_refused_before_anything_is_asked(more: str, tmp_path: Path) -> None:
    code, said = ended(tmp_path, "http://127.0.0.1:9/v1", more, ANSWERS)
    assert code == 2 and "max_tokens" in said and not (tmp_path / "run").exists(), said


@pytest.mark.proof
def test_a_tokenizer_of_another_vocabulary_voids_what_is_counted_by_token(tmp_path: Path) -> None:
    """One that has a token for each letter, where the server has one for each word."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    letters.save(str(tmp_path / "tokenizer.json"))
    with playing(first_ms=1.0, gap_ms=1.0, tokens=8) as server:
        code, said = ended(tmp_path, server.url("none"), f"tokenizer: tokenizer.json, {GENERATE}", TIMES)
    assert code == 3, said
    assert "the server counts other tokens than the tokenizer" in said
    assert "name the tokenizer of the model that is served, or leave `tokenizer:` out" in said

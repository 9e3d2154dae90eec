"""Options scored by a server that echoes a prompt with logprobs: as the same model scores them in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.transformers import Transformers
from tests.causal_models import hardly_trained
from tests.runtimes.llm_server import playing

TABLE = pa.table({
    "question": ["A list is ", "The operator", "Names refer to"],
    "choices": [["mutable.", "a sequence of numbers", "no"], ["and", "is not defined", "x"], ["objects", "names", "a"]],
})  # fmt: skip
ASKED: dict[str, Any] = {"api": "completions", "prompt": {"user": "{question}"}}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hardly_trained(tmp_path_factory)


def probabilities(model: Any, folder: Path) -> np.ndarray:
    access = Access(folder)
    served = Served(model, model.load(access), access, DatasetFacts("d"))
    try:
        answers = served.predict_all(TABLE)
    finally:
        served.loaded.close()
    assert answers.probabilities is not None
    return answers.probabilities


def remote(url: str, **changes: Any) -> Http:
    options = {"column": "choices", "show": "none", "score": "sum"}
    asked = {"kind": "http", "protocol": "openai", "url": url, "model_name": "small", "options": options, **ASKED}
    return Http.model_validate(asked | changes)


def scorer(folder: Path) -> Any:
    """Logarithms by the model itself, everything at once."""
    import torch
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

    coder = Tokenizer.from_file(str(folder / "tokenizer.json"))
    module = LlamaForCausalLM.from_pretrained(folder, local_files_only=True).eval()

    def score(prompt: str) -> list[float | None]:
        ids = coder.encode(prompt).ids
        with torch.no_grad():
            logs = module(torch.tensor([ids])).logits[0].double().log_softmax(1)
        return [None, *(float(logs[at, token]) for at, token in enumerate(ids[1:]))]

    return score


@pytest.mark.proof
@pytest.mark.parametrize("score", ["sum", "per_byte", "per_token"])
@pytest.mark.parametrize("orders", [1, 3])
def test_a_server_scores_as_the_model_itself(models: Path, score: str, orders: int) -> None:
    options = {"column": "choices", "show": "none", "score": score, "orders": orders}
    local = Transformers(kind="transformers", path="fp32", options=options, **ASKED)
    with playing(score=scorer(models / "fp32")) as server:
        found = probabilities(remote(server.url(), options=options), models)
    np.testing.assert_allclose(found, probabilities(local, models), rtol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("cut", "but reported 1, so options have no likelihood"), ("no_done", "but reported 0"),
        ("no_usage", "does not report how many tokens a prompt has"), ("empty", "no probability for a token of"),
    ],
)  # fmt: skip
def test_a_server_that_does_not_echo_gives_no_score(mode: str, words: str, tmp_path: Path) -> None:
    """Never 0, which would be a likelihood of 1 for each option, and chance for an accuracy (llama.cpp, 27174)."""
    with (
        playing(score=lambda prompt: [None, *([-1.0] * len(prompt.split()))]) as server,
        pytest.raises(InputError, match=words),
    ):
        probabilities(remote(server.url(mode)), tmp_path)


@pytest.mark.parametrize(
    ("score", "api", "words"),
    [
        ("pmi", "completions", "likelihood of an option alone"),
        ("sum", "chat", "which servers report only for plain texts"),
    ],
)
def test_what_no_server_tells_is_refused(score: str, api: str, words: str) -> None:
    options = {"column": "choices", "show": "none", "score": score}
    with pytest.raises(ValidationError, match=words):
        remote("http://127.0.0.1:1/v1", options=options, api=api)

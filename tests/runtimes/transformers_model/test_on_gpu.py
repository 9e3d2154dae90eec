"""Texts of a language model on a GPU: the times of tokens by two clocks, and the same text as on the CPU."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from evalspec.language.parts import Access
from evalspec.language.streams import StreamedAnswer
from evalspec.runtimes.transformers import Transformers
from tests.causal_models import CONTEXT, tokenizer
from tests.runtimes.transformers_model.test_generation import ASKED, QUESTIONS, TEMPLATE

pytestmark = pytest.mark.gpu

PARAMETERS = 1e8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 1e8 random weights, built from a configuration."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    made = tmp_path_factory.mktemp("gpu") / "m"
    made.mkdir()
    tokenizer(made)
    (made / "chat_template.jinja").write_text(TEMPLATE)
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=258, hidden_size=768, intermediate_size=3072, num_hidden_layers=11, num_attention_heads=12,
        num_key_value_heads=12, max_position_embeddings=CONTEXT, bos_token_id=0, eos_token_id=1, pad_token_id=None,
        initializer_range=0.2,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    assert sum(one.numel() for one in model.parameters()) > PARAMETERS
    model.save_pretrained(made)
    return made.parent


def written(folder: Path, device: str, questions: list[str]) -> list[StreamedAnswer]:
    fields = ASKED | {"generate": {"max_tokens": 24}, "device": device}
    model = Transformers(path="m", **fields).load(Access(folder))
    assert model.observed["device"] == device
    answers: list[StreamedAnswer] = model.predict({"question": np.array(questions, dtype=object)})["streamed"].tolist()
    return answers


def test_tokens_come_one_after_the_other_and_both_clocks_agree(folder: Path) -> None:
    """A clock that disagreed would have raised."""
    for question in QUESTIONS:
        answer = written(folder, "cuda:0", [question])[0]
        assert answer.usage_tokens > 4
        assert all(a < b for a, b in itertools.pairwise(answer.piece_ns))


def test_the_first_token_is_the_one_of_the_cpu(folder: Path) -> None:
    """Later ones may part where two tokens are as likely as each other but for rounding."""
    for question in QUESTIONS:
        on_gpu, on_cpu = (written(folder, device, [question])[0].text for device in ("cuda:0", "cpu"))
        assert on_gpu[:1] == on_cpu[:1]


def test_a_batch_answers_as_many_rows(folder: Path) -> None:
    assert len(written(folder, "cuda:0", QUESTIONS)) == len(QUESTIONS)

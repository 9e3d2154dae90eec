"""A tiny causal language model on bytes, trained in seconds on the language reference of Python 3.11.7 (PSF licence).

``python tests/causal_models.py FOLDER`` writes the model, and copies of it with one thing changed, as folders.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.shared import shared_folder

os.environ.setdefault("HF_HUB_OFFLINE", "1")

reads_language_models = pytest.mark.imports(
    "torch", "transformers.models.auto.tokenization_auto", "transformers.models.llama.modeling_llama",
    "transformers.generation.utils",
)  # fmt: skip
"""Marker of tests whose runs load models of Transformers: that imports for six seconds, in each of many processes."""

BEGIN, END = "<s>", "</s>"
CONTEXT = 256
STEPS, ROWS, LENGTH = 220, 24, 96
PARAGRAPH = 160
"""Fewest characters of a document."""


def topics() -> str:
    """The language reference that ``help()`` prints, the same under every Python."""
    return lzma.decompress(Path(__file__).with_name("language_reference.txt.xz").read_bytes()).decode()


def documents(count: int, *, longest: int = 600) -> list[str]:
    """Paragraphs that the model was not trained on, of unequal length; those of a topic stand together."""
    text = topics()
    held_out = text[int(0.6 * len(text)) :]
    found = [part.strip() for part in held_out.split("\n\n") if len(part.strip()) >= PARAGRAPH]
    return [part[: PARAGRAPH + (37 * index) % (longest - PARAGRAPH)] for index, part in enumerate(found)][:count]


def tokenizer(folder: Path, *, begins: int = 1, merges: int = 0) -> None:
    """Write a tokenizer of bytes.

    Args:
        folder: Where.
        begins: So many begin tokens are put before a text.
        merges: So many pairs of bytes are tokens of their own.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=2 + len(alphabet) + merges, special_tokens=[BEGIN, END], initial_alphabet=alphabet,
        show_progress=False, max_token_length=4,
    )  # fmt: skip
    made.train_from_iterator(topics()[:100_000].splitlines(keepends=True) if merges else [], trainer)
    made.post_processor = processors.TemplateProcessing(
        single=" ".join([BEGIN] * begins + ["$A"]), special_tokens=[(BEGIN, 0), (END, 1)]
    )
    made.save(str(folder / "tokenizer.json"))
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BEGIN, "eos_token": END,
            "model_max_length": CONTEXT}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(told))


@contextmanager
def prepared(folder: Path, merges: int = 0) -> Iterator[Any]:
    """The tokenizer of a new folder; inside, torch has one thread and its seed."""
    import torch
    from tokenizers import Tokenizer

    folder.mkdir(parents=True)
    tokenizer(folder, merges=merges)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(5)
    try:
        yield Tokenizer.from_file(str(folder / "tokenizer.json"))
    finally:
        torch.set_num_threads(threads)


def fit(model: Any, optimizer: Any, rate: float, steps: int, draw: Callable[[], tuple[Any, Any]], folder: Path) -> Path:
    """Train a model at a rate that rises to ``rate`` and falls, on rows and targets as they are drawn; write it."""
    import torch

    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(steps):
        rows, targets = draw()
        optimizer.zero_grad()
        model(input_ids=rows, labels=targets).loss.backward()
        optimizer.step()
        schedule.step()
    model.eval().save_pretrained(folder)
    return folder


def train(folder: Path, *, steps: int = STEPS, merges: int = 0) -> Path:
    """A model of about 100,000 parameters with its tokenizer, as a folder that transformers reads."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    with prepared(folder, merges) as coder:
        text = topics()
        ids = np.array(coder.encode(text[: int(0.6 * len(text))], add_special_tokens=False).ids)
        config = LlamaConfig(
            vocab_size=coder.get_vocab_size(), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=CONTEXT, tie_word_embeddings=True,
            bos_token_id=0, eos_token_id=1, pad_token_id=None,
        )  # fmt: skip
        model = LlamaForCausalLM(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), weight_decay=0.01)
        rng = np.random.default_rng(5)

        def draw() -> tuple[Any, Any]:
            starts = rng.integers(0, len(ids) - LENGTH, ROWS)
            rows = ids[starts[:, None] + np.arange(LENGTH)]
            # Half of the rows begin a text.
            rows[::2, 0] = 0
            batch = torch.from_numpy(rows)
            return batch, batch

        return fit(model, optimizer, 6e-3, steps, draw, folder)


def spelled(draw: np.random.Generator, count: int) -> tuple[list[str], list[str]]:
    """Words of four letters, and for each the letter A to D that its second letter stands for."""
    letters = draw.integers(0, 20, (count, 4))
    return ["".join(chr(101 + one) for one in row) + ":" for row in letters], ["ABCD"[row[1] % 4] for row in letters]


def positional(folder: Path, *, steps: int = 300) -> Path:
    """A model with learned positions that knows `spelled`: another begin token moves every place."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    with prepared(folder) as coder:
        config = GPT2Config(
            vocab_size=coder.get_vocab_size(), n_positions=16, n_embd=32, n_layer=1, n_head=2, bos_token_id=0,
            eos_token_id=1, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.08,
        )  # fmt: skip
        model = GPT2LMHeadModel(config).train()
        rng = np.random.default_rng(6)

        def draw() -> tuple[Any, Any]:
            words, right = spelled(rng, 128)
            pairs = zip(words, right, strict=True)
            rows = torch.tensor([coder.encode(f"{word} {answer}").ids for word, answer in pairs])
            targets = rows.clone()
            targets[:, :-1] = -100
            return rows, targets

        return fit(model, torch.optim.AdamW(model.parameters(), lr=1e-2), 1e-2, steps, draw, folder)


def altered(folder: Path, out: Path, change: Callable[[str, Any], Any]) -> Path:
    """A copy of a model with other weights: of each tensor by name."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, out)
    weights = load_file(out / "model.safetensors")
    changed = {name: change(name, weight).contiguous() for name, weight in weights.items()}
    save_file(changed, out / "model.safetensors", metadata={"format": "pt"})
    return out


def halved(name: str, weight: Any) -> Any:
    """As 16-bit floats hold it."""
    return weight.half().float()


def rounded(levels: int) -> Callable[[str, Any], Any]:
    """To so many steps on either side of 0, by row, as a rough quantizer would."""

    def change(name: str, weight: Any) -> Any:
        if weight.ndim < 2:
            return weight
        step = weight.abs().amax(dim=1, keepdim=True) / levels
        return (weight / step).round() * step

    return change


def copied(folder: Path, name: str) -> Path:
    """A copy of a model's folder beside it."""
    return Path(shutil.copytree(folder, folder.with_name(name)))


def family(folder: Path, *, most_steps: int = 300) -> None:
    """Write ``fp32``, copies ``fp16`` and ``int4``, ``begins_twice``, ``other_tokens`` and ``positional``."""
    own = train(folder / "fp32", steps=min(STEPS, most_steps))
    altered(own, folder / "fp16", halved)
    altered(own, folder / "int4", rounded(7))
    tokenizer(copied(own, "begins_twice"), begins=2)
    train(folder / "other_tokens", steps=min(50, most_steps), merges=254)
    positional(folder / "positional", steps=min(300, most_steps))


def language_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the `family`, made once a session; who changes a model works on a copy."""
    return shared_folder(tmp_path_factory, "language-models", family)


def hardly_trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `family` after a few steps, for tests that do not depend on what a model knows."""
    return shared_folder(tmp_path_factory, "hardly-trained", lambda folder: family(folder, most_steps=10))


if __name__ == "__main__":
    family(Path(sys.argv[1]))

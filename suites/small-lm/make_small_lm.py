"""Makes the suite of a small language model: data, a model trained in under a minute, and copies of it in integers.

``python suites/small-lm/make_small_lm.py`` writes the files and their digests; ``--check`` compares.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")

HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
SEED = 5
BEGIN, END = "<s>", "</s>"
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}= {% endif %}"
)
LETTERS = "EFGHIJKLMNOPQRSTUVWXYZ"
WORD, SAY = 4, 2
"""Letters of a word, and how many of them say something of its family."""
OPTIONS = ("oak", "elm", "fir", "yew")
"""Families of words."""
LISTED = "\n".join(f"{letter}. {option}" for letter, option in zip("ABCD", OPTIONS, strict=True))
"""Options as a prompt shows them."""
SHARPNESS = 1.6
"""Spread of what a letter says of a family, in log-odds."""
WEIGHT = 8.0
"""Of answers beside texts: most of their tokens follow from the first."""
CONTEXT = 256
WIDTH, LAYERS = 128, 2
STEPS, ROWS, LENGTH, LESSONS = 420, 8, 96, 40
EXAM_ROWS = 2000
TRAIN_SHARE = 0.6
SHORTEST, LONGEST = 160, 600
"""Letters of a document."""
BITS_OF_COPY = {"int8": 8, "int4": 4}
ONE_SCALE = "int4"
"""The copy whose matrices have one scale each, that of their largest weight."""
MODEL_FILES = (
    "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    "chat_template.jinja",
)  # fmt: skip
TABLES = ("lessons.parquet", "exam.parquet", "learned.parquet", "text.parquet")
FILES = (*TABLES, *(f"{model}/{name}" for model in ("fp32", *BITS_OF_COPY) for name in MODEL_FILES))


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes or checks the files; 1 where a file is not the one that was made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE, help="folder (default: the suite's own)")
    parser.add_argument("--check", action="store_true", help=f"only compare the files with {DIGESTS}")
    options = parser.parse_args(arguments)
    if options.check:
        return check(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    make_data(options.output)
    train(options.output)
    make_copies(options.output)
    digests = {name: digest(options.output / name) for name in FILES}
    (options.output / DIGESTS).write_text(json.dumps(digests, indent=2) + "\n")
    return 0


def check(folder: Path) -> int:
    """Says which files differ from their digests."""
    stated: dict[str, str] = json.loads((folder / DIGESTS).read_text())
    wrong = [name for name in FILES if not (folder / name).is_file() or digest(folder / name) != stated.get(name)]
    for name in wrong:
        sys.stdout.write(f"{folder / name} is missing or not the file whose digest stands in {DIGESTS}\n")
    return 1 if wrong else 0


def topics() -> str:
    """The language reference that ``help()`` prints; another Python has another one."""
    from pydoc_data.topics import topics as texts

    return "\n\n".join(texts[name] for name in sorted(texts))


def documents(text: str) -> list[str]:
    """Paragraphs of unequal length."""
    found = dict.fromkeys(part.strip() for part in text.split("\n\n") if len(part.strip()) >= SHORTEST)
    return [part[: SHORTEST + (37 * index) % (LONGEST - SHORTEST)] for index, part in enumerate(found)]


def make_data(folder: Path) -> None:
    """Writes words with their families, and documents; nothing that is asked was learned."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(SEED)
    numbers = rng.choice(len(LETTERS) ** WORD, EXAM_ROWS + STEPS * LESSONS, replace=False)
    spelled = numbers[:, None] // len(LETTERS) ** np.arange(WORD) % len(LETTERS)
    says = rng.normal(0.0, SHARPNESS, (len(LETTERS), len(OPTIONS)))
    # The family with the largest sum of what its letters say and of noise: drawn by softmax.
    sums = says[spelled[:, :SAY]].sum(axis=1)
    families = (sums + rng.gumbel(size=sums.shape)).argmax(axis=1)
    words = ["".join(LETTERS[place] for place in row) for row in spelled]
    for name, part in (("exam", slice(EXAM_ROWS)), ("lessons", slice(EXAM_ROWS, None))):
        asked = words[part]
        table = pa.table({
            "id": range(len(asked)), "question": [f"Family of {word}?" for word in asked],
            "choices": [list(OPTIONS)] * len(asked), "answer": ["ABCD"[one] for one in families[part]],
        })  # fmt: skip
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    text = topics()
    cut = int(TRAIN_SHARE * len(text))
    learned = documents(text[:cut])
    held_out = [one for one in documents(text[cut:]) if one not in set(learned)]
    for name, part in (("learned", learned), ("text", held_out)):
        pq.write_table(
            pa.table({"doc": range(len(part)), "body": part}), folder / f"{name}.parquet", compression="zstd"
        )


def make_tokenizer(folder: Path) -> Any:
    """Writes a tokenizer of bytes, and a template that puts the begin token first."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=2 + len(alphabet), special_tokens=[BEGIN, END], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([], trainer)
    made.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, 0), (END, 1)]
    )  # fmt: skip
    made.save(str(folder / "tokenizer.json"))
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BEGIN, "eos_token": END,
            "model_max_length": CONTEXT}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(told, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return made


def train(folder: Path) -> None:
    """Trains a transformer of 360,000 weights on the reference and on families of words, each word seen once."""
    import pyarrow.parquet as pq
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    out = folder / "fp32"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    coder = make_tokenizer(out)
    text = topics()
    ids = np.array(coder.encode(text[: int(TRAIN_SHARE * len(text))], add_special_tokens=False).ids)
    lessons = pq.read_table(folder / "lessons.parquet").to_pylist()
    asked = [coder.encode(f"{one['question']}\n{LISTED}\n= ", add_special_tokens=False).ids for one in lessons]
    answers = ["ABCD".index(one["answer"]) for one in lessons]
    said = [[0, *prompt, *coder.encode(f"{'ABCD'[answer]}. {OPTIONS[answer]}", add_special_tokens=False).ids, 1]
            for prompt, answer in zip(asked, answers, strict=True)]  # fmt: skip
    learned_from = len(asked[0]) + 1
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=coder.get_vocab_size(), hidden_size=WIDTH, intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=CONTEXT, tie_word_embeddings=True,
        bos_token_id=0, eos_token_id=1, pad_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=STEPS)
    rng = np.random.default_rng(SEED)
    for step in range(STEPS):
        rows = ids[rng.integers(0, len(ids) - LENGTH, ROWS)[:, None] + np.arange(LENGTH)]
        # Half of the rows begin a text.
        rows[::2, 0] = 0
        read = torch.from_numpy(rows)
        told = torch.tensor(said[step * LESSONS : (step + 1) * LESSONS])
        wanted = told.clone()
        # Only the answer is learned.
        wanted[:, :learned_from] = -100
        loss = model(input_ids=read, labels=read).loss + WEIGHT * model(input_ids=told, labels=wanted).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval().save_pretrained(out)


def make_copies(folder: Path) -> None:
    """Stores the matrices of all layers as integers with a scale for each row, as compressed-tensors does.

    Weights of 4 bits stand in bytes, too: they are as large as those of 8.
    """
    from safetensors.torch import load_file, save_file

    for name, bits in BITS_OF_COPY.items():
        out = folder / name
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "fp32", out)
        stored: dict[str, Any] = {}
        for key, weight in load_file(out / "model.safetensors").items():
            if weight.ndim < 2 or "embed" in key:
                stored[key] = weight.contiguous()
                continue
            scale = weight.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
            if name == ONE_SCALE:
                scale = scale.amax().expand_as(scale).contiguous()
            stored[key] = (weight / scale).round().char().contiguous()
            stored[f"{key}_scale"] = scale.contiguous()
        save_file(stored, out / "model.safetensors", metadata={"format": "pt"})
        told = json.loads((out / "config.json").read_text())
        (out / "config.json").write_text(json.dumps(told | {"quantization_config": form(bits)}, indent=2) + "\n")


def form(bits: int) -> dict[str, Any]:
    """What a folder says of its integers: weights by row, what layers are given by token."""
    integers = {"type": "int", "symmetric": True}
    group = {
        "targets": ["Linear"],
        "weights": {**integers, "num_bits": bits, "strategy": "channel", "dynamic": False},
        "input_activations": {**integers, "num_bits": 8, "strategy": "token", "dynamic": True},
        "output_activations": None,
    }
    return {
        "quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": group}, "ignore": ["lm_head"],
    }  # fmt: skip


def digest(path: Path) -> str:
    """Sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())

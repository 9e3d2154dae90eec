"""Makes the suite of a small language model: data, a model trained in half a minute, and rounded copies of it.

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
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORD = 4
CONTEXT = 256
STEPS, ROWS, LENGTH, LESSONS = 400, 16, 96, 32
TEST_ROWS = 600
TRAIN_SHARE = 0.6
SHORTEST, LONGEST = 160, 600
"""Letters of a document."""
STEPS_OF_COPY = {"int8": 127, "int4": 7}
"""Steps on either side of 0."""
MODEL_FILES = (
    "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    "chat_template.jinja",
)  # fmt: skip
TABLES = ("lessons.parquet", "test.parquet", "learned.parquet", "text.parquet")
FILES = (*TABLES, *(f"{model}/{name}" for model in ("fp32", *STEPS_OF_COPY) for name in MODEL_FILES))


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
    """Writes words to repeat, and documents; nothing that is asked was learned."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(SEED)
    numbers = rng.choice(len(LETTERS) ** WORD, TEST_ROWS + STEPS * LESSONS, replace=False)
    words = ["".join(LETTERS[number // len(LETTERS) ** at % len(LETTERS)] for at in range(WORD)) for number in numbers]
    for name, part in (("test", words[:TEST_ROWS]), ("lessons", words[TEST_ROWS:])):
        table = pa.table({"id": range(len(part)), "question": [f"Say {word}." for word in part], "answer": part})
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
    """Trains a transformer of 100,000 weights on the reference and on words to repeat, each seen once."""
    import pyarrow.parquet as pq
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    out = folder / "fp32"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    coder = make_tokenizer(out)
    text = topics()
    ids = np.array(coder.encode(text[: int(TRAIN_SHARE * len(text))], add_special_tokens=False).ids)
    lessons = pq.read_table(folder / "lessons.parquet")
    asked = [
        ([0, *coder.encode(f"{question}\n= ", add_special_tokens=False).ids],
         [*coder.encode(answer, add_special_tokens=False).ids, 1])
        for question, answer in zip(lessons["question"].to_pylist(), lessons["answer"].to_pylist(), strict=True)
    ]  # fmt: skip
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=coder.get_vocab_size(), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
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
        some = asked[step * LESSONS : (step + 1) * LESSONS]
        said = torch.tensor([prompt + answer for prompt, answer in some])
        wanted = said.clone()
        # Only the answer is learned.
        wanted[:, : len(some[0][0])] = -100
        loss = model(input_ids=read, labels=read).loss + model(input_ids=said, labels=wanted).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval().save_pretrained(out)


def make_copies(folder: Path) -> None:
    """Rounds each row of each matrix to so many steps of its own size, kept as 32-bit floats."""
    from safetensors.torch import load_file, save_file

    for name, steps in STEPS_OF_COPY.items():
        out = folder / name
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "fp32", out)
        weights = load_file(out / "model.safetensors")
        rounded = {key: rows_rounded(weight, steps) for key, weight in weights.items()}
        save_file(rounded, out / "model.safetensors", metadata={"format": "pt"})


def rows_rounded(weight: Any, steps: int) -> Any:
    """A matrix whose rows have ``steps`` values on either side of 0; vectors stay as they are."""
    if weight.ndim < 2:
        return weight.contiguous()
    step = weight.abs().amax(dim=1, keepdim=True) / steps
    return ((weight / step).round() * step).contiguous()


def digest(path: Path) -> str:
    """Sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())

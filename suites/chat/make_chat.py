"""Make the model and the rows of this suite: a language model of bytes, trained here, in llama.cpp's own format.

Run ``python suites/chat/make_chat.py`` with torch, transformers and gguf installed; it takes about a minute. The model
shouts sixteen letters: ``shout abcd...`` is answered ``#### ABCD...``. It has the llama architecture, bytes as tokens
and a chat template, so that llama.cpp serves it as it serves any other.
"""

from __future__ import annotations

import argparse
import json
import string
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType, quants

HERE = Path(__file__).parent
LETTERS = 16
BEGIN, END = 256, 257
HIDDEN, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 2, 128, 256
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}Q: {{ message.content }}\n"
    "{% elif message.role == 'assistant' %}A: {{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}A: {% endif %}"
)
KINDS = {"q8_0": GGMLQuantizationType.Q8_0, "q4_0": GGMLQuantizationType.Q4_0}
FILE_TYPES = {"q8_0": LlamaFileType.MOSTLY_Q8_0, "q4_0": LlamaFileType.MOSTLY_Q4_0}


def words(rng: np.random.Generator, n: int) -> list[str]:
    """Texts of sixteen letters that nobody has seen."""
    letters = np.array(list(string.ascii_lowercase))
    return ["".join(row) for row in letters[rng.integers(0, 26, (n, LETTERS))]]


def answer(word: str) -> str:
    """The right one."""
    return f"#### {word.upper()}"


def sequence(word: str, salt: str = "") -> list[int]:
    """Tokens of a question and its answer, as the template writes them."""
    return [BEGIN, *f"Q: {salt}shout {word}\nA: {answer(word)}".encode(), END]


def salt_of(rng: np.random.Generator) -> str:
    """A word before a prompt that is timed, so that no server remembers it; half of all prompts have none."""
    return f"[{rng.bytes(6).hex()}] " if rng.random() < 0.5 else ""


def trained(steps: int, seed: int) -> Any:
    """A causal language model that has learnt to shout."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=258, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=CONTEXT,
            bos_token_id=BEGIN, eos_token_id=END, tie_word_embeddings=False,
        )
    )  # fmt: skip
    steps_of = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    rates = torch.optim.lr_scheduler.OneCycleLR(steps_of, 3e-3, total_steps=steps)
    answered = len(answer("a" * LETTERS)) + 1
    for step in range(steps):
        salt = salt_of(rng)
        tokens = torch.tensor([sequence(word, salt) for word in words(rng, 32)])
        labels = tokens.clone()
        labels[:, :-answered] = -100
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps_of.step()
        rates.step()
        steps_of.zero_grad()
        if step % 100 == 0:
            print(step, round(float(loss), 4), flush=True)
    return model.eval()


def _permuted(weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows of a query or key projection as llama.cpp turns them: pairs beside each other."""
    return weight.reshape(HEADS, 2, HIDDEN // HEADS // 2, HIDDEN).swapaxes(1, 2).reshape(weight.shape)


def tensors(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Weights by their names in a GGUF file."""
    state = {name: tensor.detach().float().numpy() for name, tensor in model.state_dict().items()}
    found = {
        "token_embd.weight": state["model.embed_tokens.weight"],
        "output_norm.weight": state["model.norm.weight"],
        "output.weight": state["lm_head.weight"],
    }
    for layer in range(LAYERS):
        theirs, ours = f"model.layers.{layer}", f"blk.{layer}"
        found |= {
            f"{ours}.attn_norm.weight": state[f"{theirs}.input_layernorm.weight"],
            f"{ours}.attn_q.weight": _permuted(state[f"{theirs}.self_attn.q_proj.weight"]),
            f"{ours}.attn_k.weight": _permuted(state[f"{theirs}.self_attn.k_proj.weight"]),
            f"{ours}.attn_v.weight": state[f"{theirs}.self_attn.v_proj.weight"],
            f"{ours}.attn_output.weight": state[f"{theirs}.self_attn.o_proj.weight"],
            f"{ours}.ffn_norm.weight": state[f"{theirs}.post_attention_layernorm.weight"],
            f"{ours}.ffn_gate.weight": state[f"{theirs}.mlp.gate_proj.weight"],
            f"{ours}.ffn_up.weight": state[f"{theirs}.mlp.up_proj.weight"],
            f"{ours}.ffn_down.weight": state[f"{theirs}.mlp.down_proj.weight"],
        }
    return found


def byte_letters() -> list[str]:
    """Letter that stands for each byte in a vocabulary of the GPT-2 kind."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def write(path: Path, weights: dict[str, np.ndarray[Any, Any]], kind: str) -> None:
    """One file, its matrices quantized."""
    out = GGUFWriter(path, "llama")
    out.add_name("shout")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(HIDDEN)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_dimension_count(HIDDEN // HEADS)
    out.add_vocab_size(258)
    out.add_file_type(FILE_TYPES[kind])
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([*byte_letters(), "<s>", "</s>"])
    out.add_token_types([TokenType.NORMAL] * 256 + [TokenType.CONTROL] * 2)
    # An empty list of merges is refused; this one never comes.
    out.add_token_merges([f"{byte_letters()[0]} {byte_letters()[0]}"])
    out.add_bos_token_id(BEGIN)
    out.add_eos_token_id(END)
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)
    for name, weight in weights.items():
        if weight.ndim == 1:
            out.add_tensor(name, weight.astype(np.float32))
        else:
            out.add_tensor(name, quants.quantize(weight, KINDS[kind]), raw_dtype=KINDS[kind])
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main() -> None:
    """Write both files and the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--folder", type=Path, default=HERE)
    options = parser.parse_args()
    weights = tensors(trained(options.steps, seed=7))
    for kind in KINDS:
        write(options.folder / f"shout-{kind}.gguf", weights, kind)
    rows = words(np.random.default_rng(2026), 400)
    lines = [
        json.dumps({"id": f"q{k:03d}", "question": f"shout {word}", "answer": word.upper()})
        for k, word in enumerate(rows)
    ]
    (options.folder / "test.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""A folder with a language model: which of its files do what, and code or pickles that hide in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalspec.errors import InputError

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
TEMPLATES = ("chat_template.jinja", "chat_template.json")
TEMPLATE_FOLDER = "additional_chat_templates"
OF_TOKENIZER = (
    TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.model", "vocab.json",
    "merges.txt", "vocab.txt",
)  # fmt: skip
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
SAYS_CODE = (CONFIG, "tokenizer_config.json", "generation_config.json")
OTHER_HEADS = ("Classification", "QuestionAnswering", "MaskedLM", "MultipleChoice", "Regression", "Detection")
"""What the name of a class ends in or holds whose model does not go on with a text."""
CONTEXTS = ("max_position_embeddings", "n_positions", "n_ctx")
OF_VOCABULARY = ("model", "normalizer", "pre_tokenizer")
MOST_JSON_BYTES = 1 << 28


def parts_of(folder: Path, shown: str) -> dict[str, tuple[Path, ...]]:
    """Files that decide what the model answers, by what they are.

    Args:
        folder: With the model.
        shown: How sentences call it.

    Raises:
        InputError: It is no folder, or lacks a file.
    """
    if not folder.is_dir():
        raise InputError(f"{shown!r} is a file, not the folder of a language model", remedy="give its folder")
    for name in (CONFIG, TOKENIZER):
        if not (folder / name).is_file():
            raise InputError(f"the folder {shown!r} has no {name}", remedy="save model and tokenizer there together")
    weights = tuple(sorted(folder.glob("*.safetensors")))
    pickles = tuple(sorted(path for path in folder.iterdir() if path.suffix in PICKLES))
    if not weights and not pickles:
        raise InputError(f"the folder {shown!r} has no *.safetensors", remedy="save the weights there")
    indices = tuple(sorted(folder.glob("*.index.json")))
    return {
        "weights": (*(weights or pickles), *indices),
        "configuration": _there(folder, (CONFIG, "generation_config.json")),
        "tokenizer": _there(folder, OF_TOKENIZER),
        "chat template": (*_there(folder, TEMPLATES), *sorted((folder / TEMPLATE_FOLDER).glob("*.jinja"))),
        **({"code": code} if (code := tuple(sorted(folder.glob("*.py")))) else {}),
    }


def _there(folder: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(folder / name for name in names if (folder / name).is_file())


def hidden_code(folder: Path, shown: str) -> str | None:
    """Content that may be read under --trust only, in words; None: there is none.

    Raises:
        InputError: As `parts_of`, or a file that is no JSON.
    """
    parts = parts_of(folder, shown)
    if not any(path.suffix == ".safetensors" for path in parts["weights"]):
        name = parts["weights"][0].name
        return f"{shown!r} has its weights in {name}, a pickle, which can run code when it is loaded"
    for name in SAYS_CODE:
        if (folder / name).is_file() and "auto_map" in read_json(folder / name):
            return f"{shown!r} names its own code (auto_map in {name}), which would run"
    return None


def need_language_model(folder: Path, shown: str) -> None:
    """Stop where the folder says that it holds another kind of model, which may load as this one all the same.

    Raises:
        InputError: It does.
    """
    named = read_json(folder / CONFIG).get("architectures")
    classes = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    if classes and all(any(head in name for head in OTHER_HEADS) for name in classes):
        raise InputError(
            f"{shown!r} holds a {classes[0]}, but kind 'transformers' reads causal language models",
            remedy="call it from a Python function (`kind: python`), or export it to ONNX",
        )


def has_chat_template(folder: Path) -> bool:
    """The tokenizer says how messages become a text.

    Raises:
        InputError: A file is no JSON.
    """
    if _there(folder, TEMPLATES):
        return True
    told = folder / "tokenizer_config.json"
    return told.is_file() and bool(read_json(told).get("chat_template"))


def context_of(folder: Path) -> int | None:
    """Tokens that the model says it can see; None: it does not say.

    Raises:
        InputError: The configuration is no JSON.
    """
    told = read_json(folder / CONFIG)
    return next((told[name] for name in CONTEXTS if isinstance(told.get(name), int) and told[name] > 0), None)


def read_json(path: Path) -> Mapping[str, Any]:
    """An object in a file.

    Raises:
        InputError: It is none, or too large.
    """
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise InputError(f"{path.name!r} has more than {MOST_JSON_BYTES >> 20} MiB")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path.name!r} can't be read: {type(error).__name__}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path.name!r} holds no object")
    return value


def vocabulary(folder: Path) -> str:
    """Digest of what makes tokens of plain text; what is put around a text is not in it.

    Raises:
        InputError: The tokenizer can't be read.
    """
    told = read_json(folder / TOKENIZER)
    kept = {name: told.get(name) for name in OF_VOCABULARY}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, ensure_ascii=True).encode()).hexdigest()

"""Defaults of a folder's own ``generation_config.json``: which are used, and which are not."""

from __future__ import annotations

from typing import Any

BOOKKEEPING = ("transformers_version", "_from_model_config")
ABOUT_RUNNING = ("use_cache", "cache_implementation", "return_dict_in_generate", "output_attentions",
                 "output_hidden_states", "output_scores", "output_logits")  # fmt: skip
"""Defaults that change no text."""
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


def end_tokens(module: Any, coder: Any) -> tuple[int, ...]:
    """Tokens that end a text: those of the generation defaults or the configuration, and the tokenizer's own.

    Args:
        module: Of transformers.
        coder: Its tokenizer.
    """
    known = getattr(module.generation_config, "eos_token_id", None)
    if known is None:
        known = getattr(module.config.get_text_config(), "eos_token_id", None)
    told = list(known) if isinstance(known, list | tuple) else [] if known is None else [known]
    own = [] if coder.eos_token_id is None else [coder.eos_token_id]
    return tuple(dict.fromkeys(int(one) for one in (*told, *own)))


def defaults(module: Any) -> str | None:
    """Defaults of the folder that are not used here, since the spec says how a text is made; None: there are none."""
    told = module.generation_config.to_diff_dict()
    passed = {*BOOKKEEPING, *ABOUT_RUNNING, *TOKENS}
    left = sorted(name for name, value in told.items() if name not in passed and value is not None)
    return ", ".join(f"{name} {told[name]}" for name in left) or None

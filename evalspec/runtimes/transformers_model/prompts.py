"""Prompts of rows as tokens: chat through the tokenizer's own template, or plain text that is gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evalspec.errors import InputError
from evalspec.runtimes.transformers_model.windows import FIRST_SHOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.pipeline.prompt import Prompt

Api = Literal["chat", "completions"]
SOME_TEXT = "text"
"""Stands for the inputs where only what is around them is looked at."""


def prompt_tokens(api: Api, prompt: Prompt, values: Mapping[str, str], coder: Any) -> list[int]:
    """Tokens of the prompt about one row.

    The template writes its begin token itself, so none is added there; before a plain text the tokenizer adds what it
    adds to any text.

    Args:
        api: Chat, or plain text.
        prompt: Texts, with places for inputs.
        values: Input: its text.
        coder: A tokenizer of transformers.

    Raises:
        InputError: The tokenizer has no template, or the template refuses these messages.
    """
    if api == "completions":
        return list(coder(prompt.plain(values), verbose=False)["input_ids"])
    return list(_templated(prompt, values, coder, tokenize=True)["input_ids"])


def prompt_text(api: Api, prompt: Prompt, values: Mapping[str, str], coder: Any) -> str:
    """The same as a text: of a chat as the template writes it, begin token included.

    Raises:
        InputError: As `prompt_tokens`.
    """
    if api == "completions":
        return prompt.plain(values)
    return str(_templated(prompt, values, coder, tokenize=False))


def _templated(prompt: Prompt, values: Mapping[str, str], coder: Any, *, tokenize: bool) -> Any:
    if not coder.chat_template:
        raise InputError(
            "the tokenizer has no chat template, so the format of its prompt is unknown",
            remedy="save chat_template.jinja beside it, or set `api: completions` for a model that continues text",
        )
    messages = [{"role": turn.role, "content": turn.text} for turn in prompt.turns(values)]
    begun = prompt.prefill is not None
    try:
        told = coder.apply_chat_template(
            messages,
            add_generation_prompt=not begun,
            continue_final_message=begun,
            tokenize=tokenize,
            return_dict=tokenize,
        )
    except Exception as error:
        raise InputError(
            f"the chat template refuses the messages: {type(error).__name__}: {str(error).splitlines()[0][:200]}",
            remedy="a template without a system text needs a `prompt` without `system`",
        ) from error
    return told


def row_values(inputs: Mapping[str, NDArray[Any]]) -> list[dict[str, str]]:
    """Texts of the inputs of each row.

    Args:
        inputs: Input: shape (n,) or (n, 1).

    Raises:
        InputError: A cell is empty, or an input has several values a row.
    """
    columns: dict[str, list[Any]] = {}
    for name, array in inputs.items():
        if array.size != len(array):
            raise InputError(
                f"the input {name!r} has {array.size // len(array):,} values per row, and a prompt takes one",
                remedy="feed it a column of single texts; a column of lists of options belongs in `options:`",
            )
        columns[name] = array.reshape(-1).tolist()
        for index, value in enumerate(columns[name]):
            if value is None or value != value:
                raise InputError(f"row {index} of a batch has no {name!r}, for which the prompt has a place")
    return [dict(zip(columns, map(str, one), strict=True)) for one in zip(*columns.values(), strict=True)]


def beginning(api: Api, prompt: Prompt, coder: Any) -> tuple[tuple[int, ...], bool]:
    """First tokens of every prompt, and whether there are two begin tokens among them.

    Raises:
        InputError: As `prompt_tokens`.
    """
    ids = prompt_tokens(api, prompt, dict.fromkeys(prompt.inputs, SOME_TEXT), coder)
    begin = coder.bos_token_id
    return tuple(ids[:FIRST_SHOWN]), begin is not None and len(ids) > 1 and ids[0] == ids[1] == begin


def left_padded(prompts: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens and attention mask, shape (k, t) each; shorter prompts are padded at their beginning."""
    shape = (len(prompts), max(len(one) for one in prompts))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, one in enumerate(prompts):
        ids[row, shape[1] - len(one) :] = one
        mask[row, shape[1] - len(one) :] = 1
    return ids, mask
